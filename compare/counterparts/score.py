"""The evidence for a pair of calls, in points, and the pairs that were found, each with a confidence and a reason.

| evidence | points |
|---|---|
| the operation or class corresponds | 2, 1.5 by the word alone, 0 for classes of the user |
| shape of the result: equal; the same lengths in another order | 2; 1 |
| as many axes, where the inputs differ too, or of a module | -1 |
| otherwise: of a module the same number of elements; another number; of a function | 0.5; -4; -30 |
| shapes of the inputs: equal; otherwise | 1; -0.7 |
| shapes of a module's parameters: equal; others; more in a corresponding layer; none on one side | 1.5; -3; 0; -1 |
| result, inputs agree in value, each (two inputs at most) | 1.5 |
| a result that does not agree although all inputs do | -0.5 |
| numbers among the arguments are equal | 0.4 |
| a tensor input comes from calls that are a pair, each; from calls that are pairs of others | 2; -2 |
| parameters, for a function its weights, have the same fingerprints; have others | 3; -1 |
| the name's last part is equal | 0.3 |

After a fault no value agrees, and the other evidence still makes a pair.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .dump_view import ALTERNATIVES, NONE, Dataflow, Side
from .features import (
    CORRESPONDING,
    INPUTS,
    SINGLY,
    UNRELATED,
    WITH_BIAS,
    Features,
    classes,
    close,
    is_close,
    operation_word,
    operations,
)

WITHIN = 1e-3
"""Relative difference of equal steps of two frameworks; rounding is far below it."""

FLOW_AT_MOST = 200 * 200
"""Segments with more cells are aligned without the origins of tensors; the next round is finer."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass
class Evidence:
    """Both sides with everything that a score needs, and the pairs so far.

    `golden_of` and `target_of` are NONE for a call without a counterpart.
    """

    target: Side
    golden: Side
    flows: tuple[Dataflow, Dataflow]
    features: tuple[Features, Features]
    golden_of: list[int] = field(init=False)
    target_of: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.golden_of = [NONE] * len(self.target)
        self.target_of = [NONE] * len(self.golden)
        self.frameworks = (self.target.framework, self.golden.framework)
        self._kinship: dict[tuple[bool, int, int], float] = {}

    def join(self, target: int, golden: int) -> None:
        """Make a pair of two calls that have none."""
        self.golden_of[target], self.target_of[golden] = golden, target

    def mirrored(self) -> "Evidence":
        """Return the same from the perspective of the golden side."""
        seen = Evidence(self.golden, self.target, self.flows[::-1], self.features[::-1])
        seen.golden_of, seen.target_of = self.target_of, self.golden_of
        return seen

    def open(self, left: Iterable[int], right: Iterable[int]) -> tuple[list[int], list[int]]:
        """Return those calls of both sides that have no counterpart."""
        return [a for a in left if self.golden_of[a] == NONE], [b for b in right if self.target_of[b] == NONE]

    def correspondence(self, target: int, golden: int) -> float:
        """Return the points for operation or class."""
        mine, theirs = self.features
        is_module = self.target.names[target].kind == "cell"
        if is_module != (self.golden.names[golden].kind == "cell"):
            return UNRELATED
        key = (is_module, int(mine.operation[target]), int(theirs.operation[golden]))
        if key not in self._kinship:
            one, other = mine.operations[key[1]], theirs.operations[key[2]]
            judge = classes if is_module else operations
            self._kinship[key] = judge(one.called, other.called, self.frameworks)
            words = {operation_word(one.called), operation_word(other.called)}
            if not is_module and one.inputs != other.inputs and words & WITH_BIAS:
                self._kinship[key] = UNRELATED
        return self._kinship[key]

    def correspond(self, target: int, golden: int) -> bool:
        """Return whether operation or class allow a pair."""
        return self.correspondence(target, golden) > UNRELATED

    def agreement(self, target: int, there: Ints) -> tuple[Any, Any]:
        """Return whether the results of golden calls agree in value with that of a target call, and the number of
        inputs that do."""
        if len(there) <= SINGLY:
            few = [self.agrees(target, golden) for golden in there.tolist()]
            return np.array([out for out, _ in few], bool), np.array([ins for _, ins in few], int)
        mine, theirs = self.features

        def agree(k: int, other: int) -> Any:
            values = close(mine.ins[target, k], theirs.ins[there, other], WITHIN)
            return values | _same(mine.digests[target, 1 + k], theirs.digests[there, 1 + other])

        out = close(mine.out[target], theirs.out[there], WITHIN) | _same(
            mine.digests[target, 0], theirs.digests[there, 0]
        )
        return out, np.maximum(agree(0, 0).astype(int) + agree(1, 1), agree(0, 1).astype(int) + agree(1, 0))

    def agrees(self, target: int, golden: int) -> tuple[bool, int]:
        """Return the same for one golden call."""
        mine, theirs = self.features
        ours, digests = [mine.out[target].tolist(), *mine.ins[target].tolist()], mine.digests[target].tolist()
        values, known = [theirs.out[golden].tolist(), *theirs.ins[golden].tolist()], theirs.digests[golden].tolist()
        out, first, second, across, back = (
            (digests[k] == known[n] != 0) or is_close(ours[k], values[n], WITHIN)
            for k, n in ((0, 0), (1, 1), (2, 2), (1, 2), (2, 1))
        )
        return out, max(first + second, across + back)

    def labels(self, at: int, is_target: bool) -> list[list[int]]:
        """Return for each tensor input the golden counterparts of its possible producers, outermost modules."""
        flow, pair_of = (self.flows[0], self.golden_of) if is_target else (self.flows[1], self.target_of)
        found = []
        for chains in flow.made.get(at, ())[:INPUTS]:
            paired = [[call for call in chain if pair_of[call] != NONE] for chain in chains]
            found.append([pair_of[chain[-1]] if is_target else chain[-1] for chain in paired if chain])
        return found

    def label_points(self, target: int, golden: int) -> float:
        """Return the points for inputs that come from pairs."""
        return float(_from(_labels(self, [target], True)[0], _labels(self, [golden], False))[0])

    def is_supported(self, target: int, golden: int, *, by_flow: bool = True) -> bool:
        """Return whether there is evidence for a pair other than order and form: values, parameters, or the origins of
        tensors."""
        mine, theirs = self.features
        if mine.own_values[target] and mine.own_values[target] == theirs.own_values[golden]:
            return True
        out, ins = self.agrees(target, golden)
        return bool(mine.informative[target] and out and ins > 0) or (by_flow and self.is_fed_alike(target, golden))

    def is_fed_alike(self, target: int, golden: int) -> bool:
        """Return whether a tensor input comes from calls that are a pair, and none from calls that are in other
        pairs."""
        return self.label_points(target, golden) >= 1.5

    def is_contradicted(self, target: int, golden: int) -> bool:
        """Return whether more tensors of a pair come from calls that are in other pairs than from calls that are a
        pair."""
        labels = zip(self.labels(target, True), self.labels(golden, False), strict=False)
        if all(set(a) & set(b) for a, b in labels if a and b):
            return False
        return self.label_points(target, golden) < 0


class Scorer:
    """Scores the calls of one segment of the target against one of the golden side."""

    def __init__(self, evidence: Evidence, left: list[int], right: list[int]) -> None:
        self._evidence = evidence
        self._left, self._right = left, right
        self._mine, self._theirs = evidence.features
        self._at: Ints = np.array(right, np.int64)
        self._kin_rows: dict[int, Floats] = {}
        self._is_module = bool(left) and evidence.target.names[left[0]].kind == "cell"
        self._flow = len(left) * len(right) <= FLOW_AT_MOST
        if self._flow:
            self._left_labels = _labels(evidence, left, True)
            self._right_labels = _labels(evidence, right, False)
        self._last_right = np.array([_last(evidence.golden, at) for at in right], object)

    def __call__(self, i: int, low: int, high: int) -> Floats:
        at = self._left[i]
        there = self._at[low:high]
        mine, theirs = self._mine, self._theirs
        kin = self._kin(at)[low:high]
        score: Floats = kin.copy()
        score += _shape(mine, theirs, at, there, self._is_module)
        score += np.where(theirs.in_shapes[there] == mine.in_shapes[at], 1.0, -0.7)
        if mine.own_shapes[at]:
            own = theirs.own_shapes[there]
            # Corresponding layers may have more parameters: running statistics are parameters on one side only.
            has_more = (kin >= CORRESPONDING) & (theirs.own_count[there] != mine.own_count[at])
            apart = np.where(own == 0, -1.0, np.where(has_more, 0.0, -3.0))
            score += np.where(own == mine.own_shapes[at], 1.5, apart)
        prints = theirs.own_values[there]
        known = (prints != 0) & (mine.own_values[at] != 0)
        score += np.where(known, np.where(prints == mine.own_values[at], 3.0, -1.0), 0.0)
        out, ins = self._evidence.agreement(at, there)
        score += 1.5 * out + 1.5 * np.minimum(ins, 2) - 0.5 * ((ins > 0) & ~out)
        score += 0.4 * (theirs.arguments[there] == mine.arguments[at])
        score[theirs.again[there] != mine.again[at]] = UNRELATED
        score += 0.3 * (self._last_right[low:high] == _last(self._evidence.target, at))
        if self._flow:
            score += _from(self._left_labels[i], self._right_labels[low:high])
        return score

    def _kin(self, at: int) -> Floats:
        operation = int(self._mine.operation[at])
        if operation not in self._kin_rows:
            self._kin_rows[operation] = np.array([self._evidence.correspondence(at, b) for b in self._right])
        return self._kin_rows[operation]


def _labels(evidence: Evidence, calls: list[int], is_target: bool) -> Ints:
    found: Ints = np.full((len(calls), INPUTS, ALTERNATIVES), NONE, np.int64)
    for i, at in enumerate(calls):
        for k, labels in enumerate(evidence.labels(at, is_target)):
            found[i, k, : len(labels)] = labels
    return found


def _from(mine: Ints, theirs: Ints) -> Floats:
    """Return the points for inputs that come from pairs; operands may be exchanged."""
    straight = _points(mine, theirs)
    crossed = _points(mine[[1, 0, 2]], theirs) - 0.3
    return np.maximum(straight, crossed)


def _points(mine: Ints, theirs: Ints) -> Floats:
    """Return the points of labels: `mine` has those of the inputs of one call, `theirs` those of several."""
    known = (mine != NONE).any(-1) & (theirs != NONE).any(-1)
    equal = ((mine[:, :, None] == theirs[:, :, None, :]) & (mine != NONE)[:, :, None]).any((-1, -2))
    return np.asarray(2.0 * equal.sum(-1) - 2.0 * (known & ~equal).sum(-1), float)


def _shape(mine: Features, theirs: Features, at: int, there: Ints, is_module: bool) -> Floats:
    equal = theirs.out_shape[there] == mine.out_shape[at]
    turned = theirs.out_layout[there] == mine.out_layout[at]
    size = theirs.out_size[there] == mine.out_size[at]
    received = (theirs.ranks[there] == mine.ranks[at]) & (theirs.in_shapes[there] != mine.in_shapes[at])
    begun = (theirs.ranks[there] == mine.ranks[at]) & (is_module | received)
    other_size, same_size = (-4.0, 0.5) if is_module else (-30.0, -30.0)
    unequal = np.where(begun, -1.0, np.where(size, same_size, other_size))
    return np.where(equal, 2.0, np.where(turned, 1.0, unequal))


def _same(mine: Any, theirs: Ints) -> Any:
    return (theirs == mine) & (mine != 0)


def _last(side: Side, at: int) -> str:
    name = side.names[at]
    return name.path.rpartition(".")[2] if name.kind == "cell" else ""


@dataclass(frozen=True, slots=True)
class Counterpart:
    """Target call `target` and golden call `golden`, as positions in `Dump.calls`, are the same step of the program.

    `confidence` is in (0, 1]: 1.0 only for pairs of the user. `reason` is the evidence as a sentence.
    """

    target: int
    golden: int
    confidence: float
    reason: str


@dataclass(frozen=True)
class Counterparts:
    """The result of the search: `calls` increases in `target`, and each target is in at most one pair.

    Several targets share a golden call only if their parameters together are its own: query, key and value of a fused
    projection. `ambiguous` has for a target call without a counterpart the candidates of the golden, best first.
    """

    calls: tuple[Counterpart, ...]
    ambiguous: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @property
    def golden_of(self) -> dict[int, int]:
        """Return golden position by target position."""
        return {pair.target: pair.golden for pair in self.calls}


@dataclass(frozen=True, slots=True)
class Basis:
    """The step of the search that made a pair, a key of `_REASONS` or `inside`; `amount` is its margin in points, or
    the part in common."""

    by: str
    amount: float = 0.0


_REASONS = {
    "given": (1.0, "fixed by the user"),
    "parameters": (0.98, "no other module has the same parameters"),
    "inputs": (0.97, "receive the same weight"),
    "values": (0.96, "no other call has the same inputs and outputs"),
    "results": (0.9, "no other nearby call has the same outputs"),
    "moved": (0.85, "the only calls of their kind here that receive the same tensors"),
    "weight": (0.93, "the last steps after calls that receive the same weight"),
    "last": (0.95, "both return the result of the paired modules around them"),
    "fused": (0.9, "several modules together have the parameters of one module"),
    "use": (
        0.85,
        "among several similar calls, those that receive the same tensors or whose results are used in the same way",
    ),
    "takers": (0.85, "paired calls use their results"),
    "order": (0.0, "at the same place in the order of execution"),
}
"""Confidence and reason of a step; for pairs by order, the confidence depends on the values that agree."""


def words(evidence: Evidence, target: int, cause: Basis) -> tuple[float, str]:
    """Return confidence and reason of a pair."""
    mine, theirs = evidence.features
    golden = evidence.golden_of[target]
    if cause.by == "inside":
        return 0.6 + 0.35 * cause.amount, f"contain the same paired modules ({cause.amount:.0%} of them)"
    sure, reason = _REASONS[cause.by]
    parts, unsure = [reason], 1.0 - sure
    if cause.by == "order":
        out, ins = evidence.agrees(target, golden)
        unsure = 0.4 / (1.0 + cause.amount)
        if mine.own_values[target] and mine.own_values[target] == theirs.own_values[golden]:
            parts.append("same parameters")
            unsure *= 0.3
        if out and mine.informative[target]:
            parts.append("same output values")
            unsure *= 0.5
        if ins:
            parts.append("same input values")
            unsure *= 0.7
    if evidence.correspondence(target, golden) >= CORRESPONDING:
        is_module = evidence.target.names[target].kind == "cell"
        parts.append("classes correspond" if is_module else "the functions correspond")
    if mine.out_shape[target] == theirs.out_shape[golden]:
        parts.append(
            "same shapes" if mine.in_shapes[target] == theirs.in_shapes[golden] else "same shape of the result"
        )
    return round(1.0 - unsure, 3), ", ".join(parts)
