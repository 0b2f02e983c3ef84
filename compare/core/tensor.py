"""The data of a tensor in a dump: its identity, and its origin.

Two records are the same tensor if one of their identities is equal. Identities contain the digest, or without one the
statistics; they differ in the operations that leave them unchanged.

| identity | equal for | where |
|---|---|---|
| `exact` | the same elements in the same shape and dtype | in one dump |
| `values` | the same elements in the same shape: a cast | in one dump |
| `elements` | the same elements in any shape: a reshape, a transpose | in one dump |
| `weight` | the same elements in any order of the axes | in two dumps, of two frameworks |

All except the first are None for a tensor whose values are not distinctive.
"""

import math
import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe.base.schema import AT
from msprobe.store.record import TENSOR, Columns

from .standard import canonical

_MAX, _MIN, _MEAN, _NORM = (AT[name] for name in ("max", "min", "mean", "norm"))

Identity = tuple[object, ...]
Shape = tuple[int, ...]
Weight = tuple[Shape, str | tuple[float, float]]


class Tensor(NamedTuple):
    """The record of a tensor; `statistics` are in the order of the columns of a dump, NaN for missing ones."""

    shape: Shape
    dtype: str
    statistics: tuple[float, ...]
    digest: str = ""
    source: str = ""

    @property
    def max(self) -> float:
        return self.statistics[_MAX]

    @property
    def min(self) -> float:
        return self.statistics[_MIN]

    @property
    def mean(self) -> float:
        return self.statistics[_MEAN]

    @property
    def norm(self) -> float:
        return self.statistics[_NORM]

    @property
    def exact(self) -> Identity | None:
        """Return the digest or the statistics with shape and dtype; None if there is neither a digest nor a maximum."""
        if self.digest:
            return self.shape, canonical(self.dtype), self.digest
        return (self.shape, canonical(self.dtype), *self.statistics) if self.max == self.max else None

    @property
    def values(self) -> Identity | None:
        """Return the shape, and the digest or the statistics."""
        if self.digest:
            return self.shape, self.digest
        return (self.shape, *self.statistics) if self.is_distinctive else None

    @property
    def elements(self) -> Identity | None:
        """Return the number of elements, and the digest or the statistics."""
        values = self.values
        return None if values is None else (self.size, *values[1:])

    @property
    def weight(self) -> Weight | None:
        """Return the lengths of the axes, sorted, and the digest or the extremes, which no transposition changes."""
        return (self.lengths, self.digest or (self.max, self.min)) if self.is_distinctive else None

    @property
    def is_distinctive(self) -> bool:
        """Return whether its values are distinctive: zeros, ones and scalars are not."""
        high, low = self.max, self.min
        return high != low and (high == high or bool(self.digest)) and self.shape not in ((), (1,))

    @property
    def lengths(self) -> Shape:
        """Return the lengths of its axes, sorted, without those of 1."""
        return tuple(sorted(n for n in self.shape if n != 1))

    @property
    def size(self) -> int:
        """Return the number of elements."""
        return math.prod(self.shape)


def tensor_of(columns: Columns, row: int) -> Tensor | None:
    """Return the tensor of a row; None for anything else."""
    if columns.kind[row] != TENSOR:
        return None
    _, dtype, shape = columns.looks[columns.look[row]]
    return Tensor(shape or (), dtype, columns.numbers_of(row), columns.digest[row], columns.source[row])


def exact_numbers(columns: Columns) -> NDArray[np.int64]:
    """Return by row a number that is equal for rows with equal `exact`; -1 for none, and if a NaN in addition to a
    maximum makes it unequal to any other."""
    found = np.full(len(columns), -1, np.int64)
    forms: dict[tuple[Shape, str], int] = {}
    of_look = [forms.setdefault((shape or (), canonical(dtype)), len(forms)) for _, dtype, shape in columns.looks]
    form = np.array(of_look or [0], np.int64)[np.frombuffer(columns.look, np.int32)]
    numbers = columns.numbers.T.copy()
    by_value = np.frombuffer(columns.kind, np.uint8) == TENSOR
    by_value[[row for row, digest in enumerate(columns.digest) if digest] if any(columns.digest) else []] = False
    for row in columns.odd:
        statistics = columns.numbers_of(row)
        if by_value[row] and all(map(_is_float, statistics)):
            numbers[:, row] = statistics
        else:
            by_value[row] = False
    others = (np.frombuffer(columns.kind, np.uint8) == TENSOR) & ~by_value
    for column in numbers:
        by_value &= column == column
    rows = np.flatnonzero(by_value)
    keys = [form[rows], *(column[rows] for column in numbers)]
    mixed = _mixed(keys)
    order = np.argsort(mixed)
    is_new = _changes(keys, order)
    if (is_new[1:] & (mixed[order[1:]] == mixed[order[:-1]])).any():  # different keys were combined to one number
        order = np.lexsort(keys)
        is_new = _changes(keys, order)
    found[rows[order]] = np.cumsum(is_new)
    known: dict[Identity, int] = {}
    for row in np.flatnonzero(others).tolist():  # digests, and statistics that are not floats
        if (tensor := tensor_of(columns, row)) is not None and (exact := tensor.exact) is not None:
            found[row] = known.setdefault(exact, len(rows) + len(known))
    return found


def _mixed(keys: Sequence[NDArray[Any]]) -> NDArray[np.uint64]:
    """Return one number for the keys of each row, equal if all keys are; it is sorted much faster than they are."""
    found = np.zeros(len(keys[0]), np.uint64)
    for key in keys:
        found ^= (key + 0.0).view(np.uint64)  # the two zeros are equal
        found *= np.uint64(0x9E3779B97F4A7C15)
        found ^= found >> np.uint64(29)
    return found


def _changes(keys: Sequence[NDArray[Any]], order: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether a row has other keys than the previous one, for rows in this order."""
    found = np.zeros(len(order), bool)
    for key in keys:
        found[1:] |= key[order[1:]] != key[order[:-1]]
    return found


def _is_float(number: float) -> bool:
    """Return whether a number is in the range of floats; an integer may be greater."""
    return float(number) == number


Origin = Literal["call", "parameter", "leaf", "code", "unknown"]


class Source(NamedTuple):
    """The origin of an input. `call`, `part` and `path` identify a result, `text` a parameter."""

    origin: Origin
    call: str = ""
    part: str = ""
    path: tuple[str, ...] = ()
    text: str = ""


UNKNOWN = Source("unknown")
_FROM_CALL = re.compile(r"call (?P<call>.+)\.(?P<part>input|output)(?P<path>(?:\.[^.]+)*)", re.DOTALL)
_FROM_PARAMETER = "parameter "


def source_of(text: str) -> Source:
    """Return the `source` of a record, parsed."""
    if not text:
        return UNKNOWN
    if text in ("leaf", "code"):
        return Source(text)  # type: ignore[arg-type]  # the two words above
    if text.startswith(_FROM_PARAMETER):
        return Source("parameter", text=text.removeprefix(_FROM_PARAMETER))
    if m := _FROM_CALL.fullmatch(text):
        return Source("call", m["call"], m["part"], tuple(m["path"].split(".")[1:]))
    return UNKNOWN
