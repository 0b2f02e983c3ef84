"""Statistics of a tensor: max, min, mean, norm, and numbers of non-finite elements.

They are computed in one fused pass in C (`_passes.c`), or with NumPy in blocks if the extension was not built. Both
return bitwise equal max and min, and mean and norm within a relative 1e-12 of the exact value.
"""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import schema

try:
    from . import _statistic  # type: ignore[attr-defined]  # the optional extension, which has no Python source

    kernel: Any = _statistic
except ImportError:  # installed without a compiler: NumPy is used
    kernel = None

if TYPE_CHECKING:
    from fractions import Fraction

Number = int | float | bool | None
Array = np.ndarray[Any, Any]

_BLOCK = 1 << 15  # elements: as float64, a block and its intermediate results fit into the second-level cache


class Statistic(NamedTuple):
    """Statistics of a tensor; max, min, mean and (L2) norm are None if they are not defined.

    `true_count` is the number of true elements of a bool tensor, otherwise 0.
    """

    max: Number
    min: Number
    mean: Number
    norm: Number
    nan_count: int = 0
    positive_inf_count: int = 0
    negative_inf_count: int = 0
    true_count: int = 0


def statistic(array: Array) -> Statistic:
    """Return the statistics of an array of any shape, byte order and layout.

    - float16, bfloat16, float32, float64: `max` and `min` are exact, NaN if any element is; zero is 0.0, never -0.0.
      `mean` is sum / size, `norm` the square root of the sum of squares. Both have a relative error of at most 1e-12,
      also if the sum cancels, if squares or the sum overflow or underflow in float64, and for subnormal elements (a
      subnormal result has the precision of float64). A norm above the range of float64 is inf. With NaN both are NaN;
      with infinities the norm is inf, and the mean is inf, -inf, or NaN with both.
    - Integers: `max` and `min` are exact Python ints; the sum is exact, `mean` has at most two roundings, `norm` is as
      above.
    - bool: `max` is any, `min` is all, both bool; mean and norm are None; `true_count` is set.
    - complex64, complex128: of the absolute values as rounded by `np.abs`, in half the width.
    - Empty arrays, text, dates, objects and records: all statistics are None. Wider floats are rounded to float64.
    """
    if kernel is not None and (found := kernel.scan(array, _exact_mean)) is not None:
        return Statistic(*found)
    array = to_native(array)
    if array.size == 0 or array.dtype.kind not in "biuf":
        return Statistic(None, None, None, None)
    if kernel is not None and (found := kernel.scan(array, _exact_mean)) is not None:
        return Statistic(*found)
    array = array.reshape(-1)
    if array.dtype.kind == "b":
        count = int(np.count_nonzero(array))
        return Statistic(count > 0, count == array.size, None, None, true_count=count)
    with np.errstate(all="ignore"):
        return _float_statistic(array) if array.dtype.kind == "f" else _integer_statistic(array)


def shares(array: Array, wanted: Sequence[schema.Statistic], nan_count: int = 0) -> list[float | None]:
    """Return the optional statistics of an array: for each, the share of the elements that its limit separates.

    Exact counts of abs(x) < limit, or of abs(x) >= limit, divided by the number of elements, `nan_count` of which are
    NaN: those count as neither. bool counts as 0 and 1; complex: of the absolute values as `np.abs` rounds them. None
    for a dtype without the statistic, and for an array without elements.
    """
    kind = "f" if is_bfloat16(array) else array.dtype.kind
    has = [kind in each.dtypes and array.size > 0 for each in wanted]
    if not any(has):
        return [None] * len(wanted)
    array = array if kernel is not None and kind != "c" and array.flags.c_contiguous else to_native(array)
    found: list[float | None] = []
    for each, is_there in zip(wanted, has, strict=True):
        count = _at_least(array, each.limit) if is_there else 0
        count = array.size - nan_count - count if each.is_below else count
        found.append(count / array.size if is_there else None)
    return found


def _at_least(array: Array, limit: float) -> int:
    """Return the number of elements whose magnitude is at least a positive limit."""
    if array.dtype.kind == "b":
        return int(np.count_nonzero(array))
    if kernel is not None and (count := kernel.at_least(array, limit)) is not None:
        return int(count)
    with np.errstate(all="ignore"):
        return sum(int(np.count_nonzero(np.abs(block) >= limit)) for block in blocks(to_native(array).reshape(-1)))


def is_bfloat16(array: Array) -> bool:
    """Return whether the dtype is bfloat16, by its name: NumPy has no bfloat16, so frameworks register a type."""
    return array.itemsize == 2 and array.dtype.type.__name__ == "bfloat16"


def widen(array: Array) -> Array:
    """Return a bfloat16 array as float32, without loss; return other arrays unchanged."""
    if not is_bfloat16(array):
        return array
    return bfloat16_bits_to_float32(np.ascontiguousarray(array).view(np.uint16)).reshape(array.shape)


def bfloat16_bits_to_float32(bits: Array) -> Array:
    """Convert bfloat16 numbers, given as uint16 bit patterns, to float32."""
    wide = bits.astype(np.uint32)
    wide <<= 16  # bfloat16 is the upper half of float32; casts of registered types are slow
    return wide.view(np.float32)


def to_native(array: Array) -> Array:
    """Return the values contiguous, aligned, in native byte order, and numbers in a dtype that the kernels support."""
    if not array.flags.c_contiguous:
        array = array.ravel(order="K")  # memory order, because statistics do not depend on the order
    array = widen(array)
    with np.errstate(all="ignore"):
        if array.dtype.kind == "c":
            array = np.abs(array)
        if array.dtype.kind not in "biuf":
            return array
        wanted = np.dtype(np.float64) if array.dtype.char == "g" else array.dtype.newbyteorder("=")
        return np.require(array, wanted, ["C_CONTIGUOUS", "ALIGNED"])


def _integer_statistic(array: Array) -> Statistic:
    if array.dtype.itemsize < 8:
        total = int(array.sum(dtype=np.int64))
    else:  # in two halves, which cannot overflow
        lower = int((array & array.dtype.type(0xFFFFFFFF)).sum())
        total = (int((array >> array.dtype.type(32)).sum()) << 32) + lower
    norm = math.sqrt(math.fsum(np.square(block).sum() for block in blocks(array)))
    return Statistic(int(array.max()), int(array.min()), total / array.size, norm)


def _float_statistic(array: Array) -> Statistic:
    tops, bottoms, sums, squares = [], [], [], []
    for block in blocks(array):
        tops.append(block.max())
        bottoms.append(block.min())
        sums.append(block.sum())
        squares.append(np.square(block).sum())
    top, bottom = float(np.max(tops)) + 0.0, float(np.min(bottoms)) + 0.0  # + 0.0 converts -0.0 to 0.0
    if not (math.isfinite(top) and math.isfinite(bottom)):
        return _non_finite_statistic(array, top, bottom)
    peak = max(top, -bottom)
    if peak == 0:
        return Statistic(top, bottom, 0.0, 0.0)
    if not 2.0**-450 < peak < 2.0**480:  # squares or sums may overflow or underflow
        return Statistic(top, bottom, _exact_mean(array), scaled_norm(array, peak))
    norm, total = math.sqrt(math.fsum(squares)), math.fsum(sums)
    # The error of pairwise summation is less than 32 roundings of the sum of magnitudes (bounded by Cauchy-Schwarz).
    certain = 2.0**-48 * math.sqrt(array.size) * norm <= 5e-13 * abs(total)
    return Statistic(top, bottom, total / array.size if certain else _precise_mean(array, peak), norm)


def _non_finite_statistic(array: Array, top: float, bottom: float) -> Statistic:
    nan, up, down = (int(np.count_nonzero(found)) for found in (array != array, array == math.inf, array == -math.inf))
    mean = math.nan if up and down else math.inf if up else -math.inf
    if nan:  # a canonical NaN
        return Statistic(math.nan, math.nan, math.nan, math.nan, nan, up, down)
    return Statistic(top, bottom, mean, math.inf, nan, up, down)


def scaled_norm(array: Array, peak: float) -> float:
    """Return the L2 norm of finite values of magnitude at most `peak`, scaled by a power of two near 1 / peak."""
    scale = math.ldexp(1.0, min(max(-math.frexp(peak)[1], -1020), 1020))
    return math.sqrt(math.fsum(np.square(block * scale).sum() for block in blocks(array))) / scale


def _precise_mean(array: Array, peak: float) -> float:
    """Return the mean of floats of magnitude at most `peak`, with twice the precision of float64 or more."""
    sums = []
    for block in blocks(array):
        above = _high_part(block, peak)
        sums += [float(above.sum()), float((block - above).sum())]
    total = math.fsum(sums)
    # The low parts are below peak * 2^-35, and the error of pairwise summation is less than 32 roundings of them.
    certain = 2.0**-82 * array.size * peak <= 5e-13 * abs(total)
    return total / array.size if certain else _exact_mean(array)


def _exact_mean(array: Array) -> float:
    """Return the correctly rounded mean of finite floats, also if their sum cancels."""
    from fractions import Fraction  # lazy: imports `decimal`, and is rarely needed

    parts = (part for block in blocks(widen(array).reshape(-1)) for part in _exact_parts(block))
    return float(sum(parts, Fraction()) / array.size)


def _exact_parts(block: Array) -> "Iterator[Fraction]":
    """Yield numbers whose exact sum is the sum of a block: sums of the high parts, then of those of the rest."""
    from fractions import Fraction

    last = math.inf
    while 0 < (peak := max(float(block.max(initial=0)), -float(block.min(initial=0)))) < last:
        if peak > 2.0**900:  # the anchor could overflow
            great = np.abs(block) > 2.0**900
            yield from (part * 2**64 for part in _exact_parts(block[great] * 2.0**-64))
            block = block[~great]
            continue
        above = _high_part(block, peak)
        yield Fraction(float(above.sum()))
        block, last = block - above, peak


def _high_part(block: Array, peak: float) -> Array:
    """Return the high parts of elements of magnitude at most `peak`, whose sum is exact in any order.

    Adding and subtracting a large `anchor` rounds each element to the last digit of the anchor, 2^-53 of it. Sums of
    such multiples below the anchor are exact, and so is the difference to the element (Rump, Ogita and Oishi, Accurate
    Floating-Point Summation, SIAM J. Sci. Comput. 31, 2008).
    """
    anchor = math.ldexp(1.0, math.frexp(peak)[1] + block.size.bit_length() + 1)
    above = block + anchor
    above -= anchor
    return above


def blocks(array: Array) -> Iterator[Array]:
    """Yield blocks of a flat array as float64, which fit into the cache; NumPy's float16 operations are slow."""
    for start in range(0, array.size, _BLOCK):
        yield array[start : start + _BLOCK].astype(np.float64, copy=False)
