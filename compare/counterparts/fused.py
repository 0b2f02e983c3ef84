"""Modules whose parameters are one parameter on the other side: query, key and value against one projection.

Fused weights are laid behind one another, so the greatest element of the whole is the greatest of the parts, its mean
is theirs weighted by size, and its squared norm is the sum of theirs.
"""

import math
from collections.abc import Iterator

from .flow import value_key
from .kinship import STRANGERS
from .score import Evidence
from .side import NONE, Side, Tensor

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
