"""Calls of layers, each with arguments of its constructor and inputs that are not square."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

RNG = np.random.default_rng(5)


def f(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def p(*shape):
    """Probabilities, away from 0 and 1."""
    return RNG.uniform(0.1, 0.9, shape).astype(np.float32)


def i(high, *shape):
    return RNG.integers(0, high, shape).astype(np.int32)


def sign(*shape):
    return (2 * RNG.integers(0, 2, shape) - 1).astype(np.float32)


@dataclass
class Case:
    """A layer with arguments and inputs; `golden` are PyTorch's arguments where the correspondence cannot give them."""

    ms: str
    inputs: tuple[Any, ...]
    arguments: dict[str, Any] = field(default_factory=dict)
    golden: dict[str, Any] | None = None
    pt: str = ""
    pt_inputs: Any = None
    output: Any = None
    training: bool = False

    def __str__(self):
        return " ".join([self.ms, *map(str, self.arguments.values())])[:60]


def case(ms, *inputs, **arguments):
    return Case(ms, inputs, arguments)


def both(name, *inputs, **arguments):
    """The same for mindspore.nn and for mint.nn."""
    return [case(f"nn.{name}", *inputs, **arguments), case(f"mint.nn.{name}", *inputs, **arguments)]


def pads(*names):
    for name in names:
        for n in (1, 2, 3):
            padding = (1, 2, 2, 1, 1, 1)[: 2 * n]
            value = {"value": 1.5} if name.startswith("Constant") else {}
            yield from both(f"{name}{n}d", f(2, 3, *(4, 5, 6)[:n]), padding=padding, **value)


CASES = [
    case("nn.Dense", f(4, 3), in_channels=3, out_channels=5),
    case("nn.Dense", f(2, 4, 3), in_channels=3, out_channels=5, has_bias=False),
    *both("Linear", f(4, 3), in_features=3, out_features=5),
    case("nn.BiDense", f(4, 3), f(4, 5), in1_channels=3, in2_channels=5, out_channels=7),
    *both("Identity", f(4, 3)),
    *both("Flatten", f(2, 3, 4, 5), start_dim=1, end_dim=2),
    case("nn.Unflatten", f(2, 6, 5), axis=1, unflattened_size=(2, 3)),
    # convolutions
    case(
        "nn.Conv1d",
        f(2, 4, 9),
        in_channels=4,
        out_channels=6,
        kernel_size=3,
        stride=2,
        pad_mode="pad",
        padding=1,
        group=2,
        has_bias=True,
    ),
    case(
        "nn.Conv2d",
        f(2, 4, 7, 9),
        in_channels=4,
        out_channels=6,
        kernel_size=(3, 2),
        stride=(2, 1),
        pad_mode="pad",
        padding=1,
        dilation=(1, 2),
        group=2,
        has_bias=True,
    ),
    case(
        "nn.Conv3d",
        f(1, 2, 5, 6, 7),
        in_channels=2,
        out_channels=3,
        kernel_size=(3, 2, 1),
        stride=1,
        pad_mode="pad",
        padding=1,
        has_bias=True,
    ),
    case("mint.nn.Conv1d", f(2, 4, 9), in_channels=4, out_channels=6, kernel_size=3, stride=2, padding=1, groups=2),
    case(
        "mint.nn.Conv2d",
        f(2, 4, 7, 9),
        in_channels=4,
        out_channels=6,
        kernel_size=(3, 2),
        stride=(2, 1),
        padding=(1, 0),
        groups=2,
    ),
    case("mint.nn.Conv3d", f(1, 2, 5, 6, 7), in_channels=2, out_channels=3, kernel_size=(3, 2, 1), padding=1),
    case(
        "nn.Conv1dTranspose",
        f(2, 4, 9),
        in_channels=4,
        out_channels=6,
        kernel_size=3,
        stride=2,
        pad_mode="pad",
        padding=1,
        has_bias=True,
    ),
    case(
        "nn.Conv2dTranspose",
        f(2, 4, 7, 9),
        in_channels=4,
        out_channels=6,
        kernel_size=(3, 2),
        stride=2,
        pad_mode="pad",
        padding=1,
        has_bias=True,
    ),
    case(
        "nn.Conv3dTranspose",
        f(1, 2, 3, 4, 5),
        in_channels=2,
        out_channels=3,
        kernel_size=(3, 2, 1),
        stride=2,
        pad_mode="pad",
        padding=0,
        has_bias=True,
    ),
    case(
        "mint.nn.ConvTranspose2d", f(2, 4, 7, 9), in_channels=4, out_channels=6, kernel_size=(3, 2), stride=2, padding=1
    ),
    # normalisation
    *[
        Case(
            f"nn.BatchNorm{n}d",
            (f(4, 3, *(5, 6, 2)[: n if n > 1 else 0]),),
            {"num_features": 3, "momentum": 0.7, "eps": 1e-3},
            training=t,
        )
        for n in (1, 2, 3)
        for t in (False, True)
    ],
    *[
        Case(
            f"mint.nn.BatchNorm{n}d",
            (f(4, 3, *(5, 6, 2)[: n if n > 1 else 0]),),
            {"num_features": 3, "momentum": 0.3, "eps": 1e-3},
            training=t,
        )
        for n in (1, 2, 3)
        for t in (False, True)
    ],
    *[
        Case(
            f"nn.InstanceNorm{n}d",
            (f(4, 3, *(5, 6, 2)[:n]),),
            {"num_features": 3},
            {"num_features": 3, "affine": True, "track_running_stats": True},
        )
        for n in (1, 2, 3)
    ],
    case("nn.LayerNorm", f(4, 5), normalized_shape=(5,), epsilon=1e-3),
    Case(
        "nn.LayerNorm",
        (f(4, 5, 3),),
        {"normalized_shape": (5, 3), "begin_norm_axis": 1, "begin_params_axis": 1, "epsilon": 1e-3},
    ),
    case("mint.nn.LayerNorm", f(4, 5, 3), normalized_shape=(5, 3), eps=1e-3),
    *both("GroupNorm", f(2, 6, 3, 5), num_groups=3, num_channels=6, eps=1e-3),
    Case(
        "nn.LRN",
        (f(2, 7, 3, 5),),
        {"depth_radius": 2, "bias": 1.5, "alpha": 0.3, "beta": 0.6},
        {"size": 5, "k": 1.5, "alpha": 1.5, "beta": 0.6},
    ),
    # embeddings
    case("nn.Embedding", i(7, 4, 2), vocab_size=7, embedding_size=3, padding_idx=2),
    case("mint.nn.Embedding", i(7, 4, 2), num_embeddings=7, embedding_dim=3, padding_idx=2),
    case("nn.EmbeddingLookup", i(7, 4, 2), vocab_size=7, embedding_size=3),
    # recurrent
    *[
        case(f"nn.{name}", f(4, 6, 3), input_size=3, hidden_size=5, num_layers=2, batch_first=True, bidirectional=True)
        for name in ("LSTM", "GRU", "RNN")
    ],
    case("nn.LSTMCell", f(4, 3), (f(4, 5), f(4, 5)), input_size=3, hidden_size=5),
    case("nn.GRUCell", f(4, 3), f(4, 5), input_size=3, hidden_size=5),
    case("nn.RNNCell", f(4, 3), f(4, 5), input_size=3, hidden_size=5, nonlinearity="relu"),
    # transformers
    case("nn.MultiheadAttention", f(5, 2, 6), f(7, 2, 6), f(7, 2, 6), embed_dim=6, num_heads=2),
    case(
        "nn.TransformerEncoderLayer", f(5, 2, 6), d_model=6, nhead=2, dim_feedforward=8, dropout=0.0, batch_first=True
    ),
    case("nn.TransformerDecoderLayer", f(5, 2, 6), f(7, 2, 6), d_model=6, nhead=2, dim_feedforward=8, dropout=0.0),
    case(
        "nn.Transformer",
        f(2, 5, 6),
        f(2, 7, 6),
        d_model=6,
        nhead=2,
        num_encoder_layers=2,
        num_decoder_layers=1,
        dim_feedforward=8,
        dropout=0.0,
        batch_first=True,
    ),
    # dropout lets everything through, or the same everything
    Case("nn.Dropout", (f(4, 3),), {"keep_prob": 0.3}),
    *[
        Case(f"{m}.Dropout{n}", (f(4, 3, *(5, 6, 2)[: int(n[:1] or 2)]),), {"p": 0.3})
        for m, n in [("nn", "1d"), ("nn", "2d"), ("nn", "3d"), ("mint.nn", ""), ("mint.nn", "2d")]
    ],
    # activations
    case("nn.CELU", f(4, 3), alpha=0.7),
    *both("ELU", f(4, 3)),
    case("nn.GELU", f(4, 3), approximate=True),
    case("nn.GELU", f(4, 3), approximate=False),
    case("mint.nn.GELU", f(4, 3), approximate="tanh"),
    case("nn.GLU", f(4, 6), axis=0),
    case("mint.nn.GLU", f(4, 6), dim=0),
    case("nn.HShrink", f(4, 3), lambd=0.3),
    case("nn.HSigmoid", 3 * f(4, 3)),
    case("nn.HSwish", 3 * f(4, 3)),
    *both("Hardtanh", f(4, 3), min_val=-0.3, max_val=0.6),
    case("nn.LeakyReLU", f(4, 3)),
    case("nn.LeakyReLU", f(4, 3), alpha=0.3),
    *both("LogSigmoid", f(4, 3)),
    case("nn.LogSoftmax", f(4, 3), axis=0),
    case("mint.nn.LogSoftmax", f(4, 3), dim=0),
    *both("Mish", f(4, 3)),
    case("nn.PReLU", f(4, 3, 2), channel=3),
    case("mint.nn.PReLU", f(4, 3, 2), num_parameters=3),
    case("nn.RReLU", f(4, 3), lower=0.2, upper=0.2),
    *both("ReLU", f(4, 3)),
    *both("ReLU6", 5 * f(4, 3)),
    case("nn.SeLU", f(4, 3)),
    case("mint.nn.SELU", f(4, 3)),
    *both("SiLU", f(4, 3)),
    *both("Sigmoid", f(4, 3)),
    case("nn.SoftShrink", f(4, 3), lambd=0.3),
    case("nn.Softmax", f(4, 3), axis=0),
    case("mint.nn.Softmax", f(4, 3), dim=0),
    case("nn.Softmax2d", f(2, 3, 4, 5)),
    case("nn.Softmin", f(4, 3), axis=0),
    case("nn.Softsign", f(4, 3)),
    *both("Tanh", f(4, 3)),
    case("nn.Tanhshrink", f(4, 3)),
    *both("Threshold", f(4, 3), threshold=0.2, value=-3.0),
    case("mint.nn.Hardshrink", f(4, 3), lambd=0.3),
    case("mint.nn.Hardsigmoid", 3 * f(4, 3)),
    case("mint.nn.Hardswish", 3 * f(4, 3)),
    case("mint.nn.Softshrink", f(4, 3), lambd=0.3),
    # pooling
    *both("AdaptiveAvgPool1d", f(2, 3, 12), output_size=4),
    *both("AdaptiveAvgPool2d", f(2, 3, 7, 9), output_size=(3, 4)),
    *both("AdaptiveAvgPool3d", f(2, 3, 6, 7, 9), output_size=(2, 3, 4)),
    case("nn.AdaptiveMaxPool1d", f(2, 3, 12), output_size=4),
    case("mint.nn.AdaptiveMaxPool1d", f(2, 3, 12), output_size=4),
    *both("AdaptiveMaxPool2d", f(2, 3, 7, 9), output_size=(3, 4)),
    case("nn.AdaptiveMaxPool3d", f(2, 3, 6, 7, 9), output_size=(2, 3, 4)),
    *[
        case(
            f"nn.{kind}Pool{n}d",
            f(2, 3, 7, 9, 8)[(..., *(0,) * (3 - n))],
            kernel_size=3,
            stride=2,
            pad_mode="pad",
            padding=1,
        )
        for kind in ("Avg", "Max")
        for n in (1, 2, 3)
    ],
    *[
        case(
            f"mint.nn.{name}", f(2, 3, 7, 9, 8)[(..., *(0,) * (3 - int(name[-2])))], kernel_size=3, stride=2, padding=1
        )
        for name in ("AvgPool1d", "AvgPool2d", "AvgPool3d", "MaxPool2d")
    ],
    case("nn.LPPool1d", p(2, 3, 9), norm_type=2, kernel_size=3, stride=2),
    case("nn.LPPool2d", p(2, 3, 7, 9), norm_type=2, kernel_size=(3, 2), stride=2),
    Case(
        "nn.FractionalMaxPool2d",
        (f(2, 3, 7, 9),),
        {"kernel_size": 2, "output_size": (3, 4), "_random_samples": p(2, 3, 2)},
    ),
    Case(
        "nn.FractionalMaxPool3d",
        (f(2, 3, 6, 7, 9),),
        {"kernel_size": 2, "output_size": (2, 3, 4), "_random_samples": p(2, 3, 3)},
    ),
    case(
        "nn.MaxUnpool1d",
        np.array([[[2, 4, 6]]], np.float32),
        np.array([[[1, 3, 5]]], np.int64),
        kernel_size=2,
        stride=2,
    ),
    *both(
        "MaxUnpool2d",
        np.array([[[[2, 4, 6]]]], np.float32),
        np.array([[[[1, 3, 10]]]], np.int64),
        kernel_size=2,
        stride=2,
    ),
    case(
        "nn.MaxUnpool3d",
        np.array([[[[[2, 4, 6]]]]], np.float32),
        np.array([[[[[1, 3, 22]]]]], np.int64),
        kernel_size=2,
        stride=2,
    ),
    # padding, images
    *pads("ConstantPad", "ReflectionPad", "ReplicationPad"),
    case("nn.ZeroPad2d", f(2, 3, 4, 5), padding=(1, 2, 3, 0)),
    *[
        case(f"mint.nn.ZeroPad{n}d", f(2, 3, 4, 5, 6)[(..., *(0,) * (3 - n))], padding=(1, 2, 3, 0, 2, 1)[: 2 * n])
        for n in (1, 2, 3)
    ],
    Case(
        "nn.Pad",
        (f(2, 3, 4, 5),),
        {"paddings": ((0, 0), (0, 0), (1, 2), (3, 0))},
        {"padding": (3, 0, 1, 2)},
        pt="ZeroPad2d",
    ),
    Case(
        "nn.Pad",
        (f(2, 3, 4, 5),),
        {"paddings": ((0, 0), (0, 0), (1, 2), (3, 0)), "mode": "REFLECT"},
        {"padding": (3, 0, 1, 2)},
        pt="ReflectionPad2d",
    ),
    case("nn.ChannelShuffle", f(2, 6, 4, 5), groups=3),
    *both("PixelShuffle", f(2, 12, 4, 5), upscale_factor=2),
    case("nn.PixelUnshuffle", f(2, 3, 4, 6), downscale_factor=2),
    *both("Upsample", f(2, 3, 4, 5), size=(6, 8), mode="bilinear", align_corners=True),
    case("mint.nn.UpsamplingBilinear2d", f(2, 3, 4, 5), size=(6, 8)),
    case("mint.nn.UpsamplingNearest2d", f(2, 3, 4, 5), size=(8, 10)),
    Case(
        "nn.Unfold",
        (f(2, 3, 5, 6),),
        {"ksizes": [1, 2, 3, 1], "strides": [1, 1, 2, 1], "rates": [1, 1, 1, 1]},
        {"kernel_size": (2, 3), "stride": (1, 2)},
        output=lambda out: out.reshape(2, 2, 3, 3, -1).transpose(0, 3, 1, 2, 4).reshape(2, 18, -1),
    ),
    case("mint.nn.Fold", f(2, 12, 12), output_size=(4, 5), kernel_size=2),
    case("mint.nn.Unfold", f(2, 3, 5, 6), kernel_size=(2, 3), stride=2),
    # losses
    *both("BCELoss", p(4, 3), p(4, 3), weight=p(4, 3)),
    *both("BCEWithLogitsLoss", f(4, 3), p(4, 3), weight=p(3), pos_weight=p(3)),
    Case(
        "nn.CTCLoss",
        (np.log(p(6, 2, 5)), 1 + i(4, 2, 3), np.array([6, 5], np.int32), np.array([3, 2], np.int32)),
        {"blank": 0, "reduction": "sum"},
    ),
    *both("CosineEmbeddingLoss", f(4, 3), f(4, 3), sign(4), margin=0.2),
    *both("CrossEntropyLoss", f(4, 3), i(3, 4), weight=p(3), label_smoothing=0.1),
    case("nn.GaussianNLLLoss", f(4, 3), f(4, 3), p(4, 3), full=True),
    case("nn.HingeEmbeddingLoss", f(4, 3), sign(4, 3), margin=0.7),
    case("nn.HuberLoss", f(4, 3), f(4, 3), delta=0.4),
    case("nn.KLDivLoss", np.log(p(4, 3)), p(4, 3), reduction="sum"),
    case("mint.nn.KLDivLoss", np.log(p(4, 3)), np.log(p(4, 3)), reduction="sum", log_target=True),
    *both("L1Loss", f(4, 3), f(4, 3)),
    case("nn.MAELoss", f(4, 3), f(4, 3)),
    *both("MSELoss", f(4, 3), f(4, 3), reduction="sum"),
    case("nn.MarginRankingLoss", f(4), f(4), sign(4), margin=0.3),
    case("nn.MultiLabelSoftMarginLoss", f(4, 3), i(2, 4, 3).astype(np.float32)),
    case("nn.MultiMarginLoss", f(4, 3), i(3, 4).astype(np.int64), margin=0.7, weight=p(3)),
    case("nn.MultilabelMarginLoss", f(2, 4), np.array([[3, 0, -1, 1], [1, -1, 0, 0]], np.int32)),
    *both("NLLLoss", np.log(p(4, 3)), i(3, 4), weight=p(3), ignore_index=1),
    case("nn.PoissonNLLLoss", f(4, 3), p(4, 3), full=False),
    *both("SmoothL1Loss", f(4, 3), f(4, 3), beta=0.4, reduction="mean"),
    *both("SoftMarginLoss", f(4, 3), sign(4, 3)),
    case("nn.SoftmaxCrossEntropyWithLogits", f(4, 3), i(3, 4), sparse=True, reduction="none"),
    case("nn.TripletMarginLoss", f(4, 3), f(4, 3), f(4, 3), p=2, swap=True, margin=0.7),
    case("nn.TripletMarginWithDistanceLoss", f(4, 3), f(4, 3), f(4, 3), margin=0.7),
]
