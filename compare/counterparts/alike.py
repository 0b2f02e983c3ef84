"""Calls of one side that look alike: order is no evidence among them, only what goes in and what becomes of it.

Where query, key and value begin with the same weights, their layers give the same values, and so does every reshape
and transpose behind them. A port may call them in another order, so they are told apart by where their tensors come
from, by what takes their results (roles.py), or by the gradients that come back; otherwise they stay without partner.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np

from .features import close
from .kinship import STRANGERS
from .roles import Roles, likeness
from .score import WITHIN, Evidence
from .side import NONE, Side, Tensor

Group = tuple[int, ...]

AMONG = 100_000
"""Calls of two groups, multiplied, beyond which they stay without partner: of so many none stands out."""

LEAST_LIKENESS = 0.5
"""Part of two calls' roles that must be common."""


class Alike:
    """The groups of calls of two runs that look alike: `left[a]` and `right[b]` are the others like it and itself."""

    def __init__(self, evidence: Evidence, left: list[int], right: list[int], roles: tuple[Roles, Roles]) -> None:
        self._evidence, self._roles = evidence, roles
        self.left, self.right = _groups(evidence, left, 0), _groups(evidence, right, 1)

    def told_apart(self, pairs: Iterable[tuple[Group, Group]]) -> Iterator[tuple[int, int]]:
        """The pairs of two groups that one of the three, asked one after the other, makes without doubt."""
        for mine, theirs in pairs:
            if len(mine) * len(theirs) > AMONG:
                continue
            taken: set[int] = set()
            for likeness_of in (self._fed, self._used, self._blamed):
                points = np.array([[likeness_of(a, b) for b in theirs] for a in mine])
                for i, a in enumerate(mine):
                    j = int(points[i].argmax())
                    b = theirs[j]
                    rival = max(np.delete(points[i], j).max(initial=0.0), np.delete(points[:, j], i).max(initial=0.0))
                    if points[i, j] < LEAST_LIKENESS or points[i, j] <= rival or taken & {a, ~b}:
                        continue
                    taken |= {a, ~b}
                    if self._evidence.golden_of[a] == self._evidence.target_of[b] == NONE:
                        yield a, b

    def _fed(self, a: int, b: int) -> float:
        if self._evidence.kinship(a, b) == STRANGERS:
            return 0.0
        mine, theirs = self._evidence.labels(a, True), self._evidence.labels(b, False)
        told = [bool(set(x) & set(y)) for x, y in zip(mine, theirs, strict=False) if x and y]
        return sum(told) / len(told) if told else 0.0

    def _used(self, a: int, b: int) -> float:
        if self._evidence.kinship(a, b) == STRANGERS:
            return 0.0
        return likeness(self._roles[0].of(a), self._roles[1].of(b))

    def _blamed(self, a: int, b: int) -> float:
        if self._evidence.kinship(a, b) == STRANGERS:
            return 0.0
        mine, theirs = _gradient(self._evidence.target, a), _gradient(self._evidence.golden, b)
        if mine is None or theirs is None:
            return 0.0
        if mine.digest or theirs.digest:
            return float(mine.digest == theirs.digest)
        return float(close(np.array(mine.statistics), np.array([theirs.statistics]), WITHIN)[0])


def _gradient(side: Side, at: int) -> Tensor | None:
    """The gradient of a call's result, where it was recorded and says something."""
    backward = side.backward_of(at)
    given = side.tensors(backward).inputs[:1] if backward != NONE else ()
    return given[0] if given and given[0].says_something else None


def _groups(evidence: Evidence, calls: list[int], which: int) -> dict[int, Group]:
    features = evidence.features[which]
    found: defaultdict[object, list[int]] = defaultdict(list)
    for at in calls:
        if features.telling[at]:
            numbers = (features.operation, features.out_shape, features.in_shapes, features.digests)
            values = (features.out[at].tobytes(), features.ins[at].tobytes())
            look = (*(column[at].tobytes() for column in numbers), *values)
            found[look].append(at)
    return {at: tuple(group) for group in found.values() if len(group) > 1 for at in group}
