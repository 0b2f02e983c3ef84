"""Pair what lies between pairs: runs of calls without partner, aligned with the runs beside their neighbours' partners.

A run is aligned with what the other side has behind the partners of all pairs before it, and before the partners of
all pairs behind it. Where there is no such place because a part was moved (k before q on one side), what follows a pair
follows its partner, and what stands before a pair stands before its partner; the two runs of the golden side are then
offered together, and order alone is no evidence.
"""

from collections.abc import Iterator
from itertools import accumulate

from .alike import Alike, Group
from .kinship import STRANGERS
from .reason import Because
from .roles import Roles
from .score import Evidence, Scorer, supported
from .sequence import align
from .side import NONE

MARGIN = 0.9
"""Points by which a pair must beat everything else that its calls could be."""

LEAST = 2.0
"""Points that a pair must have of itself."""

SURPLUS, FEW = 2, 4
"""A run that is so much longer than the other's holds a layer more: which of its parts are meant, order cannot say."""

MOST_CANDIDATES, BEHIND = 5, 2.0
"""Candidates that are named, and the points that one may lie behind the best."""

CANDIDATES_AMONG = 1_000_000
"""Open calls of both sides, multiplied, beyond which nobody is named: what fits so little needs no list."""

ROUNDS = 12
"""Each round stands on the pairs of the one before; most nets need three."""


def fill(
    evidence: Evidence,
    left: list[int],
    right: list[int],
    roles: tuple[Roles, Roles],
    phantoms: dict[int, int] | None = None,
) -> dict[int, Because]:
    """Pair calls of `left` with calls of `right`, both in execution order; gives what made each new pair.

    Pairs that both lists hold already say where the runs are; `phantoms` do so too and are no pairs.
    """
    phantoms = phantoms or {}
    left = with_kin(evidence, left, right, phantoms)
    has_modules = bool(evidence.target.leaves)
    alike = Alike(evidence, left, right, roles)
    made: dict[int, Because] = {}
    for _ in range(ROUNDS):
        doubtful: dict[tuple[Group, Group], None] = {}
        claimed: dict[int, list[tuple[int, float]]] = {}
        for mine, theirs, in_order in _runs(evidence, left, right, phantoms):
            for pair in align(len(mine), len(theirs), Scorer(evidence, mine, theirs)):
                a, b = mine[pair.left], theirs[pair.right]
                enough = pair.margin >= MARGIN and pair.score >= LEAST
                if a in alike.left and b in alike.right:
                    doubtful[alike.left[a], alike.right[b]] = None
                elif enough and (
                    in_order or supported(evidence, a, b, by_flow=has_modules or not has_surplus(mine, theirs))
                ):
                    claimed.setdefault(b, []).append((a, pair.margin))
        new = {calls[0][0]: (b, calls[0][1]) for b, calls in claimed.items() if len(calls) == 1}
        for a, (b, margin) in new.items():
            evidence.join(a, b)
            made[a] = Because("order", margin)
        told = list(alike.told_apart(doubtful))
        for a, b in told:
            evidence.join(a, b)
            made[a] = Because("use")
        if not new and not told:
            break
    return made


def with_kin(evidence: Evidence, left: list[int], right: list[int], phantoms: dict[int, int]) -> list[int]:
    """Without calls that can have no partner: inner steps of layers that nobody calls on the other side."""
    mine, theirs = evidence.features
    representatives = {int(theirs.operation[b]): b for b in right}.values()
    possible: dict[int, bool] = {}
    for a in left:
        operation = int(mine.operation[a])
        if operation not in possible:
            possible[operation] = any(evidence.kinship(a, b) > STRANGERS for b in representatives)
    return [a for a in left if possible[int(mine.operation[a])] or evidence.golden_of[a] != NONE or a in phantoms]


def candidates(evidence: Evidence, left: list[int], right: list[int]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Calls without partner, with what they could be: open calls of the other side that look like them, best first."""
    mine = [a for a in left if evidence.golden_of[a] == NONE]
    theirs = [b for b in right if evidence.target_of[b] == NONE]
    if not mine or not theirs or len(mine) * len(theirs) > CANDIDATES_AMONG:
        return
    scorer = Scorer(evidence, mine, theirs)
    for i, a in enumerate(mine):
        scores = scorer(i, 0, len(theirs))
        least = max(LEAST, float(scores.max()) - BEHIND)
        best = [j for j in (-scores).argsort(kind="stable")[:MOST_CANDIDATES].tolist() if scores[j] >= least]
        if best:
            yield a, tuple(theirs[j] for j in best)


def _runs(
    evidence: Evidence, left: list[int], right: list[int], phantoms: dict[int, int]
) -> Iterator[tuple[list[int], list[int], bool]]:
    """Runs of the left without partner, with the calls of the right that are offered, and whether order speaks."""
    place = {b: j for j, b in enumerate(right)}
    back = {b: a for a, b in phantoms.items()}
    stands_for = [evidence.golden_of[a] if evidence.golden_of[a] != NONE else phantoms.get(a, NONE) for a in left]
    partner = [place.get(b, NONE) for b in stands_for]
    is_open = [evidence.target_of[b] == NONE and b not in back for b in right]
    has_modules = bool(evidence.target.leaves)
    last_before = list(accumulate(partner, max, initial=NONE))
    behind = [len(right) if j == NONE else j for j in partner]
    first_behind = list(accumulate(reversed(behind), min, initial=len(right)))[::-1]
    start = 0
    while start < len(left):
        end = start
        while end < len(left) and stands_for[end] == NONE:
            end += 1
        if end == start:
            start += 1
            continue
        mine = left[start:end]
        low, high = last_before[start], first_behind[end]
        before = partner[start - 1] if start else NONE
        after = behind[end] if end < len(left) else len(right)
        is_module = evidence.target.names[mine[0]].kind == "cell"
        in_order = low < high and (is_module or (before, after) == (low, high))
        if low < high:
            theirs = [right[j] for j in range(low + 1, high) if is_open[j]]
            in_order = in_order and (has_modules or not has_surplus(mine, theirs))
        else:
            following = _following(is_open, before) if start else []
            leading = _leading(is_open, after) if end < len(left) else []
            theirs = [right[j] for j in sorted({*following, *leading})]
        if theirs:
            yield mine, theirs, in_order
        start = end


def has_surplus(mine: list[int], theirs: list[int]) -> bool:
    """Whether one of two runs is so much longer that it holds a layer more."""
    return max(len(mine), len(theirs)) > SURPLUS * min(len(mine), len(theirs)) + FEW


def _following(is_open: list[bool], place: int) -> list[int]:
    end = place + 1
    while end < len(is_open) and is_open[end]:
        end += 1
    return list(range(place + 1, end))


def _leading(is_open: list[bool], place: int) -> list[int]:
    start = place
    while start > 0 and is_open[start - 1]:
        start -= 1
    return list(range(start, place))
