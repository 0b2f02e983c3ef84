"""Functions that run at another time on the other side: what they are given tells which they are."""

from collections import defaultdict

import numpy as np

from .fill import has_surplus, with_kin
from .kinship import STRANGERS
from .score import Evidence, agreement, fed_alike
from .side import NONE

MOST = 200
"""Open calls of a side beyond which nobody is looked for out of order."""


def moved(evidence: Evidence, left: list[int], right: list[int]) -> list[tuple[int, int]]:
    """Kin calls without partner, anywhere in the same place of the program, that alone are given tensors of pairs.

    A tensor that no call made (a table of cosines) counts where it agrees in value.
    """
    left = [a for a in left if evidence.golden_of[a] == NONE and evidence.target.names[a].kind == "api"]
    right = [b for b in right if evidence.target_of[b] == NONE and evidence.golden.names[b].kind == "api"]
    if not left or not right or max(len(left), len(right)) > MOST:
        return []
    is_whole_step = not evidence.target.leaves
    if is_whole_step and has_surplus(
        with_kin(evidence, left, right, {}), with_kin(evidence.mirrored(), right, left, {})
    ):
        return []  # of a layer too many the first call is given what the layer behind it is given elsewhere
    mine, theirs = evidence.features
    there = np.array(right, np.int64)
    forth: dict[int, list[int]] = {}
    back: defaultdict[int, list[int]] = defaultdict(list)
    for a in left:
        shapes = (theirs.out_shape[there] == mine.out_shape[a]) & (theirs.in_shapes[there] == mine.in_shapes[a])
        others = (theirs.own_values[there] != mine.own_values[a]) & (theirs.own_values[there] != 0)
        shapes &= ~(others & bool(mine.own_values[a]))
        near = [b for b in there[shapes].tolist() if evidence.kinship(a, b) > STRANGERS and fed_alike(evidence, a, b)]
        constants = [int(agreement(mine, theirs, a, np.array([b], np.int64))[1][0]) for b in near]
        most = max(constants, default=0)
        forth[a] = [b for b, n in zip(near, constants, strict=True) if n == most]
        for b in forth[a]:
            back[b].append(a)
    return [(a, found[0]) for a, found in forth.items() if len(found) == 1 and back[found[0]] == [a]]
