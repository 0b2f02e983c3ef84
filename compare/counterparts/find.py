"""Find counterparts: leaf modules, then what holds them, then the calls inside and between.

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

from collections import defaultdict
from collections.abc import Mapping

from msprobe.store.record import Dump

from .anchors import by_inputs, by_parameters, by_values
from .containers import pair_containers
from .counterpart import Counterpart, Counterparts
from .features import Features, Numbers
from .fill import candidates, fill
from .flow import Flow
from .follow import follow
from .fused import fused
from .kinship import STRANGERS
from .moved import moved
from .reason import Because, words
from .results import behind_phantoms, by_results, last_inside
from .roles import Roles, uncrossed
from .score import Evidence, contradicted
from .side import NONE, Side
from .takers import retied

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
