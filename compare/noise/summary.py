"""The statistics of a tensor as a value, and the deviation of those of two tensors."""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe.base.schema import BY_NAME, merge
from msprobe.compare.core.standard import canonical
from msprobe.compare.match.pairs import Ints
from msprobe.store.record import TENSOR, Columns

Floats = NDArray[np.float64]

_UNITS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float64": 2.0**-23, "complex128": 2.0**-23}
"""The spacing of a dtype at 1. Statistics are often stored with the digits of float32, so it is at least that of
float32."""

MASKED = 1e3
"""If a tensor has elements beyond this, its statistics contain no information about the others: a mask of -1e9."""

_MAX_CACHED = 1 << 14
"""Number of summaries of one dump that are kept."""


class Summary(NamedTuple):
    """The statistics of a tensor of `size` elements, whose dtype rounds by `unit`, and its shape."""

    max: float
    min: float
    mean: float
    norm: float
    size: int
    unit: float
    shape: tuple[int, ...] = ()

    @property
    def rms(self) -> float:
        """Return the root mean square."""
        return self.norm / math.sqrt(self.size) if self.size else 0.0

    @property
    def greatest(self) -> float:
        """Return the greatest magnitude."""
        return max(abs(self.max), abs(self.min))

    @property
    def absolute(self) -> float:
        """Return the ratio of an absolute to a relative error of the elements that count in a sum of exponentials; at
        least 1."""
        return max(1.0, self.rms if self.greatest <= MASKED else abs(self.max))

    @property
    def total(self) -> float:
        """Return the sum of all elements."""
        return self.mean * self.size

    @property
    def is_constant(self) -> bool:
        """Return whether all elements are equal."""
        return self.max == self.min


_STATISTICS = Summary._fields[:4]


class SummaryColumns(Summary):
    """The summaries of one record of many calls of one form: `max`, `min`, `mean` and `norm` are columns, and either
    all tensors are constant or none."""

    __slots__ = ()

    @property
    def greatest(self) -> float:
        """Return the greatest magnitudes."""
        return greater(abs(self.max), abs(self.min))

    @property
    def is_constant(self) -> bool:
        """Return whether all elements of each are equal."""
        return bool(np.all(self.max == self.min))


class Summaries:
    """The summaries of one dump's rows; `of` keeps the last ones, `are_known` are the rows that have one."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._looks = [_look(dtype, shape) for _, dtype, shape in columns.looks]
        self._known: dict[int, Summary | None] = {}

    @property
    def are_known(self) -> NDArray[np.bool_]:
        """Return by row whether it has a summary."""
        columns = self._columns
        found: NDArray[np.bool_] = np.frombuffer(columns.kind, np.uint8) == TENSOR
        found[list(columns.odd)] = False
        high, low, mean, norm = (columns.column(name) for name in _STATISTICS)
        with np.errstate(all="ignore"):
            found &= np.isfinite(high + low + mean + np.abs(norm))
        return found

    def sizes(self, rows: Ints) -> Ints:
        """Return the numbers of elements of rows."""
        table = np.array([size for size, _, _ in self._looks] or [0], np.int64)
        found: Ints = table[np.frombuffer(self._columns.look, np.int32)[rows]]
        return found

    def units(self, rows: Ints) -> Floats:
        """Return the units of the dtypes of rows."""
        table = np.array([unit for _, unit, _ in self._looks] or [0.0])
        found: Floats = table[np.frombuffer(self._columns.look, np.int32)[rows]]
        return found

    def are_constant(self, rows: Ints) -> NDArray[np.bool_]:
        """Return which rows that have a summary are tensors whose elements are all equal."""
        found: NDArray[np.bool_] = self._columns.column("max")[rows] == self._columns.column("min")[rows]
        return found

    def statistics(self, rows: Ints) -> tuple[Floats, Floats, Floats, Floats]:
        """Return maximum, minimum, mean and norm of rows that have a summary."""
        columns = self._columns
        high, low, mean, norm = (columns.column(name)[rows] for name in _STATISTICS)
        return high, low, mean, np.abs(norm)

    def form(self, row: int) -> tuple[int, float, bool]:
        """Return size, unit, and whether all elements are equal, for a row that has a summary."""
        columns = self._columns
        size, unit, _ = self._looks[columns.look[row]]
        return size, unit, columns.max[row] == columns.min[row]

    def of(self, row: int) -> Summary | None:
        """Return the summary of a row; None if it is not a tensor, has no statistics, or has non-finite elements."""
        if row not in self._known:
            if len(self._known) >= _MAX_CACHED:  # rows are requested in the order of calls, repeatedly for a while
                self._known.clear()
            self._known[row] = summary_of(self._columns, row)
        return self._known[row]


def summary_of(columns: Columns, row: int) -> Summary | None:
    """Return the summary of a row; None if it is not a tensor, has no statistics, or has non-finite elements."""
    if columns.kind[row] != TENSOR or row in columns.odd:
        return None
    greatest, least, mean, norm = columns.max[row], columns.min[row], columns.mean[row], abs(columns.norm[row])
    if not math.isfinite(greatest + least + mean + norm):
        return None
    _, dtype, shape = columns.looks[columns.look[row]]
    return Summary(greatest, least, mean, norm, *_look(dtype, shape))


@lru_cache(maxsize=4096)
def _look(dtype: str, shape: tuple[int, ...] | None) -> tuple[int, float, tuple[int, ...]]:
    """Return size, unit and shape."""
    return math.prod(shape or ()), _UNITS.get(canonical(dtype), 2.0**-23), shape or ()


class Deviation(NamedTuple):
    """Deviation of the statistics of two tensors: of the norm relative to the norm, of the mean relative to the root
    mean square, of max and min relative to the greatest magnitude (of the golden). 0 if both are zero, inf if only the
    golden is."""

    norm: float
    mean: float
    max: float
    min: float
    size: int

    @property
    def moments(self) -> float:
        """Return the greater deviation of norm and mean, in which the errors of all elements average out."""
        return max(self.norm, self.mean)

    @property
    def extremes(self) -> float:
        """Return the greater deviation of max and min, each of which has the error of one element."""
        return max(self.max, self.min)

    @property
    def spread(self) -> float:
        """Return the relative error of the elements that explains all four, if errors are independent.

        Of n independent errors of relative size e, norm and mean differ by about e / sqrt(n) and single elements by e.
        """
        return max(self.moments * math.sqrt(self.size), self.extremes)


class DeviationColumns(NamedTuple):
    """The deviations of many pairs of tensors, as `Deviation` has them of one."""

    norm: Floats
    mean: Floats
    max: Floats
    min: Floats
    size: Ints

    @property
    def moments(self) -> Floats:
        """Return `Deviation.moments` of each."""
        return np.maximum(self.norm, self.mean)

    @property
    def extremes(self) -> Floats:
        """Return `Deviation.extremes` of each."""
        return np.maximum(self.max, self.min)

    @property
    def spread(self) -> Floats:
        """Return `Deviation.spread` of each."""
        return np.maximum(self.moments * np.sqrt(self.size), self.extremes)


def deviations(target: Summaries, golden: Summaries, t: Ints, g: Ints) -> tuple[Floats, Floats, Floats, Floats]:
    """Return `deviation` of many pairs of rows that have summaries: norms, means, maxima and minima."""
    highs, lows, means, norms = zip(target.statistics(t), golden.statistics(g), strict=True)
    scale = np.sqrt(golden.sizes(g).astype(np.float64))
    rms = np.divide(norms[1], scale, out=np.zeros(len(scale)), where=scale > 0)
    greatest = np.maximum(np.abs(highs[1]), np.abs(lows[1]))
    scales = rms * np.maximum(scale, 1.0), rms, greatest, greatest
    with np.errstate(all="ignore"):
        found = [
            np.where(mine == theirs, 0.0, np.abs(mine - theirs) / scale)  # inf if only the scale is zero
            for (mine, theirs), scale in zip((norms, means, highs, lows), scales, strict=True)
        ]
    return found[0], found[1], found[2], found[3]


def deviation(target: Summary, golden: Summary, least: float = 0.0) -> Deviation:
    """Return the deviation of two summaries of tensors of one shape; `least` is a minimum of the root mean square of
    the golden's scale, for values that cancelled out."""
    size = max(golden.size, 1)
    rms, greatest = max(golden.rms, least), max(golden.greatest, least)
    return Deviation(
        share(target.norm - golden.norm, rms * math.sqrt(size)),
        share(target.mean - golden.mean, rms),
        share(target.max - golden.max, greatest),
        share(target.min - golden.min, greatest),
        size,
    )


def summary_of_parts(parts: Sequence[Summary]) -> Summary:
    """Return the summary of the tensor that consists of some parts."""
    sizes = [part.size for part in parts]
    high, low, mean, norm = (
        merge(BY_NAME[name].merge, [getattr(part, name) for part in parts], sizes) for name in _STATISTICS
    )
    return Summary(high, low, mean, norm, sum(sizes), parts[0].unit)


# Numbers or columns of numbers: a law is computed for one call, or for many.


def is_column(number: object) -> bool:
    """Return whether a number is a column of numbers."""
    return isinstance(number, np.ndarray)


def share(difference: float, scale: float) -> float:
    """Return the size of a difference relative to a scale; 0 if there is none, inf if only the scale is zero."""
    if is_column(difference):
        return _share_of(difference, scale)  # type: ignore[arg-type, return-value]  # a column
    if difference == 0:
        return 0.0
    return abs(difference) / scale if scale else math.inf


def _share_of(differences: Floats, scale: Floats) -> Floats:
    found = np.full(differences.shape, math.inf)
    np.divide(abs(differences), scale, out=found, where=np.not_equal(scale, 0))
    found[differences == 0] = 0.0
    return found


def greater(first: float, second: float) -> float:
    """Return the greater of two numbers."""
    return np.maximum(first, second) if is_column(first) or is_column(second) else max(first, second)


def lesser(first: float, second: float) -> float:
    """Return the lesser of two numbers."""
    return np.minimum(first, second) if is_column(first) or is_column(second) else min(first, second)


def root(of: float) -> float:
    """Return the square root."""
    return np.sqrt(of) if is_column(of) else math.sqrt(of)


def square(of: float) -> float:
    """Return the square; raise an OverflowError beyond the range of floats."""
    found = of * of
    if not is_column(found) and math.isinf(found) and not math.isinf(of):
        raise OverflowError
    return found


def each(function: Callable[[float], float], of: float) -> float:
    """Return the result of a function for a number or each number of a column."""
    if is_column(of):
        return np.array([function(one) for one in of.tolist()])  # type: ignore[attr-defined, return-value]  # a column
    return function(of)


def of_known(found: float, of: float) -> float:
    """Return `found`, NaN where `of` is NaN."""
    if is_column(of):
        return np.where(np.isnan(of), math.nan, found)  # type: ignore[return-value]  # a column
    return found
