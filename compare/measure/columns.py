"""`statistics.excess` for a whole column of pairs at once, where all statistics are plain floats."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .statistics import allowances

Floats = NDArray[np.float64]


def excesses(
    target: Sequence[Floats],
    golden: Sequence[Floats],
    size: Floats,
    absolute: Floats,
    relative: Floats,
    same_rounding: bool = True,
) -> tuple[Floats, NDArray[np.int8]]:
    """How many times its allowance the worst statistic (of max, min, mean, norm) differs, and which it is, per pair.

    `size` is the number of elements; `absolute` and `relative` are the standard's. Rules as in `excess`, and
    `same_rounding` too.
    """
    worst = np.zeros(len(size))
    which = np.zeros(len(size), np.int8)
    is_lost = np.zeros(len(size), bool)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        highest, lowest, _, norm = (np.where(np.isfinite(g), np.abs(g), 0.0) for g in golden)
        greatest, size_or_one = np.maximum(highest, lowest), np.maximum(size, 1.0)
        allowed = allowances(greatest, norm, size_or_one, absolute, relative, same_rounding)
        for at, (t, g) in enumerate(zip(target, golden, strict=True)):
            same = (t == g) | (np.isnan(t) & np.isnan(g))
            if at == 3:
                same |= (size == 1) & (np.abs(t) == np.abs(g))
            share = np.where(allowed[at] > 0, np.abs(t - g) / allowed[at], np.inf)
            share[same] = 0.0
            lost = ~(np.isfinite(t) & np.isfinite(g) | same)
            share[lost] = np.inf
            # The first that is not finite is the worst, also behind one of which nothing at all is allowed.
            which[~is_lost & (lost | (share > worst))] = at
            is_lost |= lost
            np.maximum(worst, share, out=worst)
    return worst, which
