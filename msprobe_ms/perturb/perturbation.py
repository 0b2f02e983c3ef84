"""The modes of perturbation, as functions of the values of an input.

None of them changes the array that it gets. An input that a mode has no use for is a `Skip`, with its cause.
"""

from collections.abc import Callable

import numpy as np

from msprobe.base.statistic import Array

from .finding import Cause, Mode
from .formats import FLOAT16, Format, rounded


def perturbed(mode: Mode, values: Array, of: Format) -> Array | Cause:
    """Return the values of an input as changed by `mode`, or the cause why it cannot change them.

    `no_change`, `improve_precision` and `to_cpu` keep them.

    `values` has the dtype `of.dtype`; so has the result.
    """
    return _MODES[mode](values, of)


def _kept(values: Array, of: Format) -> Array:
    return values


def add_noise(values: Array, of: Format) -> Array | Cause:
    """Return `x + eps` where `|x| > sqrt(eps)`, rounded to the format; eps is the format's `noise`.

    The sum is computed in float32 at least. A cause if there are no elements, or the largest magnitude is below eps.
    Where x is so large that the sum is rounded back to x, nothing changes (float32: |x| from 0.25 on).
    """
    if cause := _too_small(values, of):
        return cause
    wide = values.astype(np.float32) if of is FLOAT16 else values
    with np.errstate(all="ignore"):
        noisy = np.where(np.abs(wide) > np.sqrt(of.noise), wide + wide.dtype.type(of.noise), wide)
    return rounded(noisy, of)


def bit_noise(values: Array, of: Format) -> Array | Cause:
    """Return the lowest bit of each normal number flipped: a relative change of at most epsilon.

    A cause if there are no elements, the largest magnitude is below the format's `noise`, or the format is bfloat16.
    Infinities and NaN stay: an infinity with another bit would be NaN.
    """
    if of.bits is None:
        return Cause.FORMAT
    if cause := _too_small(values, of):
        return cause
    with np.errstate(invalid="ignore"):
        normal = (np.abs(values) > of.tiny) & np.isfinite(values)
    bits: Array = np.ascontiguousarray(values).view(of.bits)  # it would add a dimension to a scalar
    flipped: Array = np.bitwise_xor(bits, normal.astype(of.bits).reshape(bits.shape)).view(of.dtype)
    return flipped.reshape(values.shape)


def change_value(values: Array, of: Format) -> Array | Cause:
    """Exchange the first and the last element: `x[0]` and `x[-1]`, from two dimensions on `x[0][0]` and `x[-1][-1]`.

    With three dimensions or more these are slices. A cause if there are fewer than two elements.
    """
    if values.size < 2:
        return Cause.TOO_FEW
    changed = values.copy()
    first, last = ((0,), (-1,)) if values.ndim == 1 else ((0, 0), (-1, -1))
    changed[first], changed[last] = values[last], values[first]
    return changed


_MODES: dict[Mode, Callable[[Array, Format], Array | Cause]] = {
    Mode.IMPROVE_PRECISION: _kept,
    Mode.ADD_NOISE: add_noise,
    Mode.BIT_NOISE: bit_noise,
    Mode.CHANGE_VALUE: change_value,
    Mode.NO_CHANGE: _kept,
    Mode.TO_CPU: _kept,
}


def _too_small(values: Array, of: Format) -> Cause | None:
    if values.size == 0:
        return Cause.EMPTY
    with np.errstate(invalid="ignore"):
        wide = values.astype(np.float32) if of is FLOAT16 else values
        return Cause.TOO_SMALL if np.max(np.abs(wide)) < of.noise else None
