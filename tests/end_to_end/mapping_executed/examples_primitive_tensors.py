"""Primitives that move, pick, put and make elements, and those of networks."""

from dataclasses import replace

import numpy as np
from executed import Parameter, bools, ex, floats, ints

X = floats(2, 3, 4)
M = floats(3, 4)
ROWS = np.array([2, 0], np.int64)
ROWS32 = ROWS.astype(np.int32)
INDEX = np.array([[0, 2, 1, 0], [1, 0, 2, 2]], np.int64)
IMAGE = floats(2, 4, 7, 9)
VOLUME = floats(2, 4, 5, 6, 7)
FLOAT16, FLOAT32 = np.dtype("float16"), np.dtype("float32")
CASTS = ("float32", "float16", "bfloat16", "int32", "int64", "bool", "float64")


def P(name, *args, **attributes):
    """A call of a primitive; it is constructed with the attributes."""
    return replace(ex(f"Primitive.{name}", *args), attributes=attributes, keywords=False)


def nth(overload, example):
    return replace(example, overload=overload)


def insert(example, **inserted):
    """With arguments of PyTorch that no table can tell."""
    return replace(example, inserted=inserted)


def probabilities(*shape, seed=0):
    return floats(*shape, low=0.1, high=0.9, seed=seed)


EXAMPLES = [
    P("BroadcastTo", floats(3, 1), shape=(2, 3, 4)),
    P("Expand", floats(3, 1), (2, 3, 4)),
    nth(0, P("Cast", X, FLOAT16)),
    nth(1, P("Cast", X, FLOAT16)),
    *[nth(2 + i, P("Cast", 5 * X, np.dtype(name))) for i, name in enumerate(CASTS) if name != "bfloat16"],
    nth(4, P("Cast", X, FLOAT16)),
    *[P(n, [X, floats(2, 3, 4, seed=1)], axis=1) for n in ("Concat", "Stack", "Pack")],
    P("Unstack", X, axis=1),
    P("Unpack", X, axis=1),
    P("Diag", floats(3)),
    P("DiagPart", floats(3, 3)),
    P("ExpandDims", M, 1),
    P("Squeeze", floats(2, 1, 3), axis=1),
    P("Flatten", X),
    P("Meshgrid", [floats(3), floats(4)]),
    P("Meshgrid", [floats(3), floats(4)], indexing="ij"),
    P("Reshape", X, (4, 6)),
    P("ReverseV2", X, axis=[0, 2]),
    P("Roll", X, shifts=[1], dims=[2]),
    P("Split", X, axis=2, output_num=2),
    P("SplitV", X, size_splits=[1, 3], split_dim=2, num_split=2),
    P("Tile", M, (2, 3)),
    P("Transpose", X, (2, 0, 1)),
    P("TransposeView", X, (2, 0, 1)),
    P("TransposeExtView", X, 0, 2),
    P("Tril", M, diagonal=1),
    P("Triu", M, diagonal=1),
    P("TrilIndices", row=3, col=4, offset=1),
    P("TriuIndices", row=3, col=4, offset=1),
    nth(0, insert(P("Slice", X, (0, 1, 1), (2, 2, 3)), index=(slice(0, 2), slice(1, 3), slice(1, 4)))),
    nth(1, insert(P("Slice", X, (0, 1, 0), (2, 2, 4)), dim=1, start=1, length=2)),
    insert(P("StridedSlice", X, (0, 1, 0), (2, 3, 4), (1, 1, 2)), index=(slice(0, 2), slice(1, 3), slice(0, 4, 2))),
    insert(P("Pad", M, paddings=((1, 2), (0, 3))), pad=(0, 3, 1, 2)),
    insert(P("MirrorPad", floats(2, 3, 4), np.array([[0, 0], [0, 0], [2, 1]], np.int64)), pad=(2, 1)),
    insert(P("PadV3", floats(2, 3, 4), np.array([2, 1], np.int64), np.array(1.5, np.float32)), pad=(2, 1), value=1.5),
    # picking and putting
    nth(0, P("Gather", M, ROWS, 0)),
    nth(1, P("Gather", M, ROWS, 1)),
    nth(2, P("Gather", M, INDEX, 0)),
    nth(0, P("GatherV2", M, ROWS, 0)),
    nth(1, P("GatherV2", M, ROWS, 1)),
    nth(2, P("GatherV2", M, INDEX, 0)),
    P("EmbeddingLookup", M, INDEX, 0),
    P("GatherD", M, 0, INDEX),
    P("IndexAdd", Parameter(M), ROWS32, floats(2, 4, seed=1), axis=0),
    P("InplaceIndexAdd", Parameter(M), ROWS32, floats(2, 4, seed=1), axis=0),
    P("IndexFill", M, 0, ROWS, np.array(7.5, np.float32)),
    P("MaskedFill", M, bools(3, 4), np.array(7.5, np.float32)),
    P("MaskedScatter", M, bools(3, 4), floats(3, 4, seed=1)),
    P("MaskedSelect", M, bools(3, 4)),
    P("ScatterAdd", Parameter(M), ROWS32, floats(2, 4, seed=1)),
    *[
        P(n, Parameter(M), ROWS32, floats(2, 4, seed=1))
        for n in ("ScatterSub", "ScatterMax", "ScatterMin", "ScatterMul")
    ],
    P("ScatterUpdate", Parameter(M), ROWS, floats(2, 4, seed=1)),
    P("InplaceUpdateV2", M, ROWS, floats(2, 4, seed=1)),
    nth(0, P("TensorScatterElements", M, INDEX, floats(2, 4, seed=1), axis=0)),
    nth(1, P("TensorScatterElements", M, INDEX, floats(2, 4, seed=1))),
    nth(2, P("TensorScatterElements", M, INDEX, floats(2, 4, seed=1), axis=0, reduction="add")),
    nth(3, P("TensorScatterElements", M, INDEX, floats(2, 4, seed=1), reduction="add")),
    P("ScatterAddWithAxis", M, INDEX, floats(2, 4, seed=1), axis=0),
    P("Select", bools(3, 4), M, floats(3, 4, seed=1)),
    P("IndexPut", M, floats(2), [ROWS, ROWS], accumulate=1),
    P("TypeAs", M, ints(2)),
    P("MoveTo", M, "CPU", True),
    # new tensors
    P("ScalarToTensor", 2.5, FLOAT32),
    P("Eye", 3, 4, FLOAT32),
    P("Fill", FLOAT32, (3, 4), 2.5),
    P("FillV2", (3, 4), np.array(2.5, np.float32)),
    P("FillDiagonal", floats(5, 3), fill_value=7.5, wrap=True),
    P("Fills", M, 2.5),
    P("LinSpace", np.array(1.0, np.float32), np.array(3.0, np.float32), 5),
    P("LogSpace", np.array(1.0, np.float32), np.array(3.0, np.float32), steps=5, base=2),
    P("Ones", (3, 4), FLOAT16),
    P("Zeros", (3, 4), FLOAT16),
    P("OnesLike", M),
    P("ZerosLike", M),
    P("Range", 1, 9, 3),
    replace(P("OneHot", ints(3, low=0, high=4), 4, np.array(1.0, np.float32), np.array(0.0, np.float32)), kinds=False),
    insert(P("HammingWindow", np.array([5], np.int32), periodic=False, alpha=0.6, beta=0.4), window_length=5),
    P("BlackmanWindow", np.array(5, np.int32), periodic=False),
    P("BartlettWindow", np.array(5, np.int32), periodic=False),
    # random
    *[
        replace(example, compare="shape")
        for example in [
            P("StandardNormal", (3, 4)),
            P("UniformReal", (3, 4)),
            P("UniformInt", (3, 4), np.array(1, np.int32), np.array(5, np.int32)),
            P("RandpermV2", 5),
            P("Multinomial", probabilities(2, 3), 4),
            P("Bernoulli", M, np.array(0.5, np.float32)),
        ]
    ],
    # networks
    P("Conv2D", IMAGE, floats(6, 2, 3, 2), out_channel=6, kernel_size=(3, 2), pad_mode="pad", pad=1, stride=2, group=2),
    P("Conv3D", VOLUME, floats(6, 4, 3, 2, 1), out_channel=6, kernel_size=(3, 2, 1), pad_mode="pad", pad=1, stride=2),
    *[
        P(
            n,
            floats(2, 4, 7, 9),
            floats(4, 6, 3, 2),
            (2, 6, 13, 16),
            out_channel=4,
            kernel_size=(3, 2),
            pad_mode="pad",
            pad=1,
            stride=2,
        )
        for n in ("Conv2DTranspose", "Conv2DBackpropInput")
    ],
    P(
        "Conv3DTranspose",
        floats(1, 2, 3, 4, 5),
        floats(2, 3, 3, 2, 1),
        in_channel=2,
        out_channel=3,
        kernel_size=(3, 2, 1),
        pad_mode="pad",
        stride=2,
    ),
    *[P(n, IMAGE, kernel_size=(3, 2), strides=2) for n in ("AvgPool", "MaxPool")],
    *[P(n, IMAGE, kernel_size=(3, 2)) for n in ("AvgPool", "MaxPool")],
    P("AvgPool3D", VOLUME, kernel_size=3, strides=2, pad_mode="pad", pad=1),
    P("MaxPool3D", VOLUME, kernel_size=3, strides=2, pad_mode="PAD", pad_list=1, ceil_mode=False),
    P("MaxPoolWithArgmaxV2", IMAGE, kernel_size=(3, 2), strides=(2, 1), pads=1, dilation=(1, 2)),
    P("AdaptiveAvgPool2D", IMAGE, output_size=(3, 4)),
    P("AdaptiveAvgPool3D", VOLUME, output_size=(2, 3, 4)),
    P("AdaptiveMaxPool2D", IMAGE, output_size=(3, 4)),
    P("AdaptiveMaxPool3D", VOLUME, np.array([2, 3, 4], np.int32)),
    P("FractionalMaxPoolWithFixedKsize", IMAGE, probabilities(2, 4, 2), ksize=2, output_shape=(3, 4)),
    P("FractionalMaxPool3DWithFixedKsize", VOLUME, probabilities(2, 4, 3), ksize=2, output_shape=(2, 3, 4)),
    P(
        "MaxUnpool2D",
        np.array([[[[2, 4, 6]]]], np.float32),
        np.array([[[[1, 3, 10]]]], np.int64),
        ksize=2,
        strides=2,
        pads=0,
    ),
    P(
        "MaxUnpool3D",
        np.array([[[[[2, 4, 6]]]]], np.float32),
        np.array([[[[[1, 3, 22]]]]], np.int64),
        ksize=2,
        strides=2,
        pads=0,
    ),
    *[
        P(
            "BatchNorm",
            IMAGE,
            floats(4),
            floats(4, seed=1),
            Parameter(floats(4, seed=2)),
            Parameter(probabilities(4)),
            is_training=training,
            epsilon=1e-3,
        )
        for training in (False, True)
    ],
    insert(
        P("LayerNorm", X, floats(4), floats(4, seed=1), begin_norm_axis=2, begin_params_axis=2, epsilon=1e-3),
        normalized_shape=(4,),
    ),
    insert(P("LayerNorm", X, floats(3, 4), floats(3, 4, seed=1)), normalized_shape=(3, 4)),
    nth(0, insert(P("RmsNorm", X, floats(4), epsilon=1e-3), normalized_shape=(4,))),
    P("LRN", IMAGE, bias=1.5, beta=0.6),
    P("GridSampler2D", IMAGE, floats(2, 3, 5, 2, low=-0.9, high=0.9), padding_mode="border", align_corners=True),
    P("GridSampler3D", VOLUME, floats(2, 3, 5, 2, 3, low=-0.9, high=0.9), padding_mode="border", align_corners=True),
    P("AffineGrid", floats(2, 2, 3), (2, 4, 5, 6), align_corners=True),
    P("ChannelShuffle", IMAGE, group=2),
    P("ResizeBilinearV2", IMAGE, (10, 12), align_corners=True),
    P("ResizeNearestNeighbor", IMAGE, size=(10, 12)),
    P("ResizeNearestNeighborV2", IMAGE, (10, 12)),
    P("ResizeLinear1D", floats(2, 3, 7), np.array([10], np.int64)),
    P("UpsampleNearest3D", VOLUME, (7, 8, 9)),
    P("UpsampleTrilinear3D", VOLUME, (7, 8, 9), align_corners=True),
    # losses
    P(
        "BCEWithLogitsLoss",
        M,
        probabilities(3, 4),
        probabilities(3, 4, seed=1),
        probabilities(3, 4, seed=2),
        reduction="sum",
    ),
    P(
        "BinaryCrossEntropy",
        probabilities(3, 4),
        probabilities(3, 4, seed=1),
        probabilities(3, 4, seed=2),
        reduction="sum",
    ),
    P("SigmoidCrossEntropyWithLogits", M, probabilities(3, 4)),
    P("KLDivLoss", np.log(probabilities(3, 4)), probabilities(3, 4, seed=1), reduction="sum"),
    P(
        "NLLLoss",
        np.log(probabilities(3, 4)),
        ints(3, low=0, high=4),
        probabilities(4),
        reduction="sum",
        ignore_index=1,
    ),
    P("SmoothL1Loss", M, floats(3, 4, seed=1), beta=0.4),
    P("SmoothL1Loss", M, floats(3, 4, seed=1), reduction="sum"),
    P("SoftMarginLoss", M, floats(3, 4, seed=1)),
    P("MultiMarginLoss", M, ints(3, low=0, high=4), probabilities(4), p=1, margin=0.7, reduction="sum"),
    P("MultilabelMarginLoss", M, ints(3, 4, low=0, high=4)),
    P("TripletMarginLoss", M, floats(3, 4, seed=1), floats(3, 4, seed=2), np.array(1.0, np.float32)),
    P("SoftmaxCrossEntropyWithLogits", M, probabilities(3, 4)),
    P("SparseSoftmaxCrossEntropyWithLogits", M, ints(3, low=0, high=4)),
    P(
        "CTCLossV2",
        np.log(probabilities(6, 2, 5)),
        ints(2, 3, low=1, high=5),
        np.array([6, 5]),
        np.array([3, 2]),
        blank=0,
    ),
]
