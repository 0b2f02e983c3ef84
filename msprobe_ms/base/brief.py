"""The monitor's statistics of many tensors at once, one lean pass over the memory of each.

`statistic.py` gives twelve digits whatever happens; here speed comes first, because these numbers are taken of every
parameter at every step. One call measures a whole list, in C where the extension was built (`_brief.h`), with numpy
passes elsewhere. `benchmarks/brief.py` shows what it costs.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from . import statistic as module
from .schema import OPERATIONS
from .statistic import Array, blocks, plain

COLUMNS = OPERATIONS
"""What a row holds, in this order."""

_EMPTY = (math.nan, math.nan, math.nan, math.nan, 0.0, math.nan)
_LEAST_FLOAT = float(np.finfo(np.float32).smallest_subnormal)


def measure_all(arrays: Sequence[Array], eps: float, threads: int = 1) -> npt.NDArray[np.float64]:
    """One row of `COLUMNS` for each array, of any shape and layout, as float64 of shape (len(arrays), 6).

    - norm: the square root of the sum of squares. min, max: NaN if an element is; a zero is 0.0, never -0.0. mean:
      sum / size. nans: how many elements are NaN. zeros: the part of the elements with abs(x) < eps; a NaN has none.
    - Sums are those of float64, within a relative 1e-11 of the norm and 1e-11 of the mean of abs(x). A sum of float64
      elements that leaves its range makes the mean inf or NaN; the norm has its value even where squares leave it.
    - `eps` is rounded to float32 for types that float32 holds, as a comparison with a scalar does, but stays positive.
    - With a NaN: norm, min, max and mean are NaN. With infinities: norm is inf, mean inf, -inf, or NaN with both.
    - Empty: nans is 0, everything else NaN. So it is for what is no number: text, dates, objects, records.
    - bool counts as 0 and 1; int64 and uint64 are rounded to float64, also their extremes. complex: of the absolute
      values. Wider floats are rounded to float64.

    A row depends on the elements alone: neither their alignment in memory nor `threads`, nor what else is in the list,
    changes a bit of it. Instruction sets agree as well, but for the last digits of a norm of float64. Arrays must not
    change meanwhile; other Python threads run.
    """
    rows = np.empty((len(arrays), len(COLUMNS)))
    rows[:] = _EMPTY
    if module.kernel is None:
        for index, array in enumerate(arrays):
            rows[index] = _by_numpy(plain(array), eps)
        return rows
    refused = module.kernel.brief(list(arrays), eps, threads, rows.ctypes.data)
    for index in refused:
        array = plain(arrays[index])
        if array.size and array.dtype.kind in "biuf":
            module.kernel.brief([array], eps, threads, rows[index:].ctypes.data)
    return rows


def _by_numpy(array: Array, eps: float) -> tuple[float, ...]:
    """The same row by numpy passes, block by block in float64."""
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
