"""The difference of two outputs of a call: the ratio by which they are judged, and the sums of a relative change.

Both are computed block by block, so that what they need besides the arrays is small.
"""

from collections.abc import Iterator

import numpy as np

from msprobe.base.statistic import Array

from .finding import Difference, Mode
from .formats import Format, rounded

FLIPPED = 8.0
"""The ratio where an element has the other sign."""

_BLOCK = 1 << 15  # elements: in float64, a block and its results fit into the second-level cache


def difference(original: Array, other: Array, of: Format, floor: float | None = None) -> Difference:
    """Return the difference of the outputs of two runs, which have one shape; `of` is the format of `other`.

    `original` is rounded to `of` first. With `a = sqrt(noise)` of that format, or `floor`: the ratio of an element is
    `original / other` where `|other| > a`, the other way `other / original` where `|original| > a`, otherwise 1, and 1
    where it is not finite. The result is the larger of both maxima; 8.0 if the smallest ratio of the first kind is
    negative. Quotients are in float64. The sums omit elements that are not finite on both sides. ValueError if the
    shapes differ.
    """
    if original.shape != other.shape:
        raise ValueError(f"the second run returned the shape {other.shape} instead of {original.shape}")
    floor = float(np.sqrt(of.noise)) if floor is None else floor
    lowest, highest, change, size, unequal, non_finite = 1.0, 1.0, 0.0, 0.0, 0, 0
    with np.errstate(all="ignore"):
        for x, y in _blocks(original, other, of):
            there, back = _ratios(x, y, floor), _ratios(y, x, floor)
            lowest = min(lowest, float(there.min()))
            highest = max(highest, float(there.max()), float(back.max()))
            finite = np.isfinite(x)
            one_sided = finite != np.isfinite(y)
            non_finite += int(np.count_nonzero(one_sided))
            unequal += int(np.count_nonzero((x != y) & ~(np.isnan(x) & np.isnan(y))))
            finite &= ~one_sided
            delta, whole = (y - x)[finite], x[finite]
            change += float(delta @ delta)
            size += float(whole @ whole)
    return Difference(FLIPPED if lowest < 0 else highest, change, size, unequal, non_finite)


def _blocks(original: Array, other: Array, of: Format) -> Iterator[tuple[Array, Array]]:
    """Return both as float64, a block at a time."""
    x, y = original.reshape(-1), other.reshape(-1)
    for start in range(0, x.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        yield rounded(x[part], of).astype(np.float64), y[part].astype(np.float64)


def _ratios(x: Array, y: Array, floor: float) -> Array:
    """Return `x / y` where `|y| > floor`, and 1 elsewhere and where it is not finite."""
    ratios = np.where(np.abs(y) > floor, x / y, 1.0)
    ratios[~np.isfinite(ratios)] = 1.0
    return ratios


def judged(mode: Mode, found: Difference, tolerance: float) -> float | None:
    """Return the reported difference of an inconsistent output, `ratio - 1`; None if it is consistent.

    Consistent is a ratio between `1 / tolerance` and `tolerance`. With `no_change` any element that differs is
    reported: where no ratio tells it, as infinity if one of the two is not finite, else as 0.
    """
    if mode is Mode.NO_CHANGE:
        if not found.unequal:
            return None
        return found.ratio - 1 if found.ratio != 1 or not found.non_finite else float("inf")
    return None if 1 / tolerance <= found.ratio <= tolerance else found.ratio - 1


def relative(change: float, size: float) -> float:
    """Return the relative change by its sums of squares: 0 where nothing changed, infinity where all was 0 before."""
    if change == 0:
        return 0.0
    return float(np.sqrt(change / size)) if size else float("inf")
