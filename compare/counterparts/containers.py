"""Pair modules that call other modules, by the paired leaves that they hold."""

from collections import defaultdict

import numpy as np

from .kinship import UNLIKELY
from .score import Evidence, agreement
from .side import NONE, Side

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
    for a, (_, candidates) in best_of.items():
        for b in candidates:
            back[b].append(a)
    found: list[tuple[int, int, float]] = []
    done: set[int] = set()
    for a, (_, candidates) in sorted(best_of.items()):
        if a in done or not candidates:
            continue
        chain = [c for c in back[candidates[0]] if best_of[c][1] == candidates]
        shares = {c: best_of[c][0] for c in back[candidates[0]]}
        most = max(shares.values())
        chain = [c for c in chain if shares[c] == most]
        done |= {a, *chain}  # what shares less came first where it stands inside of what shares most
        found += [(c, b, most) for c, b in _join(evidence, sorted(chain), sorted(candidates))]
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
