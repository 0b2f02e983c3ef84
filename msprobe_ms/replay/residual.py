"""The residual of an output against its reference, in units of the call's sensitivity; numpy only.

With r = output - reference and the sensitivity S, the size of the output change that relative rounding of the inputs
makes (`reference.sensitivity`), z = r / max(S, 0.05 rms S), where outliers count for no rms. The root mean square of
z is near the unit roundoff of the arithmetic inside the kernel, whatever the operation and the scale of its inputs.
"""

from typing import NamedTuple

import numpy as np

from .recorded import Array

FLOOR = 0.05
"""S is nowhere taken to be less than this share of its root mean square: where an output of the reference vanishes by
cancellation, a kernel's intermediate rounding remains."""


OUTLIERS = 1000.0
"""S beyond this many times its lower quartile counts for no root mean square: a mask of -1e9 that was added to half of
the scores would hide whatever is wrong with the others."""


class Range(NamedTuple):
    """The range of a floating dtype: its greatest finite value, and the error of underflow."""

    largest: float
    underflow: float


RANGES = {
    "float16": Range(65504.0, 2.0**-24),
    "bfloat16": Range(3.3895313892515355e38, 2.0**-126),
    "float32": Range(3.4028234663852886e38, 2.0**-126),
    "float64": Range(1.7976931348623157e308, 2.0**-1022),
}
"""float32 and bfloat16: the least normal number, for devices flush subnormal numbers to zero; float16: the spacing of
its subnormal numbers, which are not flushed."""


class Figures(NamedTuple):
    """The figures of a `Residual`."""

    eta: float
    peak: float
    bias: float
    slope: float
    relative: float


EQUAL = Figures(0.0, 0.0, 0.0, 0.0, 0.0)
UNEQUAL = Figures(float("inf"), float("inf"), 0.0, 0.0, float("inf"))


def measured(output: Array, reference: Array, sensitivity: Array, dtype: str = "float32") -> Figures:
    """Return the figures of a floating output against its reference; the three arrays have one shape.

    In float64. With r, z as at the top of this file, over the elements that are finite on both sides:

    - eta: sqrt(mean(z^2)); peak: max |z|
    - bias: n mean(r)^2 / sum(r^2), the share of the energy of r that its mean carries (1/n by chance)
    - slope: sum(r f)^2 / (sum(f^2) sum(r^2)), the share that the best multiple of the reference f carries
    - relative: sqrt(sum(r^2) / sum(f^2)); inf where only the reference is zero

    `dtype` is the output's. |r| is lessened by what underflow in that dtype may leave. Non-finite: an element agrees if
    both are NaN, or both the same infinity; a reference beyond the dtype's range counts as an infinity where the output
    is one. One element that disagrees makes eta, peak and relative inf. Where S and r are both 0, z is 0; where S is 0
    everywhere and r is not, eta and peak are inf. Empty arrays: all zero.
    """
    out, ref = np.asarray(output, np.float64).ravel(), np.asarray(reference, np.float64).ravel()
    limits = RANGES.get(dtype, RANGES["float32"])
    with np.errstate(all="ignore"):
        finite = np.isfinite(out) & np.isfinite(ref)
        if not finite.all():
            if _disagree(out[~finite], ref[~finite], limits.largest):
                return UNEQUAL
            out, ref = out[finite], ref[finite]
            sensitivity = np.asarray(sensitivity).ravel()[finite]
        r = out - ref
        if not r.any():
            return EQUAL
        r = np.sign(r) * np.maximum(np.abs(r) - limits.underflow, 0.0)
        return _figures(r, ref, np.abs(np.asarray(sensitivity, np.float64).ravel()))


def _figures(r: Array, ref: Array, sensitivity: Array) -> Figures:
    scale = float(np.abs(r).max())
    if scale == 0.0:
        return EQUAL
    sensitivity = np.where(np.isfinite(sensitivity), sensitivity, 0.0)
    unit = float(sensitivity.max())
    divisor = np.maximum(sensitivity, FLOOR * _typical(sensitivity)) if unit else sensitivity
    z = np.where(r == 0.0, 0.0, np.abs(r) / divisor)
    top = float(z.max())
    eta = top * float(np.mean((z / top) ** 2)) ** 0.5 if np.isfinite(top) else float("inf")
    small = r / scale
    energy = float(np.sum(small**2))
    largest = float(np.abs(ref).max())
    f = ref / largest if largest else ref
    of_reference = float(np.sum(f**2))
    return Figures(
        eta,
        top,
        min(small.size * float(np.mean(small)) ** 2 / energy, 1.0),
        min(float(np.sum(small * f)) ** 2 / (of_reference * energy), 1.0) if of_reference else 0.0,
        (scale / largest) * (energy / of_reference) ** 0.5 if of_reference else float("inf"),
    )


def _typical(sensitivity: Array) -> float:
    """Return the root mean square of S over its elements up to `OUTLIERS` times the lower quartile of nonzero ones."""
    present = sensitivity[sensitivity > 0]
    quartile = np.partition(present, present.size // 4)[present.size // 4]
    present = present[present <= OUTLIERS * float(quartile)]
    greatest = float(present.max())
    share = present.size / (np.count_nonzero(sensitivity == 0) + present.size)
    return greatest * float(np.sqrt(share * np.mean((present / greatest) ** 2)))


def _disagree(output: Array, reference: Array, largest: float) -> bool:
    """Return whether non-finite elements disagree; a reference that rounds beyond the dtype's range is an infinity."""
    beyond = np.where(np.abs(reference) > largest, np.copysign(np.inf, reference), reference)
    same = (output == beyond) | (np.isnan(output) & np.isnan(reference))
    return not bool(same.all())


def compared(output: Array, reference: Array, source: Array | None = None) -> Figures:
    """Return the figures of an integer or bool output: all zero where equal, else eta, peak and relative are inf.

    With a `source` the integers are positions along one of its axes: they are equal where the elements there are.
    """
    return UNEQUAL if unequal(output, reference, source).any() else EQUAL


def unequal(output: Array, reference: Array, source: Array | None = None) -> Array:
    """Return which elements of two integer or bool outputs of one shape are unequal, of positions those that lead to
    unequal elements of the source."""
    found = np.asarray(output != reference)
    if source is None or not found.any():
        return found
    for axis in range(source.ndim):
        for kept in (True, False):
            a, b = (output, reference) if kept else (np.expand_dims(output, axis), np.expand_dims(reference, axis))
            fits = a.ndim == source.ndim and all(i == axis or n == source.shape[i] for i, n in enumerate(a.shape))
            if fits and bool(((a >= 0) & (a < source.shape[axis])).all()):
                picked = [np.take_along_axis(source, each.astype(np.int64), axis) for each in (a, b)]
                differ = np.asarray(picked[0] != picked[1]) & ~(np.isnan(picked[0]) & np.isnan(picked[1]))
                return np.reshape(differ, found.shape)
    return found
