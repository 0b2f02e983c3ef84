"""Functions that are no kin and still give the same result: what one side does in several steps ends in one value.

A `repeat_interleave` is an `expand` and a `reshape` elsewhere, and inside a dense layer of MindSpore's the last reshape
gives what PyTorch's `linear` gives. Only a value that nobody paired yet gives is asked about.
"""

from collections import defaultdict
from itertools import pairwise

import numpy as np

from .features import close
from .flow import value_key
from .kinship import word
from .score import WITHIN, Evidence
from .side import NONE, Side

_HAND_ON = frozenset(word(f"Tensor.{name}") for name in ("dropout", "identity", "contiguous", "to", "clone", "detach"))
_FINISH = frozenset(word(f"Primitive.{name}") for name in ("BiasAdd", "Reshape", "Cast"))


def by_results(evidence: Evidence, left: list[int], right: list[int]) -> list[tuple[int, int]]:
    """Calls that alone among those around them, paired or not, give one value in one shape."""
    mine, theirs = evidence.features
    by_shape: defaultdict[int, list[int]] = defaultdict(list)
    left = [a for a in left if not _hands_on(evidence.target, a)]
    for b in right:
        if evidence.golden.names[b].kind == "api" and theirs.telling[b] and not _hands_on(evidence.golden, b):
            by_shape[int(theirs.out_shape[b])].append(b)
    back: defaultdict[int, list[int]] = defaultdict(list)
    forth: dict[int, list[int]] = {}
    arrays = {shape: np.array(calls, np.int64) for shape, calls in by_shape.items()}
    for a in left:
        there = arrays.get(int(mine.out_shape[a]))
        if there is not None and evidence.target.names[a].kind == "api" and mine.telling[a]:
            same = close(mine.out[a], theirs.out[there], WITHIN)
            same |= (theirs.digests[there, 0] == mine.digests[a, 0]) & (mine.digests[a, 0] != 0)
            forth[a] = [int(b) for b in there[same]]
            for b in forth[a]:
                back[b].append(a)
    return [
        (a, found[0])
        for a, found in forth.items()
        if len(found) == 1
        and len(evidence.target.tensors(a).outputs) == len(evidence.golden.tensors(found[0]).outputs)
        and back[found[0]] == [a]
        and evidence.golden_of[a] == NONE
        and evidence.target_of[found[0]] == NONE
    ]


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
