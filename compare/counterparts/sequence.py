"""Align two sequences by scores, and say by how much each pair beats what else could be.

Global alignment in the manner of Needleman and Wunsch (1970): the total of the scores of all pairs is made as large as
possible, skipping costs nothing, both positions rise. Tables of the best totals before and behind every place give,
for each pair of the best alignment, the best total without it; the difference is its margin. A pair without margin is
one of several that explain the sequences equally well.

Cost is O(n * w) with w the width of a band around the diagonal: the whole table for short sequences, `BAND` beyond the
difference of the lengths for long ones.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BAND = 300
WHOLE = 4_000_000
"""Cells up to which the whole table is made."""

MOST = 16_000_000
"""Cells of a band at most, 128 MB a table."""

Floats = NDArray[np.float64]
Row = Callable[[int, int, int], Floats]


@dataclass(frozen=True, slots=True)
class Aligned:
    """Item `left` stands where item `right` stands; `margin` is what the total loses when it does not."""

    left: int
    right: int
    score: float
    margin: float


def align(n: int, m: int, row: Row) -> list[Aligned]:
    """The pairs of n items with m items that every best alignment has, in order.

    `row(i, low, high)` scores item i against items low to high - 1. A score of at most zero is never a pair.
    """
    if not n or not m:
        return []
    width, lows = _band(n, m)
    scores = np.empty((n, width))
    for i, low in enumerate(lows):
        scores[i] = row(i, low, low + width)
    scores[~(scores > 0)] = -np.inf
    if not np.isfinite(scores).any():
        return []
    return _certain(scores, _before(scores, lows, m), _behind(scores, lows, m), lows)


def _band(n: int, m: int) -> tuple[int, list[int]]:
    if n * m <= WHOLE:
        return m, [0] * n
    width = min(m, abs(n - m) + 2 * BAND, max(2 * BAND, MOST // n))
    return width, [min(max(0, i * m // n - width // 2), m - width) for i in range(n)]


def _before(scores: Floats, lows: list[int], m: int) -> Floats:
    """before[i, k]: the best total of the items before i with those before lows[i] + k."""
    n, width = scores.shape
    table = np.empty((n, width + 1))
    best = np.zeros(m + 1)  # best[j]: of the items so far with those before j; behind the band it may lag
    for i, low in enumerate(lows):
        table[i] = np.maximum.accumulate(best[low : low + width + 1])
        window = best[low : low + width + 1]
        window[:] = table[i]
        np.maximum(window[1:], table[i, :-1] + scores[i], out=window[1:])
        np.maximum.accumulate(window, out=window)
    return table


def _behind(scores: Floats, lows: list[int], m: int) -> Floats:
    """behind[i, k]: the best total of the items behind i with those from lows[i] + k on."""
    n, width = scores.shape
    table = np.empty((n, width + 1))
    best = np.zeros(m + 1)  # best[j]: of the items so far with those from j on; before the band it may lag
    for i in range(n - 1, -1, -1):
        low = lows[i]
        window = best[low : low + width + 1]
        table[i] = np.maximum.accumulate(window[::-1])[::-1]
        window[:] = table[i]
        np.maximum(window[:-1], table[i, 1:] + scores[i], out=window[:-1])
        window[:] = np.maximum.accumulate(window[::-1])[::-1]
    return table


def _certain(scores: Floats, before: Floats, behind: Floats, lows: list[int]) -> list[Aligned]:
    n, width = scores.shape
    best = float((before[-1, :-1] + scores[-1]).max())
    best = max(best, float(before[-1, -1]))
    found = []
    for i in range(n):
        with_pair = before[i, :-1] + scores[i] + behind[i, 1:]
        k = int(with_pair.argmax())
        otherwise = float((before[i] + behind[i]).max())
        if width > 1:
            otherwise = max(otherwise, float(np.delete(with_pair, k).max()))
        margin = float(with_pair[k]) - otherwise
        if margin > 1e-9 * max(1.0, best):
            found.append(Aligned(i, lows[i] + k, float(scores[i, k]), margin))
    return found
