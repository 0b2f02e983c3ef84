"""Match the calls of two dumps: find for each call of the target the golden call that is the same step of the program.

A number says which call of its name a call is, and shifts with every call that is inserted, removed or recomputed
before it. So numbers are believed only where the calls around them agree too; else the two sequences are aligned by
what was called, inside which cell, with which shapes and arguments, and only the label says whether the numbers happen
to be equal.

1. Calls of equal name and look at both ends of the dumps are pairs.
2. What lies between is paired by name where both sides have the same names and no alignment explains it better; else
   it is aligned by `look`, then in the gaps by `form`, by `place` and by name.
3. A backward call follows its forward call: their pairs agree wherever both names say so.
4. What has another name is paired by its place in the structure, where only one candidate is there.
5. What is left pairs by name also across others: what runs at another time is still the same call.
6. With `fuzzy`, what is then still left, in order, whatever its shapes.
"""

from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from msprobe.base.names import Name
from msprobe.store.record import Call

from .alignment import Indices, align, longest_chain
from .call_keys import Side, alike, identity, seem_recomputed, word

Key = Callable[[Side, int], Hashable]


class Pairing:
    """Partners of two sides' calls; `chain` holds the pairs in which both rise, and so the gaps between them.

    Parameter gradients take no part in the gaps: their place in a dump says little.
    """

    def __init__(self, target: Side, golden: Side) -> None:
        self.target, self.golden = target, golden
        self.golden_of = [-1] * len(target)
        self.target_of = [-1] * len(golden)
        self._in_order = ([is_in_order(c.name) for c in target.calls], [is_in_order(c.name) for c in golden.calls])
        self.chain: Indices = []

    def join(self, pairs: Indices) -> None:
        """Take pairs that lie in gaps."""
        for i, j in pairs:
            self.join_anywhere(i, j)
        self.chain = sorted(self.chain + pairs) if self.chain else list(pairs)

    def join_anywhere(self, i: int, j: int) -> None:
        """Take a pair that may cross others; `rechain` afterwards if gaps are wanted again."""
        self.golden_of[i], self.target_of[j] = j, i

    def part(self, i: int) -> None:
        """Undo the pair of target call i, if it has one."""
        if (j := self.golden_of[i]) >= 0:
            self.golden_of[i] = self.target_of[j] = -1

    def rechain(self, without: Container[int] = ()) -> None:
        """Choose the chain anew, as long as possible, from all pairs but those of some target calls."""
        in_order = self._in_order[0]
        pairs = [(i, j) for i, j in enumerate(self.golden_of) if j >= 0 and in_order[i] and i not in without]
        self.chain = longest_chain(pairs)

    def is_open(self) -> bool:
        """Whether both sides still have calls without a partner whose order means something."""
        in_target, in_golden = self._in_order
        return any(j < 0 and ok for j, ok in zip(self.golden_of, in_target, strict=True)) and any(
            i < 0 and ok for i, ok in zip(self.target_of, in_golden, strict=True)
        )

    def free(self) -> tuple[list[int], list[int]]:
        """Every call without a partner, of both sides."""
        return [i for i, j in enumerate(self.golden_of) if j < 0], [j for j, i in enumerate(self.target_of) if i < 0]

    def gaps(self) -> Iterator[tuple[list[int], list[int]]]:
        """The calls without a partner between neighbours of the chain, where both sides have some."""
        in_target, in_golden = self._in_order
        x = y = 0
        for a, b in (*self.chain, (len(self.target), len(self.golden))):
            if a > x and b > y:
                left = [i for i in range(x, a) if self.golden_of[i] < 0 and in_target[i]]
                right = [j for j in range(y, b) if self.target_of[j] < 0 and in_golden[j]]
                if left and right:
                    yield left, right
            x, y = a + 1, b + 1

    def fill(self, key: Key, *, only_if_as_many: bool = False) -> Indices:
        """Align what lies in the gaps by a key; returns the new pairs.

        With `only_if_as_many` a key pairs nothing in a gap where one side has it more often than the other: nobody can
        say which is the one too many.
        """
        found: Indices = []
        for left, right in self.gaps():
            left_keys = [key(self.target, i) for i in left]
            right_keys = [key(self.golden, j) for j in right]
            if only_if_as_many:
                left, left_keys, right, right_keys = _as_many(left, left_keys, right, right_keys)
            found += [(left[a], right[b]) for a, b in align(left_keys, right_keys)]
        self.join(found)
        return found

    def fill_by_name(self) -> None:
        """Pair by name the gaps in which both sides have the same names throughout.

        Not where an alignment by `look` needs no more changes: there as many calls were put in as were taken out, which
        the numbers hide. A call without a partner is one change, a pair that does not look alike another, and two
        where the cells around it differ too.
        """
        found: Indices = []
        for left, right in self.gaps():
            if [identity(self.target.calls[i].name) for i in left] != [
                identity(self.golden.calls[j].name) for j in right
            ]:
                continue
            looks = [self.target.look(i) for i in left], [self.golden.look(j) for j in right]
            places = [self.target.place(i) for i in left], [self.golden.place(j) for j in right]
            changed = sum(a != b for both in (looks, places) for a, b in zip(*both, strict=True))
            if changed < 2 * (len(left) - len(align(*looks))):
                found += zip(left, right, strict=True)
        self.join(found)

    def fill_by_alignment(self) -> None:
        """Align what lies in the gaps, from the strictest key to the name alone."""
        self.fill(Side.look)
        self.fill(Side.form)
        self.fill(Side.place, only_if_as_many=True)
        self.fill(Side.named)


def is_in_order(name: str) -> bool:
    """Whether a call's place in the dump says when it ran."""
    return ".parameters_grad" not in name


def _as_many(
    left: list[int], left_keys: list[Hashable], right: list[int], right_keys: list[Hashable]
) -> tuple[list[int], list[Hashable], list[int], list[Hashable]]:
    in_left, in_right = Counter(left_keys), Counter(right_keys)
    stay_left = [a for a, key in enumerate(left_keys) if in_left[key] == in_right[key]]
    stay_right = [b for b, key in enumerate(right_keys) if in_left[key] == in_right[key]]
    return (
        [left[a] for a in stay_left],
        [left_keys[a] for a in stay_left],
        [right[b] for b in stay_right],
        [right_keys[b] for b in stay_right],
    )


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


def follow_forward(pairing: Pairing) -> None:
    """Pair the backward calls of paired forward calls, also where backward ran in another order.

    A backward call may have the number of its forward, or of the forward's recomputation, or one that counts backward
    calls: so a pair that looks alike is given up only for one that looks alike too.
    """
    target, golden = pairing.target, pairing.golden
    is_changed = False
    for i in range(len(target)):
        forward = target.forward_of(i)
        if forward is None or (partner := pairing.golden_of[forward]) < 0:
            continue
        j = golden.backward_of(partner)
        if j is None or pairing.golden_of[i] == j or target.place(i) != golden.place(j):
            continue
        if target.look(i) == golden.look(j) or not (
            _looks_paired(pairing, i) or _looks_paired(pairing, pairing.target_of[j])
        ):
            pairing.part(i)
            pairing.part(pairing.target_of[j])
            pairing.join_anywhere(i, j)
            is_changed = True
    if is_changed:
        _part_what_crosses(pairing)
        pairing.fill_by_alignment()


def _part_what_crosses(pairing: Pairing) -> None:
    """Undo pairs of backward calls that cross others although their forward calls are no pair."""
    doubtful = [
        (i, j)
        for i, j in enumerate(pairing.golden_of)
        if j >= 0 and pairing.target.name(i).direction == "backward" and forwards_differ(pairing, i, j)
    ]
    pairing.rechain(without=dict(doubtful))
    for i, j in doubtful:
        at = bisect(pairing.chain, (i, j))
        if (at and pairing.chain[at - 1][1] > j) or (at < len(pairing.chain) and pairing.chain[at][1] < j):
            pairing.part(i)
    pairing.rechain()


def _looks_paired(pairing: Pairing, i: int) -> bool:
    """Whether target call i (-1: none) has a partner that looks like it."""
    if i < 0 or (j := pairing.golden_of[i]) < 0:
        return False
    return pairing.target.look(i) == pairing.golden.look(j)


def forwards_differ(pairing: Pairing, i: int, j: int) -> bool:
    """Whether both backward calls have forward calls, and those are no pair."""
    left, right = pairing.target.forward_of(i), pairing.golden.forward_of(j)
    return left is not None and right is not None and pairing.golden_of[left] != right


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
