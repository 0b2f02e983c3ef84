"""What a dump tells of a tensor, and by what it is known again.

Two records are taken for one tensor where an identity of theirs is equal. All of them hold the digest, or without one
statistics; they differ in what may have happened to the tensor on its way.

| identity | equal for | where |
|---|---|---|
| `exact` | the same elements in the same shape and dtype | in one dump |
| `values` | the same elements in the same shape: a cast | in one dump |
| `elements` | the same elements in any shape: a reshape, a transpose | in one dump |
| `weight` | the same elements in any order of the axes | in two dumps, of two frameworks |

All but the first are None for a tensor whose values do not tell it from others.
"""

import math
from typing import NamedTuple

from msprobe.store.record import TENSOR, Columns

from .standard import canonical

Identity = tuple[object, ...]
Shape = tuple[int, ...]
Weight = tuple[Shape, str | tuple[float, float]]


class Tensor(NamedTuple):
    """The record of a tensor; `statistics` are maximum, minimum, mean and norm, NaN for each that there is not."""

    shape: Shape
    dtype: str
    statistics: tuple[float, float, float, float]
    digest: str = ""
    source: str = ""

    @property
    def exact(self) -> Identity | None:
        """None where there is neither a digest nor a maximum."""
        if self.digest:
            return self.shape, canonical(self.dtype), self.digest
        high = self.statistics[0]
        return (self.shape, canonical(self.dtype), *self.statistics) if high == high else None

    @property
    def values(self) -> Identity | None:
        """The shape, and the digest or the statistics."""
        if self.digest:
            return self.shape, self.digest
        return (self.shape, *self.statistics) if self.is_distinctive else None

    @property
    def elements(self) -> Identity | None:
        """The number of elements, and the digest or the statistics."""
        values = self.values
        return None if values is None else (self.size, *values[1:])

    @property
    def weight(self) -> Weight | None:
        """The lengths of the axes, sorted, and the digest or the extremes, which no transposition changes."""
        high, low = self.statistics[:2]
        return (self.lengths, self.digest or (high, low)) if self.is_distinctive else None

    @property
    def is_distinctive(self) -> bool:
        """Whether its values tell it from others: zeros, ones and scalars are everywhere."""
        high, low = self.statistics[:2]
        return high != low and (high == high or bool(self.digest)) and self.shape not in ((), (1,))

    @property
    def lengths(self) -> Shape:
        """The lengths of its axes, sorted, without those of 1."""
        return tuple(sorted(n for n in self.shape if n != 1))

    @property
    def size(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)


def tensor_of(columns: Columns, row: int) -> Tensor | None:
    """The tensor of a row; None for anything else."""
    if columns.kind[row] != TENSOR:
        return None
    _, dtype, shape = columns.looks[columns.look[row]]
    return Tensor(shape or (), dtype, columns.four(row), columns.digest[row], columns.source[row])
