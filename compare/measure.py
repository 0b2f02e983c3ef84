"""Measures between two arrays. Measuring never judges: whether a number is good is `judge.py`'s business.

Arithmetic is in float64 over the flattened arrays, whatever their dtype; only relative errors of floats of 32 bits and
less are taken in float32, as msprobe 8.1 does, so that the sheet shows its digits. A complex array counts as its real
and imaginary parts side by side. Arrays are walked in blocks, so a measure needs a few blocks of memory and no
copy of the whole.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .measured import Measures
from .standard import EXACT, Standard

Array = NDArray[np.generic]
Floats = NDArray[np.float64]

BLOCK = 1 << 16  # elements; the arrays of one block fit into a processor's cache
TINY = float(np.finfo(np.float64).eps)  # the reference's stand-in for a zero denominator


def measure(target: Array, golden: Array, standard: Standard) -> Measures:
    """Measure two arrays of one shape; ValueError where the shapes differ."""
    if target.shape != golden.shape:
        raise ValueError(f"shapes differ: {target.shape}, {golden.shape}")
    if is_equal(target, golden):
        return Measures(target.size, True, 0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0, -1)
    parts = 2 if np.iscomplexobj(target) or np.iscomplexobj(golden) else 1
    narrow = all(array.dtype.kind == "f" and array.dtype.itemsize <= 4 for array in (target, golden))
    exact = standard == EXACT
    scale = 0.0 if exact else min(1.0, _greatest(golden))
    dot = tt = gg = dd = max_absolute = max_relative = excess = 0.0
    mismatched = near = nearer = beyond = 0
    worst = mismatch_at = -1
    for start, t, g in _blocks(target, golden):
        with np.errstate(invalid="ignore"):  # infinity minus infinity, which the next lines look for
            d = t - g
        if not np.isfinite(d).all():
            t, g, d, wrong = _without_non_finite(t, g)
            mismatched += int(np.count_nonzero(wrong))
            if mismatch_at < 0 and wrong.any():
                mismatch_at = start + int(np.argmax(wrong))
        dot += float(np.dot(t, g))
        tt += float(np.dot(t, t))
        gg += float(np.dot(g, g))
        dd += float(np.dot(d, d))
        absolute, size_g = np.abs(d), np.abs(g)
        max_absolute = max(max_absolute, float(absolute.max()))
        relative = _relative(t.astype(np.float32), g.astype(np.float32)) if narrow else _relative(t, g)
        max_relative = max(max_relative, float(relative.max()))
        nearer += int(np.count_nonzero(relative < 0.001))
        near += int(np.count_nonzero(relative < 0.005))
        ratio = _share(absolute, standard.absolute * scale + standard.relative * size_g)
        beyond += int(np.count_nonzero(ratio > 1))
        at = int(np.argmax(ratio))
        if ratio[at] > excess or worst < 0:
            excess, worst = float(ratio[at]), start + at
    if exact and not mismatched and excess == 0 and (beyond := int(np.count_nonzero(target != golden))):
        excess = float("inf")  # integers beyond 2 ** 53, whose difference float64 cannot hold
        worst = int(np.argmax(target.reshape(-1) != golden.reshape(-1))) * parts
    count = parts * target.size
    return Measures(
        target.size,
        False,
        mismatched,
        _cosine(dot, float(np.sqrt(tt)), float(np.sqrt(gg))),
        float(np.sqrt(dd)),
        max_absolute,
        max_relative,
        nearer / count,
        near / count,
        float("inf") if mismatched else excess,
        beyond + mismatched,
        (mismatch_at if mismatch_at >= 0 else worst) // parts,
    )


def is_equal(target: Array, golden: Array) -> bool:
    """One dtype, one shape, all elements equal; NaN equals NaN at the same place, and -0.0 equals 0.0.

    Two zeros of different sign cannot make two runs part (only 1/x and atan2 see the sign), so they are no difference.
    """
    if target.dtype != golden.dtype or target.shape != golden.shape:
        return False
    t, g = target.reshape(-1), golden.reshape(-1)
    has_nan = t.dtype.kind in "fc"
    for start in range(0, t.size, BLOCK):
        part = slice(start, start + BLOCK)
        if not np.array_equal(t[part], g[part], equal_nan=has_nan):
            return False
    return True


def _blocks(target: Array, golden: Array) -> Iterator[tuple[int, Floats, Floats]]:
    t, g = target.reshape(-1), golden.reshape(-1)
    is_complex = np.iscomplexobj(t) or np.iscomplexobj(g)
    for start in range(0, t.size, BLOCK):
        part = slice(start, start + BLOCK)
        if is_complex:
            yield (
                2 * start,
                np.ascontiguousarray(t[part], np.complex128).view(np.float64),
                np.ascontiguousarray(g[part], np.complex128).view(np.float64),
            )
        else:
            yield start, t[part].astype(np.float64), g[part].astype(np.float64)


def _greatest(golden: Array) -> float:
    """The greatest finite absolute value, or 1.0 as soon as one reaches that; 0.0 without any."""
    found = 0.0
    flat = golden.reshape(-1)
    for start in range(0, flat.size, BLOCK):
        part = np.abs(flat[start : start + BLOCK].astype(np.complex128 if np.iscomplexobj(flat) else np.float64))
        finite = part[np.isfinite(part)]
        if finite.size:
            found = max(found, float(finite.max()))
        if found >= 1.0:
            return 1.0
    return found


def _without_non_finite(t: Floats, g: Floats) -> tuple[Floats, Floats, Floats, NDArray[np.bool_]]:
    """Both sides with zeros where either is non-finite, their difference, and where the two are not the same."""
    hidden = ~(np.isfinite(t) & np.isfinite(g))
    same = (t == g) | (np.isnan(t) & np.isnan(g))
    t, g = np.where(hidden, 0.0, t), np.where(hidden, 0.0, g)
    return t, g, t - g, hidden & ~same


def _relative(t: NDArray[Any], g: NDArray[Any]) -> NDArray[Any]:
    """abs((t - g) / g) in the dtype of the two."""
    zero = g == 0
    if zero.any():
        tiny = t.dtype.type(TINY)
        t, g = np.where(zero, t + tiny, t), np.where(zero, tiny, g)
    with np.errstate(over="ignore"):
        return np.asarray(np.abs((t - g) / g))


def _share(absolute: Floats, allowed: Floats) -> Floats:
    """absolute / allowed; 0 / 0 is 0, anything else over 0 is infinity."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = absolute / allowed
    ratio[absolute == 0] = 0.0
    return np.asarray(ratio)


def _cosine(dot: float, norm_t: float, norm_g: float) -> float:
    if norm_t <= TINY and norm_g <= TINY:
        return 1.0
    if norm_t <= TINY or norm_g <= TINY:
        return float("nan")
    return dot / (norm_t * norm_g)
