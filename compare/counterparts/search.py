"""Search the counterparts: leaf modules, then the modules around them, then the calls inside and between.

Modules whose parameters are one parameter on the other side: query, key and value against one projection.

Fused weights are laid behind one another, so the greatest element of the whole is the greatest of the parts, its mean
is theirs weighted by size, and its squared norm is the sum of theirs.

Find counterparts: leaf modules, then what holds them, then the calls inside and between.

1. Leaf modules that alone hold the same parameters are pairs wherever they stand (anchors.py), then those whose
   results and inputs agree in value with those of one other alone.
2. The runs between them are aligned in execution order (fill.py, sequence.py, score.py).
3. Containers are paired by the paired leaves below them (containers.py).
4. Functions, methods and primitives are paired inside the innermost pair of modules around them, between the pairs of
   modules there, by the same two steps; then, by values that no other call of the dump gives, those that run inside a
   module on one side and beside it on the other.
5. What contradicts the flow of tensors is taken back. Backward calls follow their forward calls, gradients of
   parameters their modules (follow.py).
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np

from msprobe.store.record import Dump

from .alignment import candidates, fill
from .anchors import by_inputs, by_parameters, by_values, moved
from .consumers import Roles, behind_phantoms, by_results, last_inside, retied, uncrossed
from .counterpart import Because, Counterpart, Counterparts, words
from .dump_view import NONE, Flow, Side, Tensor, value_key
from .features import STRANGERS, UNLIKELY, Features, Numbers
from .score import Evidence, agreement, contradicted

LEAST_COMMON = 0.6
"""Part of the paired leaves below either container that must be below both."""


def pair_containers(evidence: Evidence) -> list[tuple[int, int, float]]:
    """Containers with the same paired leaves below them, and how much of them they share; from the inside out.

    Wrappers around one module hold the same leaves as it does: chains of equal length are paired from the outside in,
    others where result and class single one out.
    """
    mine, theirs = _below(evidence.target), _below(evidence.golden)
    mine = {a: {evidence.golden_of[leaf] for leaf in leaves} - {NONE} for a, leaves in mine.items()}
    theirs = {b: {leaf for leaf in leaves if evidence.target_of[leaf] != NONE} for b, leaves in theirs.items()}
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
        done |= {a, *chain}  # what shares less came first where it stands inside of what shares most
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


def _below(side: Side) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {at: set() for at in side.containers}
    for leaf in side.leaves:
        for outer in side.enclosing(leaf):
            if outer in found:  # a layer with an activation of its own is none
                found[outer].add(leaf)
    return found


def _join(evidence: Evidence, mine: list[int], theirs: list[int]) -> list[tuple[int, int]]:
    """Calls end from the inside out, so position is depth within one chain; several runs of one stay apart."""
    if len(mine) == len(theirs):
        pairs = zip(mine, theirs, strict=True)
        return [(a, b) for a, b in pairs if evidence.golden_of[a] == evidence.target_of[b] == NONE]
    mine = [a for a in mine if evidence.golden_of[a] == NONE]
    theirs = [b for b in theirs if evidence.target_of[b] == NONE]
    if not mine or not theirs:
        return []
    points = np.array([[_points(evidence, a, b) for b in theirs] for a in mine])
    found = []
    for i, a in enumerate(mine):
        j = int(points[i].argmax())
        row, column = np.delete(points[i], j), np.delete(points[:, j], i)
        rival = max(row.max(initial=0.0), column.max(initial=0.0))
        if points[i, j] >= 1.0 and points[i, j] - rival >= 1.0:
            found.append((a, theirs[j]))
    return found


def _points(evidence: Evidence, a: int, b: int) -> float:
    mine, theirs = evidence.features
    out, ins = agreement(mine, theirs, a, np.array([b], np.int64))
    shape = mine.out_shape[a] == theirs.out_shape[b] and mine.in_shapes[a] == theirs.in_shapes[b]
    named = evidence.target.names[a].path.rpartition(".")[2] == evidence.golden.names[b].path.rpartition(".")[2]
    kin = max(evidence.kinship(a, b), UNLIKELY)
    return float(shape) + float(out[0]) + min(1, int(ins[0])) + 0.8 * kin + 0.3 * named


MOST = 8
"""Parts that are tried together."""


def fused(evidence: Evidence) -> Iterator[tuple[list[int], int]]:
    """Runs of target modules without partner that are given one tensor, and the one golden module that they make up.

    Where digests are all that is known the lengths must add up, and the modules around must be pairs.
    """
    right = [b for b in evidence.golden.leaves if evidence.target_of[b] == NONE]
    right = [b for b in right if evidence.golden.tensors(b).parameters]
    taken: set[int] = set()
    for run in _with_one_input(evidence.target, evidence):
        for b in right:
            if b in taken or not all(evidence.kinship(a, b) > STRANGERS for a in run):
                continue
            whole = evidence.golden.tensors(b).parameters
            parts = [evidence.target.tensors(a).parameters for a in run]
            if all(len(part) == len(whole) for part in parts) and _make_up(evidence, run, parts, b, whole):
                taken.add(b)
                yield run, b
                break


def _with_one_input(side: Side, evidence: Evidence) -> Iterator[list[int]]:
    run: list[int] = []
    last: object = None
    for at in [*side.leaves, NONE]:
        key = None
        if at != NONE and evidence.golden_of[at] == NONE and side.tensors(at).parameters and side.tensors(at).inputs:
            key = value_key(side.tensors(at).inputs[0])
        if key is None or key != last:
            if 1 < len(run) <= MOST:
                yield run
            run = []
        if key is not None:
            run.append(at)
        last = key


def _make_up(
    evidence: Evidence, run: list[int], parts: list[tuple[Tensor, ...]], b: int, whole: tuple[Tensor, ...]
) -> bool:
    for k, tensor in enumerate(whole):
        pieces = [part[k] for part in parts]
        first = [piece.shape[0] if piece.shape else 0 for piece in pieces]
        rest = {piece.shape[1:] for piece in pieces}
        if not tensor.shape or sum(first) != tensor.shape[0] or rest != {tensor.shape[1:]}:
            return False
    if all(_adds_up([part[k] for part in parts], tensor) for k, tensor in enumerate(whole)):
        return True
    return _same_neighbours(evidence, run, b)


def _adds_up(pieces: list[Tensor], whole: Tensor) -> bool:
    if any(piece.digest for piece in pieces) or whole.statistics[3] != whole.statistics[3]:
        return False
    high, low, mean, norm = whole.statistics
    sizes = [math.prod(piece.shape) for piece in pieces]
    mean_of_all = sum(n * piece.statistics[2] for n, piece in zip(sizes, pieces, strict=True)) / sum(sizes)
    norm_of_all = math.sqrt(sum(piece.statistics[3] ** 2 for piece in pieces))
    return (
        max(piece.statistics[0] for piece in pieces) == high
        and min(piece.statistics[1] for piece in pieces) == low
        and abs(mean_of_all - mean) <= 1e-5 * max(abs(high), abs(low))
        and abs(norm_of_all - norm) <= 1e-5 * norm
    )


def _same_neighbours(evidence: Evidence, run: list[int], b: int) -> bool:
    left, right = evidence.target.leaves, evidence.golden.leaves
    before, behind = left.index(run[0]) - 1, left.index(run[-1]) + 1
    place = right.index(b)
    pairs = []
    if before >= 0 and place > 0:
        pairs.append((left[before], right[place - 1]))
    if behind < len(left) and place + 1 < len(right):
        pairs.append((left[behind], right[place + 1]))
    return bool(pairs) and all(evidence.golden_of[a] == c for a, c in pairs)


def follow(evidence: Evidence, found: list[Counterpart]) -> list[Counterpart]:
    """Pairs of backward calls and of parameters' gradients."""
    taken = {pair.target for pair in found}
    stands_for: dict[int, int] = {}  # golden call: the forward call of the golden side from which it follows
    more: list[Counterpart] = []

    def add(target: int, golden: int, source: int, confidence: float, reason: str) -> None:
        if NONE not in (target, golden) and target not in taken and stands_for.setdefault(golden, source) == source:
            taken.add(target)
            more.append(Counterpart(target, golden, confidence, reason))

    gradients = _gradients(evidence.target), _gradients(evidence.golden)
    for pair in found:
        mine, theirs = evidence.target.names[pair.target], evidence.golden.names[pair.golden]
        if mine.direction != "forward":
            continue
        add(
            evidence.target.backward_of(pair.target),
            evidence.golden.backward_of(pair.golden),
            pair.golden,
            pair.confidence,
            "their forward calls are a pair",
        )
        lists = gradients[0].get(mine.stem, []), gradients[1].get(theirs.stem, [])
        if len(lists[0]) == len(lists[1]):
            for a, b in zip(*lists, strict=True):
                add(a, b, pair.golden, pair.confidence, "the modules that own the parameters are a pair")
    return more


def _gradients(side: Side) -> dict[str, list[int]]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for at, name in enumerate(side.names):
        if name.kind == "parameters_grad":
            found[name.stem].append(at)
    return found


ROUNDS = 4
"""How often the whole is gone through again with what was found: where tensors come from is known better then."""

WEAK = frozenset(("values", "order", "use", "moved"))
"""Steps of the search whose pairs give way to what takes the results of a call."""


def find_counterparts(target: Dump, golden: Dump, *, given: Mapping[int, int] | None = None) -> Counterparts:
    """Pair the calls of two dumps of one network, by everything but their names.

    `given` are pairs that the user fixed, as positions in `calls`; they are kept and guide the rest. What several
    calls could be stays without partner and stands in `ambiguous`.
    """
    search = _Search(target, golden)
    search.fix(given or {})
    search.anchor_leaves()
    for _ in range(ROUNDS):
        known = len(search.because)
        search.pair_leaves()
        search.pair_containers()
        search.pair_apis()
        if len(search.because) == known:
            break
    search.pair_across()
    search.take_back()
    return search.result()


class _Search:
    def __init__(self, target: Dump, golden: Dump) -> None:
        self.target, self.golden = Side(target), Side(golden)
        numbers = Numbers()
        flows = Flow(self.target), Flow(self.golden)
        features = Features(self.target, flows[0], numbers), Features(self.golden, flows[1], numbers)
        self.evidence = Evidence(self.target, self.golden, flows, features)
        self.roles = Roles(self.target, flows[0]), Roles(self.golden, flows[1])
        self.because: dict[int, Because] = {}
        self.fused: set[int] = set()  # target positions, and golden ones inverted
        self.parts: dict[int, tuple[int, ...]] = {}  # a fused target and what makes it up: no pairs, results differ

    def fix(self, given: Mapping[int, int]) -> None:
        for a, b in given.items():
            if (other := self.evidence.target_of[b]) != NONE:
                self.fused |= {a, other, ~b}
            self.evidence.join(a, b)
            self.because[a] = Because("given")

    def anchor_leaves(self) -> None:
        left, right = self._open(self.target.leaves, self.golden.leaves)
        for a, b in uncrossed(self.evidence, by_parameters(self.evidence, left, right)):
            self._join(a, b, Because("parameters"))
        self._values(self.target.leaves, self.golden.leaves)
        self._fuse()

    def _fuse(self) -> None:
        for targets, b in fused(self.evidence):
            for a in targets:
                self.evidence.join(a, b)
                self.because[a] = Because("fused", len(targets))
            self.fused |= {*targets, ~b}
        for goldens, a in fused(self.evidence.mirrored()):
            self.parts[a] = tuple(goldens)
            self.fused |= {a, *(~b for b in goldens)}

    def pair_leaves(self) -> None:
        self._fill(*self._whole(self.target.leaves, self.golden.leaves))
        self._fuse()  # again: where digests are all there is, the modules around tell it

    def pair_containers(self) -> None:
        for a, b, common in pair_containers(self.evidence):
            self._join(a, b, Because("inside", common))

    def pair_apis(self) -> None:
        left, right = self._contexts(self.target, True), self._contexts(self.golden, False)
        leaves = set(self.golden.leaves)
        for context in sorted(left.keys() & right.keys()):
            mine, theirs = self._whole(left[context], right[context])
            if context in leaves:
                for a, b in last_inside(self.evidence, self.evidence.target_of[context], context, mine, theirs):
                    self._join(a, b, Because("last"))
            phantoms = {} if self.target.leaves else self._by_inputs(mine, theirs)
            for a, b in behind_phantoms(self.evidence, phantoms, mine, theirs):
                self._join(a, b, Because("weight"))
            self._values([a for a in mine if a not in phantoms], theirs)
            for _ in range(ROUNDS):
                self._fill(mine, theirs, phantoms)
                found = moved(self.evidence, mine, theirs)
                for a, b in found:
                    self._join(a, b, Because("moved"))
                if not found:
                    break
            if not self.target.leaves:
                self._retie(mine, theirs)
            for a, b in by_results(self.evidence, mine, theirs):
                self._join(a, b, Because("results"))

    def pair_across(self) -> None:
        """Functions of other pairs of modules: what one side does at the end of a block the other does behind it."""
        contexts = self._contexts(self.target, True), self._contexts(self.golden, False)
        left, right = (sorted(at for calls in found.values() for at in calls) for found in contexts)
        self._values(
            *(
                [at for at in calls if side.names[at].kind == "api"]
                for side, calls in ((self.target, left), (self.golden, right))
            )
        )
        for a, b in by_results(self.evidence, left, right):
            self._join(a, b, Because("results"))

    def _retie(self, left: list[int], right: list[int]) -> None:
        evidence, target_of = self.evidence, self.evidence.target_of
        forth = retied(evidence, self.roles, left, lambda a: self.because[a].by in WEAK)
        for a, _ in forth:
            if evidence.golden_of[a] != NONE:
                self._part(a)
        for a, b in forth:
            if b != NONE:
                self._join(a, b, Because("takers"))
        back = retied(evidence.mirrored(), self.roles[::-1], right, lambda b: self.because[target_of[b]].by in WEAK)
        for b, _ in back:
            if target_of[b] != NONE:
                self._part(target_of[b])
        for b, a in back:
            if a != NONE:
                self._join(a, b, Because("takers"))

    def take_back(self) -> None:
        """Pairs whose tensors come from calls of other pairs are none, unless more than order made them."""
        for a, because in list(self.because.items()):
            b = self.evidence.golden_of[a]
            if because.by in ("order", "use", "takers") and contradicted(self.evidence, a, b):
                self._part(a)

    def result(self) -> Counterparts:
        found = [
            Counterpart(a, self.evidence.golden_of[a], *words(self.evidence, a, because))
            for a, because in self.because.items()
        ]
        found += follow(self.evidence, found)
        return Counterparts(tuple(sorted(found, key=lambda pair: pair.target)), self._candidates())

    def _candidates(self) -> dict[int, tuple[int, ...]]:
        """For calls without partner the kin ones of the other side at the same place of the program, best first."""
        found = dict(candidates(self.evidence, *self._whole(self.target.leaves, self.golden.leaves)))
        left, right = self._contexts(self.target, True), self._contexts(self.golden, False)
        for context in sorted(left.keys() & right.keys()):
            found.update(candidates(self.evidence, *self._whole(left[context], right[context])))
        return dict(sorted((found | self.parts).items()))

    def _values(self, left: list[int], right: list[int]) -> None:
        for a, b in by_values(self.evidence, *self._open(left, right)):
            if not contradicted(self.evidence, a, b):
                self._join(a, b, Because("values"))

    def _by_inputs(self, left: list[int], right: list[int]) -> dict[int, int]:
        """Joins what is kin and gives one shape; of the rest, and of primitives, more of a layer may follow."""
        phantoms = {}
        mine, theirs = self.evidence.features
        for a, b in by_inputs(self.evidence, *self._open(left, right)):
            is_step = any(
                side.names[c].stem.startswith("Primitive.") for side, c in ((self.target, a), (self.golden, b))
            )
            is_same = self.evidence.kinship(a, b) > STRANGERS and mine.out_shape[a] == theirs.out_shape[b]
            if is_same and not is_step:
                self._join(a, b, Because("inputs"))
            else:
                phantoms[a] = b
        return phantoms

    def _fill(self, left: list[int], right: list[int], phantoms: dict[int, int] | None = None) -> None:
        self.because.update(fill(self.evidence, left, right, self.roles, phantoms))

    def _contexts(self, side: Side, is_target: bool) -> dict[int, list[int]]:
        """Calls by the innermost pair of modules around them (as golden position): functions, and paired modules."""
        pair_of = self.evidence.golden_of if is_target else self.evidence.target_of
        found: defaultdict[int, list[int]] = defaultdict(list)
        for at in side.forward:
            is_module = side.names[at].kind == "cell"
            if (is_module and pair_of[at] == NONE) or side.names[at].kind == "other":
                continue
            enclosing = side.enclosing(at)
            if any((outer if is_target else ~outer) in self.fused for outer in enclosing):
                continue  # what goes on inside a part is no part of what goes on inside the whole
            around = next((outer for outer in enclosing if pair_of[outer] != NONE), NONE)
            found[NONE if around == NONE else pair_of[around] if is_target else around].append(at)
        return found

    def _whole(self, left: list[int], right: list[int]) -> tuple[list[int], list[int]]:
        """Without fused modules: they stand at several places at once."""
        return [a for a in left if a not in self.fused], [b for b in right if ~b not in self.fused]

    def _open(self, left: list[int], right: list[int]) -> tuple[list[int], list[int]]:
        evidence = self.evidence
        return (
            [a for a in left if evidence.golden_of[a] == NONE],
            [b for b in right if evidence.target_of[b] == NONE],
        )

    def _part(self, a: int) -> None:
        self.evidence.target_of[self.evidence.golden_of[a]] = NONE
        self.evidence.golden_of[a] = NONE
        del self.because[a]

    def _join(self, a: int, b: int, because: Because) -> None:
        if self.evidence.golden_of[a] == NONE and self.evidence.target_of[b] == NONE:
            self.evidence.join(a, b)
            self.because[a] = because
