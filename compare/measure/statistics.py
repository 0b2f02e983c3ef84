"""Measures between the statistics of two tensors, for one pair or for whole columns of pairs.

The tolerance of a statistic follows from that of the elements, so a pair that passes by its elements also passes by its
statistics. With a = absolute * s, r = relative (standard.py), n elements and the golden's A = max(abs(max), abs(min)):

| statistic | allowance | because |
|---|---|---|
| max, min | a + r A | the change of an extreme is at most the largest change of an element |
| mean | a + r norm / sqrt(n) | the mean difference is at most the mean allowance, and mean(abs) <= norm / sqrt(n) |
| norm | a sqrt(n) + r norm | the triangle inequality |

Integers have no tolerance; but their mean and norm are floats, which two tools or frameworks round differently, some of
them to float32. If the sides round differently, a millionth of norm / sqrt(n) and of norm is allowed, and an extreme
that one side casts to float32 equals the other's integer if the cast gives the same number. Means and norms that differ
by the rounding of their sums are equal.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.base.schema import NAMES, NUMBERS, Rule
from msprobe.compare.core.standard import Standard
from msprobe.store.record import NonFinite, Number, Statistics

ROUNDING = 1e-6

_REORDERED = 2.0**-48
"""Largest difference of sums in float64 of the same elements, relative to the norm: those of a view that is not
contiguous are accumulated in another order. One unit in the last place of one of 10^7 float32 elements is more."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Objects:
    """Properties of statistics that are not all floats, which arrays of floats do not show; of shape (statistics,
    pairs).

    `equal`: the two are equal in Python, integers of every width and booleans too, or one is the other's cast.
    `missing`: one is None or a boolean, and cannot be subtracted. `difference`: of the others, rounded once.
    """

    equal: NDArray[np.bool_]
    missing: NDArray[np.bool_]
    difference: Floats


def excess(
    target: Statistics, golden: Statistics, size: int, standard: Standard, same_rounding: bool = True
) -> tuple[float, str]:
    """Return the difference of the worst statistic in units of its allowance, and its name; (0.0, "") if all are equal.

    This is `excesses_of` for one pair.
    """
    return excesses_of([(target, golden)], [size], [standard], same_rounding)[0]


def excesses_of(
    pairs: Sequence[tuple[Statistics, Statistics]],
    sizes: Sequence[int],
    standards: Sequence[Standard],
    same_rounding: bool = True,
) -> list[tuple[float, str]]:
    """Return `excesses` of pairs with any statistics, with the name of the worst; (0.0, "") if all are equal.

    A statistic that only one side has is an infinite excess. So is a different count of true elements, or of non-finite
    ones (first, because NaN hides every statistic), if both sides have a count. Booleans and None are compared for
    equality.
    """
    table = [[(getattr(t, name), getattr(g, name)) for t, g in pairs] for name in NAMES]
    equal = [
        [
            t == g or (not same_rounding and each.rule == "extreme" and (_is_cast(t, g) or _is_cast(g, t)))
            for t, g in of_name
        ]
        for each, of_name in zip(NUMBERS, table, strict=True)
    ]
    missing = [[_is_missing(t) or _is_missing(g) for t, g in of_name] for of_name in table]
    difference = [
        [math.nan if absent else float(abs(t - g)) for (t, g), absent in zip(of_name, of_missing, strict=True)]
        for of_name, of_missing in zip(table, missing, strict=True)
    ]
    sides = [[[_as_float(pair[side]) for pair in of_name] for of_name in table] for side in (0, 1)]
    target, golden = (np.array(side, np.float64).reshape(len(NAMES), len(pairs)) for side in sides)
    worst, which = excesses(
        target,
        golden,
        np.array(sizes, np.float64),
        np.array([each.absolute for each in standards]),
        np.array([each.relative for each in standards]),
        same_rounding,
        is_plain=any(each.is_plain for each in standards),
        objects=Objects(np.array(equal, bool), np.array(missing, bool), np.array(difference, np.float64)),
    )
    found = []
    for (t, g), number, at in zip(pairs, worst.tolist(), which.tolist(), strict=True):
        if _counts_differ(t.non_finite, g.non_finite):
            found.append((math.inf, "non_finite"))
        elif number == 0 and _counts_differ(t.true_count, g.true_count):
            found.append((math.inf, "true_count"))
        else:
            found.append((number, NAMES[at] if number else ""))
    return found


def _counts_differ(target: Number | NonFinite, golden: Number | NonFinite) -> bool:
    return target is not None and golden is not None and target != golden


def _is_cast(number: Number, of: Number) -> bool:
    """Return whether a number is an integer that was cast to float32, as msprobe casts the extremes of integers."""
    return type(number) is float and type(of) is int and number == float(np.float32(of))


def _is_missing(value: Number) -> bool:
    return value is None or type(value) is bool


def _as_float(value: Number) -> float:
    return math.nan if value is None or type(value) is bool else float(value)


def allowances(
    greatest: Any,
    norm: Any,
    size: Any,
    absolute: Any,
    relative: Any,
    same_rounding: bool = True,
    is_plain: bool = False,
) -> dict[Rule, Any]:
    """Return the allowances of the table above, by rule; the last factor is for the rounding of the statistics
    themselves.

    Takes numbers or arrays: A, norm and n (at least 1) of the golden, and the two numbers of a standard. `is_plain`: a
    is the absolute part itself.
    """
    root = np.sqrt(size)
    a, r = absolute if is_plain else absolute * np.minimum(1.0, greatest), relative
    extreme = a + r * greatest
    r = r if same_rounding else np.where((absolute == 0) & (relative == 0), ROUNDING, r)
    return {
        "extreme": extreme,
        "mean": (a + r * norm / root) * (1 + ROUNDING),
        "norm": (a * root + r * norm) * (1 + ROUNDING),
    }


def excesses(
    target: Sequence[Floats] | Floats,
    golden: Sequence[Floats] | Floats,
    size: Floats,
    absolute: Floats,
    relative: Floats,
    same_rounding: bool = True,
    *,
    is_plain: bool = False,
    objects: Objects | None = None,
) -> tuple[Floats, NDArray[np.int8]]:
    """Return per pair the difference of the worst statistic in units of its allowance, and its position in `NAMES`.

    NaN on both sides is equal, infinities of one sign are equal; otherwise a non-finite statistic on either side is an
    infinite excess. A one-element tensor's norm is compared without its sign, which some writers keep. `size` is the
    number of elements; `absolute` and `relative` are the standard's, `is_plain` too. `same_rounding`: both sides round
    alike. `objects`: if the statistics are not all floats, the properties that the arrays do not show.
    """
    worst = np.zeros(len(size))
    which = np.zeros(len(size), np.int8)
    is_lost = np.zeros(len(size), bool)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        scales = {each.name: np.where(np.isfinite(g), np.abs(g), 0.0) for each, g in zip(NUMBERS, golden, strict=True)}
        norm, size_or_one = scales["norm"], np.maximum(size, 1.0)
        greatest = np.maximum(scales["max"], scales["min"])
        allowed_by = allowances(greatest, norm, size_or_one, absolute, relative, same_rounding, is_plain)
        reordered = {"mean": norm / np.sqrt(size_or_one), "norm": norm}
        for at, (each, t, g) in enumerate(zip(NUMBERS, target, golden, strict=True)):
            difference, allowed = np.abs(t - g), allowed_by[each.rule]
            same = (t == g) | (np.isnan(t) & np.isnan(g))
            if objects is not None:
                difference = np.where(objects.missing[at], np.nan, objects.difference[at])
                same = objects.equal[at] | (np.isnan(t) & np.isnan(g) & ~objects.missing[at])
            if each.rule == "norm":
                same |= (size == 1) & (np.abs(t) == np.abs(g))
            if each.rule in reordered:
                same |= difference <= _REORDERED * reordered[each.rule]
            share = np.where(allowed > 0, difference / allowed, np.inf)
            share[same] = 0.0
            lost = ~(np.isfinite(t) & np.isfinite(g) | same)
            share[lost] = np.inf
            # The first that is not finite is the worst, also after one without any tolerance.
            which[~is_lost & (lost | (share > worst))] = at
            is_lost |= lost
            np.maximum(worst, share, out=worst)
    return worst, which
