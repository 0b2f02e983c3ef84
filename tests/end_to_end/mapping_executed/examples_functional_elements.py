"""Functions of mindspore.ops that work element by element."""

from dataclasses import replace

import mindspore
import numpy as np
from executed import Parameter, bools, ex, floats, ints

X = floats(3, 4)
Y = floats(3, 4, seed=1)
ROW = floats(4, seed=2)
POSITIVE = floats(3, 4, low=0.2, high=3, seed=3)
OTHER_POSITIVE = floats(3, 4, low=0.2, high=3, seed=4)
UNIT = floats(3, 4, low=-0.95, high=0.95, seed=5)
WIDE = floats(3, 4, low=-8, high=8, seed=6)
WHOLE = ints(3, 4, low=1, high=9)
OTHER_WHOLE = ints(3, 4, low=1, high=5, seed=1)
ODD = np.array([[1.5, np.nan, np.inf], [-np.inf, 0.0, -2.5]], dtype="float32")
COMPLEX = (X + 1j * Y).astype("complex64")


def call(name, *args, **kwargs):
    return ex(f"Functional.{name}", *args, **kwargs)


ONE_TENSOR = [
    (
        "abs absolute arcsinh arctan asinh atan ceil cos cosh deg2rad erf erfc exp exp2 expm1 floor frac i0 isreal "
        "neg negative positive rad2deg sgn signbit sin sinc sinh square trunc sigmoid tanh relu selu silu mish "
        "tanhshrink softsign logsigmoid bessel_i0 bessel_i0e bessel_i1 bessel_i1e gelu celu elu leaky_relu "
        "hardtanh hardshrink softshrink soft_shrink softplus glu",
        X,
    ),
    ("acos arccos arcsin arctanh asin atanh erfinv tan", UNIT),
    ("acosh arccosh", 1 + POSITIVE),
    ("angle imag real conj adjoint", COMPLEX),
    (
        "digamma lgamma log log10 log1p log2 reciprocal rsqrt sqrt inv bessel_j0 bessel_j1 bessel_y0 bessel_y1 "
        "bessel_k0 bessel_k1 bessel_k0e bessel_k1e",
        POSITIVE,
    ),
    ("isfinite isinf isnan isneginf isposinf isnan_ext nan_to_num", ODD),
    ("logical_not", bools(3, 4)),
    ("sign", ODD[1]),
    ("invert", WHOLE),
    ("relu6 hardswish hardsigmoid round", WIDE),
    ("logit", POSITIVE / 4),
]

TWO_TENSORS = [
    ("add sub subtract mul multiply", (X, ROW)),
    ("div divide true_divide xlogy xdivy", (X, POSITIVE)),
    ("truncate_div truncate_mod floor_div floor_mod floor_divide remainder fmod", (WIDE, POSITIVE)),
    (
        "fmax maximum minimum atan2 arctan2 copysign heaviside hypot logaddexp logaddexp2 nextafter",
        (X, Y),
    ),
    (
        "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift gcd lcm eq ge gt le lt ne "
        "greater greater_equal less less_equal not_equal equal tensor_gt tensor_lt",
        (WHOLE, OTHER_WHOLE),
    ),
    ("igamma igammac", (POSITIVE, OTHER_POSITIVE)),
    ("ldexp", (X, OTHER_WHOLE)),
    ("logical_and logical_or logical_xor", (bools(3, 4), bools(3, 4, seed=1))),
    ("inner", (X, floats(2, 4))),
    ("kron", (X, floats(2, 3))),
    ("zeta", (1 + POSITIVE, OTHER_POSITIVE)),
    ("pow float_power float_power_ext", (POSITIVE, Y)),
    ("tensor_muls", (X, 1.5)),
    ("approximate_equal isclose", (X, X + 1e-6)),
    ("prelu", (floats(2, 3, 4), floats(3))),
]

SHORT_CASTS = [
    *(np.dtype(name) for name in ("float32", "float64", "float16")),
    mindspore.bfloat16,
    *(np.dtype(name) for name in ("int32", "int64", "bool")),
]
"""The dtypes that `x.float()`, `x.double()`, ... stand for, in the table's order."""

EXAMPLES = [
    *(call(name, tensor) for names, tensor in ONE_TENSOR for name in names.split()),
    *(call(name, *tensors) for names, tensors in TWO_TENSORS for name in names.split()),
    *(replace(call("div", WIDE, POSITIVE, rounding_mode="floor"), overload=n) for n in (0, 1)),
    call("divide", WIDE, POSITIVE, rounding_mode="trunc"),
    call("subtract", X, Y, alpha=2),
    call("floor_divide", WHOLE, OTHER_WHOLE),
    call("floor_mod", -WHOLE, OTHER_WHOLE),
    call("truncate_div", -WHOLE, OTHER_WHOLE),
    call("pow", POSITIVE, 2.5),
    call("lerp", X, Y, 0.3),
    call("lerp", X, Y, POSITIVE),
    call("addcdiv", X, Y, POSITIVE, 0.5),
    call("addcmul", X, Y, POSITIVE, 0.5),
    call("clamp", X, -0.5, 0.7),
    call("clamp", X, min=-0.5),
    call("clamp_", X, -0.5, 0.7),
    call("clip", X, -0.5, 0.7),
    call("clip_by_value", X, -0.5, 0.7),
    call("clip_by_value", X, clip_value_max=0.7),
    call("logit", X, 0.2),
    call("nan_to_num", ODD, 1.0, 2.0, -3.0),
    call("round", WIDE, decimals=0),
    call("mvlgamma", 2 + POSITIVE, 2),
    call("polygamma", np.array(2, dtype="int64"), POSITIVE),
    call("polar", POSITIVE, X),
    call("approximate_equal", X, X + 1e-3, 1e-2),
    call("approximate_equal", X, X + 1e-3),
    call("approximate_equal", 1000 + X, 1000.005 + X, 1e-3),
    call("isclose", X, X + 1e-3, 1e-6, 2e-3, True),
    call("gelu", X, "tanh"),
    call("celu", X, 0.4),
    call("elu", X, 1.0),
    call("leaky_relu", X, 0.3),
    call("hardtanh", X, -0.3, 0.6),
    call("hardshrink", X, 0.7),
    call("softshrink", X, 0.7),
    call("soft_shrink", X, 0.7),
    call("softplus", X, 2, 0.5),
    call("threshold", X, 0.4, -3.0),
    call("glu", floats(4, 3), 0),
    call("rrelu", X, 0.25, 0.25),
    replace(call("gumbel_softmax", X, 0.5, True, 0), compare="shape"),
    call("softmax", X, 0),
    call("softmax", X, 1, dtype=np.dtype("float64")),
    call("softmax", X),
    *(call(name, floats(3, 4, 2)) for name in ("softmax", "softmin")),
    replace(call("log_softmax", floats(3, 4, 2)), tolerance=(1e-4, 1e-5)),  # MindSpore is less exact here
    call("softmin", X, 0),
    call("softmin", X),
    call("softmin", X, 0, dtype=np.dtype("float64")),
    call("log_softmax", X, 0),
    call("log_softmax", X),
    call("masked_fill", X, bools(3, 4), -1.5),
    call("masked_fill", X, bools(3, 4), np.array(-1.5, dtype="float32")),
    *(replace(call(name, bools(3, 4), X, Y), keywords=False) for name in ("where", "select")),
    *(replace(call("masked_select", X, bools(3, 4)), overload=n, keywords=n < 2) for n in (0, 1, 2)),
    call("bias_add", X, ROW),
    call("addn", [X, Y]),
    call("accumulate_n", [X, Y]),
    call("conj", COMPLEX),
    call("assign", Parameter(X), Y),
    call("assign_add", Parameter(X), Y),
    call("assign_sub", Parameter(X), Y),
    *(replace(call("cast", X, np.dtype("int32")), overload=n) for n in (0, 1)),
    *(replace(call("cast", WHOLE, to), overload=2 + n) for n, to in enumerate(SHORT_CASTS)),
    call("deepcopy", X),
    call("stop_gradient", X),
]
