"""Measures between the statistics of two tensors, for one pair or for whole columns of pairs.

What the standard allows an element bounds what it allows a statistic, so a pair that passes on its elements passes on
its statistics too. With a = absolute * s, r = relative (standard.py), n elements and the golden's A = max(abs(max),
abs(min)):

| statistic | allowance | because |
|---|---|---|
| max, min | a + r A | the extreme moves no further than the element that moves furthest |
| mean | a + r norm / sqrt(n) | the mean difference is at most the mean allowance, and mean(abs) <= norm / sqrt(n) |
| norm | a sqrt(n) + r norm | the triangle inequality |

Of integers nothing is allowed; but mean and norm are floats there too, which two tools or frameworks round in their own
way, some of them to float32. Where the sides do not round alike, a millionth of norm / sqrt(n) and of norm is allowed,
and an extreme that one side casts to float32 is the other's integer if that gives the same number. Means and norms are
equal that differ by the rounding of their sums.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.base.schema import NAMES
from msprobe.compare.core.standard import Standard
from msprobe.store.record import NonFinite, Number, Statistics

ROUNDING = 1e-6

_REORDERED = 2.0**-48
"""Sums in float64 of the same elements differ by so much at most, as a share of the norm: those of a view that is not
contiguous are added up in another order. One unit in the last place of one of 10^7 float32 elements is more."""

Floats = NDArray[np.float64]


def excess(
    target: Statistics, golden: Statistics, size: int, standard: Standard, same_rounding: bool = True
) -> tuple[float, str]:
    """How many times its allowance the worst statistic differs, and which one that is; (0.0, "") where all are equal.

    NaN on both sides is equal, infinities of one sign are equal; otherwise a non-finite statistic on either side, or a
    statistic that only one side has, is an infinite excess. So is another count of true elements, or of those that are
    not finite (first, because NaN hides every statistic), where both sides have a count. Booleans and None are
    compared for equality. A one-element tensor's norm is compared without its sign, which some writers keep.
    `same_rounding`: whether both sides round alike.
    """
    if _counts_differ(target.non_finite, golden.non_finite):
        return math.inf, "non_finite"
    worst, which = 0.0, ""
    allowed: tuple[Any, ...] = ()
    for at, name in enumerate(NAMES):
        t, g = getattr(target, name), getattr(golden, name)
        if t == g or (t != t and g != g):
            continue
        if name == "norm" and size == 1 and t is not None and g is not None and abs(t) == abs(g):
            continue
        if at < 2 and not same_rounding and (_is_cast(t, g) or _is_cast(g, t)):
            continue
        if _not_comparable(t) or _not_comparable(g):
            return math.inf, name
        if at >= 2 and abs(t - g) <= _rounding_of_sums(golden, at, size):
            continue
        if not allowed:
            three = (getattr(golden, name) for name in ("max", "min", "norm"))
            highest, lowest, norm = (0.0 if _not_comparable(value) else abs(value) for value in three)
            allowed = allowances(
                max(highest, lowest),
                norm,
                max(size, 1),
                standard.absolute,
                standard.relative,
                same_rounding,
                standard.is_plain,
            )
        share = abs(t - g) / float(allowed[at]) if allowed[at] else math.inf
        if share > worst:
            worst, which = share, name
    if not worst and _counts_differ(target.true_count, golden.true_count):
        return math.inf, "true_count"
    return worst, which


def _rounding_of_sums(golden: Statistics, at: int, size: int) -> float:
    """By how much the mean (`at` 2) or the norm (3) differ that are added up in another order."""
    norm = golden.norm
    if norm is None or _not_comparable(norm):
        return 0.0
    return _REORDERED * (norm if at == 3 else norm / math.sqrt(max(size, 1)))


def _counts_differ(target: Number | NonFinite, golden: Number | NonFinite) -> bool:
    return target is not None and golden is not None and target != golden


def _is_cast(number: Number, of: Number) -> bool:
    """Whether a number is an integer that was cast to float32, as msprobe casts the extremes of integers."""
    return type(number) is float and type(of) is int and number == float(np.float32(of))


def _not_comparable(value: Number) -> bool:
    return value is None or value is True or value is False or not math.isfinite(value)


def allowances(
    greatest: Any,
    norm: Any,
    size: Any,
    absolute: Any,
    relative: Any,
    same_rounding: bool = True,
    is_plain: bool = False,
) -> tuple[Any, Any, Any, Any]:
    """What is written above; the last factor leaves room for the rounding of the statistics themselves.

    Takes numbers or arrays: A, norm and n (at least 1) of the golden, and the two numbers of a standard. `is_plain`: a
    is the absolute part itself.
    """
    root = np.sqrt(size)
    a, r = absolute if is_plain else absolute * np.minimum(1.0, greatest), relative
    extreme = a + r * greatest
    r = r if same_rounding else np.where((absolute == 0) & (relative == 0), ROUNDING, r)
    return extreme, extreme, (a + r * norm / root) * (1 + ROUNDING), (a * root + r * norm) * (1 + ROUNDING)


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
            if at >= 2:
                same |= np.abs(t - g) <= _REORDERED * (norm if at == 3 else norm / np.sqrt(size_or_one))
            share = np.where(allowed[at] > 0, np.abs(t - g) / allowed[at], np.inf)
            share[same] = 0.0
            lost = ~(np.isfinite(t) & np.isfinite(g) | same)
            share[lost] = np.inf
            # The first that is not finite is the worst, also behind one of which nothing at all is allowed.
            which[~is_lost & (lost | (share > worst))] = at
            is_lost |= lost
            np.maximum(worst, share, out=worst)
    return worst, which
