"""Match the calls of two dumps: find for each call of the target the golden call that is the same step of the program.

The number of a call counts the calls with its name, and changes with every call that is inserted, removed or recomputed
before it. So numbers are used only if the calls around them agree too; otherwise the two sequences are aligned by
function or class, enclosing cell, shapes and arguments, and only the label states whether the numbers are equal.

1. Kernels of a graph are paired by their inputs (`nodes.py`), in any order.
2. Calls with equal name and look at both ends of the dumps are pairs.
3. Calls in between are paired by name if both sides have the same names and no alignment explains them better;
   otherwise they are aligned by `look`, then in the gaps by `form`, by `place` and by name.
4. A backward call follows its forward call: their pairs agree wherever both names allow it.
5. Calls with another name are paired by their place in the structure, if there is only one candidate.
6. The remaining calls are paired by name also across others: a call that runs at another time is still the same call.
7. Pairs of calls that have only their place in common are undone: both take tensors of calls without a counterpart, of
   other shapes; or they are backward calls of two forward calls without a counterpart.
8. With `fuzzy`, the remaining calls are paired in order, with any shapes.
"""

from bisect import bisect, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Container, Hashable, Iterator, Mapping

from msprobe.base.names import parse
from msprobe.store.record import Dump

from .alignment import Indices, align, common_ends, longest_chain
from .call_keys import Side, identity, seem_recomputed, word
from .nodes import pair_nodes
from .pairs import Match, MatchedBy

Key = Callable[[Side, int], Hashable]

MAX_ROUNDS = 32
"""Rounds of learning renamed cells and functions; each needs a deeper cell that was renamed separately."""

NO_PAIRS: Mapping[int, int] = {}


def match_calls(
    target: Dump, golden: Dump, *, fuzzy: bool = False, by_user: Mapping[int, int] = NO_PAIRS
) -> list[Match]:
    """Return pairs of calls, increasing in `target`; each call of either side is in at most one pair.

    A call with several candidates remains unmatched, unless these are indistinguishable. `by_user` are the user's
    pairs, golden call by target call.
    """
    has_parents = all(any(map(dump.parent, range(len(dump.names)))) for dump in (target, golden))
    pairing = Pairing(Side(target, has_parents), Side(golden, has_parents))
    _take(pairing, by_user)
    for i, j in pair_nodes(pairing.target, pairing.golden, by_user):
        pairing.join_anywhere(i, j)
    is_begun = any(j >= 0 for j in pairing.golden_of)
    pairing.join([(i, j) for i, j in _equal_ends(pairing) if pairing.golden_of[i] < 0 and pairing.target_of[j] < 0])
    if is_begun:
        pairing.rechain()
    if pairing.is_open():
        _mark_recomputed(pairing.target, pairing.golden)
        pairing.fill_by_name()
        pairing.fill_by_alignment()
        follow_forward(pairing)
        # From the outside in, as long as pairs are found; then across cells, and from the inside out.
        pairing.repeat(
            lambda: fill_by_structure(pairing, with_shapes=True) or fill_by_structure(pairing, with_shapes=False)
        )
        pairing.fill(Side.bare)
        pairing.repeat(lambda: pair_around(pairing))
        pair_moved(pairing)
        follow_forward(pairing)
        undo_unrelated(pairing, by_user)
    _pair_gradients(pairing)
    guessed: set[int] = set()
    before = [*pairing.golden_of]
    if fuzzy and _fill_fuzzily(pairing):
        _pair_gradients(pairing)
        guessed = {i for i, j in enumerate(pairing.golden_of) if j >= 0 > before[i]}
    _take(pairing, by_user)
    return [
        Match(i, j, "mapping" if i in by_user else "fuzzy" if i in guessed else _label(pairing, i, j))
        for i, j in enumerate(pairing.golden_of)
        if j >= 0
    ]


class Pairing:
    """Pairs of two sides' calls; `chain` has those in which both indices increase, and thereby the gaps between them.

    Parameter gradients are not in the gaps: their position in a dump is weak evidence.
    """

    def __init__(self, target: Side, golden: Side) -> None:
        self.target, self.golden = target, golden
        self.golden_of = [-1] * len(target)
        self.target_of = [-1] * len(golden)
        self.chain: Indices = []

    def join(self, pairs: Indices) -> None:
        """Add pairs that are in gaps."""
        for i, j in pairs:
            self.join_anywhere(i, j)
        self.chain = sorted(self.chain + pairs) if self.chain else list(pairs)

    def join_anywhere(self, i: int, j: int) -> None:
        """Add a pair that may cross others; call `rechain` afterwards if gaps are needed again."""
        self.golden_of[i], self.target_of[j] = j, i

    def undo(self, i: int) -> None:
        """Undo the pair of target call i, if it has one; -1 is not a call."""
        if i >= 0 and (j := self.golden_of[i]) >= 0:
            self.golden_of[i] = self.target_of[j] = -1

    def rechain(self, without: Container[int] = ()) -> None:
        """Choose the chain again, as long as possible, from all pairs except those of some target calls."""
        in_order = self.target.in_order
        pairs = [(i, j) for i, j in enumerate(self.golden_of) if j >= 0 and in_order[i] and i not in without]
        self.chain = longest_chain(pairs)

    def is_open(self) -> bool:
        """Return whether both sides still have unmatched calls whose order is evidence."""
        sides = (self.golden_of, self.target.in_order), (self.target_of, self.golden.in_order)
        return all(any(partner < 0 and ok for partner, ok in zip(*side, strict=True)) for side in sides)

    def free(self) -> tuple[list[int], list[int]]:
        """Return the unmatched calls of both sides."""
        return [i for i, j in enumerate(self.golden_of) if j < 0], [j for j, i in enumerate(self.target_of) if i < 0]

    def gaps(self) -> Iterator[tuple[list[int], list[int]]]:
        """Yield the unmatched calls between neighbors of the chain, if both sides have some."""
        in_target, in_golden = self.target.in_order, self.golden.in_order
        x = y = 0
        for a, b in (*self.chain, (len(self.target), len(self.golden))):
            if a > x and b > y:
                left = [i for i in range(x, a) if self.golden_of[i] < 0 and in_target[i]]
                right = [j for j in range(y, b) if self.target_of[j] < 0 and in_golden[j]]
                if left and right:
                    yield left, right
            x, y = a + 1, b + 1

    def aligned(self, left: list[int], right: list[int], key: Key, *, only_if_as_many: bool = False) -> Indices:
        """Return calls of both sides aligned by a key."""
        keys = [key(self.target, i) for i in left], [key(self.golden, j) for j in right]
        if only_if_as_many:
            counts = Counter(keys[0]), Counter(keys[1])
            stay = [[n for n, one in enumerate(side) if counts[0][one] == counts[1][one]] for side in keys]
            left, right = [left[n] for n in stay[0]], [right[n] for n in stay[1]]
            keys = [keys[0][n] for n in stay[0]], [keys[1][n] for n in stay[1]]
        return [(left[a], right[b]) for a, b in align(*keys)]

    def fill(self, key: Key, *, only_if_as_many: bool = False) -> Indices:
        """Align the calls in the gaps by a key; return the new pairs.

        With `only_if_as_many`, a key pairs nothing in a gap in which one side has it more often than the other: it is
        unknown which one is extra.
        """
        gaps = self.gaps()
        found = [pair for gap in gaps for pair in self.aligned(*gap, key, only_if_as_many=only_if_as_many)]
        self.join(found)
        return found

    def fill_by_name(self) -> None:
        """Pair by name the gaps in which both sides have the same names throughout.

        Gaps are excluded if an alignment by `look` needs no more changes: there, equal numbers of calls were inserted
        and removed, which the numbers hide. An unmatched call is one change, a pair that does not look alike is one,
        and two if the cells around it also differ.
        """
        target, golden = self.target, self.golden
        found: Indices = []
        for left, right in self.gaps():
            names = [identity(target.names[i].text) for i in left], [identity(golden.names[j].text) for j in right]
            if names[0] != names[1]:
                continue
            looks = [target.signature(i) for i in left], [golden.signature(j) for j in right]
            places = [target.place(i) for i in left], [golden.place(j) for j in right]
            changed = sum(a != b for both in (looks, places) for a, b in zip(*both, strict=True))
            if changed < 2 * (len(left) - len(align(*looks))):
                found += zip(left, right, strict=True)
        self.join(found)

    def fill_by_alignment(self) -> None:
        """Align the calls in the gaps, from the strictest key to the name alone."""
        self.fill(Side.signature)
        self.fill(Side.form)
        self.fill(Side.place, only_if_as_many=True)
        self.fill(Side.named)

    def repeat(self, step: Callable[[], Indices]) -> None:
        """Execute a step, and align again, as long as the step finds pairs."""
        for _ in range(MAX_ROUNDS):
            if not step():
                break
            self.fill_by_alignment()

    def looks_paired(self, i: int) -> bool:
        """Return whether target call i (-1: none) has a counterpart that looks alike."""
        return i >= 0 <= self.golden_of[i] and self.target.signature(i) == self.golden.signature(self.golden_of[i])

    def forwards_differ(self, i: int, j: int) -> bool:
        """Return whether both backward calls have forward calls, and those are not a pair."""
        left, right = self.target.dump.counterpart(i, "forward"), self.golden.dump.counterpart(j, "forward")
        return left >= 0 <= right and self.golden_of[left] != right


def pair_moved(pairing: Pairing) -> None:
    """Pair calls that were not found in order: calls of equal name and form, cells by name, and the calls inside
    those."""
    target, golden = pairing.target, pairing.golden
    left, right = pairing.free()
    if not left or not right:
        return
    where = {identity(golden.names[j].text): j for j in right if golden.in_order[j]}
    # Numbers count the calls of a stem, so their order cannot change.
    of_stem: defaultdict[Hashable, Indices] = defaultdict(list)
    for pair in enumerate(pairing.golden_of):
        if pair[1] >= 0:
            of_stem[_stem(target, pair[0])].append(pair)
    for i in left:
        j = where.get(identity(target.names[i].text))
        if j is None or pairing.target_of[j] >= 0 or target.again[i] != golden.again[j]:
            continue
        if target.names[i].kind == "api" and target.form(i) != golden.form(j):
            continue
        pairs, is_backward = of_stem[_stem(target, i)], target.names[i].direction == "backward"
        if not (pairing.forwards_differ(i, j) if is_backward else _crosses(pairs, i, j)):
            pairing.join_anywhere(i, j)
            insort(pairs, (i, j))
    for inside in _inside_moved_cells(pairing):
        for i, j in pairing.aligned(*inside, Side.signature):
            pairing.join_anywhere(i, j)


def _stem(side: Side, i: int) -> Hashable:
    return side.stem(i), side.names[i].direction


def _crosses(pairs: Indices, i: int, j: int) -> bool:
    """Return whether a pair is in another order than its neighbors in a list of pairs."""
    at = bisect(pairs, (i, j))
    return (at > 0 and pairs[at - 1][1] >= j) or (at < len(pairs) and pairs[at][1] <= j)


def _inside_moved_cells(pairing: Pairing) -> list[tuple[list[int], list[int]]]:
    """Return the unmatched calls inside cells that were found out of order, by the pair of cell calls around them."""
    target, golden = pairing.target, pairing.golden
    groups: defaultdict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    left, right = pairing.free()
    in_order = {i for i, _ in pairing.chain}
    for i in left:
        at = target.dump.place.get(target.parent_name(i) or "", -1)
        if at >= 0 and at not in in_order and (partner := pairing.golden_of[at]) >= 0:
            groups[partner][0].append(i)
    for j in right:
        at = golden.dump.place.get(golden.parent_name(j) or "", -1)
        if at >= 0 and pairing.target_of[at] >= 0:
            groups[at][1].append(j)
    return [group for group in groups.values() if group[0] and group[1]]


def fill_by_structure(pairing: Pairing, *, with_shapes: bool) -> Indices:
    """Pair, in each gap, calls with a single candidate: same kind, class or operation, direction, shapes, enclosing
    pair.

    Without shapes, ranks must be equal, and only cells are paired: a class is stronger evidence than an operation.
    Cells with other names whose parameters have other shapes are other layers, such as one that projects q, k and v and
    one that projects q. Several calls of one stem count as one candidate if the other side has the same number, all of
    one stem too. A cell whose name the other side also has was not renamed. The target's keys learn the pairs, so that
    the next alignment finds calls that are ambiguous here.
    """
    gaps = list(pairing.gaps())
    if not gaps:
        return []
    sides = pairing.target, pairing.golden
    cells = [{side.stem(i) for i, name in enumerate(side.names) if name.kind == "cell"} for side in sides]
    above = (
        _Above(pairing.target, [*pairing.golden_of]),
        _Above(pairing.golden, [j if i >= 0 else -1 for j, i in enumerate(pairing.target_of)]),
    )

    def groups(which: int, calls: list[int]) -> dict[Hashable, list[int]]:
        side, found = sides[which], defaultdict[Hashable, list[int]](list)
        for i in calls:
            name = side.names[i]
            if (name.kind == "api" and with_shapes) or (name.kind == "cell" and side.stem(i) not in cells[1 - which]):
                # The names of arguments may differ between two APIs.
                shapes = tuple([(part, shape if with_shapes else len(shape)) for part, shape in side.shapes(i)])
                again = side.marks_recomputed and side.again[i]
                weights = side.parameters(i)
                found[name.kind, word(name), name.direction, again, above[which](i), shapes, weights].append(i)
        return found

    def is_one_stem(which: int, calls: list[int]) -> bool:
        return len({sides[which].stem(i) for i in calls}) == 1

    found: Indices = []
    for left, right in gaps:
        candidates: Indices = []
        theirs = groups(1, right)
        for key, mine in groups(0, left).items():
            others = theirs.get(key, [])
            if len(mine) == len(others) and is_one_stem(0, mine) and is_one_stem(1, others):
                candidates += zip(mine, others, strict=True)
        found += longest_chain(sorted(candidates))
    pairing.join(found)
    _learn(pairing, found)
    return found


class _Above:
    """The pair around a call: the nearest enclosing cell that has a counterpart, by the golden's index."""

    def __init__(self, side: Side, pair_of: list[int]) -> None:
        self._side, self._pair_of = side, pair_of
        self._known: dict[str, Hashable] = {}

    def __call__(self, i: int) -> Hashable:
        passed: list[str] = []
        parent = self._side.parent_name(i)
        above: Hashable = None
        while parent is not None and parent not in self._known:
            passed.append(parent)
            self._known[parent] = None  # a cycle of parents ends here
            at = self._side.dump.place.get(parent)
            if at is None:  # a cell that was not collected: only its own name is known
                above = self._side.stem_of(parse(parent))
                break
            if self._pair_of[at] >= 0:
                above = self._pair_of[at]
                break
            parent = self._side.parent_name(at)
        else:
            above = None if parent is None else self._known[parent]
        self._known.update(dict.fromkeys(passed, above))
        return above


def pair_around(pairing: Pairing) -> Indices:
    """Pair cells of one class whose inner calls are already paired, with each other only."""
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
        i, j = target.dump.place.get(mine, -1), golden.dump.place.get(theirs, -1)
        if len(candidates) > 1 or len(left_around[theirs]) > 1 or i < 0 or j < 0:
            continue
        is_one_layer = _operation(target, i) == _operation(golden, j) and target.parameters(i) == golden.parameters(j)
        if pairing.golden_of[i] < 0 and pairing.target_of[j] < 0 and is_one_layer:
            pairing.join_anywhere(i, j)
            found.append((i, j))
    if found:
        pairing.rechain()
        _learn(pairing, found)
    return found


def _operation(side: Side, i: int) -> Hashable:
    """Return kind, class or operation, and direction."""
    name = side.names[i]
    return name.kind, word(name), name.direction


def _learn(pairing: Pairing, found: Indices) -> None:
    target, golden = pairing.target, pairing.golden
    golden_stems = {name.stem for name in golden.names} if found else set()
    for i, j in found:
        mine = target.names[i]
        if target.stem(i) != golden.stem(j) and (mine.kind == "cell" or mine.stem not in golden_stems):
            target.learn(mine, golden.names[j])


def follow_forward(pairing: Pairing) -> None:
    """Pair the backward calls of paired forward calls, also if backward ran in another order.

    A backward call may have the number of its forward, or of the forward's recomputation, or a separate number: so a
    pair that looks alike is replaced only by one that also looks alike.
    """
    target, golden = pairing.target, pairing.golden
    is_changed = False
    for i in range(len(target)):
        forward = target.dump.counterpart(i, "forward")
        if forward < 0 or (partner := pairing.golden_of[forward]) < 0:
            continue
        j = golden.dump.counterpart(partner, "backward")
        if j < 0 or pairing.golden_of[i] == j or target.place(i) != golden.place(j):
            continue
        other = pairing.target_of[j]
        if target.signature(i) == golden.signature(j) or not (pairing.looks_paired(i) or pairing.looks_paired(other)):
            pairing.undo(i)
            pairing.undo(other)
            pairing.join_anywhere(i, j)
            is_changed = True
    if is_changed:
        _undo_crossing(pairing)
        pairing.fill_by_alignment()


def undo_unrelated(pairing: Pairing, by_user: Container[int]) -> None:
    """Undo pairs of calls that have only their place in common: each takes tensors that only its side computes.

    A forward call of a function takes tensors of other shapes, which calls without a counterpart produced on at least
    one side, and whose producers are not paired on either side. A backward call has a forward call without a
    counterpart. A tensor that is computed from both is compared, and is better evidence.
    """
    target, golden = pairing.target, pairing.golden
    for i, j in enumerate(pairing.golden_of):
        if j < 0 or i in by_user:
            continue
        left, right = target.dump.counterpart(i, "forward"), golden.dump.counterpart(j, "forward")
        if left >= 0 <= right:
            is_strange = pairing.golden_of[left] < 0 and pairing.target_of[right] < 0
        else:
            is_strange = (
                target.names[i].kind == "api"
                and target.names[i].direction == "forward"
                and sorted(target.shapes(i)) != sorted(golden.shapes(j))
                and _are_made_elsewhere(pairing, target.makers(i), golden.makers(j))
            )
        if is_strange:
            pairing.undo(i)


def _are_made_elsewhere(pairing: Pairing, ours: Collection[int], theirs: Collection[int]) -> bool:
    """Return whether calls that produced the inputs of a pair of calls have no counterpart on at least one side, and no
    two of both sides are a pair."""
    partners = {pairing.golden_of[one] for one in ours}
    is_alone = -1 in partners or any(pairing.target_of[one] < 0 for one in theirs)
    return bool(ours and theirs) and is_alone and partners.isdisjoint(theirs)


def _undo_crossing(pairing: Pairing) -> None:
    """Undo pairs of backward calls that cross others although their forward calls are not a pair."""
    doubtful = [
        (i, j)
        for i, j in enumerate(pairing.golden_of)
        if j >= 0 and pairing.target.names[i].direction == "backward" and pairing.forwards_differ(i, j)
    ]
    pairing.rechain(without=dict(doubtful))
    for i, j in doubtful:
        if _crosses(pairing.chain, i, j):
            pairing.undo(i)
    pairing.rechain()


def _take(pairing: Pairing, by_user: Mapping[int, int]) -> None:
    """Add the user's pairs, and learn the names of cells from them."""
    for i, j in by_user.items():
        if pairing.golden_of[i] == j:
            continue
        pairing.undo(i)
        if pairing.target_of[j] >= 0:
            pairing.undo(pairing.target_of[j])
        pairing.join_anywhere(i, j)
        mine, theirs = pairing.target.names[i], pairing.golden.names[j]
        if mine.kind == theirs.kind == "cell" and mine.stem != theirs.stem:
            pairing.target.learn(mine, theirs)


def _equal_ends(pairing: Pairing) -> Indices:
    """Return pairs from the beginning and from the end, as far as the calls are alike."""
    target, golden = pairing.target, pairing.golden
    left, right = ([n for n, ok in enumerate(side.in_order) if ok] for side in (target, golden))
    head, tail = common_ends(
        len(left), len(right), lambda i, j: target.as_recorded(left[i]) == golden.as_recorded(right[j])
    )
    ends = (slice(head), slice(head)), (slice(len(left) - tail, None), slice(len(right) - tail, None))
    return [pair for ours, theirs in ends for pair in zip(left[ours], right[theirs], strict=True)]


def _mark_recomputed(target: Side, golden: Side) -> None:
    """Mark recomputations in a dump without marks if the other one has marks."""
    marked = any(target.again), any(golden.again)
    target.marks_recomputed = golden.marks_recomputed = all(marked)
    if any(marked) and not all(marked):
        without = golden if marked[0] else target
        without.again = seem_recomputed(without.names)


def _pair_gradients(pairing: Pairing) -> None:
    """Pair gradients of parameters by their name alone, with renamed cells."""
    target, golden = pairing.target, pairing.golden
    left, right = pairing.free()

    def key(side: Side, i: int) -> tuple[str, int]:
        return side.stem(i), max(side.names[i].number, 0)

    where = {key(golden, j): j for j in right if not golden.in_order[j]}
    for i in left:
        if not target.in_order[i] and (j := where.pop(key(target, i), None)) is not None:
            pairing.join_anywhere(i, j)


def _fill_fuzzily(pairing: Pairing) -> Indices:
    """Pair by stem, then by operation, between neighbors that are pairs."""
    pairing.rechain()

    def attribute(side: Side, i: int) -> Hashable:
        name = side.names[i]
        return (name.path, name.direction) if name.kind == "cell" else (name.text, id(side))

    found = [*pairing.fill(_stem), *pairing.fill(_operation), *pairing.fill(attribute)]
    for i, j in found:
        if pairing.target.names[i].kind == "cell":
            pairing.target.learn(pairing.target.names[i], pairing.golden.names[j])
    return found


def _label(pairing: Pairing, i: int, j: int) -> MatchedBy:
    mine, theirs = pairing.target.names[i], pairing.golden.names[j]
    if identity(mine.text) == identity(theirs.text):
        return "name"
    return "renumbered" if (mine.stem, mine.direction) == (theirs.stem, theirs.direction) else "structure"
