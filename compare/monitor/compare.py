"""Compare two monitors: pair, measure, judge, locate."""

from typing import Any

import numpy as np

from msprobe.base.errors import UsageError
from msprobe.base.phrase import phrase
from msprobe.store.monitor.table import Output

from .band import LIMITS, Bands, Basis, bands, is_large, is_passing, steps_left
from .deviations import UPDATE, Deviations, band_around, deviations
from .finding import Curve, MonitorDivergence, Result
from .locate import Locator
from .pairing import pair_outputs
from .unjudged import Reason, unjudged

Array = np.ndarray[Any, Any]

_AROUND = 100  # steps of a curve before and after the finding
_CURVES = 6
_LAST = 400  # steps of a curve without a finding


def compare_outputs(a: Output, b: Output, clean: Output | None = None, *, targets: int = 0) -> Result:
    """Compare `a` with the band around `b`, the trusted one. `clean`: another correct run of B's training. `targets`:
    the number of other targets whose curves are also returned, those farthest outside first.

    UsageError if the sides have nothing in common.
    """
    paired = pair_outputs(a, b)
    measured = [d for d in deviations(paired) if d.value.size]
    if not measured:
        raise UsageError(
            f"{a.path} and {b.path} have no rank, kind, target and step in common; give two monitors of one training"
        )
    calibrated = list(deviations(pair_outputs(clean, b))) if clean is not None else None
    how = bands(measured, calibrated)
    locator = Locator(measured, how)
    left, passed = _first_lasting(measured, how)
    apart = locator.finding_of_first_step()
    finding = apart or (locator.finding(left) if left is not None else None)
    steps = np.unique(np.concatenate([d.step for d in measured]))
    judged_from = _judged_from(how, steps, measured)
    sides = (a, b) if clean is None else (a, b, clean)
    not_judged = unjudged(sides, paired, measured, how)
    compared = sum(int((~np.isnan(d.value)).sum()) for d in measured if d.kind != UPDATE)
    compared -= sum(each.count for each in not_judged if each.cause is Reason.NOT_FINITE)
    is_judged = finding is not None or (judged_from is not None and compared > 0)
    basis = how.basis if is_judged else Basis.NOTHING
    return Result(
        target=str(a.path),
        golden=str(b.path),
        finding=finding,
        stages=locator.stages(finding.step if finding is not None else None),
        basis=basis,
        steps=tuple(int(step) for step in steps),
        judged_from=judged_from,
        passed=passed,
        compared=compared,
        ranks=len(paired.ranks),
        unmatched=paired.unmatched,
        uncommon=paired.uncommon,
        lost_ranks=paired.lost_ranks,
        notes=tuple(
            phrase("{side}: {note}", side=name, note=note)
            for name, side in zip("ABC", sides, strict=False)
            for note in side.notes
        ),
        curves=_curves(finding, measured, how),
        further=_further(finding, measured, how, targets),
        unjudged=not_judged,
    )


def _first_lasting(measured: list[Deviations], how: Bands) -> tuple[int | None, tuple[int, ...]]:
    """Return the first step that leaves the band permanently, and earlier steps at which gradients jumped and
    returned."""
    passed: list[int] = []
    far: set[int] | None = None
    for step in steps_left(measured, how):
        factor = 1.0
        if passed and step <= passed[-1] + LIMITS.learn:
            # The effect of such a jump on moments and weights lasts some steps; a fault in these steps is larger.
            far = set(steps_left(measured, how, LIMITS.passing_wider)) if far is None else far
            if step not in far or (step <= passed[-1] + LIMITS.soon and not is_large(measured, how, step)):
                continue
            factor = LIMITS.passing_wider
        if not is_passing(measured, how, step, factor):
            return step, tuple(passed)
        passed.append(step)
    return None, tuple(passed)


def _judged_from(how: Bands, steps: Array, measured: list[Deviations]) -> int | None:
    """Return the first judged step; None if nothing was judged."""
    if how.basis is not Basis.LEARNED:
        return int(steps[0])
    firsts = [int(d.step[LIMITS.learn]) for d in measured if len(d.step) > LIMITS.learn]
    return min(firsts, default=None)


def _curves(finding: MonitorDivergence | None, measured: list[Deviations], how: Bands) -> tuple[Curve, ...]:
    """Return the series of the finding, in all statistics and on all ranks that have it; that of the finding first."""
    if finding is None:
        return ()
    found: list[Curve] = []
    for d in measured:
        if d.kind == finding.kind and finding.target in d.names:
            curve = _curve(d, d.names.index(finding.target), how, *_around(d, finding))
            is_first = d.statistic == finding.statistic and d.rank == finding.ranks[0]
            found.insert(0, curve) if is_first else found.append(curve)
    return tuple(found[:_CURVES])


def _around(of: Deviations, finding: MonitorDivergence | None) -> tuple[int, int]:
    """Return the columns around a finding; without one, the last columns."""
    if finding is None:
        return max(0, len(of.step) - _LAST), len(of.step)
    at = int(np.searchsorted(of.step, finding.step))
    return max(0, at - _AROUND), min(len(of.step), at + _AROUND)


def _curve(of: Deviations, row: int, how: Bands, first: int, last: int) -> Curve:
    part = slice(first, last)
    limit = how.limit(of, first, last)[row]
    sides = of.a[row, part], of.b[row, part]
    band = band_around(of, row, part, limit)
    return Curve(
        of.rank, of.kind, of.statistic, of.names[row], of.step[part], *sides, of.value[row, part], limit, *band
    )


def _further(finding: MonitorDivergence | None, measured: list[Deviations], how: Bands, most: int) -> tuple[Curve, ...]:
    """Return the curves of other targets, each in the statistic that is farthest outside its band at the finding."""
    found: dict[tuple[str, str], tuple[float, Deviations, int]] = {}
    for d in measured if most else ():
        for row, share in enumerate(_shares(d, how, finding)):
            key = d.kind, d.names[row]
            if key not in found or share > found[key][0]:
                found[key] = share, d, row
    if finding is not None:
        found.pop((finding.kind, finding.target), None)
    chosen = sorted(found.values(), key=lambda one: -one[0])[:most]
    return tuple(_curve(d, row, how, *_around(d, finding)) for _, d, row in chosen)


def _shares(of: Deviations, how: Bands, finding: MonitorDivergence | None) -> list[float]:
    """Return the deviation of each target relative to its band at the step of a finding; without one, the maximum."""
    first, last = _around(of, finding)
    value, limit = of.value[:, first:last], how.limit(of, first, last)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(value == 0, 0.0, np.abs(value) / limit)
    share = np.where(np.isnan(share), 0.0, share)
    if finding is not None:
        share = share[:, of.step[first:last] == finding.step]
    return [float(each) for each in share.max(axis=1, initial=0.0)]
