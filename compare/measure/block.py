"""The measures of one block of two tensors: in one pass in C (`_measure.c`) if that was built, otherwise by numpy.

Both give the same numbers: extremes, counts and indices bitwise, sums within rounding. Non-finite elements count as
zero on both sides; if the two sides are not the same NaN or infinity, the element is mismatched.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

try:
    from . import _measure  # type: ignore[attr-defined]  # the optional extension, which has no Python source

    kernel: Any = _measure
except ImportError:  # installed without a compiler: numpy is used
    kernel = None

Array = NDArray[Any]
Floats = NDArray[np.float64]

TINY = float(np.finfo(np.float64).eps)
"""The replacement of mindstudio-probe for a zero denominator."""

_EXPONENT = 0x7FF << 52
_DOT = 1 << 13


class Block(NamedTuple):
    """The measures of a block; indices count from its first element and are -1 without any."""

    dot: float
    tt: float
    gg: float
    dd: float
    """Sums of t g, t t, g g and (t - g)^2."""

    sum: float
    """Of t - g."""

    greatest: float
    """Magnitude of a finite golden element, for any target."""

    absolute: float = 0.0
    absolute_at: int = -1
    """The greatest abs(t - g), and the first element that has it; -1 if it is 0."""

    relative: float = 0.0
    nearer: int = 0
    near: int = 0
    """The greatest abs((t - g) / g), and the numbers of elements with less than 0.001 and 0.005."""

    ulps: float = 0.0
    """The greatest abs(t - g) 2 / p, where p is the golden element's power of two, at least `Rule.least`."""

    excess: float = 0.0
    excess_at: int = -1
    beyond: int = 0
    """The greatest difference in units of the allowed one (0 / 0 is 0), the first element that has it, and the number
    of elements above 1."""

    mismatched: int = 0
    mismatched_at: int = -1

    scale: float = 1.0
    """The factor of `Rule.absolute`: the `scale` argument or min(1, greatest) of this block."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What elements are compared with: absolute * scale + relative * abs(golden) is allowed.

    `least` is the smallest normal number of the format whose units in the last place are counted.
    """

    absolute: float
    relative: float
    least: float


def block(target: Array, golden: Array, scale: float, rule: Rule) -> Block:
    """Return the measures of two flat, contiguous, aligned blocks of native byte order and of one size.

    `scale` is min(1, greatest finite golden magnitude) so far.
    """
    if kernel is not None:
        found = kernel.block(target, golden, scale, rule.absolute, rule.relative, rule.least)
        if found is not None:
            made = Block(*found)
            if math.isfinite(made.relative):
                return made
            # A relative error beyond the range of float32 is computed in float64, which the loops do not do.
            wide = by_numpy(target, golden, scale, rule)
            return made._replace(relative=wide.relative, nearer=wide.nearer, near=wide.near)
    return by_numpy(target, golden, scale, rule)


def by_numpy(target: Array, golden: Array, scale: float, rule: Rule) -> Block:
    """Return the same without the kernel."""
    parts = 2 if target.dtype.kind == "c" or golden.dtype.kind == "c" else 1
    with np.errstate(all="ignore"):
        g = _as_floats(golden, parts)
        same = target.dtype == golden.dtype and np.array_equal(target, golden)
        t = g if same else _as_floats(target, parts)
        d = np.zeros_like(g) if same else _difference(target, golden, t, g)
        size = np.abs(g)
        greatest, dd = float(size.max(initial=0.0)), _dot(d, d)
        mismatched = np.zeros(0, np.bool_)
        if not (dd < np.inf and greatest < np.inf):
            greatest = float(size[np.isfinite(size)].max(initial=0.0))
            t, g, d, mismatched = _without_non_finite(t, g, d, parts)
            size, dd = np.abs(g), _dot(d, d)
        scale = max(scale, min(1.0, greatest))
        is_narrow = all(x.dtype.kind == "f" and x.dtype.itemsize <= 4 for x in (target, golden))
        found = Block(
            dot=_dot(t, g),
            tt=_dot(t, t),
            gg=_dot(g, g),
            dd=dd,
            sum=float(d.sum()),
            greatest=greatest,
            nearer=g.size,
            near=g.size,
            mismatched=int(np.count_nonzero(mismatched)),
            mismatched_at=int(mismatched.argmax()) if mismatched.any() else -1,
            scale=scale,
        )
        if same or not (dd or d.any()):
            return found
        least = float(size.min())
        relative = _relative(t.astype(np.float32), g.astype(np.float32), least) if is_narrow else _relative(t, g, least)
        if is_narrow and not np.isfinite(relative).all():
            relative = _relative(t, g, least)
        return _with_differences(found, relative, np.abs(d), size, least, rule, parts)


def _with_differences(
    found: Block, relative: Array, absolute: Floats, size: Floats, least: float, rule: Rule, parts: int
) -> Block:
    """Return the same block with the measures of its differences; `size` are the golden's magnitudes, `least` the
    smallest."""
    greatest = float(relative.max())
    at, (share, share_at) = int(absolute.argmax()), _share(absolute, size, found.scale, rule)
    excess = float(share[share_at])
    return found._replace(
        absolute=float(absolute[at]),
        absolute_at=at // parts,
        relative=greatest,
        nearer=size.size if greatest < 0.0009 else int(np.count_nonzero(relative < 0.001)),
        near=size.size if greatest < 0.0049 else int(np.count_nonzero(relative < 0.005)),
        ulps=float(_ulps(absolute, np.maximum(size, rule.least) if least < rule.least else size).max()),
        excess=excess,
        excess_at=share_at // parts if excess else -1,
        beyond=int(np.count_nonzero((share > 1).reshape(-1, parts).any(axis=1))) if excess > 1 else 0,
    )


def _dot(x: Floats, y: Floats) -> float:
    """Return the sum of x y, in pieces for which BLAS does not use several threads: sums would depend on their
    number."""
    return sum((float(np.dot(x[at : at + _DOT], y[at : at + _DOT])) for at in range(0, x.size, _DOT)), 0.0)


def wide_sums(target: Array, golden: Array) -> NDArray[np.longdouble]:
    """Return the five sums of a block in numpy's widest floating-point type, for numbers beyond the range of
    float64."""
    parts = 2 if target.dtype.kind == "c" or golden.dtype.kind == "c" else 1
    t, g = _as_floats(target, parts), _as_floats(golden, parts)
    t, g, _, _ = _without_non_finite(t, g, g, parts)
    x, y = t.astype(np.longdouble), g.astype(np.longdouble)
    return np.array([(x * y).sum(), (x * x).sum(), (y * y).sum(), ((x - y) ** 2).sum(), (x - y).sum()])


def _as_floats(array: Array, parts: int) -> Floats:
    if parts == 2:
        return np.ascontiguousarray(array, np.complex128).view(np.float64)
    return array.astype(np.float64, copy=False)


def _difference(target: Array, golden: Array, t: Floats, g: Floats) -> Floats:
    """Return t - g; for integers beyond the precision of float64, rounded once and without overflow."""
    both = (target.dtype, golden.dtype)
    if any(d.kind not in "biu" for d in both) or max(d.itemsize for d in both) < 8:
        return t - g
    high_t, low_t = _halves(target)
    high_g, low_g = _halves(golden)
    return (high_t - high_g) * 2.0**32 + (low_t - low_g)


def _halves(array: Array) -> tuple[Floats, Floats]:
    """Return the two parts of integers x = 2^32 high + low."""
    if array.dtype.itemsize < 8:
        array = array.astype(np.int64)
    last = array.dtype.type(0xFFFFFFFF)
    return (array >> array.dtype.type(32)).astype(np.float64), (array & last).astype(np.float64)


def _without_non_finite(
    t: Floats, g: Floats, d: Floats, parts: int
) -> tuple[Floats, Floats, Floats, NDArray[np.bool_]]:
    """Return both sides and their difference with zeros for non-finite elements of either, and which elements are
    mismatched."""
    hidden = ~(np.isfinite(t) & np.isfinite(g))
    same = (t == g) | (np.isnan(t) & np.isnan(g))
    wrong = (hidden & ~same).reshape(-1, parts).any(axis=1)
    hidden |= np.repeat(wrong, parts)
    return np.where(hidden, 0.0, t), np.where(hidden, 0.0, g), np.where(hidden, 0.0, d), wrong


def _relative(t: Array, g: Array, least: float) -> Array:
    """Return abs((t - g) / g) in the dtype of the two; if g is zero, TINY is added to both. `least` is that of
    abs(g)."""
    if least == 0:
        tiny = t.dtype.type(TINY) * (g == 0)
        t, g = t + tiny, g + tiny
    found = t - g
    found /= g
    return np.asarray(np.abs(found, out=found))


def _share(absolute: Floats, size: Floats, scale: float, rule: Rule) -> tuple[Floats, int]:
    """Return the difference of each element in units of the allowed one, and the index of the greatest; 0 / 0 is 0, x /
    0 is infinity."""
    share = absolute / (rule.absolute * scale + rule.relative * size)
    at = int(share.argmax())
    if share[at] != share[at]:  # argmax finds NaN first
        share[absolute == 0] = 0.0
        at = int(share.argmax())
    return share, at


def _ulps(absolute: Floats, size: Floats) -> Floats:
    """Return abs(t - g) * 2 / p, where p is the power of two in `size`: 2 / p has its exponent mirrored."""
    bits = size.view(np.int64) & _EXPONENT
    np.subtract(_EXPONENT, bits, out=bits)
    return np.asarray(absolute * bits.view(np.float64))
