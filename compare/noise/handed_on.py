"""Tensors that one side passes on unchanged, and that calls of the other side change.

Each side is compared with itself, by the statistics of the tensor before and after its calls. So earlier noise of both
sides does not matter: a factor of 1.001 is detected although the two sides differ by a tenth.
"""

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from msprobe.base.schema import NAMES
from msprobe.compare.core.noise import Evidence, KernelPrecision, Sign

from .identities import Law
from .lone_leaves import statistics_of
from .pairs import AlignedGraphs

HANDED_ON = 1e-6
"""A side passes a tensor on unchanged if no statistic of it changes by more, relative to its scale."""


@dataclass(frozen=True, slots=True)
class Change:
    """The change of a tensor by the calls of one side, while the other side passes it on: the change of the `statistic`
    that changes most, relative to the tensor's scale, on the target's side and on the golden's."""

    side: int
    statistic: str
    target: float
    golden: float

    @property
    def size(self) -> float:
        """Return the change on the side that changes the tensor."""
        return (self.target, self.golden)[self.side]

    def as_evidence(self, bound: float) -> Evidence:
        """Return the evidence that decided a pair of records; up to `bound` it would be rounding."""
        return Evidence(
            Sign.LAW,
            KernelPrecision.OPAQUE,
            self.target,
            self.golden,
            bound,
            math.nan,
            math.nan,
            law=Law.SAME.value,
            statistic=self.statistic,
            is_by_statistics=True,
        )


def change_on_one_side(
    aligned: AlignedGraphs, row: int, before: tuple[Collection[int], Collection[int]]
) -> Change | None:
    """Return the change of a tensor by calls of one side before it is a pair of records, while the other side passes it
    on.

    `before` has, for each side, the nearest pairs of records from which the pair was computed. None if neither side
    passes on such a tensor, or both do.
    """
    for pair in sorted(set(before[0]) & set(before[1])):
        changes = [_change(aligned, side, pair, row) for side in (0, 1)]
        if None in changes:
            continue
        (ours, by), (theirs, by_golden) = (one or (0.0, "") for one in changes)
        if (ours <= HANDED_ON) == (theirs <= HANDED_ON):
            continue
        side = 0 if ours > theirs else 1
        return Change(side, by_golden if side else by, ours, theirs)
    return None


def _change(aligned: AlignedGraphs, side: int, pair: int, row: int) -> tuple[float, str] | None:
    """Return the greatest change of a statistic from one pair of tensors to another on one side, and its name; None if
    the numbers of elements differ, or there are no statistics."""
    columns = aligned.graphs[side].columns
    places = aligned.rows[side][pair], aligned.rows[side][row]
    sizes = [math.prod(columns.shape(at) or ()) for at in places]
    given, found = (statistics_of(columns, at) for at in places)
    if sizes[0] != sizes[1] or not all(map(math.isfinite, (*given, *found))):
        return None
    return max(_shares(given, found))


def _shares(given: tuple[float, ...], found: tuple[float, ...]) -> Iterator[tuple[float, str]]:
    greatest = max(map(abs, given[:2]))
    scales = greatest, greatest, greatest, abs(given[3])
    for a, b, scale, name in zip(given, found, scales, NAMES, strict=True):
        yield (abs(a - b) / scale if scale else float(a != b)), name
