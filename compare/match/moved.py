"""Calls that ran at another time on the other side, and so cross pairs that alignment found."""

from bisect import bisect
from collections import defaultdict
from collections.abc import Hashable

from .align import align
from .backward import forwards_differ
from .keys import identity
from .pairing import Pairing, is_in_order


def pair_moved(pairing: Pairing) -> None:
    """Pair what was not found in order: calls of equal name and form, cells by name, and what ran inside those."""
    target, golden = pairing.target, pairing.golden
    left, right = pairing.free()
    if not left or not right:
        return
    where = {identity(golden.calls[j].name): j for j in right if is_in_order(golden.calls[j].name)}
    order = _StemOrder(pairing)
    for i in left:
        j = where.get(identity(target.calls[i].name))
        if j is None or pairing.target_of[j] >= 0 or target.again[i] != golden.again[j]:
            continue
        if target.name(i).kind == "api" and target.form(i) != golden.form(j):
            continue
        if target.name(i).direction == "backward":
            if forwards_differ(pairing, i, j):
                continue
        elif not order.would_keep(i, j):
            continue
        pairing.join_anywhere(i, j)
        order.add(i, j)
    for i_calls, j_calls in _inside_moved_cells(pairing):
        for a, b in align([target.look(i) for i in i_calls], [golden.look(j) for j in j_calls]):
            pairing.join_anywhere(i_calls[a], j_calls[b])


class _StemOrder:
    """The pairs of each stem, in order: numbers count the calls of a stem, so none of them can overtake another."""

    def __init__(self, pairing: Pairing) -> None:
        self._target = pairing.target
        self._pairs: defaultdict[Hashable, list[tuple[int, int]]] = defaultdict(list)
        for i, j in enumerate(pairing.golden_of):
            if j >= 0:
                self._pairs[self._key(i)].append((i, j))

    def would_keep(self, i: int, j: int) -> bool:
        """Whether a further pair fits."""
        pairs = self._pairs[self._key(i)]
        at = bisect(pairs, (i, j))
        return (at == 0 or pairs[at - 1][1] < j) and (at == len(pairs) or pairs[at][1] > j)

    def add(self, i: int, j: int) -> None:
        """Take a pair that fits."""
        pairs = self._pairs[self._key(i)]
        pairs.insert(bisect(pairs, (i, j)), (i, j))

    def _key(self, i: int) -> Hashable:
        return self._target.stem(i), self._target.name(i).direction


def _inside_moved_cells(pairing: Pairing) -> list[tuple[list[int], list[int]]]:
    """Calls without a partner inside cells that were found out of order, by the pair of cell calls around them."""
    target, golden = pairing.target, pairing.golden
    groups: defaultdict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    left, right = pairing.free()
    in_order = {i for i, _ in pairing.chain}
    for i in left:
        at = target.at.get(target.parent_name(i) or "", -1)
        if at >= 0 and at not in in_order and (partner := pairing.golden_of[at]) >= 0:
            groups[partner][0].append(i)
    for j in right:
        at = golden.at.get(golden.parent_name(j) or "", -1)
        if at >= 0 and pairing.target_of[at] >= 0:
            groups[at][1].append(j)
    return [group for group in groups.values() if group[0] and group[1]]
