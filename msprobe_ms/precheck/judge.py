"""Judge whether an output is correct by its measures and the standards. Pure functions of data.

The first criterion that decides gives the verdict: shape and dtype; for integers, bools and exact operations whether
all elements are equal; elements that are not finite; the error bound, elementwise and over all; systematic errors. An
output within the bound passes, even if a named standard is stricter: then inputs that cancel made a small difference
large, which the bound includes and the standard does not. A named standard decides if there is no bound.
"""

from dataclasses import dataclass
from enum import Enum
from math import isnan, sqrt

from msprobe.base.phrase import Phrase, phrase
from msprobe.replay.operations import Kind, Operation
from msprobe.replay.references import Reference, References

from .measures import Measures, measures_of
from .standards import (
    BIAS,
    BOUNDS,
    COSINE,
    LIMITS,
    MAX_ABSOLUTE,
    STANDARDS,
    THOUSANDTH_SHARE,
    ULP_FAR_SHARE,
    ULP_MEAN,
    ULP_NEAR_SHARE,
    Criterion,
    Limits,
)


class Status(Enum):
    """Status of an output; the values are those of msprobe's tables."""

    PASS = "pass"
    WARNING = "warning"
    ERROR = "error"
    SKIP = "SKIP"


class Reason(Enum):
    """Why."""

    WITHIN = "within the limit"
    EXPLAINED = "beyond the given standard, but explained by the rounding of inputs that cancel"
    SHAPE = "another shape than the golden value"
    DTYPE = "another dtype than recorded"
    UNEQUAL = "elements are unequal"
    NON_FINITE = "NaN or infinities at other positions than in the golden value"
    ELEMENT = "an element is beyond the error bound"
    ALL = "the elements together are beyond the error bound"
    SCALED = "the output is off by a factor"
    SHIFTED = "the output is off by a constant"
    COSINE = "the cosine is too small"
    SHARE = "too many elements are beyond the relative error"
    RELATIVE = "a relative error is beyond the threshold"
    SMALL = "the error of a small value is beyond the threshold"
    FAR = "too many elements err by several ULP"
    BALANCE = "the errors of sums do not balance"
    RATE = "the share of kept elements is not 1 - p"
    KEPT = "a kept element is not its input divided by 1 - p"
    MASK = "a gradient was kept where the output was dropped"


_NUMBERS = {
    Reason.ELEMENT: "{value:.3g} times its sensitivity, at most {limit:.3g} is rounding",
    Reason.ALL: "{value:.3g} times their sensitivity, at most {limit:.3g} is rounding",
    Reason.SCALED: "by {value:.3g} of its size, beyond {limit:.3g}",
    Reason.SHIFTED: "by {value:.3g} of its rms, beyond {limit:.3g}",
    Reason.UNEQUAL: "a share of {value:.3g}",
    Reason.NON_FINITE: "{value:.0f} elements",
    Reason.COSINE: "{value:.6g}, has to be above {limit:.6g}",
    Reason.SHARE: "{value:.3g} of them, at most {limit:.3g}",
    Reason.RELATIVE: "{value:.3g} of the elements",
    Reason.SMALL: "{value:.3g} of the elements",
    Reason.BALANCE: "{value:.3g}, at most {limit:.3g}",
    Reason.RATE: "it differs by {value:.3g}, by chance at most by {limit:.3g}",
    Reason.KEPT: "by {value:.3g} of its size, beyond {limit:.3g}",
    Reason.MASK: "{value:.3g} of the elements",
    Reason.FAR: "{value:.3g} of them, at most {limit:.3g}",
}
"""The compared numbers of a reason, as a template."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The judgement of one output: `value` was compared with `limit`."""

    status: Status
    criterion: Criterion
    reason: Reason
    value: float = 0.0
    limit: float = 0.0

    @property
    def message(self) -> Phrase:
        """Return the reason with the compared numbers."""
        text = phrase(self.reason.value)
        if template := _NUMBERS.get(self.reason):
            numbers = phrase(template, value=self.value, limit=self.limit)
            return phrase("{reason}: {numbers}", reason=text, numbers=numbers)
        return text


_FLOATING = ("float16", "bfloat16", "float32", "float64")


def judged(of: References, reference: Reference) -> tuple[Judgement, Measures]:
    """Return the judgement of the recorded output, and its measures (empty if shapes differ)."""
    output, dtype = reference.record.array, reference.record.dtype
    if tuple(output.shape) != tuple(reference.value.shape):
        return Judgement(Status.ERROR, Criterion.SHAPE, Reason.SHAPE), Measures(0)
    found = measures_of(output, reference, dtype)
    return judgement_of(found, of, dtype, is_exact=reference.sensitivity is None), found


def judgement_of(found: Measures, of: References, dtype: str, *, is_exact: bool) -> Judgement:
    """Return the judgement by the first criterion that decides."""
    operation = of.operation
    if is_exact or of.moves_data or dtype not in _FLOATING:
        return _verdict(Criterion.BINARY, Reason.UNEQUAL, found.unequal, 0.0)
    if found.non_finite:
        return Judgement(Status.ERROR, Criterion.FINITE, Reason.NON_FINITE, float(found.non_finite))
    dtype = dtype_inside(of, dtype)
    bound = _of_bound(found, of, dtype)
    if bound.status is not Status.PASS:
        return bound
    if (systematic := _of_bias(found, of, dtype)) is not None:
        return systematic
    named = by_name(found, operation, dtype)
    if named.status is Status.PASS or named.criterion is Criterion.BASIC:
        return bound if named.criterion is Criterion.BASIC else named
    return Judgement(Status.PASS, Criterion.BOUND, Reason.EXPLAINED, bound.value, bound.limit)


def _verdict(criterion: Criterion, reason: Reason, value: float, limit: float) -> Judgement:
    is_met = value <= limit
    return Judgement(
        Status.PASS if is_met else Status.ERROR, criterion, Reason.WITHIN if is_met else reason, value, limit
    )


def dtype_inside(of: References, dtype: str) -> str:
    """Return the dtype whose limits apply to an output: functions of several steps, kernels for float64, and calls
    under autocast may compute in the coarsest dtype of their inputs."""
    if of.coarsest and (dtype == "float64" or of.operation.kind is Kind.PROBED or of.is_lowered):
        return max(dtype, of.coarsest, key=lambda each: LIMITS[each].unit)
    return dtype


def limits_of(of: References, dtype: str) -> tuple[float, float]:
    """Return the maximum z of an element, and the maximum rms of z."""
    bound, unit = BOUNDS[dtype], LIMITS[dtype].unit
    inside = 1.0 if _is_one_step(of.operation) else bound.inside
    growth = bound.sums * sqrt(of.terms) * min(unit, LIMITS["float32"].unit)
    return inside * bound.peak * unit + 4 * growth, inside * bound.mean * unit + growth


def _is_one_step(operation: Operation) -> bool:
    return operation.kind in (Kind.BILINEAR, Kind.MOVES) or STANDARDS.get(operation.name) in (
        Criterion.BINARY,
        Criterion.ABSOLUTE,
    )


def _of_bound(found: Measures, of: References, dtype: str) -> Judgement:
    peak, mean = limits_of(of, dtype)
    if not found.eta <= mean:
        return Judgement(Status.ERROR, Criterion.BOUND, Reason.ALL, found.eta, mean)
    return _verdict(Criterion.BOUND, Reason.ELEMENT, found.peak, peak)


def _of_bias(found: Measures, of: References, dtype: str) -> Judgement | None:
    limits = BIAS[dtype]
    if found.distinct < limits.least:
        return None
    size = systematic_size(of, dtype)
    for reason, share, part in (
        (Reason.SCALED, found.slope, found.drift),
        (Reason.SHIFTED, found.bias, found.offset),
    ):
        if share * found.distinct > limits.chi_square and abs(part) > size:
            return Judgement(Status.ERROR, Criterion.BIAS, reason, abs(part), size)
    return None


def systematic_size(of: References, dtype: str) -> float:
    """Return the maximum systematic part of the errors, relative to the golden value."""
    limits, unit = BIAS[dtype], LIMITS[dtype].unit
    growth = limits.sums * sqrt(of.terms) * min(unit, LIMITS["float32"].unit)
    return limits.size * (1.0 if _is_one_step(of.operation) else limits.inside) * unit + growth


def by_name(found: Measures, operation: Operation, dtype: str) -> Judgement:
    """Return the judgement by the named standard, against the golden value in float64."""
    limits = LIMITS[dtype]
    criterion = STANDARDS.get(operation.name, Criterion.BASIC)
    if criterion is Criterion.BINARY:
        return _verdict(criterion, Reason.UNEQUAL, found.unequal, 0.0)
    if criterion is Criterion.ABSOLUTE:
        if found.relative_violations:
            return Judgement(Status.ERROR, criterion, Reason.RELATIVE, found.relative_violations)
        return _verdict(criterion, Reason.SMALL, found.small_violations, 0.0)
    if criterion is Criterion.ULP:
        if dtype in ("float16", "bfloat16"):
            return _verdict(criterion, Reason.FAR, found.ulp_near, ULP_NEAR_SHARE)
        if found.mean_ulp < ULP_MEAN:
            return Judgement(Status.PASS, criterion, Reason.WITHIN, found.mean_ulp, ULP_MEAN)
        return _verdict(criterion, Reason.FAR, found.ulp_far, ULP_FAR_SHARE)
    if criterion is Criterion.THOUSANDTH:
        return _verdict(criterion, Reason.SHARE, 1 - found.shares[1], 1 - THOUSANDTH_SHARE)
    if criterion is Criterion.ACCUMULATIVE:
        if found.sum_violations:
            return Judgement(Status.ERROR, criterion, Reason.RELATIVE, found.sum_violations)
        return _verdict(criterion, Reason.BALANCE, found.sum_balance, limits.balance)
    return _basic(found, limits)


def _basic(found: Measures, limits: Limits) -> Judgement:
    basic = Criterion.BASIC
    if not isnan(found.cosine) and found.cosine <= COSINE:
        return Judgement(Status.ERROR, basic, Reason.COSINE, found.cosine, COSINE)
    if not found.max_absolute >= MAX_ABSOLUTE:
        return Judgement(Status.PASS, basic, Reason.WITHIN, found.max_absolute, MAX_ABSOLUTE)
    shares = dict(zip((1e-2, 1e-3, 1e-4), found.shares, strict=True))
    for limit, status in zip(limits.shares, (Status.ERROR, Status.WARNING), strict=True):
        if not shares[limit] > 1 - limit:
            return Judgement(status, basic, Reason.SHARE, 1 - shares[limit], limit)
    return Judgement(Status.PASS, basic, Reason.WITHIN, 1 - shares[limits.shares[1]], limits.shares[1])
