"""Find for each call of the target the golden call that is the same step of the program, in stages.

A number says which call of its name a call is, and shifts with every call that is inserted, removed or recomputed
before it. So numbers are believed only where the calls around them agree too; else the two sequences are aligned by
what was called, inside which cell, with which shapes and arguments, and only the label says whether the numbers happen
to be equal.

1. Calls of equal name and look at both ends of the dumps are pairs.
2. What lies between is paired by name where both sides have the same names and no alignment explains it better; else
   it is aligned by `look`, then in the gaps by `form`, by `place` and by name (keys.py).
3. A backward call follows its forward call: their pairs agree wherever both names say so (backward.py).
4. What has another name is paired by its place in the structure, where only one candidate is there (structure.py).
5. What is left pairs by name also across others: what runs at another time is still the same call (moved.py).
6. With `fuzzy`, what is then still left, in order, whatever its shapes.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from msprobe.base.names import Name
from msprobe.store.record import Call

from .align import Indices
from .backward import follow_forward
from .keys import Side, alike, identity, seem_recomputed, word
from .moved import pair_moved
from .pairing import Pairing, is_in_order
from .structure import fill_by_structure, pair_around

MatchedBy = Literal["name", "renumbered", "structure", "mapping", "fuzzy", ""]

MAX_ROUNDS = 32
"""Rounds of learning what was renamed; each needs a deeper cell that was renamed by itself."""


@dataclass(frozen=True, slots=True)
class Match:
    """Target call `target` and golden call `golden`, as positions in their dumps, and what makes them a pair.

    `name`: equal names. `renumbered`: equal but for the number. `structure`: another name at the same place of the
    program. `fuzzy`: neighbours and the operation alone. `mapping`: the user's mapping says so.
    """

    target: int
    golden: int
    by: MatchedBy


NOTHING_GIVEN: Mapping[int, int] = {}


def match_calls(
    target: Sequence[Call], golden: Sequence[Call], *, fuzzy: bool = False, given: Mapping[int, int] = NOTHING_GIVEN
) -> list[Match]:
    """Pairs of calls, rising in `target`; each call of either side is in one pair at most.

    What several candidates could be stays without a partner, except where they cannot be told apart at all. `given`
    are the user's pairs, golden call by target call.
    """
    left, right = list(target), list(golden)
    has_parents = any(c.parent for c in left) and any(c.parent for c in right)
    if not given and _is_same_program(left, right, has_parents):
        return [Match(i, i, "name") for i in range(len(left))]
    names_of: dict[str, Name] = {}
    pairing = Pairing(Side(left, names_of, has_parents), Side(right, names_of, has_parents))
    _take(pairing, given)
    taken = set(given.values())
    pairing.join([(i, j) for i, j in _equal_ends(left, right, has_parents) if i not in given and j not in taken])
    if given:
        pairing.rechain()
    if pairing.is_open():
        _mark_recomputed(pairing.target, pairing.golden)
        pairing.fill_by_name()
        pairing.fill_by_alignment()
        follow_forward(pairing)
        _fill_by_structure(pairing)
        pair_moved(pairing)
        follow_forward(pairing)
    _pair_gradients(pairing)
    guessed = _fill_fuzzily(pairing) if fuzzy else set()
    if guessed:
        before = [*pairing.golden_of]
        _pair_gradients(pairing)
        guessed |= {i for i, j in enumerate(pairing.golden_of) if j >= 0 > before[i]}
    _take(pairing, given)
    return [
        Match(i, j, "mapping" if i in given else "fuzzy" if i in guessed else _label(pairing, i, j))
        for i, j in enumerate(pairing.golden_of)
        if j >= 0
    ]


def _take(pairing: Pairing, given: Mapping[int, int]) -> None:
    """Make the user's pairs, and learn from them what cells are called."""
    for i, j in given.items():
        if pairing.golden_of[i] == j:
            continue
        pairing.part(i)
        if pairing.target_of[j] >= 0:
            pairing.part(pairing.target_of[j])
        pairing.join_anywhere(i, j)
        mine, theirs = pairing.target.name(i), pairing.golden.name(j)
        if mine.kind == theirs.kind == "cell" and mine.stem != theirs.stem:
            pairing.target.learn(mine, theirs)


def _is_same_program(left: Sequence[Call], right: Sequence[Call], with_parents: bool) -> bool:
    """Whether both sides make the same calls in the same order.

    Numbers and texts among the arguments are not asked: where all names, cells and shapes agree, an argument that
    differs is a finding, not another call.
    """
    return len(left) == len(right) and all(
        a.name == b.name and alike(a, b, with_parents, False) for a, b in zip(left, right, strict=True)
    )


def _equal_ends(left: Sequence[Call], right: Sequence[Call], with_parents: bool) -> Indices:
    """Pairs from the beginning and from the end, as far as names and looks agree."""
    i_calls = [i for i, call in enumerate(left) if is_in_order(call.name)]
    j_calls = [j for j, call in enumerate(right) if is_in_order(call.name)]
    shorter = min(len(i_calls), len(j_calls))

    def same(i: int, j: int) -> bool:
        a, b = left[i], right[j]
        return a.name == b.name and a.is_recompute == b.is_recompute and alike(a, b, with_parents, True)

    head = 0
    while head < shorter and same(i_calls[head], j_calls[head]):
        head += 1
    tail = 0
    while tail < shorter - head and same(i_calls[-1 - tail], j_calls[-1 - tail]):
        tail += 1
    ends = list(zip(i_calls[:head], j_calls[:head], strict=True))
    return ends + list(zip(i_calls[len(i_calls) - tail :], j_calls[len(j_calls) - tail :], strict=True))


def _mark_recomputed(target: Side, golden: Side) -> None:
    """A dump without marks of recomputation gets them where the other one has some."""
    marked = any(target.again), any(golden.again)
    target.tells_again = golden.tells_again = all(marked)
    if marked == (True, False):
        golden.again = seem_recomputed(golden.parsed())
    elif marked == (False, True):
        target.again = seem_recomputed(target.parsed())


def _fill_by_structure(pairing: Pairing) -> None:
    """From the outside in, as long as something is found; then across cells, and from the inside out."""
    for _ in range(MAX_ROUNDS):
        if not (fill_by_structure(pairing, with_shapes=True) or fill_by_structure(pairing, with_shapes=False)):
            break
        pairing.fill_by_alignment()
    pairing.fill(Side.bare)
    for _ in range(MAX_ROUNDS):
        if not pair_around(pairing):
            break
        pairing.fill_by_alignment()


def _pair_gradients(pairing: Pairing) -> None:
    """Gradients of parameters have a name of their own: it is all that is asked, renamed cells granted."""
    target, golden = pairing.target, pairing.golden
    left, right = pairing.free()

    def key(side: Side, i: int) -> tuple[str, int]:
        return side.stem(i), max(side.name(i).number, 0)

    where = {key(golden, j): j for j in right if not is_in_order(golden.calls[j].name)}
    for i in left:
        if not is_in_order(target.calls[i].name) and (j := where.pop(key(target, i), None)) is not None:
            pairing.join_anywhere(i, j)


def _fill_fuzzily(pairing: Pairing) -> set[int]:
    """By stem, then by operation, between neighbours that are pairs; the target calls that found a partner so."""
    pairing.rechain()

    def stem(side: Side, i: int) -> Hashable:
        return side.stem(i), side.name(i).direction

    def operation(side: Side, i: int) -> Hashable:
        name = side.name(i)
        return name.kind, word(name), name.direction

    def attribute(side: Side, i: int) -> Hashable:
        name = side.name(i)
        return (name.path, name.direction) if name.kind == "cell" else (side.calls[i].name, id(side))

    found = [*pairing.fill(stem), *pairing.fill(operation), *pairing.fill(attribute)]
    for i, j in found:
        if pairing.target.name(i).kind == "cell":
            pairing.target.learn(pairing.target.name(i), pairing.golden.name(j))
    return {i for i, _ in found}


def _label(pairing: Pairing, i: int, j: int) -> MatchedBy:
    target, golden = pairing.target.calls[i].name, pairing.golden.calls[j].name
    if identity(target) == identity(golden):
        return "name"
    mine, theirs = pairing.target.name(i), pairing.golden.name(j)
    return "renumbered" if (mine.stem, mine.direction) == (theirs.stem, theirs.direction) else "structure"
