"""Pairs of calls that go by another name on the other side: a renamed attribute, another API, a wrapper in between."""

from collections import defaultdict
from collections.abc import Hashable

from .align import Indices, longest_chain
from .keys import Side, word
from .pairing import Pairing


def fill_by_structure(pairing: Pairing, *, with_shapes: bool) -> Indices:
    """Pair, in each gap, what has one candidate only: same kind, class or operation, direction, shapes, enclosing pair.

    Without shapes, ranks are asked, and of cells only: a class says more than an operation.
    Several calls of one stem count as one candidate where the other side has as many, all of one stem too. A cell whose
    name the other side also has was not renamed. What is found is learned by the target's keys, so that the next
    alignment finds what is ambiguous here.
    """
    gaps = list(pairing.gaps())
    if not gaps:
        return []
    target, golden = pairing.target, pairing.golden
    cells_of_target, cells_of_golden = _cells(target), _cells(golden)
    above_target = _Above(target, [*pairing.golden_of])
    above_golden = _Above(golden, [j if i >= 0 else -1 for j, i in enumerate(pairing.target_of)])
    found: Indices = []
    for left, right in gaps:
        left_groups = _groups(target, left, above_target, with_shapes, cells_of_golden)
        right_groups = _groups(golden, right, above_golden, with_shapes, cells_of_target)
        candidates: Indices = []
        for key, mine in left_groups.items():
            theirs = right_groups.get(key, [])
            if len(mine) == len(theirs) and _one_stem(target, mine) and _one_stem(golden, theirs):
                candidates += zip(mine, theirs, strict=True)
        found += longest_chain(sorted(candidates))
    pairing.join(found)
    _learn(pairing, found)
    return found


def pair_around(pairing: Pairing) -> Indices:
    """Pair cells of one class whose inside is paired already: what ran in one ran in the other, and nowhere else."""
    target, golden = pairing.target, pairing.golden
    right_around: defaultdict[str, set[str]] = defaultdict(set)
    left_around: defaultdict[str, set[str]] = defaultdict(set)
    for i, j in enumerate(pairing.golden_of):
        mine, theirs = target.parent_name(i), golden.parent_name(j) if j >= 0 else None
        if mine is not None and theirs is not None:
            right_around[mine].add(theirs)
            left_around[theirs].add(mine)
    found: Indices = []
    for mine, candidates in right_around.items():
        theirs = next(iter(candidates))
        i, j = target.at.get(mine, -1), golden.at.get(theirs, -1)
        if len(candidates) > 1 or len(left_around[theirs]) > 1 or i < 0 or j < 0:
            continue
        if pairing.golden_of[i] < 0 and pairing.target_of[j] < 0 and _are_of_one_class(target, i, golden, j):
            pairing.join_anywhere(i, j)
            found.append((i, j))
    if found:
        pairing.rechain()
        _learn(pairing, found)
    return found


def _are_of_one_class(target: Side, i: int, golden: Side, j: int) -> bool:
    mine, theirs = target.name(i), golden.name(j)
    return (mine.kind, word(mine), mine.direction) == (theirs.kind, word(theirs), theirs.direction)


def _learn(pairing: Pairing, found: Indices) -> None:
    target, golden = pairing.target, pairing.golden
    golden_stems = {name.stem for name in golden.parsed()} if found else set()
    for i, j in found:
        mine = target.name(i)
        if target.stem(i) != golden.stem(j) and (mine.kind == "cell" or mine.stem not in golden_stems):
            target.learn(mine, golden.name(j))


def _groups(
    side: Side, indices: list[int], above: "_Above", with_shapes: bool, elsewhere: set[str]
) -> dict[Hashable, list[int]]:
    groups: defaultdict[Hashable, list[int]] = defaultdict(list)
    for i in indices:
        name = side.name(i)
        if (name.kind == "api" and with_shapes) or (name.kind == "cell" and side.stem(i) not in elsewhere):
            again = side.tells_again and side.again[i]
            groups[name.kind, word(name), name.direction, again, above(i), _tensors(side, i, with_shapes)].append(i)
    return groups


def _cells(side: Side) -> set[str]:
    return {side.stem(i) for i, name in enumerate(side.parsed()) if name.kind == "cell"}


def _one_stem(side: Side, indices: list[int]) -> bool:
    first = side.stem(indices[0])
    return all(side.stem(i) == first for i in indices)


def _tensors(side: Side, i: int, with_shapes: bool) -> Hashable:
    """Shapes (or ranks) of what goes in and what comes out; the names of arguments may differ between two APIs."""
    tensors = [r for r in side.calls[i].records if r.kind == "tensor" and r.shape is not None]
    return tuple([(r.part, r.shape if with_shapes else len(r.shape or ())) for r in tensors])


class _Above:
    """The pair around a call: the nearest enclosing cell that has a partner, told by the golden's index."""

    def __init__(self, side: Side, pair_of: list[int]) -> None:
        self._side, self._pair_of = side, pair_of
        self._known: dict[str, Hashable] = {}

    def __call__(self, i: int) -> Hashable:
        passed: list[str] = []
        parent = self._side.parent_name(i)
        above: Hashable = None
        while parent is not None:
            if parent in self._known:
                above = self._known[parent]
                break
            passed.append(parent)
            self._known[parent] = None  # a circle of parents ends here
            at = self._side.at.get(parent)
            if at is None:  # a cell that was not collected: its own name is all there is
                above = self._side.called(parent)
                break
            if self._pair_of[at] >= 0:
                above = self._pair_of[at]
                break
            parent = self._side.parent_name(at)
        self._known.update(dict.fromkeys(passed, above))
        return above
