"""The rule without settings: a value jumps far beyond the recent values of its series, or is not finite.

Of each series (a target's norm, least or greatest element, mean, ...) the logarithms of the magnitudes of the last
`WINDOW` values are kept; zeros are left out. With `center` their median and `spread` 1.4826 times the median distance
from it, which is the standard deviation where noise is Gaussian, a value is a jump if its logarithm is above

    max(center, median of the last `RECENT`) + max(LEAST, WIDTH * spread)

A learning rate that warms up, or norms that fall fast in the first steps, move the recent median along; a jump does
not, for it comes within one step. Few outliers change neither median. There is no alarm before `ENOUGH` values (and, as
medians are computed in turns, for up to `_REFRESHED` more), nor for falling values. A jump that stays is the new level
after a few steps: it is reported once.

NaN is reported when it appears, an infinity only after a finite value (a masked score is -inf from the beginning).
Of all operations of a target only the first that matches is reported in a step. `zeros` is not judged.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

WINDOW = 128
ENOUGH = 24
RECENT = 5
LEAST = float(np.log(2.5))
WIDTH = 8.0

_REFRESHED = 32
"""Number of steps after which the ceiling of a row is computed again; at each step for another part of the rows."""

_PART = 0.7
"""Values above the ceiling by this part of the distance are examined, because the ceiling is some steps old."""

_GAUSSIAN = 1.4826


class RobustJudge:
    """The series of one kind of rows, by the number of the row."""

    def __init__(self, operations: Sequence[str]) -> None:
        self._nans = [at for at, operation in enumerate(operations) if operation == "nans"]
        self._judged = np.array([at for at, name in enumerate(operations) if name not in ("zeros", "nans")], int)
        self._is_finite_matter = np.array([operation != "zeros" for operation in operations], bool)
        judged, all_of_them = len(self._judged), len(operations)
        self._window = np.zeros((0, judged, WINDOW), np.float32)
        self._ceiling = np.zeros((0, judged))
        self._steps = np.zeros(0, int)
        self._is_over = np.zeros((0, judged), bool)
        self._is_bad = np.zeros((0, all_of_them), bool)
        self._was_finite = np.zeros((0, all_of_them), bool)

    def _grow(self, size: int) -> None:
        """Allocate rows up to `size`, at least twice the previous number."""
        more = max(size, 2 * len(self._steps)) - len(self._steps)
        self._window = _longer(self._window, more, np.nan)
        self._ceiling = _longer(self._ceiling, more, np.inf)
        self._steps = _longer(self._steps, more, 0)
        self._is_over = _longer(self._is_over, more, False)
        self._is_bad = _longer(self._is_bad, more, False)
        self._was_finite = _longer(self._was_finite, more, False)

    def find(self, rows: Array, values: Array) -> tuple[Array, Array]:
        """Return where values are anomalies, and the median level that each was compared with; NaN if it was not."""
        if len(rows) and (last := int(rows.max())) >= len(self._steps):
            self._grow(last + 1)
        levels = np.full(values.shape, np.nan)
        found = self._not_finite(rows, values)
        with np.errstate(all="ignore"):
            logarithms = np.log(np.abs(values[:, self._judged]))
        logarithms[~np.isfinite(logarithms)] = np.nan
        jumps = self._jumps(rows, logarithms, levels)
        if jumps is not None:
            found[:, self._judged] |= jumps
        self._remember(rows, logarithms)
        if found.any():
            found &= np.cumsum(found, axis=1) == 1  # the first of a target
        return found, levels

    def _not_finite(self, rows: Array, values: Array) -> Array:
        """Return where NaN is new, and where infinities follow a finite value."""
        is_finite = np.isfinite(values)
        if self._nans:
            is_finite[:, self._nans] &= values[:, self._nans] == 0
        bad, known = ~is_finite & self._is_finite_matter, self._was_finite[rows]
        new = bad & ~self._is_bad[rows]
        if new.any():
            new &= known | ~np.isinf(values)
        self._is_bad[rows] = bad
        self._was_finite[rows] = known | is_finite
        return np.asarray(new)

    def _jumps(self, rows: Array, logarithms: Array, levels: Array) -> Array | None:
        """Return where a jump begins, or None; write the levels of the values that were compared."""
        suspects = logarithms > self._ceiling[rows]  # comparing with NaN is false
        if not suspects.any():
            if self._is_over.any():
                self._is_over[rows] = False
            return None
        which, column = np.nonzero(suspects)
        history = self._window[rows[which], column]
        center, distance = _center_and_distance(history)
        steps = self._steps[rows[which]]
        recent = np.take_along_axis(history, (steps[:, None] - 1 - np.arange(RECENT)) % WINDOW, 1)
        with np.errstate(all="ignore"):
            center = np.fmax(center, _median(recent))
        suspects[which, column] = logarithms[which, column] - center > distance
        new = suspects & ~self._is_over[rows]
        self._is_over[rows] = suspects
        levels[which, self._judged[column]] = np.exp(center)
        return new

    def _remember(self, rows: Array, logarithms: Array) -> None:
        steps = self._steps[rows]
        self._window[rows, :, steps % WINDOW] = logarithms
        self._steps[rows] = steps = steps + 1
        due = rows[((steps + rows) % _REFRESHED == 0) & (steps >= ENOUGH)]
        if len(due):
            center, distance = _center_and_distance(self._window[due])
            self._ceiling[due] = center + _PART * distance


def _longer(array: Array, more: int, fill: float) -> Array:
    """Return the array with `more` additional rows."""
    return np.concatenate([array, np.full((more, *array.shape[1:]), fill, array.dtype)])


def _center_and_distance(history: Array) -> tuple[Array, Array]:
    """Return the median and the distance above it at which a jump begins, along the last axis, ignoring NaN.

    inf if there are too few values.
    """
    center = _median(history)
    spread = _GAUSSIAN * _median(np.abs(history - center[..., None]))
    enough = np.count_nonzero(history == history, axis=-1) >= ENOUGH
    return np.where(enough, center, np.inf), np.maximum(LEAST, WIDTH * spread)


def _median(values: Array) -> Array:
    """Return the median along the last axis, ignoring NaN; NaN without values."""
    ordered = np.sort(values, axis=-1)  # NaN goes to the end
    count = np.count_nonzero(values == values, axis=-1)[..., None]
    lower = np.take_along_axis(ordered, np.maximum(count - 1, 0) // 2, -1)
    upper = np.take_along_axis(ordered, np.minimum(count // 2, values.shape[-1] - 1), -1)
    return np.asarray(((lower + upper) / 2)[..., 0])
