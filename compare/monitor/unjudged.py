"""Counts of what the comparison of two monitors could not judge; with any of them the answer is not clean.

Not judged by design, and not counted: the steps from which a band is learned, and extremes of kinds that have a norm or
a mean. Data that the form of a side does not support, such as activations of grad_probe, are not missing either.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from msprobe.store.monitor.layout import KINDS
from msprobe.store.monitor.table import Output

from .band import LIMITS, Bands, Basis
from .deviations import UPDATE, Deviations, finite_on_neither
from .pairing import Paired

_OF_FORM = {
    "v1": frozenset(KINDS),
    "v2": frozenset(
        kind.name for kind in KINDS.values() if kind.monitor in ("module", "weight_grad", "optimizer", "param", "cc")
    ),
    "grad_probe": frozenset({"grad_reduced"}),
}
"""The kinds of each form."""

_STATISTICS_OF_FORM = {"grad_probe": frozenset({"max", "min", "norm"})}


class Reason(Enum):
    """Reasons why something could not be judged, and what is counted."""

    NOT_FINITE = "numbers that are not finite on both sides"
    NO_BAND = "numbers without a band, for the series is too short, or the clean pair lacks it"
    ROW = "rows that one side alone has"
    STATISTIC = "statistics that one side alone has"
    TARGET = "targets that one side alone has"
    KIND = "kinds that one side alone has"
    MICRO_STEP = "micro steps that one side alone has"
    STEP = "steps that one side alone has"
    RANK = "ranks that one side alone has"
    FILES = "faults of the files"


@dataclass(frozen=True)
class Unjudged:
    """The number of items with one reason."""

    cause: Reason
    count: int


def unjudged(
    sides: Sequence[Output], paired: Paired, measured: Sequence[Deviations], how: Bands
) -> tuple[Unjudged, ...]:
    """Return everything that was not judged; `sides` are A, B and the clean run, if there is one."""
    found: Counter[Reason] = Counter()
    for d in measured:
        if d.kind != UPDATE:
            found[Reason.NOT_FINITE] += int(finite_on_neither(d).sum())
            found[Reason.NO_BAND] += _without_band(d, how)
    found[Reason.ROW] = sum({(d.rank, d.kind): d.lone_rows for d in measured}.values())
    for side, kind in _missing(paired, sides):
        found[kind] += side
    found[Reason.RANK] = sum(map(len, paired.lost_ranks.values()))
    found[Reason.FILES] = sum(side.faults for side in sides)
    return tuple(Unjudged(reason, found[reason]) for reason in Reason if found[reason])


def _missing(paired: Paired, sides: Sequence[Output]) -> Iterator[tuple[int, Reason]]:
    """Return the numbers of kinds, targets, statistics and steps on one side only, of those that the other side could
    have."""
    form_of_other = {"A": sides[1].form, "B": sides[0].form}
    steps: Counter[tuple[str, bool]] = Counter()
    for one in paired.unmatched:
        other = form_of_other[one.side]
        if one.statistics:
            able = _STATISTICS_OF_FORM.get(other)
            yield sum(able is None or name in able for name in one.statistics), Reason.STATISTIC
        elif one.kind in _OF_FORM[other]:
            yield (len(one.names), Reason.TARGET) if one.names else (1, Reason.KIND)
    for each in paired.uncommon:
        steps[each.side, each.is_micro] = max(steps[each.side, each.is_micro], each.count)
    for (_, is_micro), count in steps.items():
        yield count, Reason.MICRO_STEP if is_micro else Reason.STEP


def _without_band(of: Deviations, how: Bands) -> int:
    """Return the number of values that differ and have no band."""
    if how.basis is Basis.EQUAL or (of.rank, of.kind, of.statistic) in how.unsteady:
        return 0
    if how.basis is Basis.LEARNED and len(of.step) > LIMITS.learn:
        return 0
    differing = (of.value != 0) & np.isfinite(of.value)
    return int((differing & np.isnan(how.limit(of))).sum())
