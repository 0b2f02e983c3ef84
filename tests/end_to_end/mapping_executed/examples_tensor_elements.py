"""Methods and operators of Tensor that work element by element, or make tensors."""

from dataclasses import replace

import numpy as np
from executed import bools, ex, floats, ints

X = floats(2, 3)
POSITIVE = floats(2, 3, low=0.2, high=3.0)
SMALL = floats(2, 3, low=-0.9, high=0.9)
ABOVE_ONE = floats(2, 3, low=1.1, high=3.0)
OTHER = floats(2, 3, seed=1)
N = ints(2, 3)
M = ints(2, 3, low=1, high=6, seed=1)
SPECIAL = np.array([[1.5, np.nan, np.inf], [-np.inf, -2.5, 0.5]], np.float32)
COMPLEX = (floats(2, 3) + 1j * floats(2, 3, seed=1)).astype(np.complex64)


def T(name, *args, **kwargs):
    """A call of a method; operators take nothing by keyword."""
    return replace(ex(f"Tensor.{name}", *args, **kwargs), keywords=not name.startswith("__"))


def each(names, *args):
    """The same call of several methods."""
    return [T(name, *args) for name in names.split()]


EXAMPLES = [
    *each(
        "abs absolute arctan arcsinh asinh atan ceil clone contiguous copy cos cosh deg2rad erf erfc exp exp_ expm1", X
    ),
    *each(
        "floor floor_ frac int long neg negative positive rad2deg ravel round sgn short sigmoid sigmoid_ sign sign_", X
    ),
    *each(
        "signbit sin sinc sinh square t tan tanh tanh_ trunc zero_ fliplr flipud half double float bool msort asnumpy",
        X,
    ),
    *each("__abs__ __neg__ __pos__", X),
    *each("digamma i0 lgamma log log10 log1p log2 log_ reciprocal rsqrt sqrt inv byte", POSITIVE),
    *each("acos arccos arcsin arctanh asin atanh erfinv erfinv_", SMALL),
    *each("acosh arccosh", ABOVE_ONE),
    *each("isfinite isinf isnan isneginf isposinf isreal nan_to_num", SPECIAL),
    *each("adjoint angle conj imag real isreal", COMPLEX),
    *each("logical_not argwhere __invert__", bools(2, 3)),
    *each("bitwise_not invert bfloat16 float", N),
    # two of them
    *each("add __add__ __mul__ __sub__ __truediv__ mul multiply sub subtract div divide true_divide", X, OTHER),
    *each(
        "atan2 arctan2 copysign fmax fmin maximum minimum hypot heaviside ldexp logaddexp logaddexp2 nextafter",
        X,
        OTHER,
    ),
    *each("eq equal ne not_equal ge greater_equal gt greater le less_equal lt less", X, OTHER),
    *each("__eq__ __ne__ __ge__ __gt__ __le__ __lt__", X, OTHER),
    *each("add_ __iadd__ mul_ __imul__ sub_ __isub__ div_ __itruediv__", X, OTHER),
    *each(
        "__add__ __radd__ __mul__ __rmul__ __sub__ __rsub__ __truediv__ __rtruediv__ __mod__ __floordiv__ __pow__", X, 3
    ),
    *each("fmod remainder remainder_ floor_divide floor_divide_", 4 * X, POSITIVE),
    *each("__mod__ __imod__ __floordiv__ __ifloordiv__", 4 * X, POSITIVE),
    *each("pow __pow__ float_power xlogy", POSITIVE, OTHER),
    *each("igamma igammac __rpow__ __rfloordiv__ __rsub__ __rtruediv__", POSITIVE, ABOVE_ONE),
    T("__rmod__", POSITIVE, 3),
    *each("__and__ __or__ __xor__ bitwise_and bitwise_or bitwise_xor", N, M),
    *each("gcd lcm bitwise_left_shift bitwise_right_shift", N, M),
    *each("logical_and logical_or logical_xor __and__ __or__ __xor__", bools(2, 3), bools(2, 3, seed=3)),
    T("logical_and", bools(2, 3), y=bools(2, 3, seed=3)),
    T("logical_or", bools(2, 3), y=bools(2, 3, seed=3)),
    T("add", X, OTHER, alpha=2.5),
    T("subtract", X, OTHER, alpha=2),
    T("sub", X, OTHER, alpha=2),
    T("sub", X, y=OTHER),
    T("sub_", X, OTHER, alpha=2),
    T("remainder", 4 * X, divisor=POSITIVE),
    *[T(n, 4 * X, POSITIVE, rounding_mode=mode) for n in ("div", "divide", "div_") for mode in ("floor", "trunc")],
    T("allclose", X, X + 0.05, rtol=0.1, atol=0.2),
    T("isclose", X, X + 0.05, 0.1, 0.01, False),
    T("isclose", X, x2=X + 0.05, rtol=0.1),
    T("approximate_equal", X, X + 0.05, 0.1),
    T("approximate_equal", X, X + 1e-7),
    # with settings
    *[T(n, X, -0.5, 0.8) for n in ("clamp", "clip", "clamp_")],
    T("clamp", X, SMALL - 1, None),
    T("hardshrink", X, 0.7),
    T("soft_shrink", X, 0.7),
    T("lerp", X, OTHER, 0.3),
    T("lerp", X, OTHER, SMALL),
    T("logit", floats(2, 3, low=0.05, high=0.95), 0.2),
    T("nan_to_num", SPECIAL, 0.5, 7.0, -8.0),
    T("round", 10 * X, decimals=0),
    T("mvlgamma", 2 + POSITIVE, 2),
    T("addcmul", X, OTHER, SMALL, value=0.3),
    T("addcdiv", X, OTHER, POSITIVE),
    # dtypes and memory
    T("astype", X, np.dtype("float16")),
    T("to", X, dtype=np.dtype("int32")),
    T("type_as", X, N),
    T("copy_", X, OTHER),
    T("to", X, device="CPU"),
    T("to_", X, "CPU"),
    T("move_to", X, "CPU"),
    # new tensors
    replace(T("new_empty", X, (3, 4)), compare="shape"),
    T("new_full", X, (3, 4), 2.5),
    T("new_full", X, (3, 4), 2, dtype=np.dtype("int32")),
    T("new_ones", X, (3, 4)),
    T("new_zeros", X, (3, 4), dtype=np.dtype("float16")),
    T("fill", X, 2.5),
    T("fill_", X, 2.5),
    T("fills", X, 2.5),
    T("fill_diagonal", floats(5, 3), 7.5, True),
    T("fill_diagonal_", floats(5, 3), 7.5),
    # random: the shapes agree
    *[
        replace(example, compare="shape")
        for example in [
            T("bernoulli", floats(2, 3, low=0.1, high=0.9)),
            T("bernoulli_", X, 0.3),
            T("cauchy", X, 1.0, 2.0),
            T("exponential_", X, 2.0),
            T("log_normal", X, 1.0, 2.0),
            T("normal_", X, 1.0, 2.0),
            T("multinomial", floats(2, 3, low=0.1, high=0.9), 5),
            T("random_", X, 2, 9),
            T("uniform", X, 2.0, 9.0),
            T("uniform_", X, 2.0, 9.0),
        ]
    ],
]
