"""The statistics of one tensor: extremes, mean, norm, non-finite elements.

Statistics take one fused pass in C (`_statistic.c`) where the extension was built, blocked numpy passes elsewhere. Both
give the same extremes to the bit, and a mean and a norm within a relative 1e-12 of the exact value.
"""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import schema

try:
    from . import _statistic  # type: ignore[attr-defined]  # the optional extension, which has no Python source

    kernel: Any = _statistic
except ImportError:  # it was installed without a compiler: the numpy passes serve
    kernel = None

if TYPE_CHECKING:
    from fractions import Fraction

Number = int | float | bool | None
Array = np.ndarray[Any, Any]

_BLOCK = 1 << 15  # elements: as float64, a block and what is made of it stay in the second-level cache


class Statistic(NamedTuple):
    """Max, min, mean and L2 norm of one tensor (None where it has none), and how many elements are not finite.

    `true_count` says how many elements of a bool tensor are true; of others it is 0.
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
    """The statistics of an array of any shape, byte order and layout; it is neither changed nor kept.

    - float16, bfloat16, float32, float64: `max` and `min` are exact, NaN if any element is; a zero is 0.0, never -0.0.
      `mean` is sum / size, `norm` the square root of the sum of squares. Each is within 1e-12 of its exact value,
      relative to that value: also where a sum cancels, where squares or the sum leave the range of float64, and for
      subnormal elements (but a result that is itself subnormal has only the digits that float64 gives it). A norm
      beyond float64 is inf. With a NaN both are NaN; with infinities the norm is inf, the mean the infinity or, with
      both of them, NaN.
    - Integers of every width: `max` and `min` are exact Python ints; the sum is exact, `mean` off by two roundings
      at most, `norm` as above.
    - bool: `max` is any, `min` is all, both bool; no mean, no norm; `true_count` counts.
    - complex64, complex128: of the absolute values as `np.abs` rounds them, to half the width.
    - Empty arrays, text, dates, objects and records have no statistic. Wider floats are rounded to float64 first.
    """
    if kernel is not None and (found := kernel.scan(array, _exact_mean)) is not None:
        return Statistic(*found)
    array = plain(array)
    if array.size == 0 or array.dtype.kind not in "biuf":
        return Statistic(None, None, None, None)
    if kernel is not None and (found := kernel.scan(array, _exact_mean)) is not None:
        return Statistic(*found)
    array = array.reshape(-1)
    if array.dtype.kind == "b":
        count = int(np.count_nonzero(array))
        return Statistic(count > 0, count == array.size, None, None, true_count=count)
    with np.errstate(all="ignore"):
        return _of_floats(array) if array.dtype.kind == "f" else _of_integers(array)


def shares(array: Array, wanted: Sequence[schema.Statistic], nan_count: int = 0) -> list[float | None]:
    """The optional statistics of an array: for each, the share of the elements that its limit separates.

    Exact counts of abs(x) < limit, or of abs(x) >= limit, divided by the number of elements, `nan_count` of which are
    NaN: those count as neither. bool counts as 0 and 1; complex: of the absolute values as `np.abs` rounds them. None
    for a dtype without the statistic, and for an array without elements.
    """
    kind = "f" if is_bfloat16(array) else array.dtype.kind
    has = [kind in each.dtypes and array.size > 0 for each in wanted]
    if not any(has):
        return [None] * len(wanted)
    array = array if kernel is not None and kind != "c" and array.flags.c_contiguous else plain(array)
    found: list[float | None] = []
    for each, is_there in zip(wanted, has, strict=True):
        count = _at_least(array, each.limit) if is_there else 0
        count = array.size - nan_count - count if each.is_below else count
        found.append(count / array.size if is_there else None)
    return found


def _at_least(array: Array, limit: float) -> int:
    """How many elements have a magnitude of at least a positive limit."""
    if array.dtype.kind == "b":
        return int(np.count_nonzero(array))
    if kernel is not None and (count := kernel.at_least(array, limit)) is not None:
        return int(count)
    with np.errstate(all="ignore"):
        return sum(int(np.count_nonzero(np.abs(block) >= limit)) for block in blocks(plain(array).reshape(-1)))


def is_bfloat16(array: Array) -> bool:
    """Whether this is bfloat16, known by its type's name: numpy has none, so frameworks register their own."""
    return array.itemsize == 2 and array.dtype.type.__name__ == "bfloat16"


def widen(array: Array) -> Array:
    """A bfloat16 array as float32, which holds each of its values; every other array as it is."""
    if not is_bfloat16(array):
        return array
    return of_bfloat16_bits(np.ascontiguousarray(array).view(np.uint16)).reshape(array.shape)


def of_bfloat16_bits(bits: Array) -> Array:
    """The float32 numbers of bfloat16 numbers that are given as uint16, bit by bit."""
    wide = bits.astype(np.uint32)
    wide <<= 16  # a bfloat16 is the upper half of a float32; a cast would go element by element
    return wide.view(np.float32)


def plain(array: Array) -> Array:
    """The same values contiguous, aligned, in native byte order and, for numbers, in a dtype that the passes know."""
    if not array.flags.c_contiguous:
        array = array.ravel(order="K")  # of a transpose this is its memory as it lies: statistics know no order
    array = widen(array)
    with np.errstate(all="ignore"):
        if array.dtype.kind == "c":
            array = np.abs(array)
        if array.dtype.kind not in "biuf":
            return array
        wanted = np.dtype(np.float64) if array.dtype.char == "g" else array.dtype.newbyteorder("=")
        return np.require(array, wanted, ["C_CONTIGUOUS", "ALIGNED"])


def _of_integers(array: Array) -> Statistic:
    if array.dtype.itemsize < 8:
        total = int(array.sum(dtype=np.int64))
    else:  # in two halves, which are both far from overflow
        lower = int((array & array.dtype.type(0xFFFFFFFF)).sum())
        total = (int((array >> array.dtype.type(32)).sum()) << 32) + lower
    norm = math.sqrt(math.fsum(np.square(block).sum() for block in blocks(array)))
    return Statistic(int(array.max()), int(array.min()), total / array.size, norm)


def _of_floats(array: Array) -> Statistic:
    tops, bottoms, sums, squares = [], [], [], []
    for block in blocks(array):
        tops.append(block.max())
        bottoms.append(block.min())
        sums.append(block.sum())
        squares.append(np.square(block).sum())
    top, bottom = float(np.max(tops)) + 0.0, float(np.min(bottoms)) + 0.0  # + 0.0 takes the sign from a zero
    if not (math.isfinite(top) and math.isfinite(bottom)):
        return _of_non_finite(array, top, bottom)
    peak = max(top, -bottom)
    if peak == 0:
        return Statistic(top, bottom, 0.0, 0.0)
    if not 2.0**-450 < peak < 2.0**480:  # squares or sums may leave the range of float64
        return Statistic(top, bottom, _exact_mean(array), scaled_norm(array, peak))
    norm, total = math.sqrt(math.fsum(squares)), math.fsum(sums)
    # Pairwise summation is off by less than 32 roundings of the sum of magnitudes, which Cauchy and Schwarz bound.
    certain = 2.0**-48 * math.sqrt(array.size) * norm <= 5e-13 * abs(total)
    return Statistic(top, bottom, total / array.size if certain else _precise_mean(array, peak), norm)


def _of_non_finite(array: Array, top: float, bottom: float) -> Statistic:
    nan, up, down = (int(np.count_nonzero(found)) for found in (array != array, array == math.inf, array == -math.inf))
    mean = math.nan if up and down else math.inf if up else -math.inf
    if nan:  # one and the same NaN, whatever its bits were
        return Statistic(math.nan, math.nan, math.nan, math.nan, nan, up, down)
    return Statistic(top, bottom, mean, math.inf, nan, up, down)


def scaled_norm(array: Array, peak: float) -> float:
    """The L2 norm of finite values of magnitude at most `peak`, brought near 1 by a power of two."""
    scale = math.ldexp(1.0, min(max(-math.frexp(peak)[1], -1020), 1020))
    return math.sqrt(math.fsum(np.square(block * scale).sum() for block in blocks(array))) / scale


def _precise_mean(array: Array, peak: float) -> float:
    """The mean of floats of magnitude at most `peak`, with about twice the digits of float64, or all if they matter."""
    sums = []
    for block in blocks(array):
        above = _high_part(block, peak)
        sums += [float(above.sum()), float((block - above).sum())]
    total = math.fsum(sums)
    # What is below the cut is under peak * 2^-35, and pairwise summation off by less than 32 roundings of it.
    certain = 2.0**-82 * array.size * peak <= 5e-13 * abs(total)
    return total / array.size if certain else _exact_mean(array)


def _exact_mean(array: Array) -> float:
    """The mean of finite floats, rounded once, however far their sum cancels."""
    from fractions import Fraction  # here, as below: it loads all of `decimal`, and few sums cancel so far

    parts = (part for block in blocks(widen(array).reshape(-1)) for part in _exact_parts(block))
    return float(sum(parts, Fraction()) / array.size)


def _exact_parts(block: Array) -> "Iterator[Fraction]":
    """Numbers that add up to exactly the sum of a block: what is above a cut, of the rest what is above the next..."""
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
    """The elements, of magnitude at most `peak`, cut at one binary digit so high that their sum is exact in any order.

    To add and take away a large `anchor` rounds each element to the anchor's last digit, 2^-53 of it. Sums of such
    multiples that stay below the anchor have no error, and neither has the difference from the element (after Rump,
    Ogita and Oishi, Accurate Floating-Point Summation, SIAM J. Sci. Comput. 31, 2008).
    """
    anchor = math.ldexp(1.0, math.frexp(peak)[1] + block.size.bit_length() + 1)
    above = block + anchor
    above -= anchor
    return above


def blocks(array: Array) -> Iterator[Array]:
    """The flat array piece by piece as float64: it fits in cache, and numpy's own float16 passes crawl."""
    for start in range(0, array.size, _BLOCK):
        yield array[start : start + _BLOCK].astype(np.float64, copy=False)
