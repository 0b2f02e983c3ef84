"""Calls of `mint` and `mint.nn.functional`; where this machine has no kernel they are translated all the same."""

from dataclasses import replace

import numpy as np
from executed import Example, bools, distinct, ex, floats, ints

F64 = np.dtype("float64")
I32 = np.dtype("int32")

X = floats(3, 4)
Y = floats(3, 4, seed=1)
POSITIVE = floats(3, 4, low=0.1, high=3)
UNIT = floats(3, 4, low=-0.9, high=0.9)
ORDERED = distinct(3, 4)
IMAGE = floats(2, 4, 5, 6)


def mint(name, *args, **kwargs):
    return ex(f"Mint.{name}", *args, **kwargs)


def functional(name, *args, **kwargs):
    return ex(f"MintFunctional.{name}", *args, **kwargs)


def each(names, *args, **kwargs):
    return [mint(name, *args, **kwargs) for name in names.split()]


def by_position(example, *overloads):
    """Operators have no names for their arguments."""
    return [replace(example, overload=overload, keywords=False) for overload in overloads]


def no_kernel(example):
    return replace(example, kernel=False)


def random(example):
    return replace(example, compare="shape")


def only(example, *overloads):
    return [replace(example, overload=overload) for overload in overloads]


UNARY = [
    *each("abs arctan arcsinh asinh atan ceil clone cos cosh erf erfc exp exp2 expm1 fix floor frac isfinite", X),
    *each("isinf isneginf neg negative ravel sigmoid sign sin sinc sinh square tan tanh trunc", X),
    *each("acos arccos arcsin arctanh asin atanh erfinv", UNIT),
    *each("log log10 log1p log2 reciprocal rsqrt sqrt", POSITIVE),
    *each("acosh arccosh", floats(3, 4, low=1.1, high=4)),
    *each("isnan isfinite isinf isneginf", np.array([[1, np.nan, -np.inf], [np.inf, -0.0, 2]], np.float32)),
    mint("bitwise_not", ints(3, 4)),
    mint("logical_not", bools(3, 4)),
    mint("round", 3 * X),
    mint("t", X),
    mint("trace", X),
    mint("inverse", floats(3, 3) + 3 * np.eye(3, dtype=np.float32)),
    mint("imag", (X + 1j * Y).astype(np.complex64)),
    mint("real", (X + 1j * Y).astype(np.complex64)),
]

BINARY = [
    *each("eq greater greater_equal gt ge le less less_equal lt ne not_equal", ints(3, 4), ints(3, 4, seed=1)),
    *each("arctan2 atan2 logaddexp logaddexp2 maximum minimum", X, Y),
    *only(mint("mul", X, Y), 0, 1, 2),
    *each("equal", X, X.copy()),
    *each("floor_divide fmod remainder", 3 * X, POSITIVE),
    *each("logical_and logical_or logical_xor", bools(3, 4), bools(3, 4, seed=1)),
    *each("bitwise_and bitwise_or bitwise_xor", ints(3, 4), ints(3, 4, seed=1)),
    mint("gcd", ints(3, 4, low=1, high=40), ints(3, 4, low=1, high=40, seed=1)),
    mint("xlogy", X, POSITIVE),
    *by_position(mint("mul", X, Y), 3),
    *only(mint("add", X, Y), 0, 1, 2),
    *by_position(mint("add", X, Y), 3),
    mint("add", X, Y, alpha=2),
    *only(mint("sub", X, Y), 0, 1, 2),
    *by_position(mint("sub", X, Y), 3),
    mint("sub", X, Y, alpha=2),
    *only(mint("div", X, POSITIVE), 0, 1, 2),
    *by_position(mint("div", X, POSITIVE), 3),
    mint("div", X, POSITIVE, rounding_mode="floor"),
    *only(mint("divide", X, POSITIVE), 0, 1, 2),
    *by_position(mint("divide", X, POSITIVE), 3),
    mint("divide", X, POSITIVE, rounding_mode="trunc"),
    *only(mint("pow", POSITIVE, Y), 0, 1, 2),
    *by_position(mint("pow", POSITIVE, Y), 3),
    mint("float_power", POSITIVE, Y),
    mint("isclose", X, X + np.float32(1e-3) * np.sign(Y), 0.0, 1e-3),
    mint("isclose", np.array([1, np.nan], np.float32), np.array([1.5, np.nan], np.float32), equal_nan=True),
    mint("allclose", X, X + np.float32(1e-3), 1e-2, 1e-2),
    mint("allclose", X, X + np.float32(1e-3), rtol=1e-7, atol=1e-7),
    mint("lerp", X, Y, 0.3),
    mint("lerp", X, Y, UNIT),
]

PRODUCTS = [
    mint("dot", floats(5), floats(5, seed=1)),
    mint("vdot", floats(5), floats(5, seed=1)),
    mint("outer", floats(3), floats(4, seed=1)),
    mint("mv", X, floats(4)),
    mint("mm", X, floats(4, 2)),
    mint("bmm", floats(2, 3, 4), floats(2, 4, 5)),
    mint("matmul", floats(2, 3, 4), floats(4, 5)),
    mint("addmm", floats(3, 2), X, floats(4, 2), beta=0.5, alpha=2.0),
    mint("addmv", floats(3), X, floats(4), beta=0.5, alpha=2.0),
    mint("addbmm", floats(3, 5), floats(2, 3, 4), floats(2, 4, 5), beta=0.5, alpha=2.0),
    mint("baddbmm", floats(2, 3, 5), floats(2, 3, 4), floats(2, 4, 5), beta=0.5, alpha=2.0),
    mint("addr_", X, floats(3), floats(4), 0.5, 2.0),
    mint("addcdiv", X, Y, POSITIVE, value=0.5),
    mint("addcmul", X, Y, POSITIVE, value=0.5),
    mint("einsum", "ij,jk->ki", X, floats(4, 2)),
    mint("cross", floats(3, 4), floats(3, 4, seed=1), 0),
    mint("cdist", floats(3, 4), floats(5, 4, seed=1), 1.0),
    mint("cdist", floats(2, 3, 4), floats(2, 5, 4, seed=1)),
    mint("polar", POSITIVE, X),
    mint("inv", floats(3, 3) + 3 * np.eye(3, dtype=np.float32)),
    mint("triangular_solve", floats(3, 2), np.triu(floats(3, 3)) + 3 * np.eye(3, dtype=np.float32), True, True),
]

REDUCTIONS = [
    *[mint(n, bools(3, 4)) for n in ("all", "any")],
    *[mint(n, bools(3, 4), 1, True) for n in ("all", "any")],
    *[mint(n, ORDERED, 1, True) for n in ("amax", "amin", "argmax", "argmin", "logsumexp", "mean", "sum", "prod")],
    replace(mint("nansum", ORDERED, 1, True), keywords=False),  # on CPU it knows no keyword
    *[mint(n, ORDERED) for n in ("amax", "amin", "argmax", "argmin", "mean", "sum", "prod", "nansum")],
    *[mint(n, X, 0, dtype=F64) for n in ("mean", "sum", "prod")],
    replace(mint("nansum", X, 0, dtype=F64), keywords=False, tolerance=(1e-6, 1e-6)),  # adds in float32, then widens
    *[mint(n, X, 1, correction=0, keepdim=True) for n in ("std", "var", "std_mean", "var_mean")],
    *[mint(n, X) for n in ("std", "var", "std_mean", "var_mean")],
    *[replace(mint(n, ORDERED), overload=o) for n in ("max", "min") for o in (0, 1)],
    *[replace(mint(n, ORDERED, 1, True), overload=o) for n in ("max", "min", "median") for o in (0, 1)],
    *[replace(mint(n, X, Y), overload=o) for n in ("max", "min") for o in (2, 3)],
    mint("median", ORDERED),
    mint("kthvalue", ORDERED, 2, 0, True),
    mint("count_nonzero", ints(3, 4, low=0, high=2), 1),
    *[mint(n, ORDERED, 1) for n in ("cummax", "cummin", "cumsum", "cumprod")],
    *[mint(n, X, 0, F64) for n in ("cumsum", "cumprod")],
    *only(mint("norm", X, 3, 1, True), 0, 1),
    *only(mint("norm", X), 0, 1),
    Example("Mint.norm", (X,), {"ord": 1, "dim": 0, "keepdim": True}, of="mindspore.mint.linalg", pt_of="torch.linalg"),
    mint("vector_norm", X, 3, 1, True),
    mint("matrix_norm", X, 1, (0, 1), True),
    replace(mint("qr", floats(4, 3), "complete"), pt_of="torch.linalg"),
]

ORDER = [
    mint("argsort", ORDERED, 0, True),
    mint("argsort", ORDERED, stable=True),
    mint("sort", ORDERED, dim=0, descending=True, stable=True),
    mint("sort", ORDERED),
    mint("topk", ORDERED, 2, 0, False, True),
    mint("searchsorted", np.sort(X), Y, right=True, out_int32=True),
    mint("unique", ints(8, low=0, high=4), return_inverse=True, return_counts=True),
    mint("unique", ints(3, 4, low=0, high=4)),
    mint("unique_consecutive", np.sort(ints(8, low=0, high=4)), True, True),
    mint("bincount", ints(8, low=0, high=4), floats(8), 6),
    mint("histc", X, 4, -1, 1),
]

INDEX = np.argsort(ORDERED, 0)  # writes each element once

SHAPES = [
    mint("chunk", floats(6, 4), 3, 0),
    mint("diag", X, 1),
    mint("diff", X, 2, 0),
    mint("diff", X, prepend=floats(3, 1), append=floats(3, 1, seed=1)),
    mint("flatten", IMAGE, 1, 2),
    mint("flip", X, (0,)),
    mint("gather", X, 0, ints(2, 4, low=0, high=3)),
    mint("index_select", X, 1, np.array([2, 0])),
    mint("index_add", X, 1, np.array([2, 0], np.int32), floats(3, 2), alpha=2),
    mint("masked_select", X, bools(3, 4)),
    mint("narrow", X, 1, 1, 2),
    mint("roll", X, 2, 1),
    mint("scatter_add", X, 0, INDEX, Y),
    *only(mint("scatter", X, 0, INDEX, Y), 0, 1),
    *only(mint("scatter", X, 0, INDEX, 2.5), 2, 3),
    mint("select", X, 1, 2),
    mint("take", X, np.array([[1, 5], [0, 11]])),
    mint("tril", X, -1),
    mint("triu", X, 1),
    mint("unbind", X, 1),
    mint("unsqueeze", X, 1),
    mint("swapaxes", IMAGE, 1, 3),
    mint("transpose", IMAGE, 1, 3),
    mint("nan_to_num", np.array([[np.nan, np.inf], [-np.inf, 1]], np.float32), 0.5, 7.0, -7.0),
    mint("clamp", X, -0.5, 0.5),
    mint("clip", X, -0.5, 0.5),
    mint("clamp", X, min=0.5),
    mint("repeat_interleave", X, 2, 1),
    mint("squeeze", floats(3, 1, 4), 1),
    mint("split", floats(5, 4), [2, 3], 0),
    mint("split", floats(6, 4), 2),
    mint("broadcast_to", floats(3, 1), (2, 3, 4)),
    mint("permute", floats(2, 3, 4), (2, 0, 1)),
    mint("reshape", X, (2, -1)),
    mint("tile", X, (2, 1, 3)),
    *[mint(n, [X, Y], 1) for n in ("cat", "concat", "stack")],
    *[mint(n, [X, Y]) for n in ("dstack", "hstack")],
    mint("meshgrid", floats(3), floats(2, seed=1), indexing="xy"),
    mint("meshgrid", floats(3), floats(2, seed=1)),
    mint("where", bools(3, 4), X, Y),
    mint("nonzero", ints(3, 4, low=0, high=2)),
    no_kernel(mint("nonzero", ints(3, 4, low=0, high=2), as_tuple=True)),
]

FACTORIES = [
    mint("arange", 1, 9, 2, dtype=F64),
    mint("arange", 5),
    mint("linspace", 1.0, 2.0, 5, dtype=F64),
    mint("eye", 3, 4, F64),
    mint("full", (2, 3), 1.5, dtype=F64),
    mint("full_like", X, 1.5, dtype=F64),
    *[mint(n, (2, 3), dtype=F64) for n in ("ones", "zeros")],
    *[mint(n, X, dtype=F64) for n in ("ones_like", "zeros_like")],
    random(mint("empty", 2, 3, dtype=F64)),
    random(mint("empty_like", X, dtype=F64)),
    *[random(mint(n, 2, 3, dtype=F64)) for n in ("rand", "randn")],
    *[random(mint(n, X, dtype=F64)) for n in ("rand_like", "randn_like")],
    random(replace(mint("randint", 2, 5, (2, 3), dtype=I32), overload=0)),
    random(replace(mint("randint", 5, (2, 3), dtype=I32), overload=1)),
    random(replace(mint("randint_like", X, 2, 5, dtype=I32), overload=0)),
    random(replace(mint("randint_like", X, 5, dtype=I32), overload=1)),
    random(mint("randperm", 5, dtype=I32)),
    random(mint("normal", X, POSITIVE)),
    random(mint("bernoulli", floats(3, 4, low=0, high=1))),
    random(mint("multinomial", POSITIVE, 2, True)),
]

VECTORS = (floats(4), floats(4, low=0.5, high=2), floats(4), floats(4, seed=1))

NORMS = [
    mint("batch_norm_stats", floats(4, 3), 1e-3),
    mint("batch_norm_elemt", floats(4, 3), floats(3), floats(3), floats(3), floats(3, low=0.5, high=2), 1e-3),
    mint(
        "batch_norm_gather_stats_with_counts",
        *(floats(4, 3), floats(2, 3), floats(2, 3, low=0.5, high=2), floats(3), floats(3, low=0.5, high=2)),
        *(0.2, 1e-3, floats(2, low=4, high=6)),
    ),
    functional(
        "batch_norm", IMAGE, floats(4), floats(4, low=0.5, high=2), floats(4), floats(4, seed=1), False, 0.2, 1e-2
    ),
    functional("batch_norm", IMAGE, floats(4), floats(4, low=0.5, high=2), None, None, True, eps=1e-2),
    functional("group_norm", IMAGE, 2, floats(4), floats(4, seed=1), 1e-2),
    functional("layer_norm", IMAGE, (5, 6), floats(5, 6), floats(5, 6, seed=1), 1e-2),
    functional("normalize", X, 3.0, 0, 1e-3),
]

CONVOLUTIONS = [
    functional("conv1d", floats(2, 4, 7), floats(6, 2, 3), floats(6), 2, 1, 2, 2),
    functional("conv2d", IMAGE, floats(6, 2, 3, 2), floats(6), (2, 1), (1, 0), (1, 2), 2),
    mint("conv2d", IMAGE, floats(6, 2, 3, 2), floats(6), (2, 1), (1, 0), (1, 2), 2),
    functional("conv3d", floats(1, 2, 4, 5, 6), floats(3, 2, 2, 3, 2), floats(3), 1, 1),
    functional("conv_transpose2d", IMAGE, floats(4, 3, 3, 2), floats(6), (2, 1), (1, 0), (1, 0), 2),
    mint("conv_tbc", floats(7, 2, 4), floats(3, 4, 5), floats(5), 1),
    functional("linear", floats(2, 3, 4), floats(5, 4), floats(5)),
    functional("linear", X, floats(5, 4)),
    functional("fold", floats(1, 8, 6), (4, 4), (2, 2), 1, 0, (2, 1)),
    functional("unfold", IMAGE, (2, 3), 1, (0, 1), (1, 2)),
]

POOLS = [
    functional("adaptive_avg_pool1d", floats(2, 3, 7), 3),
    functional("adaptive_avg_pool2d", IMAGE, (3, 2)),
    functional("adaptive_avg_pool3d", floats(1, 2, 4, 5, 6), (2, 3, 2)),
    functional("adaptive_max_pool1d", distinct(2, 3, 7), 3, True),
    functional("adaptive_max_pool2d", distinct(2, 3, 5, 6), (3, 2), True),
    functional("avg_pool1d", floats(2, 3, 7), 3, 2, 1, True, False),
    functional("avg_pool2d", IMAGE, (3, 2), (2, 1), (1, 0), True, False, 5),
    functional("avg_pool3d", floats(1, 2, 4, 5, 6), (2, 3, 2), (1, 2, 1), (1, 0, 1), True, False, 5),
    functional("max_pool2d", distinct(2, 4, 5, 6), (3, 2), (2, 1), (1, 0), (1, 1), True, True),
    functional("max_pool2d", distinct(2, 4, 5, 6), 2),
    functional("max_unpool2d", distinct(1, 1, 2, 2), np.array([[[[0, 2], [8, 14]]]]), (2, 2), (2, 2), 0, (4, 4)),
]

PROBABLE = floats(3, 4, low=0.1, high=0.9)
CLASSES = ints(3, low=0, high=4)
SIGNS = np.array([1, -1, 1], np.float32)

LOSSES = [
    functional("binary_cross_entropy", PROBABLE, floats(3, 4, low=0, high=1), POSITIVE, "sum"),
    functional("binary_cross_entropy_with_logits", X, PROBABLE, POSITIVE, "sum", floats(4, low=0.5, high=2)),
    functional("cosine_embedding_loss", X, Y, SIGNS, 0.2, "sum"),
    functional("cross_entropy", X, CLASSES, floats(4, low=0.5, high=2), 1, "sum", 0.1),
    functional("cross_entropy", X, CLASSES),
    functional("kl_div", X, PROBABLE, "batchmean", True),
    functional("nll_loss", X, CLASSES, floats(4, low=0.5, high=2), 1, "sum"),
    *[functional(n, X, Y, "sum") for n in ("mse_loss", "l1_loss")],
    functional("smooth_l1_loss", X, Y, "sum", 0.5),
    functional("soft_margin_loss", X, np.sign(Y), "none"),
]

ACTIVATIONS = [
    functional("elu", X, 0.7),
    functional("elu_", X, 0.7),
    functional("gelu", X, approximate="tanh"),
    functional("gelu", X),
    functional("glu", X, 1),
    functional("hardshrink", X, 0.7),
    *[functional(n, 4 * X) for n in ("hardsigmoid", "hardswish", "logsigmoid", "mish", "relu", "relu6", "relu_")],
    *[functional(n, X) for n in ("selu", "sigmoid", "sigmoid_", "silu", "tanh")],
    functional("hardtanh", X, -0.5, 0.7),
    functional("hardtanh_", X, -0.5, 0.7),
    functional("leaky_relu", X, 0.2),
    functional("log_softmax", X, 0, dtype=F64),
    functional("prelu", IMAGE, floats(4)),
    functional("softmax", X, 0, dtype=F64),
    functional("softmax", X, 0),
    functional("softplus", X, 2, 1),
    functional("softshrink", X, 0.3),
    functional("threshold", X, 0.3, 5.0),
    functional("threshold_", X, 0.3, 5.0),
    mint("softmax", X, 0, dtype=F64),
    mint("log_softmax", X, 0),
    mint("npu_gelu", X, "tanh"),
]

GRID = floats(2, 3, 4, 2, low=-0.9, high=0.9)

OTHERS = [
    no_kernel(functional("dropout", X, 0.3, True)),
    functional("dropout", X, 0.3, False),
    functional("dropout2d", IMAGE, 0.3, True),
    functional("dropout2d", IMAGE, 0.3, False),
    functional("embedding", ints(2, 3, low=0, high=5), floats(5, 4), 1),
    functional("one_hot", ints(2, 3, low=0, high=5), 7),
    functional("grid_sample", IMAGE, GRID, "nearest", "border", True),
    functional("grid_sample", IMAGE, GRID, align_corners=False),
    no_kernel(functional("interpolate", IMAGE, (7, 9), None, "bilinear", True)),
    functional("interpolate", IMAGE, scale_factor=2.0),
    functional("upsample", IMAGE, (7, 9), None, "bilinear", True),
    functional("pad", X, (1, 2), "constant", 0.5),
    functional("pad", IMAGE, (1, 2, 0, 1), "reflect"),
    functional("pixel_shuffle", floats(2, 8, 3, 5), 2),
    functional("flatten", IMAGE, 1, 2),
]

EXAMPLES = [
    *(UNARY + BINARY + PRODUCTS + REDUCTIONS + ORDER + SHAPES),
    *(FACTORIES + NORMS + CONVOLUTIONS + POOLS + LOSSES + ACTIVATIONS + OTHERS),
]
