"""The standards by which an output is judged, as data: limits by dtype, and which operation has which standard.

Sources. [spec] is the table of limits that the precheck of msprobe uses for PyTorch, whose names users know: binary
consistency, absolute threshold, ULP, thousandth, benchmark, and the basic judgement. [IEEE] is IEEE 754-2019, and for
bfloat16 its definition as the upper half of a float32. [Higham] is N. Higham, "Accuracy and Stability of Numerical
Algorithms", 2nd edition, chapters 3 and 4: a sum of n terms errs by up to n u, at random signs by about sqrt(n) u.
[measured] are measurements of this tool, with correct kernels of MindSpore 2.10 on CPU (benchmarks/precheck/README.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Criterion(Enum):
    """The criterion that decided about an output."""

    SHAPE = "shape"
    DTYPE = "dtype"
    BINARY = "binary consistency"
    FINITE = "finite elements"
    BOUND = "error bound"
    BIAS = "bias"
    ABSOLUTE = "absolute threshold"
    ULP = "ulp"
    THOUSANDTH = "thousandth"
    ACCUMULATIVE = "accumulative"
    DROPOUT = "dropout"
    BASIC = "basic"
    BENCHMARK = "benchmark"


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a dtype.

    `unit`: unit roundoff, half the distance from 1 to the next number. `mantissa`, `min_exponent`: of the format.
    `small`: up to this size of the golden value errors are taken absolutely. `small_absolute`: and may be so large, by
    the absolute standard, `small_benchmark` by the benchmark standard. `relative`: relative error of other values.
    `denominator`: the least divisor of a ratio of two devices. `shares`: of the basic judgement, the limit whose
    violation is an error, and the one whose violation is a warning. `accumulative`: of sums, the error relative to a
    golden value beyond 1, and of others the absolute one; `balance`: the mean of these errors with their signs.
    """

    unit: float
    mantissa: int
    min_exponent: int
    small: float
    small_absolute: float
    small_benchmark: float
    relative: float
    denominator: float
    shares: tuple[float, float]
    accumulative: float
    balance: float


LIMITS: Mapping[str, Limits] = {
    # unit, mantissa, min_exponent [IEEE]; all others [spec].
    "float16": Limits(2**-11, 10, -14, 2**-10, 2**-16, 1e-16, 2**-10, 2**-11, (1e-2, 1e-3), 2**-8, 2**-20),
    "bfloat16": Limits(2**-8, 7, -126, 2**-10, 1e-16, 1e-16, 2**-8, 2**-8, (1e-2, 1e-3), 2**-7, 2**-7),
    "float32": Limits(2**-24, 23, -126, 2**-20, 2**-30, 2**-30, 2**-20, 2**-14, (1e-3, 1e-4), 2**-11, 2**-14),
    "float64": Limits(2**-53, 52, -1022, 2**-20, 2**-30, 2**-30, 2**-20, 2**-14, (1e-3, 1e-4), 2**-11, 2**-14),
}

COSINE, MAX_ABSOLUTE = 0.99, 1e-3
"""Of the basic judgement [spec]: the cosine has to be greater, and a maximal absolute error below is a pass."""

ULP_MEAN, ULP_FAR, ULP_FAR_SHARE = 64.0, 32.0, 0.05
"""ULP standard of float32 [spec]: the mean error in ULP, or the share of elements that err by more than 32."""

ULP_NEAR, ULP_NEAR_SHARE = 1.0, 1e-3
"""ULP standard of float16 and bfloat16 [spec]: the share of elements that err by more than 1."""

THOUSANDTH_SHARE = 0.999
"""Thousandth standard [spec]: the share of elements with a relative error below 1e-3."""

DROPOUT_SIGMAS, DROPOUT_LEAST = 6.0, 100
"""The share of elements that a dropout keeps may differ from 1 - p by this number of standard deviations of the
binomial distribution, which happens by chance in one of 5e8 outputs; checked from this number of elements on [spec]."""

DROPOUT_ROUNDINGS = 4.0
"""Relative error of a kept element in units of u: 1 / (1 - p) and the product are rounded [Higham]."""

RATIOS: Mapping[str, float] = {
    # Benchmark standard [spec]: how many times the error of the other device may be exceeded.
    "Small Value Error Share": 2.0,
    "RMSE": 2.0,
    "MaxRelativeErr": 10.0,
    "MeanRelativeErr": 2.0,
    "Error Balance": 2.0,
}


@dataclass(frozen=True, slots=True)
class Bound:
    """The limit of |output - golden|, in units of the sensitivity S of the output (`replay.residual`).

    Elementwise: z = |r| / max(S, 0.05 rms S) <= `peak` u + growth; over all elements: rms z <= `mean` u + growth, where
    u is the unit roundoff of the output's dtype, and growth is `sums` sqrt(terms) times that of float32: half
    precisions are summed up in float32. `inside`: for functions of several steps, which a kernel for half precision may
    round in between, u counts that often.
    """

    peak: float
    mean: float
    sums: float
    inside: float


BOUNDS: Mapping[str, Bound] = {
    # [measured], with u and sqrt(terms) after [Higham].
    "float16": Bound(peak=4.0, mean=1.0, sums=4.0, inside=8.0),
    "bfloat16": Bound(peak=4.0, mean=1.0, sums=4.0, inside=8.0),
    "float32": Bound(peak=256.0, mean=12.0, sums=4.0, inside=4.0),
    "float64": Bound(peak=256.0, mean=64.0, sums=8.0, inside=1.0),
}


@dataclass(frozen=True, slots=True)
class BiasLimit:
    """When the errors of an output are systematic: all of them together are a multiple of the golden value, or a
    constant.

    `chi_square`: the share of the error's energy times the number of distinct golden values, which for independent
    rounding errors is chi square distributed with one degree of freedom. `size`: the systematic part, relative to the
    golden value (for a constant to its rms), in units of u, with growth as in `Bound`; `inside` times that for
    functions of several steps, whose constants may be rounded. `least`: distinct values from which on
    this is looked at.
    """

    chi_square: float
    size: float
    inside: float
    sums: float
    least: int


BIAS: Mapping[str, BiasLimit] = {
    # 60 is exceeded by chance in one of 1e14 outputs; the sizes are [measured].
    "float16": BiasLimit(60.0, 0.25, 4.0, 1.0, 32),
    "bfloat16": BiasLimit(60.0, 0.125, 4.0, 1.0, 32),
    "float32": BiasLimit(60.0, 12.0, 2.0, 2.0, 32),
    "float64": BiasLimit(60.0, 64.0, 2.0, 4.0, 32),
}

_NAMES: Mapping[Criterion, str] = {
    Criterion.BINARY: """
        abs argmax argmin bitwise_and bitwise_or bitwise_xor bitwise_not expand ceil eq fill flatten floor gather gt ge
        histc isfinite isnan isinf lt le logical_and logical_or logical_xor logical_not masked_fill max_pool2d
        max_pool3d maximum minimum neg nonzero ne one_hot pad relu reshape round select sign sort repeat topk transpose
        tril triu cast trunc clamp
    """,
    Criterion.ABSOLUTE: "mul add div leaky_relu prelu reciprocal rsqrt square sub",
    Criterion.ULP: "addbmm addmm baddbmm bilinear matmul chain_matmul addmv",
    Criterion.THOUSANDTH: "conv1d conv2d",
    Criterion.ACCUMULATIVE: "sum mean cumsum trace sum_to_size scatter_add index_add",
    Criterion.DROPOUT: "dropout",
}
"""[spec], which names no operation for sums, by the names of `replay.operations`, of which bmm, mm, mv and linear are
matmul."""

STANDARDS: Mapping[str, Criterion] = {name: each for each, names in _NAMES.items() for name in names.split()}
"""The standard of an operation; the basic judgement for all others."""
