"""Find counterparts: leaf modules, then the modules around them, then the calls inside and between.

1. Leaf modules that alone have the same parameters are pairs anywhere, then those whose results and inputs agree in
   value with those of only one other. Modules whose parameters are one parameter on the other side (query, key and
   value against one projection) are fused.
2. The sequences between them are aligned in execution order.
3. Containers are paired by the paired leaves below them.
4. Functions, methods and primitives are paired inside the innermost pair of modules around them, between the pairs of
   modules there, by the same two steps; then, by values that no other call of the dump returns, those that run inside
   a module on one side and outside of it on the other.
5. Pairs that contradict the flow of tensors are undone. Backward calls follow their forward calls, gradients of
   parameters their modules.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from msprobe.compare.core.tensor import Tensor
from msprobe.store.record import Dump

from .alignment import candidates, fill, outstanding
from .anchors import by_inputs, by_parameters, by_values, moved
from .consumers import Roles, after_phantoms, by_results, last_inside, retied, uncrossed
from .dump_view import NONE, Dataflow, Side
from .features import UNLIKELY, Features, Numbers
from .score import Basis, Counterpart, Counterparts, Evidence, words

LEAST_COMMON = 0.6
"""Share of the paired leaves below either container that must be below both."""

MAX_PARTS = 8
"""Maximum number of parts of a fused module."""

ROUNDS = 4
"""Number of rounds with the pairs of the previous ones: the origins of tensors are better known then."""

WEAK = frozenset(("values", "order", "use", "moved"))
"""Steps of the search whose pairs are replaced if the consumers of the results contradict them."""


def pair_containers(evidence: Evidence) -> list[tuple[int, int, float]]:
    """Return containers with the same paired leaves below them, and the share of them in common; from the inside out.

    Wrappers around one module have the same leaves: chains of equal length are paired from the outside in, others if
    result and class identify one.
    """
    golden_of = evidence.golden_of
    below = _below(evidence.target, golden_of), _below(evidence.golden, evidence.target_of)
    mine = {a: {golden_of[leaf] for leaf in leaves} for a, leaves in below[0].items()}
    theirs = {b: set(leaves) for b, leaves in below[1].items()}
    holders: defaultdict[int, list[int]] = defaultdict(list)
    for b, leaves in theirs.items():
        for leaf in leaves:
            holders[leaf].append(b)
    best_of = {a: _best(leaves, holders, theirs) for a, leaves in mine.items() if leaves}
    back: defaultdict[int, list[int]] = defaultdict(list)
    for a, (_, likeliest) in best_of.items():
        for b in likeliest:
            back[b].append(a)
    found: list[tuple[int, int, float]] = []
    done: set[int] = set()
    for a, (_, likeliest) in sorted(best_of.items()):
        if a in done or not likeliest:
            continue
        chain = [c for c in back[likeliest[0]] if best_of[c][1] == likeliest]
        shares = {c: best_of[c][0] for c in back[likeliest[0]]}
        most = max(shares.values())
        chain = [c for c in chain if shares[c] == most]
        done |= {a, *chain}  # containers with a smaller share came first if they are inside of that with the largest
        found += [(c, b, most) for c, b in _join(evidence, sorted(chain), sorted(likeliest))]
    return found


def _best(leaves: set[int], holders: dict[int, list[int]], theirs: dict[int, set[int]]) -> tuple[float, list[int]]:
    shared: defaultdict[int, int] = defaultdict(int)
    for leaf in leaves:
        for b in holders.get(leaf, ()):
            shared[b] += 1
    common = {b: n / (len(leaves) + len(theirs[b]) - n) for b, n in shared.items()}
    most = max(common.values(), default=0.0)
    return (most, [b for b, part in common.items() if part == most]) if most >= LEAST_COMMON else (0.0, [])


def _below(side: Side, pair_of: list[int]) -> dict[int, list[int]]:
    """Return the paired leaves below each container."""
    leaves = set(side.leaves)
    found: dict[int, list[int]] = {at: [] for at in side.modules if at not in leaves}
    for leaf in side.leaves:
        # A layer with its own activation is not a container.
        for outer in set(side.enclosing(leaf)) & found.keys() if pair_of[leaf] != NONE else ():
            found[outer].append(leaf)
    return found


def _join(evidence: Evidence, mine: list[int], theirs: list[int]) -> list[tuple[int, int]]:
    """Return pairs of calls, which end from the inside out, so that position is depth within one chain; several runs of
    one are kept separate."""
    if len(mine) == len(theirs):
        pairs = zip(mine, theirs, strict=True)
        return [(a, b) for a, b in pairs if evidence.golden_of[a] == evidence.target_of[b] == NONE]
    mine, theirs = evidence.open(mine, theirs)
    if not mine or not theirs:
        return []
    points = np.array([[_points(evidence, a, b) for b in theirs] for a in mine])
    clear = ((i, j) for i, j, most, rival in outstanding(points) if most >= 1.0 and most - rival >= 1.0)
    return [(mine[i], theirs[j]) for i, j in clear]


def _points(evidence: Evidence, a: int, b: int) -> float:
    mine, theirs = evidence.features
    out, ins = evidence.agrees(a, b)
    shape = mine.out_shape[a] == theirs.out_shape[b] and mine.in_shapes[a] == theirs.in_shapes[b]
    named = evidence.target.names[a].path.rpartition(".")[2] == evidence.golden.names[b].path.rpartition(".")[2]
    kin = max(evidence.correspondence(a, b), UNLIKELY)
    return float(shape) + float(out) + min(1, ins) + 0.8 * kin + 0.3 * named


def fused(evidence: Evidence) -> Iterator[tuple[list[int], int]]:
    """Yield sequences of target modules without counterparts that have one input, and the one golden module of which
    they are the parts.

    The lengths must add up, and the values or the place must agree: updated parameters do not add up bitwise.
    """
    _, right = evidence.open((), evidence.golden.leaves)
    right = [b for b in right if evidence.golden.tensors(b).parameters]
    taken: set[int] = set()
    for run in _with_one_input(evidence):
        for b in right:
            if b not in taken and all(evidence.correspond(a, b) for a in run) and _make_up(evidence, run, b):
                taken.add(b)
                yield run, b
                break


def fused_modules(
    target: Dump, golden: Dump, pairs: Iterable[tuple[int, int]]
) -> tuple[list[tuple[list[int], int]], list[tuple[list[int], int]]]:
    """Return modules of one framework of which several modules of the other side are the parts, if other calls are
    `pairs`: target parts with their golden whole, and golden parts with their target whole."""
    sides, numbers = (Side(target), Side(golden)), Numbers()
    flows = Dataflow(sides[0]), Dataflow(sides[1])
    evidence = Evidence(*sides, flows, (Features(sides[0], flows[0], numbers), Features(sides[1], flows[1], numbers)))
    for a, b in pairs:
        evidence.join(a, b)
    return list(fused(evidence)), list(fused(evidence.mirrored()))


def _with_one_input(evidence: Evidence) -> Iterator[list[int]]:
    """Yield target modules without counterparts, inside one module, that have the same input values."""
    side, runs = evidence.target, defaultdict[tuple[int, object], list[int]](list)
    for at in side.leaves:
        tensors = side.tensors(at)
        if evidence.golden_of[at] == NONE and tensors.parameters and tensors.inputs:
            runs[side.outer(at), tensors.inputs[0].values].append(at)
    yield from (run for run in runs.values() if 1 < len(run) <= MAX_PARTS)


def _make_up(evidence: Evidence, run: list[int], b: int) -> bool:
    """Return whether the parameters of a sequence are consecutive parts of those of a golden module."""
    whole = evidence.golden.tensors(b).parameters
    parts = [evidence.target.tensors(a).parameters for a in run]
    if any(len(part) != len(whole) for part in parts):
        return False
    pieces = list(zip(*parts, strict=True))
    for tensor, own in zip(whole, pieces, strict=True):
        first = [piece.shape[0] if piece.shape else 0 for piece in own]
        rest = {piece.shape[1:] for piece in own}
        if not tensor.shape or sum(first) != tensor.shape[0] or rest != {tensor.shape[1:]}:
            return False
    return all(map(_adds_up, pieces, whole)) or _same_neighbors(evidence, run, b) or _same_place(evidence, run, b)


def _adds_up(pieces: Sequence[Tensor], whole: Tensor) -> bool:
    """Return whether the statistics of the parts merge to those of the whole."""
    if any(piece.digest for piece in pieces) or whole.norm != whole.norm:
        return False
    sizes = [math.prod(piece.shape) for piece in pieces]
    mean_of_all = sum(n * piece.mean for n, piece in zip(sizes, pieces, strict=True)) / sum(sizes)
    norm_of_all = math.sqrt(sum(piece.norm**2 for piece in pieces))
    return (
        max(piece.max for piece in pieces) == whole.max
        and min(piece.min for piece in pieces) == whole.min
        and abs(mean_of_all - whole.mean) <= 1e-5 * max(abs(whole.max), abs(whole.min))
        and abs(norm_of_all - whole.norm) <= 1e-5 * whole.norm
    )


def _same_neighbors(evidence: Evidence, run: list[int], b: int) -> bool:
    left, right = evidence.target.leaves, evidence.golden.leaves
    before, after = left.index(run[0]) - 1, left.index(run[-1]) + 1
    place = right.index(b)
    pairs = []
    if before >= 0 and place > 0:
        pairs.append((left[before], right[place - 1]))
    if after < len(left) and place + 1 < len(right):
        pairs.append((left[after], right[place + 1]))
    return bool(pairs) and all(evidence.golden_of[a] == c for a, c in pairs)


def _same_place(evidence: Evidence, run: list[int], b: int) -> bool:
    """Return whether the modules around are a pair, inside which no other module without a counterpart has the whole's
    shapes."""
    mine, theirs, side = evidence.target.outer(run[0]), evidence.golden.outer(b), evidence.golden
    if NONE in (mine, theirs) or evidence.golden_of[mine] != theirs:
        return False
    shapes = [tensor.shape for tensor in side.tensors(b).parameters]
    return not any(
        other != b and side.outer(other) == theirs and [t.shape for t in side.tensors(other).parameters] == shapes
        for other in evidence.open((), side.leaves)[1]
    )


def follow(evidence: Evidence, found: list[Counterpart]) -> list[Counterpart]:
    """Return pairs of backward calls and of parameters' gradients."""
    sides = evidence.target, evidence.golden
    taken = {pair.target for pair in found}
    forward_of: dict[int, int] = {}  # golden call: the forward call of the golden side from which it follows
    more: list[Counterpart] = []
    for pair in found:
        mine, theirs = sides[0].names[pair.target], sides[1].names[pair.golden]
        if mine.direction != "forward":
            continue
        places = (pair.target, pair.golden)
        back = [side.dump.counterpart(at, "backward") for side, at in zip(sides, places, strict=True)]
        following = [(back[0], back[1], "their forward calls are a pair")]
        lists = [side.dump.gradients.get(name.stem, []) for side, name in zip(sides, (mine, theirs), strict=True)]
        if len(lists[0]) == len(lists[1]):
            reason = "the modules that own the parameters are a pair"
            following += [(a, b, reason) for a, b in zip(*lists, strict=True)]
        for a, b, reason in following:
            if NONE not in (a, b) and a not in taken and forward_of.setdefault(b, pair.golden) == pair.golden:
                taken.add(a)
                more.append(Counterpart(a, b, pair.confidence, reason))
    return more


def find_counterparts(target: Dump, golden: Dump, *, fixed: Mapping[int, int] | None = None) -> Counterparts:
    """Pair the calls of two dumps of one network, by everything except their names.

    `fixed` are pairs of the user, as positions in `calls`; they are kept and guide the others. A call with several
    candidates has no counterpart and is in `ambiguous`.
    """
    search = _Search(target, golden)
    search.fix(fixed or {})
    search.anchor_leaves()
    for _ in range(ROUNDS):
        known = len(search.because)
        search.pair_leaves()
        search.pair_containers()
        search.pair_apis()
        if len(search.because) == known:
            break
    search.pair_across()
    search.undo_contradicted()
    return search.result()


class _Search:
    def __init__(self, target: Dump, golden: Dump) -> None:
        self.target, self.golden = Side(target), Side(golden)
        numbers = Numbers()
        flows = Dataflow(self.target), Dataflow(self.golden)
        features = Features(self.target, flows[0], numbers), Features(self.golden, flows[1], numbers)
        self.evidence = Evidence(self.target, self.golden, flows, features)
        self.roles = Roles(self.target, flows[0]), Roles(self.golden, flows[1])
        self.because: dict[int, Basis] = {}
        self.fused: set[int] = set()  # target positions, and golden ones inverted
        # a fused target and its parts: not pairs, since their results differ
        self.parts: dict[int, tuple[int, ...]] = {}

    def fix(self, fixed: Mapping[int, int]) -> None:
        for a, b in fixed.items():
            if (other := self.evidence.target_of[b]) != NONE:
                self.fused |= {a, other, ~b}
            self.evidence.join(a, b)
            self.because[a] = Basis("given")

    def anchor_leaves(self) -> None:
        left, right = self.evidence.open(self.target.leaves, self.golden.leaves)
        self._join(uncrossed(self.evidence, self.roles, by_parameters(self.evidence, left, right)), "parameters")
        self._join_values(self.target.leaves, self.golden.leaves)
        self._fuse()

    def _fuse(self) -> None:
        for targets, b in fused(self.evidence):
            for a in targets:
                self.evidence.join(a, b)
                self.because[a] = Basis("fused", len(targets))
            self.fused |= {*targets, ~b}
        for goldens, a in fused(self.evidence.mirrored()):
            self.parts[a] = tuple(goldens)
            self.fused |= {a, *(~b for b in goldens)}

    def pair_leaves(self) -> None:
        self._fill(*self._whole(self.target.leaves, self.golden.leaves))
        self._fuse()  # again: if there are only digests, the modules around identify it

    def pair_containers(self) -> None:
        for a, b, common in pair_containers(self.evidence):
            self._join([(a, b)], "inside", common)

    def pair_apis(self) -> None:
        leaves = set(self.golden.leaves)
        for context, mine, theirs in self._contexts():
            if context in leaves:
                target = self.evidence.target_of[context]
                self._join(last_inside(self.evidence, target, context, mine, theirs), "last")
            phantoms = {} if self.target.leaves else self._join_inputs(mine, theirs)
            self._join(after_phantoms(self.evidence, phantoms, mine, theirs), "weight")
            self._join_values([a for a in mine if a not in phantoms], theirs)
            for _ in range(ROUNDS):
                self._fill(mine, theirs, phantoms)
                found = moved(self.evidence, mine, theirs)
                self._join(found, "moved")
                if not found:
                    break
            if not self.target.leaves:
                self._retie(mine, theirs)
            self._join(by_results(self.evidence, mine, theirs), "results")

    def pair_across(self) -> None:
        """Pair functions of different pairs of modules: steps at the end of a block on one side are after it on the
        other."""
        every = [sorted(at for calls in self._by_context(n).values() for at in calls) for n in (0, 1)]
        sides = zip((self.target, self.golden), every, strict=True)
        self._join_values(*([at for at in calls if side.names[at].kind == "api"] for side, calls in sides))
        self._join(by_results(self.evidence, *every), "results")

    def _retie(self, left: list[int], right: list[int]) -> None:
        evidence, target_of = self.evidence, self.evidence.target_of
        forth = retied(evidence, self.roles, left, lambda a: self.because[a].by in WEAK)
        for a, _ in forth:
            if evidence.golden_of[a] != NONE:
                self._part(a)
        self._join([(a, b) for a, b in forth if b != NONE], "takers")
        back = retied(evidence.mirrored(), self.roles[::-1], right, lambda b: self.because[target_of[b]].by in WEAK)
        for b, _ in back:
            if target_of[b] != NONE:
                self._part(target_of[b])
        self._join([(a, b) for b, a in back if a != NONE], "takers")

    def undo_contradicted(self) -> None:
        """Undo pairs whose tensors come from calls of other pairs, unless they were made by more than order."""
        for a, reason in list(self.because.items()):
            is_by_order = reason.by in ("order", "use", "takers")
            if is_by_order and self.evidence.is_contradicted(a, self.evidence.golden_of[a]):
                self._part(a)

    def result(self) -> Counterparts:
        found = [
            Counterpart(a, self.evidence.golden_of[a], *words(self.evidence, a, reason))
            for a, reason in self.because.items()
        ]
        found += follow(self.evidence, found)
        # For calls without counterparts, the corresponding ones of the other side at the same place of the program,
        # best first.
        open_calls = dict(candidates(self.evidence, *self._whole(self.target.leaves, self.golden.leaves)))
        for _, mine, theirs in self._contexts():
            open_calls.update(candidates(self.evidence, mine, theirs))
        ambiguous = dict(sorted((open_calls | self.parts).items()))
        return Counterparts(tuple(sorted(found, key=lambda pair: pair.target)), ambiguous)

    def _join_values(self, left: list[int], right: list[int]) -> None:
        for a, b in by_values(self.evidence, *self.evidence.open(left, right)):
            if not self.evidence.is_contradicted(a, b):
                self._join([(a, b)], "values")

    def _join_inputs(self, left: list[int], right: list[int]) -> dict[int, int]:
        """Pair calls that correspond and return one shape; other calls, and primitives, may be followed by more of a
        layer."""
        phantoms = {}
        mine, theirs = self.evidence.features
        for a, b in by_inputs(self.evidence, *self.evidence.open(left, right)):
            stems = self.target.names[a].stem, self.golden.names[b].stem
            is_same = self.evidence.correspond(a, b) and mine.out_shape[a] == theirs.out_shape[b]
            if is_same and not any(stem.startswith("Primitive.") for stem in stems):
                self._join([(a, b)], "inputs")
            else:
                phantoms[a] = b
        return phantoms

    def _fill(self, left: list[int], right: list[int], phantoms: dict[int, int] | None = None) -> None:
        self.because.update(fill(self.evidence, left, right, self.roles, phantoms))

    def _contexts(self) -> Iterator[tuple[int, list[int], list[int]]]:
        """Yield calls of both sides by the innermost pair of modules around them (as golden position), without fused
        ones."""
        left, right = self._by_context(0), self._by_context(1)
        for context in sorted(left.keys() & right.keys()):
            yield context, *self._whole(left[context], right[context])

    def _by_context(self, which: int) -> dict[int, list[int]]:
        """Return the functions, and paired modules, of one side by the innermost pair of modules around them."""
        side = (self.target, self.golden)[which]
        pair_of = (self.evidence.golden_of, self.evidence.target_of)[which]
        found: defaultdict[int, list[int]] = defaultdict(list)
        for at in side.forward:
            is_module = side.names[at].kind == "cell"
            if (is_module and pair_of[at] == NONE) or side.names[at].kind == "other":
                continue
            enclosing = side.enclosing(at)
            if any((~outer if which else outer) in self.fused for outer in enclosing):
                continue  # calls inside a part are not calls inside the whole
            around = next((outer for outer in enclosing if pair_of[outer] != NONE), NONE)
            found[around if which or around == NONE else pair_of[around]].append(at)
        return found

    def _whole(self, left: list[int], right: list[int]) -> tuple[list[int], list[int]]:
        """Return the calls without fused modules, which are at several places at the same time."""
        return [a for a in left if a not in self.fused], [b for b in right if ~b not in self.fused]

    def _part(self, a: int) -> None:
        self.evidence.target_of[self.evidence.golden_of[a]] = NONE
        self.evidence.golden_of[a] = NONE
        del self.because[a]

    def _join(self, pairs: Iterable[tuple[int, int]], by: str, amount: float = 0.0) -> None:
        for a, b in pairs:
            if self.evidence.golden_of[a] == NONE and self.evidence.target_of[b] == NONE:
                self.evidence.join(a, b)
                self.because[a] = Basis(by, amount)
