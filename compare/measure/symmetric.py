"""Measures of key data, in which neither side is the golden: relative errors are of the greater of two elements.

They are those of the older tool. For elements a and b:

| number | formula |
|---|---|
| same | a = b; NaN and NaN are the same, so are infinities of one sign, and -0.0 and 0.0 |
| absolute | abs(a - b) |
| relative | abs(a - b) / max(abs(a), abs(b)), between 0 and 2; 0 if both are 0 |
| within t | abs(a - b) <= t max(abs(a), abs(b)) |

Integers and booleans are subtracted exactly, for any widths and signs. Pairs of float32 are computed in float32 (whose
roundings the older tool prints), if the difference is in range; float16 as float32; all others in float64 or the
complex type of the two. If NaN or an infinity is on one side only, or two infinities differ, the element is in no
share, and the greatest errors are NaN (with a NaN there) or infinite.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .tensors import Array, Pieces, Tensor

BLOCK = 1 << 16  # elements; temporary arrays of a block stay in the processor's cache

_EXACT = 1 << 53  # exact range of a cell


@dataclass(frozen=True, slots=True)
class SymmetricMeasures:
    """The numbers of one pair. `first` is the flat index, in C order, of the first element that differs, or -1."""

    size: int
    same: int
    first: int
    max_absolute: float
    max_relative: float
    within_1e_3: int
    within_1e_2: int


def measure_symmetric(target: Tensor, golden: Tensor) -> SymmetricMeasures:
    """Measure two tensors of one shape, arrays of any layout or open npy files, block by block.

    No tensor is copied completely. Raise a DumpError if a file cannot be read.
    """
    same = within_1e_3 = within_1e_2 = 0
    first = -1
    absolute = relative = 0.0
    pieces = Pieces(target, golden, BLOCK)
    for at, piece in enumerate(pieces):
        t, g = _operands(*piece)
        alike = t == g
        if t.dtype.kind in "fc" and not alike.all():
            alike |= (t != t) & (g != g)
        count = int(np.count_nonzero(alike))
        same += count
        if count == alike.size:
            continue
        differs = ~alike
        if first < 0:
            first = at * BLOCK + int(np.argmax(differs))
        found = _differing(t[differs], g[differs])
        absolute, relative = _greater(absolute, found[0]), _greater(relative, found[1])
        within_1e_3 += found[2]
        within_1e_2 += found[3]
    return SymmetricMeasures(pieces.size, same, first, absolute, relative, same + within_1e_3, same + within_1e_2)


def _operands(t: Array, g: Array) -> tuple[Array, Array]:
    """Return both sides in one dtype that can be subtracted."""
    if t.dtype.kind in "bui" and g.dtype.kind in "bui":
        common: np.dtype[Any] = np.dtype(np.int64)
        if t.dtype.kind == g.dtype.kind == "u":
            common = np.dtype(np.uint64)
        elif np.uint64 in (t.dtype, g.dtype):  # there is no 64-bit integer type for both: Python's integers are used
            common = np.dtype(object)
    else:
        common = np.result_type(t, g)
        if common == np.float16:
            common = np.dtype(np.float32)
    return t.astype(common, copy=False), g.astype(common, copy=False)


def _differing(t: Array, g: Array) -> tuple[float, float, int, int]:
    """Return the greatest absolute and relative error of elements that are not the same, and how many are within 1e-3,
    and 1e-2."""
    if t.dtype.kind in "uiO":
        distance, size = _integers(t, g)
        exact = int(distance.max())
        distance, size = distance.astype(np.float64), size.astype(np.float64)
        return exact if exact <= _EXACT else float(exact), *_shares(distance / size, distance, size)
    with np.errstate(all="ignore"):  # overflows and infinities are detected below
        distance, size = np.abs(t - g), np.maximum(np.abs(t), np.abs(g))
        finite = np.isfinite(size)
        if not finite.all():
            worst = math.nan if np.isnan(distance[~finite]).any() else math.inf
            return worst, worst, *(_differing(t[finite], g[finite])[2:] if finite.any() else (0, 0))
        greatest = float(distance.max())
        ratio = distance / size
        if math.isinf(greatest):
            wide = np.dtype(np.complex128 if t.dtype.kind == "c" else np.float64)
            if t.dtype.itemsize < wide.itemsize:
                return _differing(t.astype(wide), g.astype(wide))
            ratio = np.abs(t / size - g / size)  # the difference is beyond the range of float64, but not the ratio
        return greatest, *_shares(ratio, distance, size)


def _integers(t: Array, g: Array) -> tuple[Array, Array]:
    """Return abs(t - g) and max(abs(t), abs(g)), exactly."""
    if t.dtype == object:
        return np.abs(t - g), np.maximum(np.abs(t), np.abs(g))
    # The greater minus the smaller, modulo 2^64, is their distance, also for int64 whose difference is beyond the range
    # of int64; likewise the absolute value of -2^63.
    distance = np.maximum(t, g).view(np.uint64) - np.minimum(t, g).view(np.uint64)
    return distance, np.maximum(np.abs(t).view(np.uint64), np.abs(g).view(np.uint64))


def _shares(ratio: Array, distance: Array, size: Array) -> tuple[float, int, int]:
    near, nearly = (int(np.count_nonzero(distance <= size * limit)) for limit in (0.001, 0.01))
    return float(ratio.max()), near, nearly


def _greater(a: float, b: float) -> float:
    """Return the greater of two; NaN is greater than any number."""
    return a if a != a or a >= b else b
