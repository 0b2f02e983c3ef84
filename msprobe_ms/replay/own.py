"""Calls whose reference has a row of its own: primitives of MindSpore, whose attributes no record tells, and layers.

A row names the operation, the function of `reference/functions.py`, the function's parameters in the order of the
recorded arguments ("" for an argument that it does not take), and the options of `options.py` that have to be tried.
`outputs` are the results that are evidence, as places in the reference's results (None: not looked at); empty: all.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Own:
    """A row. `fixed` are arguments of the function that every call of this name has. `linear`: the function is a sum of
    its inputs, which are not of one shape."""

    operation: str
    function: str
    parameters: tuple[str, ...]
    options: str = ""
    outputs: tuple[int | None, ...] = ()
    fixed: Mapping[str, object] | None = None
    linear: bool = False


_BATCH_NORM = Own(
    "batch_norm", "batch_norm", ("x", "weight", "bias", "running_mean", "running_var"), "batch_norm", (0,)
)
_MATMUL = Own("matmul", "matmul", ("a", "b"), "transposes")
_MAX_POOL = Own("max_pool2d", "max_pool", ("x",), "max_windows", (0, None))
_AVG_POOL = Own("avg_pool2d", "avg_pool", ("x",), "mean_windows")
_FLASH = Own(
    "attention",
    "flash_attention",
    (
        *("query", "key", "value", "heads", "real_shift", "?none", "?none", "mask", "?none", "?none", "?none"),
        *("?keep_prob", "scale", "", "", "", "layout", "?zero"),
    ),
)

_SCATTER = ("x", "indices", "updates", "use_locking")
_BY_INDEX = (
    ("gather_nd", "gather_nd", ("x", "indices"), (("Functional", "gather_nd"), ("Primitive", "GatherNd"))),
    ("slice", "slice_of", ("x", "begin", "size"), (("Functional", "slice"), ("Primitive", "Slice"))),
    (
        "slice",
        "strided_slice",
        (
            *("x", "begin", "end", "strides"),
            *("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"),
        ),
        (("Functional", "strided_slice"),),
    ),
    (
        "scatter_add",
        "scatter_nd",
        ("indices", "updates", "shape"),
        (("Functional", "scatter_nd"), ("Primitive", "ScatterNd")),
    ),
    (
        *("scatter_add", "scatter_nd_add", _SCATTER),
        (("Functional", "scatter_nd_add"), ("Functional", "tensor_scatter_add"), ("Primitive", "TensorScatterAdd")),
    ),
    (
        *("sub", "scatter_nd_sub", _SCATTER),
        (("Functional", "scatter_nd_sub"), ("Functional", "tensor_scatter_sub"), ("Primitive", "TensorScatterSub")),
    ),
    (
        *("scatter", "scatter_nd_update", _SCATTER),
        (
            *(("Functional", "scatter_nd_update"), ("Functional", "tensor_scatter_update")),
            *(("Primitive", "ScatterNdUpdate"), ("Primitive", "TensorScatterUpdate")),
        ),
    ),
    ("expand", "expand", ("x", "size"), (("Functional", "expand"),)),
)

APIS: Mapping[str, Own] = {
    "Primitive.MatMul": _MATMUL,
    "Primitive.BatchMatMul": _MATMUL,
    "Primitive.Dense": Own("matmul", "linear", ("x", "weight", "bias")),
    "Primitive.BiasAdd": Own("add", "bias_add", ("x", "bias"), "data_format", linear=True),
    "Primitive.Conv2D": Own("conv2d", "convolution", ("x", "weight"), "windows"),
    "Primitive.Conv3D": Own("conv3d", "convolution", ("x", "weight"), "windows"),
    "Functional.conv2d": Own(
        "conv2d",
        "convolution",
        ("x", "weight", "bias", "stride", "pad_mode", "padding", "dilation", "groups"),
        "pad_mode",
    ),
    "Functional.conv3d": Own(
        "conv3d",
        "convolution",
        ("x", "weight", "bias", "stride", "pad_mode", "padding", "dilation", "groups"),
        "pad_mode",
    ),
    "Functional.bias_add": Own("add", "bias_add", ("x", "bias"), linear=True),
    "Primitive.BatchNorm": _BATCH_NORM,
    "Primitive.SyncBatchNorm": _BATCH_NORM,
    "Primitive.LayerNorm": Own("layer_norm", "layer_norm", ("x", "gamma", "beta"), "epsilon", (0,)),
    "Primitive.RmsNorm": Own("rms_norm", "rms_norm", ("x", "weight", "eps"), "epsilon", (0,)),
    "Functional.rms_norm": Own("rms_norm", "rms_norm", ("x", "weight", "eps"), outputs=(0,)),
    **{
        f"{family}.{theirs}": Own(operation, function, parameters)
        for operation, function, parameters, names in _BY_INDEX
        for family, theirs in names
    },
    "Primitive.StridedSlice": Own("slice", "strided_slice", ("x", "begin", "end", "strides"), "no_masks"),
    "Primitive.BroadcastTo": Own("expand", "expand_as_recorded", ("x",)),
    **{f"Primitive.AdaptiveAvgPool{n}D": Own(f"adaptive_avg_pool{n}d", "adaptive_avg_pool", ("x",)) for n in (2, 3)},
    "Primitive.Identity": Own("contiguous", "identity", ("x",)),
    "Primitive.FastGeLU": Own("fast_gelu", "fast_gelu", ("x",)),
    "Primitive.Concat": Own("cat", "concatenated", ("tensors", "axis"), "join_axis"),
    "Primitive.Stack": Own("stack", "stacked", ("tensors", "axis"), "stack_axis"),
    "Primitive.Pack": Own("stack", "stacked", ("tensors", "axis"), "stack_axis"),
    "Primitive.Split": Own("split", "split_evenly", ("x", "axis", "count"), "split_axis"),
    "Primitive.MaxPool": _MAX_POOL,
    "Primitive.MaxPoolWithArgmax": _MAX_POOL,
    "Primitive.MaxPoolWithArgmaxV2": _MAX_POOL,
    "Primitive.MaxPool3DWithArgmax": _MAX_POOL,
    "Primitive.MaxPool3D": _MAX_POOL,
    "Primitive.AvgPool": _AVG_POOL,
    "Primitive.AvgPool3D": _AVG_POOL,
    "Primitive.OneHot": Own("one_hot", "one_hot", ("indices", "depth", "on", "off", "axis")),
    "Functional.one_hot": Own("one_hot", "one_hot", ("indices", "depth", "on", "off", "axis")),
    "Functional.flash_attention_score": _FLASH,
    "Functional.swiglu": Own("swiglu", "swiglu", ("x", "dim")),
    "MintFunctional.swiglu": Own("swiglu", "swiglu", ("x", "dim")),
    "Primitive.Swiglu": Own("swiglu", "swiglu", ("x", "dim")),
    "Functional.rotary_position_embedding": Own("rotary", "rotary", ("x", "cos", "sin", "mode")),
    "Primitive.RotaryPositionEmbedding": Own("rotary", "rotary", ("x", "cos", "sin", "mode")),
    "Primitive.ApplyRotaryPosEmb": Own("rotary", "rotary_pair", ("query", "key", "cos", "sin")),
}
"""By MindSpore's stem, a primitive's without its attribute. A parameter that begins with "?" is not taken, and must be
None ("?none"), 1 ("?keep_prob") or 0 ("?zero")."""


_CONVOLUTION = {f"Conv{n}d": Own(f"conv{n}d", "convolution", ("x",), "windows") for n in (1, 2, 3)}
_POOLS = {
    **{f"MaxPool{n}d": Own(f"max_pool{n}d", "max_pool", ("x",), "max_windows") for n in (1, 2, 3)},
    **{f"AvgPool{n}d": Own(f"avg_pool{n}d", "avg_pool", ("x",), "mean_windows") for n in (1, 2, 3)},
    **{f"AdaptiveAvgPool{n}d": Own(f"adaptive_avg_pool{n}d", "adaptive_avg_pool", ("x",)) for n in (1, 2, 3)},
}
_NORMS = {
    **{name: Own("layer_norm", "layer_norm", ("x",), "epsilon", (0,)) for name in ("LayerNorm", "LayerNormExt")},
    **{f"BatchNorm{n}d": Own("batch_norm", "batch_norm", ("x",), "batch_norm") for n in (1, 2, 3)},
    "GroupNorm": Own("group_norm", "group_norm", ("x",), "groups"),
    **{
        name: Own("rms_norm", "rms_norm", ("x",), "epsilon", (0,))
        for name in ("RMSNorm", "LlamaRMSNorm", "RmsNorm", "Qwen2RMSNorm", "T5LayerNorm")
    },
}
_PLAIN = {
    **{"ReLU": "relu", "ReLU6": "relu6", "Sigmoid": "sigmoid", "Tanh": "tanh", "SiLU": "silu", "Mish": "mish"},
    **{"HSwish": "hardswish", "Hardswish": "hardswish", "HSigmoid": "hardsigmoid", "Hardsigmoid": "hardsigmoid"},
    **{"SeLU": "selu", "SELU": "selu", "LogSigmoid": "logsigmoid", "Softsign": "softsign", "SoftSign": "softsign"},
    **{"Tanhshrink": "tanhshrink", "Exp": "exp"},
}
_WITH_OPTIONS = {"CELU": "celu", "ELU": "elu", "Softplus": "softplus"}
_ACTIVATIONS = {
    **{name: Own(plain, "applied", ("x",), fixed={"function": plain}) for name, plain in _PLAIN.items()},
    **{
        name: Own(plain, "applied", ("x",), "defaults", (), {"function": plain})
        for name, plain in _WITH_OPTIONS.items()
    },
    "GELU": Own("gelu", "applied", ("x",), "approximate", fixed={"function": "gelu"}),
    "SoftmaxExt": Own("softmax", "applied", ("x",), "axis", fixed={"function": "softmax"}),
    "LeakyReLU": Own("leaky_relu", "applied", ("x",), "slope", fixed={"function": "leaky_relu"}),
    "Softmax": Own("softmax", "applied", ("x",), "axis", fixed={"function": "softmax"}),
    "LogSoftmax": Own("log_softmax", "applied", ("x",), "axis", fixed={"function": "log_softmax"}),
}

CELLS: Mapping[str, Own] = {
    **{name: Own("matmul", "linear", ("x",)) for name in ("Dense", "Linear", "NonDynamicallyQuantizableLinear")},
    **_CONVOLUTION,
    **_POOLS,
    **_NORMS,
    **_ACTIVATIONS,
    **{name: Own("index_select", "embedding", ("indices",)) for name in ("Embedding", "EmbeddingExt")},
    **{name: Own("reshape", "to_recorded_shape", ("x",)) for name in ("Flatten", "Unflatten")},
    **{name: Own("contiguous", "identity", ("x",)) for name in ("Identity",)},
    **{name: Own("dropout", "identity", ("x",), "no_dropout") for name in ("Dropout", "DropoutExt", "Dropout1d")},
    "_DynamicLSTMCPUGPU": Own("lstm", "dynamic_lstm", ("x", "state", "?none", "w_ih", "w_hh", "b_ih", "b_hh")),
}
"""By the class of the layer."""

PARAMETERS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "linear": (("weight", "bias"), ("weight", "bias")),
    "convolution": (("weight", "bias"), ("weight", "bias")),
    "embedding": (("weight", "embedding_table"), ("weight", "weight")),
    "layer_norm": (("gamma", "beta", "weight", "bias"), ("gamma", "beta", "gamma", "beta")),
    "group_norm": (("gamma", "beta", "weight", "bias"), ("gamma", "beta", "gamma", "beta")),
    "rms_norm": (("weight", "gamma", "gain", "scale"), ("weight", "weight", "weight", "weight")),
    "batch_norm": (
        (
            *("gamma", "beta", "weight", "bias", "moving_mean", "moving_variance", "mean", "variance"),
            *("running_mean", "running_var"),
        ),
        ("weight", "bias") * 2 + ("running_mean", "running_var") * 3,
    ),
}
"""Function to (names of a layer's parameters, the function's parameters); others make a layer unknown."""
