"""Pair the calls between pairs: align sequences of calls by scores, and distinguish calls that look alike.

`align` is a global alignment like that of Needleman and Wunsch (1970): it maximizes the total of the scores of all
pairs, skipping costs nothing, both positions increase. Tables of the best totals before and after every position give,
for each pair of the best alignment, the best total without it; the difference is its margin. A pair without margin is
one of several that explain the sequences equally well. The cost is O(n * w) with w the width of a band around the
diagonal: the whole table for short sequences, `BAND` beyond the difference of the lengths for long ones.

`fill` aligns a sequence with the calls of the other side that come after the counterparts of all earlier pairs, and
before those of all later pairs. If there are none because a part was moved (k before q on one side), the calls after a
pair follow its counterpart, and the calls before a pair precede its counterpart; both sequences of the golden side are
then offered together, and order alone is not evidence.

Order is not evidence either among calls of one side that look alike. If query, key and value begin with the same
weights, their layers return the same values, and so do all reshapes and transposes after them. A port may call them in
another order, so they are distinguished by the origin of their tensors, by the calls that use their results, or by the
gradients that come back; otherwise they have no counterpart.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, groupby, takewhile

import numpy as np
from numpy.typing import NDArray

from msprobe.base.digest import have_same_kind
from msprobe.compare.core.tensor import Tensor

from .consumers import Roles
from .dump_view import NONE, Side
from .features import is_close
from .score import WITHIN, Basis, Evidence, Scorer

BAND = 300
WHOLE = 4_000_000
"""Number of cells up to which the whole table is made."""

MAX_CELLS = 16_000_000
"""Maximum number of cells of a band, 128 MB per table."""

AMONG = 100_000
"""Product of the numbers of calls of two groups above which they have no counterpart: none of that many is
distinctive."""

LEAST_LIKENESS = 0.5
"""Minimum common part of two calls' roles."""

MARGIN = 0.9
"""Points by which a pair must exceed every alternative of its calls."""

MIN_SCORE = 2.0
"""Minimum points of a pair by itself."""

SURPLUS, FEW = 2, 4
"""A sequence that is longer than the other's by this factor contains an additional layer: order cannot decide which
parts correspond."""

MAX_CANDIDATES, LAG = 5, 2.0
"""Maximum number of listed candidates, and their maximum distance from the best, in points."""

CANDIDATES_AMONG = 1_000_000
"""Product of the numbers of open calls of both sides above which no candidates are listed."""

ROUNDS = 12
"""Maximum number of rounds, each of which uses the pairs of the previous one; most nets need three."""

Group = tuple[int, ...]
Floats = NDArray[np.float64]
Row = Callable[[int, int, int], Floats]


@dataclass(frozen=True, slots=True)
class Aligned:
    """Item `left` corresponds to item `right`; `margin` is the loss of the total without this pair."""

    left: int
    right: int
    score: float
    margin: float


def align(n: int, m: int, row: Row) -> list[Aligned]:
    """Return the pairs of n items with m items that every best alignment has, in order.

    `row(i, low, high)` scores item i against items low to high - 1. A score of at most zero is never a pair.
    """
    if not n or not m:
        return []
    width, lows = _band(n, m)
    scores = np.empty((n, width))
    for i, low in enumerate(lows):
        scores[i] = row(i, low, low + width)
    scores[~(scores > 0)] = -np.inf
    if not np.isfinite(scores).any():
        return []
    # After a position is before it, seen from the other end.
    after = _before(scores[::-1, ::-1], [m - width - low for low in reversed(lows)], m)[::-1, ::-1]
    return _certain(scores, _before(scores, lows, m), after, lows)


def _band(n: int, m: int) -> tuple[int, list[int]]:
    if n * m <= WHOLE:
        return m, [0] * n
    width = min(m, abs(n - m) + 2 * BAND, max(2 * BAND, MAX_CELLS // n))
    return width, [min(max(0, i * m // n - width // 2), m - width) for i in range(n)]


def _before(scores: Floats, lows: list[int], m: int) -> Floats:
    """Return before[i, k]: the best total of the items before i with those before lows[i] + k."""
    n, width = scores.shape
    table = np.empty((n, width + 1))
    best = np.zeros(m + 1)  # best[j]: of the items so far with those before j; beyond the band it may be outdated
    for i, low in enumerate(lows):
        window = best[low : low + width + 1]
        table[i] = np.maximum.accumulate(window)
        window[:] = table[i]
        np.maximum(window[1:], table[i, :-1] + scores[i], out=window[1:])
        np.maximum.accumulate(window, out=window)
    return table


def _certain(scores: Floats, before: Floats, after: Floats, lows: list[int]) -> list[Aligned]:
    n, width = scores.shape
    best = float((before[-1, :-1] + scores[-1]).max())
    best = max(best, float(before[-1, -1]))
    found = []
    for i in range(n):
        with_pair = before[i, :-1] + scores[i] + after[i, 1:]
        k = int(with_pair.argmax())
        otherwise = float((before[i] + after[i]).max())
        if width > 1:
            otherwise = max(otherwise, float(np.delete(with_pair, k).max()))
        margin = float(with_pair[k]) - otherwise
        if margin > 1e-9 * max(1.0, best):
            found.append(Aligned(i, lows[i] + k, float(scores[i, k]), margin))
    return found


class Alike:
    """The groups of calls of two sequences that look alike: `left[a]` and `right[b]` are the others like it and
    itself."""

    def __init__(self, evidence: Evidence, left: list[int], right: list[int], roles: tuple[Roles, Roles]) -> None:
        self._evidence, self._roles = evidence, roles
        self.left, self.right = _groups(evidence, left, 0), _groups(evidence, right, 1)

    def distinguished(self, pairs: Iterable[tuple[Group, Group]]) -> Iterator[tuple[int, int]]:
        """Yield the pairs of two groups that the first decisive one of three criteria makes."""
        for mine, theirs in pairs:
            if len(mine) * len(theirs) > AMONG:
                continue
            taken: set[int] = set()
            for likeness_of in (self._by_inputs, self._by_use, self._by_gradients):
                points = np.array(
                    [[likeness_of(a, b) if self._evidence.correspond(a, b) else 0.0 for b in theirs] for a in mine]
                )
                for i, j, most, rival in outstanding(points):
                    a, b = mine[i], theirs[j]
                    if most < LEAST_LIKENESS or most <= rival or taken & {a, ~b}:
                        continue
                    taken |= {a, ~b}
                    if self._evidence.golden_of[a] == self._evidence.target_of[b] == NONE:
                        yield a, b

    def _by_inputs(self, a: int, b: int) -> float:
        mine, theirs = self._evidence.labels(a, True), self._evidence.labels(b, False)
        common = [bool(set(x) & set(y)) for x, y in zip(mine, theirs, strict=False) if x and y]
        return sum(common) / len(common) if common else 0.0

    def _by_use(self, a: int, b: int) -> float:
        mine, theirs = self._roles[0].of(a), self._roles[1].of(b)
        return len(mine & theirs) / len(mine | theirs) if mine and theirs else 0.0

    def _by_gradients(self, a: int, b: int) -> float:
        mine, theirs = _gradient(self._evidence.target, a), _gradient(self._evidence.golden, b)
        if mine is None or theirs is None:
            return 0.0
        if (mine.digest or theirs.digest) and have_same_kind(mine.digest, theirs.digest):
            return float(mine.digest == theirs.digest)
        return float(is_close(mine.statistics, theirs.statistics, WITHIN))


def outstanding(points: Floats) -> Iterator[tuple[int, int, float, float]]:
    """Yield each row with its best column, the points of both, and the most points that either has otherwise."""
    for i, row in enumerate(points):
        j = int(row.argmax())
        rival = max(np.delete(row, j).max(initial=0.0), np.delete(points[:, j], i).max(initial=0.0))
        yield i, j, float(row[j]), float(rival)


def _gradient(side: Side, at: int) -> Tensor | None:
    """Return the gradient of a call's result, if it was recorded and is distinctive."""
    backward = side.dump.counterpart(at, "backward")
    fixed = side.tensors(backward).inputs[:1] if backward != NONE else ()
    return fixed[0] if fixed and fixed[0].is_distinctive else None


def _groups(evidence: Evidence, calls: list[int], which: int) -> dict[int, Group]:
    features = evidence.features[which]
    found: defaultdict[object, list[int]] = defaultdict(list)
    for at in calls:
        if features.informative[at]:
            numbers = (features.operation, features.out_shape, features.in_shapes, features.digests)
            values = (features.out[at].tobytes(), features.ins[at].tobytes())
            look = (*(column[at].tobytes() for column in numbers), *values)
            found[look].append(at)
    return {at: tuple(group) for group in found.values() if len(group) > 1 for at in group}


def fill(
    evidence: Evidence,
    left: list[int],
    right: list[int],
    roles: tuple[Roles, Roles],
    phantoms: dict[int, int] | None = None,
) -> dict[int, Basis]:
    """Pair calls of `left` with calls of `right`, both in execution order; return the basis of each new pair.

    Existing pairs in both lists show which sequences correspond; so do `phantoms`, which are not pairs.
    """
    phantoms = phantoms or {}
    left = with_possible_counterparts(evidence, left, right, phantoms)
    has_modules = bool(evidence.target.leaves)
    alike = Alike(evidence, left, right, roles)
    made: dict[int, Basis] = {}
    for _ in range(ROUNDS):
        doubtful: dict[tuple[Group, Group], None] = {}
        claimed: dict[int, list[tuple[int, float]]] = {}
        for mine, theirs, in_order in _runs(evidence, left, right, phantoms):
            for pair in align(len(mine), len(theirs), Scorer(evidence, mine, theirs)):
                a, b = mine[pair.left], theirs[pair.right]
                enough = pair.margin >= MARGIN and pair.score >= MIN_SCORE
                if a in alike.left and b in alike.right:
                    doubtful[alike.left[a], alike.right[b]] = None
                elif enough and (
                    in_order or evidence.is_supported(a, b, by_flow=has_modules or not has_surplus(mine, theirs))
                ):
                    claimed.setdefault(b, []).append((a, pair.margin))
        new = {calls[0][0]: (b, calls[0][1]) for b, calls in claimed.items() if len(calls) == 1}
        for a, (b, margin) in new.items():
            evidence.join(a, b)
            made[a] = Basis("order", margin)
        apart = list(alike.distinguished(doubtful))
        for a, b in apart:
            evidence.join(a, b)
            made[a] = Basis("use")
        if not new and not apart:
            break
    return made


def with_possible_counterparts(
    evidence: Evidence, left: list[int], right: list[int], phantoms: dict[int, int]
) -> list[int]:
    """Return the calls without those that cannot have a counterpart: inner steps of layers that the other side does not
    call."""
    mine, theirs = evidence.features
    representatives = {int(theirs.operation[b]): b for b in right}.values()
    by_operation = {int(mine.operation[a]): a for a in left}
    possible = {o for o, a in by_operation.items() if any(evidence.correspond(a, b) for b in representatives)}
    return [a for a in left if int(mine.operation[a]) in possible or evidence.golden_of[a] != NONE or a in phantoms]


def candidates(evidence: Evidence, left: list[int], right: list[int]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield calls without a counterpart, with their candidates: open calls of the other side that look alike, best
    first."""
    mine, theirs = evidence.open(left, right)
    if not mine or not theirs or len(mine) * len(theirs) > CANDIDATES_AMONG:
        return
    scorer = Scorer(evidence, mine, theirs)
    for i, a in enumerate(mine):
        scores = scorer(i, 0, len(theirs))
        least = max(MIN_SCORE, float(scores.max()) - LAG)
        best = [j for j in (-scores).argsort(kind="stable")[:MAX_CANDIDATES].tolist() if scores[j] >= least]
        if best:
            yield a, tuple(theirs[j] for j in best)


def _runs(
    evidence: Evidence, left: list[int], right: list[int], phantoms: dict[int, int]
) -> Iterator[tuple[list[int], list[int], bool]]:
    """Yield sequences of the left without counterparts, with the calls of the right that are offered, and whether order
    is evidence."""
    place = {b: j for j, b in enumerate(right)}
    standing_for = set(phantoms.values())
    counterparts = [evidence.golden_of[a] if evidence.golden_of[a] != NONE else phantoms.get(a, NONE) for a in left]
    partner = [place.get(b, NONE) for b in counterparts]
    is_open = [evidence.target_of[b] == NONE and b not in standing_for for b in right]
    has_modules = bool(evidence.target.leaves)
    last_before = list(accumulate(partner, max, initial=NONE))
    rest = [len(right) if j == NONE else j for j in partner]
    first_behind = list(accumulate(reversed(rest), min, initial=len(right)))[::-1]
    for is_run, group in groupby(range(len(left)), lambda i: counterparts[i] == NONE):
        if not is_run:
            continue
        places = list(group)
        start, end = places[0], places[-1] + 1
        mine = left[start:end]
        low, high = last_before[start], first_behind[end]
        before = partner[start - 1] if start else NONE
        after = rest[end] if end < len(left) else len(right)
        is_module = evidence.target.names[mine[0]].kind == "cell"
        in_order = low < high and (is_module or (before, after) == (low, high))
        if low < high:
            theirs = [right[j] for j in range(low + 1, high) if is_open[j]]
            in_order = in_order and (has_modules or not has_surplus(mine, theirs))
        else:
            following = takewhile(is_open.__getitem__, range(before + 1, len(right))) if start else ()
            leading = takewhile(is_open.__getitem__, range(after - 1, -1, -1)) if end < len(left) else ()
            theirs = [right[j] for j in sorted({*following, *leading})]
        if theirs:
            yield mine, theirs, in_order


def has_surplus(mine: list[int], theirs: list[int]) -> bool:
    """Return whether one of two sequences is so much longer that it contains an additional layer."""
    return max(len(mine), len(theirs)) > SURPLUS * min(len(mine), len(theirs)) + FEW
