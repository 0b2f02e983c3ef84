"""Pairs by the consumers of a result, and by equal results.

Parameters alone may be misleading: two layers of one shape whose weights were loaded crosswise would be paired
crosswise. The operations that use their results, after any transposes and reshapes, identify them: the gate is the
input of silu, with either weight.

If no module shows to which layer a call belongs, an additional layer on one side is misleading too: the first steps of
the next layer have the inputs, and so the results, that the first steps of the new layer have on the other side. The
later weights show to which layer they belong. This does not apply to the last steps of the previous layer: they combine
(add) the results of several layers, or are inputs of such a call.

Functions that do not correspond may still return the same result: several steps of one side end in one value. A
`repeat_interleave` is an `expand` and a `reshape` on the other side, and the last reshape inside a dense layer of
MindSpore returns the result of PyTorch's `linear`. Only values that are not in a pair yet are compared.
"""

import math
from collections import defaultdict
from collections.abc import Callable
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .dump_view import NONE, Dataflow, Side
from .features import Features, close, operation_word
from .score import WITHIN, Evidence

MAX_STEPS = 200
"""Number of calls after one that are examined."""

_LAYOUT = frozenset(operation_word(f"Tensor.{name}") for name in ("reshape", "transpose", "contiguous", "cast"))
_COMMUTATIVE = frozenset(operation_word(f"Tensor.{name}") for name in ("add", "mul"))
_ARITHMETIC = ("add", "sub", "mul", "div", "neg", "cat", "stack", "chunk", "split", "getitem", "narrow", "squeeze")
_OTHERS = ("unsqueeze", "expand", "repeat", "repeat_interleave", "dropout", "identity", "masked_fill", "where", "clone")
_PASSING = _LAYOUT | frozenset(operation_word(f"Tensor.{name}") for name in (*_ARITHMETIC, *_OTHERS))

# Steps of scaled_dot_product_attention with query, key and value, if the other side has them as separate calls.
_ATTENTION, _MATMUL, _LINEAR = (
    operation_word(f"Tensor.{name}") for name in ("scaled_dot_product_attention", "matmul", "linear")
)
_IN_ATTENTION = ((f"{_MATMUL} 0", "softmax 0"), (f"{_MATMUL} 1", "softmax 0"), (f"{_MATMUL} 1",))

_AT_ONCE = 256
"""Number of calls that are compared with a value together; if many have that value, the first few show that it is not
unique."""

_PASS_ON = frozenset(
    operation_word(f"Tensor.{name}") for name in ("dropout", "identity", "contiguous", "to", "clone", "detach")
)
_FINISH = frozenset(operation_word(f"Primitive.{name}") for name in ("BiasAdd", "Reshape", "Cast"))

Role = frozenset[str]
Path = tuple[str, ...]
Ints = NDArray[np.int64]


def uncrossed(evidence: Evidence, roles: "tuple[Roles, Roles]", pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the pairs without crossings that are only due to parameters.

    Two pairs that are in another order on the two sides exchange their counterparts if their results have each other's
    role, and each of the new pairs has one role. Crossed pairs are close together in the target's order.
    """
    features, ordered = evidence.features[0], sorted(pairs)
    same = (features.operation, features.own_shapes, features.in_shapes, features.out_shape)
    partner = dict(pairs)
    for n, (a, b) in enumerate(ordered):
        for c, d in ordered[n + 1 : n + 4]:
            if b <= d or partner[a] != b or partner[c] != d or any(column[a] != column[c] for column in same):
                continue
            mine = roles[0].nearest(a), roles[0].nearest(c)
            theirs = roles[1].nearest(b), roles[1].nearest(d)
            if mine[0] != mine[1] and mine == (theirs[1], theirs[0]) and all(mine):
                partner[a], partner[c] = d, b
    return list(partner.items())


class Roles:
    """The operations that use the results of one side's calls."""

    def __init__(self, side: Side, flow: Dataflow) -> None:
        self._side, self._flow = side, flow
        self._known: dict[int, Role] = {}

    @cached_property
    def consumers(self) -> defaultdict[int, list[tuple[int, int]]]:
        """Return by call the calls that have its result as an input, and at which position."""
        found: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for at, inputs in self._flow.made.items():
            for k, chains in enumerate(inputs):
                for call in {call for chain in chains for call in chain}:
                    found[call].append((at, k))
        return found

    def nearest(self, call: int) -> Role:
        """Return the operations that use a result first, without changes of layout."""
        return frozenset(path[0] for path in self._follow(call, 1, _LAYOUT))

    def of(self, call: int) -> Role:
        """Return the first two operations in sequence that are not arithmetic or changes of layout, on every path.

        A query is the left operand of a product whose result is an input of a softmax, a value the right operand of one
        whose result is an input of a linear layer, after any scaling, rotation, masking and reshaping.
        """
        if call not in self._known:
            self._known[call] = frozenset(" > ".join(path) for path in self._follow(call, 2, _PASSING))
        return self._known[call]

    def _follow(self, call: int, length: int, passing: frozenset[str]) -> set[Path]:
        found: set[Path] = set()
        seen: set[tuple[int, Path]] = set()
        waiting: list[tuple[int, Path]] = [(call, ())]
        while waiting and len(seen) < MAX_STEPS:
            at, path = waiting.pop()
            for consumer, k in self.consumers[at]:
                if self._side.names[consumer].kind != "api" or not self._side.tensors(consumer).outputs:
                    continue
                step = self._steps(consumer, k, passing)
                longer = (path + step)[:length]
                if step:
                    found.add(longer)
                if len(longer) < length and (consumer, longer) not in seen:
                    seen.add((consumer, longer))
                    waiting.append((consumer, longer))
        return found

    def _steps(self, consumer: int, k: int, passing: frozenset[str]) -> Path:
        what = operation_word(self._side.names[consumer].stem)
        if what in passing:
            return ()
        if what == _ATTENTION and k < len(_IN_ATTENTION):
            return _IN_ATTENTION[k]
        if what == _MATMUL and any(self._flow.constant[consumer]):
            what = _LINEAR
        return (what if what in _COMMUTATIVE else f"{what} {k}",)


def retied(
    evidence: Evidence, roles: tuple[Roles, Roles], calls: list[int], is_weak: Callable[[int], bool]
) -> list[tuple[int, int]]:
    """Return calls of the target, the last first, with the golden call whose result the counterparts of their consumers
    have.

    NONE if several calls have it, or it has another counterpart: then the existing pair is undone. `is_weak` decides
    which pairs may be changed.
    """
    movable = _first_steps(evidence.target, evidence.flows[0], roles[0])
    found = []
    now: dict[int, int] = {}
    freed: set[int] = set()
    fixed: set[int] = set()
    for a in reversed(calls):
        b = evidence.golden_of[a]
        if evidence.target.names[a].kind != "api" or a not in movable or (b != NONE and not is_weak(a)):
            continue
        producers = _producers_for(evidence, roles, a, now)
        if not producers or b in producers:
            continue
        free = [g for g in producers if (evidence.target_of[g] == NONE or g in freed) and g not in fixed]
        new = free[0] if len(producers) == len(free) == 1 else NONE
        if b != NONE:
            freed.add(b)
        if new != b:
            found.append((a, new))
            now[a] = new
            fixed.add(new)
    return found


def _first_steps(side: Side, flow: Dataflow, roles: Roles) -> set[int]:
    """Return calls without weights whose results reach calls with weights, without those at which several branches
    meet.

    Branches meet in a call whose inputs come from several calls with weights, or from several such meetings.
    """
    weighted: set[int] = set()
    origins: dict[int, frozenset[int]] = {}
    ends: set[int] = set()
    for at in side.forward:
        constants = zip(side.tensors(at).inputs, flow.constant.get(at, ()), strict=False)
        if any(is_constant and math.prod(tensor.shape) > 1 for tensor, is_constant in constants):
            weighted.add(at)
        made = [chains[0][0] for chains in flow.made.get(at, ()) if chains]
        before: frozenset[int] = frozenset().union(*(origins.get(call, frozenset()) for call in made))
        if len(before) > 1 and at not in weighted:
            ends.add(at)
        origins[at] = frozenset((at,)) if at in weighted or at in ends else before
    reaching = set(ends)
    for at in reversed(side.forward):
        if any(consumer in reaching and consumer not in weighted for consumer, _ in roles.consumers[at]):
            reaching.add(at)
    return set(side.forward) - weighted - reaching


def _producers_for(evidence: Evidence, roles: tuple[Roles, Roles], a: int, now: dict[int, int]) -> set[int]:
    """Return calls like `a` whose results are inputs of the counterparts of its consumers, at the same position."""
    mine, theirs = evidence.features
    found: set[int] = set()
    for consumer, k in roles[0].consumers[a]:
        partner = now.get(consumer, evidence.golden_of[consumer])
        inputs = evidence.flows[1].made.get(partner, ())
        if k < len(inputs):
            found |= {call for chain in inputs[k] for call in chain}
    return {
        b
        for b in found
        if evidence.correspond(a, b)
        and theirs.out_shape[b] == mine.out_shape[a]
        and theirs.in_shapes[b] == mine.in_shapes[a]
    }


def by_results(evidence: Evidence, left: list[int], right: list[int]) -> list[tuple[int, int]]:
    """Return pairs of calls whose result no other call around them has, paired or not: one value in one shape."""
    mine, theirs = evidence.features
    ours, others = _by_shape(evidence.target, mine, left), _by_shape(evidence.golden, theirs, right)
    found = []
    for shape in ours.keys() & others.keys():
        targets, goldens = _ByResult(mine, ours[shape]), _ByResult(theirs, others[shape])
        for a in ours[shape].tolist():
            if evidence.golden_of[a] != NONE:
                # most calls have a counterpart; only for the others is it worth searching other calls with this result
                continue
            same = goldens.of(mine, a)
            if (
                len(same) == 1
                and evidence.target_of[same[0]] == NONE
                and targets.of(theirs, same[0]) == [a]
                and len(evidence.target.tensors(a).outputs) == len(evidence.golden.tensors(same[0]).outputs)
            ):
                found.append((a, same[0]))
    return sorted(found)


def _by_shape(side: Side, features: Features, calls: list[int]) -> dict[int, Ints]:
    """Return the functions whose results are distinctive, by the shape of these."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for at in calls:
        if side.names[at].kind == "api" and features.informative[at] and not _passes_on(side, at):
            found[int(features.out_shape[at])].append(at)
    return {shape: np.array(each, np.int64) for shape, each in found.items()}


class _ByResult:
    """Calls of one side with results of one shape, by their norms: a result close to a value has a similar norm."""

    def __init__(self, features: Features, calls: Ints) -> None:
        self._features = features
        self._by_digest: defaultdict[int, list[int]] = defaultdict(list)
        for at in calls[features.digests[calls, 0] != 0].tolist():
            self._by_digest[int(features.digests[at, 0])].append(at)
        calls = calls[~np.isnan(features.out[calls, :2]).any(-1)]  # a result without extremes is not close to anything
        norms = features.out[calls, 3]
        is_plain = np.isfinite(norms) & (norms >= 0)
        order = norms[is_plain].argsort(kind="stable")
        self._plain: Ints = calls[is_plain][order]
        self._norms = norms[is_plain][order]
        self._odd: Ints = calls[~is_plain]

    def of(self, mine: Features, at: int) -> list[int]:
        """Return the calls with the result of a call of the other side; at most two of them."""
        norm = float(mine.out[at, 3])
        plain = self._plain
        if np.isfinite(norm) and norm >= 0:
            low, high = norm * (1 - 2 * WITHIN), norm * (1 + 2 * WITHIN)
            plain = plain[self._norms.searchsorted(low) : self._norms.searchsorted(high, "right")]
        found = set(self._by_digest.get(int(mine.digests[at, 0]), ())[:2])
        for part in (plain, self._odd):
            for start in range(0, len(part), _AT_ONCE):
                there = part[start : start + _AT_ONCE]
                found.update(there[close(mine.out[at], self._features.out[there], WITHIN)].tolist())
                if len(found) > 1:
                    return sorted(found)[:2]
        return sorted(found)


def after_phantoms(
    evidence: Evidence, phantoms: dict[int, int], left: list[int], right: list[int]
) -> list[tuple[int, int]]:
    """Return pairs after calls that do not correspond but have one weight: the last steps after them whose results have
    the same shape.

    MindSpore's layers call primitives in sequence, a matmul, a bias_add and a reshape for PyTorch's linear.
    """
    mine, theirs = evidence.features
    following = dict(pairwise(left)), dict(pairwise(right))
    found = []
    for a, b in phantoms.items():
        ours = _finishing(evidence.target, evidence.flows[0], a, following[0])
        others = _finishing(evidence.golden, evidence.flows[1], b, following[1])
        pairs = [(c, d) for c in ours for d in others if mine.out_shape[c] == theirs.out_shape[d]]
        if pairs and evidence.golden_of[pairs[-1][0]] == NONE and evidence.target_of[pairs[-1][1]] == NONE:
            found.append(pairs[-1])
    return found


def _finishing(side: Side, flow: Dataflow, at: int, following: dict[int, int]) -> list[int]:
    """Return a call and the primitives directly after it that use its result, as long as they complete a layer."""
    found = [at]
    while side.names[found[-1]].stem.startswith("Primitive.") and (then := following.get(found[-1], NONE)) != NONE:
        takes = any(found[-1] in chain for chains in flow.made.get(then, ())[:1] for chain in chains)
        stem = side.names[then].stem
        if not takes or not stem.startswith("Primitive.") or operation_word(stem) not in _FINISH:
            break
        found.append(then)
    return found


def _passes_on(side: Side, at: int) -> bool:
    """Return whether the result of a call is its input, such as that of a disabled dropout."""
    if operation_word(side.names[at].stem) not in _PASS_ON:
        return False
    tensors = side.tensors(at)
    values = {tensor.values for tensor in (*tensors.inputs[:1], *tensors.outputs[:1])}
    return len(values) == 1 and None not in values


def last_inside(
    evidence: Evidence, target: int, golden: int, left: list[int], right: list[int]
) -> list[tuple[int, int]]:
    """Return the last calls inside a pair of leaf modules whose results are those of the modules, without identity
    operations.

    None if a module runs inside: in a layer with an activation, the last result is that of the activation.
    """
    if target in evidence.target.around or golden in evidence.golden.around:
        return []
    mine = _with_result(evidence.target, target, left)
    theirs = _with_result(evidence.golden, golden, right)
    return [(mine[-1], theirs[-1])] if mine and theirs else []


def _with_result(side: Side, module: int, inside: list[int]) -> list[int]:
    """Return calls with the result of a module; if its values are not distinctive, those with a result of its shape."""
    results = side.tensors(module).outputs[:1]
    found = []
    for at in inside if results else ():
        made = side.tensors(at).outputs[:1]
        if side.names[at].kind != "api" or not made or _passes_on(side, at):
            continue
        if results[0].values is not None:
            is_same = made[0].values == results[0].values
        else:
            is_same = made[0].shape == results[0].shape and operation_word(side.names[at].stem) not in _PASS_ON
        if is_same:
            found.append(at)
    return found
