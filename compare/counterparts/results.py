"""Functions that are no kin and still give the same result: what one side does in several steps ends in one value.

A `repeat_interleave` is an `expand` and a `reshape` elsewhere, and inside a dense layer of MindSpore's the last reshape
gives what PyTorch's `linear` gives. Only a value that nobody paired yet gives is asked about.
"""

from collections import defaultdict
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .features import Features, close
from .flow import value_key
from .kinship import word
from .score import WITHIN, Evidence
from .side import NONE, Side

Ints = NDArray[np.int64]

_AT_ONCE = 256
"""Calls that are compared with a value at once; of many with that value the first few tell that it is not unique."""

_HAND_ON = frozenset(word(f"Tensor.{name}") for name in ("dropout", "identity", "contiguous", "to", "clone", "detach"))
_FINISH = frozenset(word(f"Primitive.{name}") for name in ("BiasAdd", "Reshape", "Cast"))


def by_results(evidence: Evidence, left: list[int], right: list[int]) -> list[tuple[int, int]]:
    """Calls that alone among those around them, paired or not, give one value in one shape."""
    mine, theirs = evidence.features
    ours, others = _by_shape(evidence.target, mine, left), _by_shape(evidence.golden, theirs, right)
    found = []
    for shape in ours.keys() & others.keys():
        givers, other_givers = _Givers(mine, ours[shape]), _Givers(theirs, others[shape])
        for a in ours[shape].tolist():
            if evidence.golden_of[a] != NONE:
                continue  # only where something is found is asked who else gives it: of many calls most have a partner
            same = other_givers.of(mine, a)
            if (
                len(same) == 1
                and evidence.target_of[same[0]] == NONE
                and givers.of(theirs, same[0]) == [a]
                and len(evidence.target.tensors(a).outputs) == len(evidence.golden.tensors(same[0]).outputs)
            ):
                found.append((a, same[0]))
    return sorted(found)


def _by_shape(side: Side, features: Features, calls: list[int]) -> dict[int, Ints]:
    """The functions whose results tell something, by the shape of these."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for at in calls:
        if side.names[at].kind == "api" and features.telling[at] and not _hands_on(side, at):
            found[int(features.out_shape[at])].append(at)
    return {shape: np.array(each, np.int64) for shape, each in found.items()}


class _Givers:
    """Calls of one side with results of one shape, by their norms: what is close to a value has a norm near it."""

    def __init__(self, features: Features, calls: Ints) -> None:
        self._features = features
        self._by_digest: defaultdict[int, list[int]] = defaultdict(list)
        for at in calls[features.digests[calls, 0] != 0].tolist():
            self._by_digest[int(features.digests[at, 0])].append(at)
        calls = calls[~np.isnan(features.out[calls, :2]).any(-1)]  # what has no extremes is close to nothing
        norms = features.out[calls, 3]
        is_plain = np.isfinite(norms) & (norms >= 0)
        order = norms[is_plain].argsort(kind="stable")
        self._plain: Ints = calls[is_plain][order]
        self._norms = norms[is_plain][order]
        self._odd: Ints = calls[~is_plain]

    def of(self, mine: Features, at: int) -> list[int]:
        """The calls that give the result of a call of the other side; two of them where there are more."""
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


def behind_phantoms(
    evidence: Evidence, phantoms: dict[int, int], left: list[int], right: list[int]
) -> list[tuple[int, int]]:
    """Where calls that are no kin are given one weight: the last steps behind them that give the same shape.

    MindSpore's layers call primitives one after the other, a matmul, a bias_add and a reshape for PyTorch's linear.
    """
    mine, theirs = evidence.features
    following = _next_of(left), _next_of(right)
    found = []
    for a, b in phantoms.items():
        lasts = _steps(evidence, a, following[0], True), _steps(evidence, b, following[1], False)
        pairs = [(c, d) for c in lasts[0] for d in lasts[1] if mine.out_shape[c] == theirs.out_shape[d]]
        if pairs and evidence.golden_of[pairs[-1][0]] == NONE and evidence.target_of[pairs[-1][1]] == NONE:
            found.append(pairs[-1])
    return found


def _next_of(calls: list[int]) -> dict[int, int]:
    return dict(pairwise(calls))


def _steps(evidence: Evidence, at: int, following: dict[int, int], is_target: bool) -> list[int]:
    """A call and the primitives that take its result right behind it, as long as they finish a layer."""
    side = evidence.target if is_target else evidence.golden
    flow = evidence.flows[0 if is_target else 1]
    found = [at]
    while side.names[found[-1]].stem.startswith("Primitive.") and (then := following.get(found[-1], NONE)) != NONE:
        takes = any(found[-1] in chain for chains in flow.made.get(then, ())[:1] for chain in chains)
        if (
            not takes
            or not side.names[then].stem.startswith("Primitive.")
            or word(side.names[then].stem) not in _FINISH
        ):
            break
        found.append(then)
    return found


def _hands_on(side: Side, at: int) -> bool:
    """Whether a call gives what it is given, as a dropout does that is off."""
    if word(side.names[at].stem) not in _HAND_ON:
        return False
    tensors = side.tensors(at)
    keys = {value_key(tensor) for tensor in (*tensors.inputs[:1], *tensors.outputs[:1])}
    return len(keys) == 1 and None not in keys


def last_inside(
    evidence: Evidence, target: int, golden: int, left: list[int], right: list[int]
) -> list[tuple[int, int]]:
    """The last calls inside a pair of leaf modules that give the modules' results, and do not merely hand them on.

    None where a module runs inside: of a layer with its activation the last call gives what the activation made of it.
    """
    if target in evidence.target.around or golden in evidence.golden.around:
        return []
    mine = _giving(evidence.target, target, left)
    theirs = _giving(evidence.golden, golden, right)
    return [(mine[-1], theirs[-1])] if mine and theirs else []


def _giving(side: Side, module: int, inside: list[int]) -> list[int]:
    """Calls that give what a module gives; where its values say nothing, those that give its shape."""
    results = side.tensors(module).outputs
    if not results:
        return []
    key = value_key(results[0])
    found = []
    for at in inside:
        given = side.tensors(at).outputs[:1]
        if side.names[at].kind != "api" or not given or _hands_on(side, at):
            continue
        is_same = value_key(given[0]) == key
        if key is None:
            is_same = given[0].shape == results[0].shape and word(side.names[at].stem) not in _HAND_ON
        if is_same:
            found.append(at)
    return found
