"""Statistics of the monitor: many tensors per call, one pass over the memory of each.

`statistic.py` guarantees twelve digits; this module is optimized for speed, because it measures every parameter at
every step. One call measures a list of arrays, in C if the extension was built (`_brief.c`), otherwise with NumPy. For
costs see `benchmarks/brief.py`.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from . import statistic as module
from .schema import OPERATIONS
from .statistic import Array, blocks, to_native

COLUMNS = OPERATIONS
"""The columns of a row, in this order."""

_EMPTY = (math.nan, math.nan, math.nan, math.nan, 0.0, math.nan)
_LEAST_FLOAT = float(np.finfo(np.float32).smallest_subnormal)


def measure_all(arrays: Sequence[Array], eps: float, threads: int = 1) -> npt.NDArray[np.float64]:
    """Return a row of `COLUMNS` for each array, as float64 of shape (len(arrays), 6).

    Arrays may have any shape and layout. They must not change during the call, which releases the GIL.

    - norm: square root of the sum of squares. min, max: NaN if any element is; zero is 0.0, never -0.0. mean:
      sum / size. nans: number of NaN elements. zeros: share of elements with abs(x) < eps, without NaN.
    - Sums are accumulated in float64, within a relative 1e-11 of the norm and 1e-11 of the mean of abs(x). If a sum of
      float64 elements overflows, the mean is inf or NaN; the norm is correct even if squares overflow or underflow.
    - `eps` is rounded to float32 for types that float32 can represent, as in a comparison with a scalar, but remains
      positive.
    - With NaN, norm, min, max and mean are NaN. With infinities, norm is inf and mean is inf, -inf, or NaN with both.
    - Empty arrays: nans is 0, all other values are NaN. The same for non-numeric arrays: text, dates, objects, records.
    - bool counts as 0 and 1; int64 and uint64 are rounded to float64, also for min and max. complex: absolute values.
      Wider floats are rounded to float64.

    A row depends only on the elements: not on their alignment in memory, on `threads`, or on other arrays in the list.
    Results are bitwise equal for all instruction sets, except for the last digits of the norm of float64.
    """
    rows = np.empty((len(arrays), len(COLUMNS)))
    rows[:] = _EMPTY
    if module.kernel is None:
        for index, array in enumerate(arrays):
            rows[index] = _by_numpy(to_native(array), eps)
        return rows
    refused = module.kernel.brief(list(arrays), eps, threads, rows.ctypes.data)
    for index in refused:
        array = to_native(arrays[index])
        if array.size and array.dtype.kind in "biuf":
            module.kernel.brief([array], eps, threads, rows[index:].ctypes.data)
    return rows


def _by_numpy(array: Array, eps: float) -> tuple[float, ...]:
    """Return the same row with NumPy, block by block in float64."""
    if array.size == 0 or array.dtype.kind not in "biuf":
        return _EMPTY
    limit = eps
    if array.dtype.kind == "f" and array.itemsize < 8:
        limit = float(np.float32(eps)) or (_LEAST_FLOAT if eps > 0 else 0.0)
    tops, bottoms, total, squares, zeros, nans = [], [], 0.0, 0.0, 0, 0
    with np.errstate(all="ignore"):
        for block in blocks(array.reshape(-1)):
            tops.append(block.max())
            bottoms.append(block.min())
            total += float(block.sum())
            squares += float(np.square(block).sum())
            zeros += int(np.count_nonzero(np.abs(block) < limit))
            nans += int(np.count_nonzero(block != block))
        top, bottom = float(np.max(tops)) + 0.0, float(np.min(bottoms)) + 0.0
        norm, peak = math.sqrt(squares), max(top, -bottom)
        if nans:
            norm = total = math.nan
        elif peak and math.isfinite(peak) and not 2.0**-450 < peak < 2.0**480:
            norm = module.scaled_norm(array, peak)
    return norm, bottom, top, zeros / array.size, float(nans), total / array.size
