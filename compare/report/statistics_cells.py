"""The cells under the statistics of a comparison, as msprobe 8.1 prints them: differences, shares, its own verdict."""

from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from .cells import NOT_APPLICABLE, Cell, is_number, number, percent
from .looks import Four

Floats = NDArray[np.float64]

_NOTHING = ("", "")
_WARNING = ("Warning", "Need double check api accuracy.")


def statistics_columns(target: Sequence[Floats], golden: Sequence[Floats]) -> list[list[Cell]]:
    """Four differences, four shares, the eight statistics, 8.1's result and message, of pairs with plain floats."""
    with np.errstate(all="ignore"):
        differences = [t - g for t, g in zip(target, golden, strict=True)]
        shares = [np.abs(d / g) * 100 for d, g in zip(differences, golden, strict=True)]
        warning = np.any(
            [_halves(d, t, g) for d, t, g in zip(differences, target, golden, strict=True)], axis=0
        ).tolist()
    columns = [_numbers(d) for d in differences]
    columns += [_percents(s, d, g) for s, d, g in zip(shares, differences, golden, strict=True)]
    columns += [_numbers(column) for column in chain(target, golden)]
    columns += [["Warning" if w else "" for w in warning], [_WARNING[1] if w else "" for w in warning]]
    return columns


def _numbers(column: Floats) -> list[Cell]:
    cells: list[Cell] = column.tolist()
    for at in np.flatnonzero(~np.isfinite(column)).tolist():
        cells[at] = number(cells[at])
    return cells


def _percents(share: Floats, difference: Floats, golden: Floats) -> list[Cell]:
    cells: list[Cell] = [f"{s}%" for s in share.tolist()]
    for at in np.flatnonzero((golden == 0) | ~np.isfinite(share)).tolist():
        cells[at] = percent(float(difference[at]), float(golden[at]))
    return cells


def _halves(difference: Floats, t: Floats, g: Floats) -> NDArray[np.bool_]:
    """`_half` for a column."""
    # Python's max(t, g), which is g only where that is greater, NaN or not.
    beyond = np.abs(difference) / (np.abs(np.where(g > t, g, t)) + 1e-10) > 0.5
    return np.where(np.isnan(difference), np.isnan(t) != np.isnan(g), beyond)


def statistics_cells(target: Four, golden: Four, is_tensor: bool) -> tuple[Cell, ...]:
    """The same cells of one pair whose statistics may be anything."""
    differences: list[Cell] = []
    shares: list[Cell] = []
    warning = False
    for t, g in zip(target, golden, strict=True):
        if is_number(t) and is_number(g):
            difference = t - g
            differences.append(number(difference))
            shares.append(percent(difference, g))
            warning = warning or (difference != 0 and _half(difference, t, g))
        else:
            differences.append(NOT_APPLICABLE)
            shares.append(NOT_APPLICABLE)
    result = _WARNING if warning and is_tensor else _NOTHING
    return (*differences, *shares, *map(number, chain(target, golden)), *result)


def _half(difference: float, t: float, g: float) -> bool:
    """8.1's rule, with NaN on one side counted as what it is."""
    if difference != difference:
        return (t != t) != (g != g)
    return abs(difference) / (abs(max(t, g)) + 1e-10) > 0.5


def one_sided(cells: tuple[Cell, ...], message: str) -> tuple[Cell, ...]:
    """The cells of a record without a partner."""
    return (*cells[:-2], NOT_APPLICABLE, message)
