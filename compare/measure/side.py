"""The statistics of one tensor that its dump does not tell, piece by piece, so that memory does not grow with it."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.base.statistic import Statistic, statistic
from msprobe.store.npy import NpyFile
from msprobe.store.record import Statistics

_PIECE = 1 << 20  # elements


def side_statistics(tensor: "NDArray[Any] | NpyFile") -> Statistics:
    """Max, min, mean and L2 norm as `msprobe.base.statistic.statistic` has them; None where it has none.

    Of several pieces mean and norm are put together with one rounding each.
    """
    found = [(statistic(piece), piece.size) for piece in _pieces(tensor)]
    parts = [one for one, _ in found]
    if len(parts) == 1 or parts[0].max is None:
        only = parts[0]
        return Statistics(only.max, only.min, only.mean, only.norm, only.true_count if _is_bool(only) else None)
    if _is_bool(parts[0]):
        count = sum(one.true_count for one in parts)
        return Statistics(any(one.max for one in parts), all(one.min for one in parts), None, None, count)
    highest, lowest = ([getattr(one, name) for one in parts] for name in ("max", "min"))
    if any(value != value for value in highest):
        return Statistics(math.nan, math.nan, math.nan, math.nan)
    size = sum(length for _, length in found)
    with np.errstate(all="ignore"):
        mean = float(np.sum([one.mean * (length / size) for one, length in found], dtype=np.float64))  # type: ignore[operator]
    norm = math.hypot(*(one.norm or 0.0 for one in parts))
    return Statistics(max(highest), min(lowest), mean, norm)


def _is_bool(found: Statistic) -> bool:
    return type(found.max) is bool


def _pieces(tensor: "NDArray[Any] | NpyFile") -> Iterator[NDArray[Any]]:
    if isinstance(tensor, NpyFile):
        for start in range(0, tensor.size, _PIECE):
            yield tensor.part(start, min(start + _PIECE, tensor.size))
    else:
        yield tensor
