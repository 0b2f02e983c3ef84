"""Verdicts between two frameworks: errors as shares of a tensor's scale, because kernels of two frameworks round
differently.

A pair of tensors has four errors, each a difference and the scale that it is divided by:

| error | difference | scale |
|---|---|---|
| spread | root mean square of t - g; by statistics, of the norms, norm / sqrt(n) | root mean square of g |
| mean | of the means | root mean square of g |
| greatest, least | by elements, the greatest difference; by statistics, those of max and min | greatest absolute g |

Scales are limited to `UNMASKED`, or to the statistic itself if that is greater. Fused parameters are judged as a whole.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe.base.schema import AT, NAMES, NUMBERS, merge
from msprobe.compare.core.measures import Measures
from msprobe.compare.core.reason import Reason, Why
from msprobe.compare.core.standard import ACROSS, UNMASKED, allowed_across, canonical, standard_of
from msprobe.compare.match.fused import groups
from msprobe.compare.match.pairs import Ints, Pairs
from msprobe.store.record import NO_STATISTICS, NonFinite, Number, Record, Statistics, statistics_from

from .judged import Comparison
from .verdict import PASS, Verdict, counts, wrong

Floats = NDArray[np.float64]

WARNING_ACROSS = 10.0
"""Errors up to this multiple of the allowance are warnings; chosen for this tool."""


@dataclass(frozen=True, slots=True)
class Errors:
    """The errors of a pair of tensors, relative to the golden's scales.

    `fine` is the greater of spread and mean, which average out rounding, `extreme` the greatest of the others,
    `allowed` the tolerance. `lost` is a difference that these numbers do not show: NaN, infinities, counts.
    """

    fine: float
    extreme: float
    allowed: float
    lost: Reason | None = None

    @property
    def worst(self) -> float:
        """Return the greatest of all errors."""
        return math.inf if self.lost else max(self.fine, self.extreme, 0.0)


def _share(difference: float, own: float, scale: float) -> float:
    """Return a difference relative to the scale, or to its own size if that is greater; 0/0 is 0: two zeros are
    equal."""
    held = max(min(scale, UNMASKED), own)
    if difference == 0:
        return 0.0
    return difference / held if held else math.inf


def widths_are_custom(pairs: Pairs) -> bool:
    """Return whether most pairs of floating-point tensors have two widths, so that one side as a whole computes in
    another.

    Otherwise a different width is a finding, and the golden's tolerance applies.
    """
    both = (pairs.target_rows >= 0) & (pairs.golden_rows >= 0)
    dtypes = []
    for columns, rows in ((pairs.target.columns, pairs.target_rows), (pairs.golden.columns, pairs.golden_rows)):
        numbers = {name: n for n, name in enumerate(ACROSS)}
        table = np.array([numbers.get(canonical(dtype), -1) for _, dtype, _ in columns.looks] or [-1])
        dtypes.append(table[np.frombuffer(columns.look, np.int32)[rows[both]]])
    floats = (dtypes[0] >= 0) & (dtypes[1] >= 0)
    return bool(2 * np.count_nonzero((dtypes[0] != dtypes[1]) & floats) > np.count_nonzero(floats))


def errors_by_elements(found: Measures, target: Record, golden: Record, custom: bool = False) -> Errors | None:
    """Return the errors between two tensors that were measured; None if a dtype is exact, or nothing was measured.

    `custom`: the tolerance is that of the coarser of the two dtypes, not of the golden's.
    """
    allowed = allowed_across(target.dtype, golden.dtype, custom)
    if allowed is None or not found.size:
        return None
    root, s = math.sqrt(found.size), golden.statistics or NO_STATISTICS
    if found.scale_error and math.isfinite(found.scale_error):
        greatest = found.max_absolute / found.scale_error
    else:
        greatest = max(_size(s.max), _size(s.min))
    rms = min(_size(s.norm) / root, greatest) if _is_finite(s.norm) else greatest
    lost = Reason(Why.NON_FINITE_SOMEWHERE, number=found.mismatched, size=found.size) if found.mismatched else None
    # If values are greater than the largest scale, every element must be close relative to its own size.
    is_near = found.excess * standard_of(golden.dtype).relative <= allowed
    whole, peak = (rms, greatest) if is_near else (0.0, 0.0)
    fine = max(_share(found.euclid / root, whole, rms), _share(abs(found.bias), whole, rms))
    return Errors(fine, _share(found.max_absolute, peak, greatest), allowed, lost)


def errors_by_statistics(
    t: Statistics, g: Statistics, target: Record, golden: Record, custom: bool = False
) -> Errors | None:
    """Return the errors that the statistics of two tensors show; None if a dtype is exact. `custom` as in
    `errors_by_elements`."""
    allowed = allowed_across(target.dtype, golden.dtype, custom)
    if allowed is None:
        return None
    size = max(math.prod(golden.shape or ()), 1)
    lost = counts(t.non_finite, g.non_finite) or next(
        (
            Reason(Why.STATISTIC_NON_FINITE, name=name, target=ours, golden=theirs)
            for name in NAMES
            if not _is_comparable(ours := getattr(t, name), theirs := getattr(g, name))
        ),
        None,
    )
    rms, greatest = _size(g.norm) / math.sqrt(size), max(_size(g.max), _size(g.min))
    spread = _apart(abs(_number(t.norm)), abs(_number(g.norm))) / math.sqrt(size)
    fine = max(_share(spread, rms, rms), _share(_apart(_number(t.mean), _number(g.mean)), _size(g.mean), rms))
    extremes = (_share(_apart(_number(a), _number(b)), _size(b), greatest) for a, b in ((t.max, g.max), (t.min, g.min)))
    return Errors(fine, max(extremes), allowed, lost)


def worst_by_statistics(t: Sequence[Floats], g: Sequence[Floats], sizes: Ints) -> Floats:
    """Return `worst` of `errors_by_statistics` for many pairs of tensors; `t` and `g` are their finite maxima, minima,
    means and norms, `sizes` the golden's numbers of elements."""
    root = np.sqrt(np.maximum(sizes, 1))
    (high, low, mean, norm), (golden_high, golden_low, golden_mean, golden_norm) = t, g
    golden_norm = np.abs(golden_norm)
    rms, greatest = golden_norm / root, np.maximum(np.abs(golden_high), np.abs(golden_low))
    with np.errstate(over="ignore"):
        errors = [
            _shares(np.abs(np.abs(norm) - golden_norm) / root, rms, rms),
            *(
                _shares(np.abs(ours - theirs), np.abs(theirs), scale)
                for ours, theirs, scale in (
                    (mean, golden_mean, rms),
                    (high, golden_high, greatest),
                    (low, golden_low, greatest),
                )
            ),
        ]
    found: Floats = np.max(errors, axis=0)
    return found


def _shares(differences: Floats, own: Floats, scale: Floats) -> Floats:
    """Return `_share` of each."""
    held = np.maximum(np.minimum(scale, UNMASKED), own)
    found = np.full(len(held), math.inf)
    np.divide(differences, held, out=found, where=held != 0)
    found[differences == 0] = 0.0
    return found


def _apart(a: float, b: float) -> float:
    return 0.0 if a == b or not (math.isfinite(a) and math.isfinite(b)) else abs(a - b)


def _is_comparable(a: Number, b: Number) -> bool:
    if a is None or b is None:
        return a is b
    return (math.isfinite(a) and math.isfinite(b)) or a == b or (a != a and b != b)


def _is_finite(value: Number) -> bool:
    return value is not None and math.isfinite(value)


def _number(value: Number) -> float:
    return 0.0 if value is None else float(value)


def _size(value: Number) -> float:
    return abs(float(value)) if value is not None and math.isfinite(value) else 0.0


def judge_errors(errors: Errors) -> Verdict:
    """Return the verdict of two tensors by their errors, of elements or of statistics."""
    if errors.lost:
        return wrong(errors.lost)
    found, allowed = errors.worst, errors.allowed
    if found <= allowed:
        return PASS
    return Verdict("warning" if found <= WARNING_ACROSS * allowed else "error", (scale_reason(found, allowed),))


def scale_reason(found: float, allowed: float) -> Reason:
    """Return why two tensors differ whose greatest error is `found`."""
    return Reason(Why.SCALE, amount=found, allowed=allowed)


def combined(parts: Iterable[Record]) -> Statistics | None:
    """Return the statistics of the tensor that consists of some parts; None if a part lacks one."""
    sizes: list[int] = []
    values: list[list[float]] = []
    lost: list[NonFinite | None] = []
    for record in parts:
        s = record.statistics
        if s is None or not all(type(number) in (int, float) for number in s.numbers):
            return None
        sizes.append(math.prod(record.shape or ()))
        values.append([_number(number) for number in s.numbers])
        if not _is_finite(s.norm):
            lost.append(s.non_finite)
    if not sum(sizes):
        return None
    known = [count for count in lost if count is not None]
    of_all = NonFinite(*map(sum, zip(*known, strict=True))) if known and len(known) == len(lost) else None
    columns = list(zip(*values, strict=True))
    if any(norm != norm for norm in columns[AT["norm"]]):
        return statistics_from(*(math.nan,) * len(NUMBERS), non_finite=of_all)
    numbers = [merge(each.merge, column, sizes) for each, column in zip(NUMBERS, columns, strict=True)]
    return statistics_from(*numbers, non_finite=of_all)


def with_parts_judged(comparison: Comparison) -> Comparison:
    """Return the comparison in which every part of a fused record has the verdict of the whole, by its statistics."""
    pairs = comparison.pairs
    views = pairs.notes.views
    found: dict[int, Verdict] = {}
    for numbers in groups(views, pairs.target_rows, pairs.golden_rows):
        both = [pairs.pair(n) for n in numbers]
        is_golden_whole = bool(views[numbers[0]].golden)
        whole = both[0].golden if is_golden_whole else both[0].target
        known = combined(r for p in both if (r := p.target if is_golden_whole else p.golden) is not None)
        if whole is None or known is None or whole.statistics is None:
            continue
        sides = (known, whole.statistics) if is_golden_whole else (whole.statistics, known)
        errors = errors_by_statistics(*sides, whole, whole)
        if errors is None:
            continue
        verdict = judge_errors(errors)
        found |= dict.fromkeys(numbers, Verdict(verdict.grade, verdict.reasons or (Reason(Why.ALL_PARTS),)))
    return comparison.with_verdicts(found)
