"""What a sheet of key data says of two arrays: how many elements are the same, and how far the others are apart.

For elements a and b:

| number | formula |
|---|---|
| same | a = b; NaN and NaN are the same, so are infinities of one sign, and -0.0 and 0.0 |
| absolute | abs(a - b) |
| relative | abs(a - b) / max(abs(a), abs(b)), between 0 and 2; 0 where both are 0 |
| within t | abs(a - b) <= t max(abs(a), abs(b)) |

Integers and booleans are subtracted exactly, whatever their widths and signs. Pairs of float32 are computed in float32
(whose roundings the older tool prints), wherever the difference has room there; float16 as float32; everything else in
float64 or the complex number of the two. Where NaN or an infinity stands on one side only, or two infinities differ,
the element is in no share, and the greatest errors are NaN (with a NaN there) or infinite.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from msprobe.store.npy import NpyFile

Array = np.ndarray[Any, Any]
Tensor: TypeAlias = Array | NpyFile

BLOCK = 1 << 16  # elements; what is made of a block stays in the processor's cache

_EXACT = 1 << 53  # what a cell can hold exactly


@dataclass(frozen=True, slots=True)
class Found:
    """The numbers of one pair. `first` is the flat index, in C order, of the first element that differs, or -1."""

    size: int
    same: int
    first: int
    max_absolute: float
    max_relative: float
    within_1e_3: int
    within_1e_2: int


def measure(target: Tensor, golden: Tensor) -> Found:
    """Measure two tensors of one shape, arrays of any layout or open npy files, block by block.

    Nothing is copied whole. DumpError where a file cannot be read.
    """
    same = within_1e_3 = within_1e_2 = 0
    first = -1
    absolute = relative = 0.0
    for start, t, g in _blocks(target, golden):
        alike = _same(t, g)
        count = int(np.count_nonzero(alike))
        same += count
        if count == alike.size:
            continue
        differs = ~alike
        if first < 0:
            first = start + int(np.argmax(differs))
        found = _differing(t[differs], g[differs])
        absolute, relative = _greater(absolute, found[0]), _greater(relative, found[1])
        within_1e_3 += int(found[2])
        within_1e_2 += int(found[3])
    return Found(target.size, same, first, absolute, relative, same + within_1e_3, same + within_1e_2)


def _blocks(target: Tensor, golden: Tensor) -> Iterator[tuple[int, Array, Array]]:
    """The elements of both in C order, of a kind that can be subtracted, each block with the index where it begins."""
    sides = tuple(
        side.reshape(-1) if isinstance(side, np.ndarray) and side.flags.c_contiguous else side
        for side in (target, golden)
    )
    for start in range(0, target.size, BLOCK):
        stop = min(start + BLOCK, target.size)
        yield start, *_operands(*(_part(side, start, stop) for side in sides))


def _part(side: Tensor, start: int, stop: int) -> Array:
    if not isinstance(side, np.ndarray):
        part = side.part(start, stop)
    elif side.ndim == 1:
        part = side[start:stop]
    else:
        part = side.flat[start:stop]  # a copy of these elements alone, whatever the layout
    return part.astype(part.dtype.newbyteorder("="), copy=False)


def _operands(t: Array, g: Array) -> tuple[Array, Array]:
    if t.dtype.kind in "bui" and g.dtype.kind in "bui":
        unsigned = [x.dtype.kind == "u" for x in (t, g)]
        if all(unsigned):
            return t.astype(np.uint64), g.astype(np.uint64)
        if np.uint64 in (t.dtype, g.dtype):  # no integer of 64 bits holds both: Python's do
            return t.astype(object), g.astype(object)
        return t.astype(np.int64), g.astype(np.int64)
    common = np.result_type(t, g)
    if common == np.float16:
        common = np.dtype(np.float32)
    return t.astype(common, copy=False), g.astype(common, copy=False)


def _same(t: Array, g: Array) -> Array:
    alike: Array = t == g
    if t.dtype.kind in "fc" and not alike.all():
        alike |= (t != t) & (g != g)
    return alike


def _differing(t: Array, g: Array) -> tuple[float, float, int, int]:
    """Greatest absolute and relative error of elements that are not the same; how many are within 1e-3, and 1e-2."""
    if t.dtype.kind in "uiO":
        distance, size = _integers(t, g)
        exact = int(distance.max())
        distance, size = distance.astype(np.float64), size.astype(np.float64)
        return exact if exact <= _EXACT else float(exact), *_shares(distance / size, distance, size)
    with np.errstate(all="ignore"):  # overflows and infinities are looked for
        distance, size = np.abs(t - g), np.maximum(np.abs(t), np.abs(g))
        finite = np.isfinite(size)
        if not finite.all():
            return _with_non_finite(t, g, distance, finite)
        greatest = float(distance.max())
        ratio = distance / size
        if math.isinf(greatest):
            if t.dtype.itemsize < np.dtype(np.float64).itemsize * (2 if t.dtype.kind == "c" else 1):
                wide = np.complex128 if t.dtype.kind == "c" else np.float64
                return _differing(t.astype(wide), g.astype(wide))
            ratio = np.abs(t / size - g / size)  # float64 has no room for the difference, but for the ratio
        return greatest, *_shares(ratio, distance, size)


def _integers(t: Array, g: Array) -> tuple[Array, Array]:
    """abs(t - g) and max(abs(t), abs(g)), exactly."""
    if t.dtype == object:
        return np.abs(t - g), np.maximum(np.abs(t), np.abs(g))
    # Modulo 2^64 the greater minus the smaller is their distance, also of int64 whose difference int64 cannot hold;
    # likewise the absolute value of -2^63.
    distance = np.maximum(t, g).view(np.uint64) - np.minimum(t, g).view(np.uint64)
    return distance, np.maximum(_absolute(t), _absolute(g))


def _absolute(x: Array) -> Array:
    return x if x.dtype.kind == "u" else np.abs(x).view(np.uint64)


def _with_non_finite(t: Array, g: Array, distance: Array, finite: Array) -> tuple[float, float, int, int]:
    worst = math.nan if np.isnan(distance[~finite]).any() else math.inf
    if not finite.any():
        return worst, worst, 0, 0
    return worst, worst, *_differing(t[finite], g[finite])[2:]


def _shares(ratio: Array, distance: Array, size: Array) -> tuple[float, int, int]:
    return (
        float(ratio.max()),
        int(np.count_nonzero(distance <= size * 0.001)),
        int(np.count_nonzero(distance <= size * 0.01)),
    )


def _greater(a: float, b: float) -> float:
    """The greater of two, NaN being greater than everything."""
    return a if a != a or a >= b else b
