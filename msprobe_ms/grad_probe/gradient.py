"""The record of one gradient: the columns of its level, and the signs of its elements.

| `grad_level` | columns | signs |
|---|---|---|
| L0 | param_name, MD5, max, min, norm, shape | |
| L1 | param_name, max, min, norm, shape | yes |
| L2 | param_name, a share for each interval, =0, nan, max, min, norm, shape | yes |
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from msprobe.base.digest import digest
from msprobe.base.sections import GradProbeSettings
from msprobe.base.statistic import Array, statistic, widen

Cell = str | float


def header(section: GradProbeSettings) -> list[str]:
    """Return the columns of a table."""
    middle = {"L0": ["MD5"], "L1": [], "L2": [*intervals(section.bounds), "=0", "nan"]}[section.grad_level]
    return ["param_name", *middle, "max", "min", "norm", "shape"]


def intervals(bounds: Sequence[int | float]) -> Iterator[str]:
    """Return the names of the intervals that boundaries make: each has its upper boundary in it."""
    yield f"(-inf, {bounds[0]}]"
    for low, high in pairwise(bounds):
        yield f"({low}, {high}]"
    yield f"({bounds[-1]}, inf)"


def row(section: GradProbeSettings, name: str, gradient: Array) -> list[Cell]:
    """Return the cells of one gradient. Maximum, minimum and norm of an empty one are left empty.

    They are those of `statistic`, so NaN where an element is. MD5 is the CRC-32 of the elements as float32.
    """
    found = statistic(gradient)
    shown = ["" if each is None else float(each) for each in (found.max, found.min, found.norm)]
    middle: list[Cell] = []
    if section.grad_level == "L0":
        with np.errstate(all="ignore"):
            middle = [digest(_real(gradient).astype(np.float32, copy=False))]
    elif section.grad_level == "L2":
        middle = list(shares(_real(gradient), section.bounds))
    return [name, *middle, *shown, str(list(gradient.shape))]


def shares(gradient: Array, bounds: Sequence[int | float]) -> Iterator[float]:
    """Return the share of the elements in each interval, of the zeros, and of the NaN; all 0.0 of an empty gradient.

    A boundary is rounded to the gradient's dtype first, to float32 at least. NaN is in no interval.
    """
    if gradient.dtype.kind != "f" or gradient.dtype.itemsize < 4:
        gradient = gradient.astype(np.float32)
    size = gradient.size or 1
    nans = int(np.count_nonzero(np.isnan(gradient)))
    with np.errstate(all="ignore"):
        up_to = [int(np.count_nonzero(gradient <= gradient.dtype.type(bound))) for bound in bounds]
    up_to.append(gradient.size - nans)
    yield up_to[0] / size
    for below, above in pairwise(up_to):
        yield (above - below) / size
    yield (gradient.size - int(np.count_nonzero(gradient))) / size
    yield nans / size


def positive(gradient: Array) -> Array:
    """Return which elements are greater than 0, in the gradient's shape; False for NaN."""
    found: Array = _real(gradient) > 0
    return np.asarray(found)


def _real(gradient: Array) -> Array:
    """Return a gradient as numpy compares it; of a complex one the real part."""
    gradient = widen(gradient)
    return gradient.real if gradient.dtype.kind == "c" else gradient
