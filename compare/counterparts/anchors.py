"""Pairs that do not depend on order: by parameters or values that only these two calls have."""

import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import numpy as np

from msprobe.compare.core.tensor import Weight

from .alignment import has_surplus, with_possible_counterparts
from .dump_view import Dataflow, Side
from .score import WITHIN, Evidence

MAX_OPEN_CALLS = 200
"""Number of open calls of a side above which no pairs are searched out of order."""


def by_parameters(evidence: Evidence, left: list[int], right: list[int]) -> list[tuple[int, int]]:
    """Return calls of modules that have the same parameter, which no other module of their side has.

    The runs of a module that runs several times are paired in order, if both sides have the same number. If the
    parameters of one module point to several, none is used.
    """
    mine, theirs = _holders(evidence.target, left), _holders(evidence.golden, right)
    votes: defaultdict[str, set[str]] = defaultdict(set)
    for key in mine.keys() & theirs.keys():
        for a, b in _only(evidence, mine[key], theirs[key]):
            votes[a].add(b)
    back: defaultdict[str, set[str]] = defaultdict(set)
    for a, found in votes.items():
        for b in found:
            back[b].add(a)
    runs_left, runs_right = _runs(evidence.target, left), _runs(evidence.golden, right)
    namesakes = _exchanged(evidence, votes, back, left, right)
    pairs = []
    for a, found in votes.items():
        b = namesakes.get(a) or next(iter(found))
        if len(found) == 1 and len(back[b]) == 1 and len(runs_left[a]) == len(runs_right[b]):
            pairs += list(zip(runs_left[a], runs_right[b], strict=True))
    return pairs


def by_inputs(evidence: Evidence, left: list[int], right: list[int]) -> list[tuple[int, int]]:
    """Return calls with the same input that no call produced, and that no other call of their side has: a weight, if
    modules are not collected.

    Their operations need not correspond: a matmul and a linear with one weight are not a pair, but the same place of
    the program.
    """
    mine = _by_constant(evidence.target, evidence.flows[0], left)
    theirs = _by_constant(evidence.golden, evidence.flows[1], right)
    pairs: list[tuple[int, int]] = []
    taken: set[int] = set()
    both = mine.keys() & theirs.keys()
    for key in sorted(both, key=lambda key: (-math.prod(key[0]), mine[key][0])):  # weights before biases and tokens
        a, b = mine[key], theirs[key]
        if len(a) == len(b) == 1 and a[0] not in taken and ~b[0] not in taken:
            taken |= {a[0], ~b[0]}
            pairs.append((a[0], b[0]))
    return pairs


def by_values(evidence: Evidence, left: list[int], right: list[int]) -> list[tuple[int, int]]:
    """Return corresponding calls whose results and inputs agree in value with those of exactly one call of the other
    side."""
    mine, theirs = evidence.features
    right = [b for b in right if theirs.informative[b]]
    by_size: defaultdict[int, list[int]] = defaultdict(list)
    for b in right:
        by_size[int(theirs.out_size[b])].append(b)
    norms: dict[int, list[float]] = {}
    for size, calls in by_size.items():
        calls.sort(key=lambda b: _number(theirs.out[b, 3]))
        norms[size] = [_number(theirs.out[b, 3]) for b in calls]
    found: dict[int, list[int]] = {}
    for a in left:
        size = int(mine.out_size[a])
        if not mine.informative[a] or size not in by_size:
            continue
        norm = _number(mine.out[a, 3])
        low, high = bisect_left(norms[size], norm * (1 - WITHIN)), bisect_right(norms[size], norm * (1 + WITHIN))
        near = [b for b in by_size[size][low:high] if evidence.correspond(a, b)]
        if not near or len(near) > 64:
            continue
        out, ins = evidence.agreement(a, np.array(near, np.int64))
        shapes = theirs.out_shape[near] == mine.out_shape[a]
        found[a] = [b for b, good in zip(near, out & (ins > 0) & shapes, strict=True) if good]
    claims = Counter(b for candidates in found.values() for b in candidates)
    return [(a, c[0]) for a, c in found.items() if len(c) == 1 and claims[c[0]] == 1]


def _number(value: float) -> float:
    return float(value) if value == value else 0.0


def _holders(side: Side, calls: Iterable[int]) -> dict[Weight, list[int]]:
    """Return by parameter the first runs of the modules that have it."""
    found: defaultdict[Weight, list[int]] = defaultdict(list)
    seen: set[str] = set()
    for at in calls:
        stem = side.names[at].stem
        if stem not in seen:
            seen.add(stem)
            for key in dict.fromkeys(filter(None, (tensor.weight for tensor in side.tensors(at).parameters))):
                found[key].append(at)
    return found


def _only(evidence: Evidence, mine: list[int], theirs: list[int]) -> list[tuple[str, str]]:
    """Return the modules that have one parameter, paired if classes leave one choice (tied weights have two)."""
    found = []
    for a in mine:
        kin = [b for b in theirs if evidence.correspond(a, b)]
        if len(kin) == 1 and sum(evidence.correspond(c, kin[0]) for c in mine) == 1:
            found.append((evidence.target.names[a].stem, evidence.golden.names[kin[0]].stem))
    return found


def _exchanged(
    evidence: Evidence, votes: Mapping[str, set[str]], back: Mapping[str, set[str]], left: list[int], right: list[int]
) -> dict[str, str]:
    """Return modules whose parameters were exchanged among them, with their counterparts by path: both sides have these
    paths, and each of the modules there has another one's parameters."""
    at_left = {evidence.target.names[at].path: evidence.target.names[at].stem for at in left}
    at_right = {evidence.golden.names[at].path: evidence.golden.names[at].stem for at in right}
    path_of = {stem: path for path, stem in (*at_left.items(), *at_right.items())}
    found = {}
    for a, those in votes.items():
        b, namesake = next(iter(those)), at_right.get(path_of[a], "")
        if path_of[a] != path_of[b] and namesake in back and at_left.get(path_of[b], "") in votes:
            found[a] = namesake
    return found


def _runs(side: Side, calls: Iterable[int]) -> dict[str, list[int]]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for at in calls:
        found[side.names[at].stem].append(at)
    return found


def _by_constant(side: Side, flow: Dataflow, calls: list[int]) -> dict[Weight, list[int]]:
    found: defaultdict[Weight, list[int]] = defaultdict(list)
    for at in calls:
        for tensor, is_constant in zip(side.tensors(at).inputs, flow.constant.get(at, ()), strict=False):
            if is_constant and (key := tensor.weight) is not None:
                found[key].append(at)
    return found


def moved(evidence: Evidence, left: list[int], right: list[int]) -> list[tuple[int, int]]:
    """Return corresponding calls without a counterpart, anywhere in the same place of the program, whose inputs come
    from the same pairs, which is true of no other call.

    A tensor that no call produced (a table of cosines) is used if it agrees in value.
    """
    left, right = evidence.open(left, right)
    left = [a for a in left if evidence.target.names[a].kind == "api"]
    right = [b for b in right if evidence.golden.names[b].kind == "api"]
    if not left or not right or max(len(left), len(right)) > MAX_OPEN_CALLS:
        return []
    is_whole_step = not evidence.target.leaves
    if is_whole_step and has_surplus(
        with_possible_counterparts(evidence, left, right, {}),
        with_possible_counterparts(evidence.mirrored(), right, left, {}),
    ):
        return []  # the first call of an additional layer has the inputs of the next layer
    mine, theirs = evidence.features
    there = np.array(right, np.int64)
    forth: dict[int, list[int]] = {}
    back: defaultdict[int, list[int]] = defaultdict(list)
    for a in left:
        shapes = (theirs.out_shape[there] == mine.out_shape[a]) & (theirs.in_shapes[there] == mine.in_shapes[a])
        others = (theirs.own_values[there] != mine.own_values[a]) & (theirs.own_values[there] != 0)
        shapes &= ~(others & bool(mine.own_values[a]))
        near = [b for b in there[shapes].tolist() if evidence.correspond(a, b) and evidence.is_fed_alike(a, b)]
        constants = [evidence.agrees(a, b)[1] for b in near]
        most = max(constants, default=0)
        forth[a] = [b for b, n in zip(near, constants, strict=True) if n == most]
        for b in forth[a]:
            back[b].append(a)
    return [(a, found[0]) for a, found in forth.items() if len(found) == 1 and back[found[0]] == [a]]
