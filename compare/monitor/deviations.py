"""Deviations of two monitors: a matrix of targets and steps for each statistic. This module measures, and does not
judge.

| statistic | deviation |
|---|---|
| `norm`, and the norm and ratio of an update | ln(A / B) |
| `min`, `max` | (A - B) / the larger of their magnitudes in B |
| `mean` | (A - B) / norm of B: a mean near 0 has no scale |
| `zeros`, `nans` | A - B |
| any other | (A - B) / (magnitude in B + its median) |
| change by the update | the same statistic after minus before, of both: (A - B) / (magnitude in B + its median) |

Infinite if only one side is not finite, 0 if both are not finite in the same way, nan if a side has no row.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from msprobe.store.monitor.table import Table

from .pairing import Paired, PairedTable

Array = np.ndarray[Any, Any]

UPDATE = "update"
"""The derived kind: changes by the update, `param_updated` minus `param_origin`."""

OF_UPDATES = (UPDATE, "update_ratio")
"""Kinds of changes by the update. Elements whose gradients are noise have large rounding in them."""

SHARES = ("zeros", "same_sign")
"""Shares of elements: one element more is a jump, which rounding makes as well."""

_PLAIN = ("zeros", "nans")
_NORMS = ("norm", "update_norm", "ratio")
_SAMPLE = 4096
_FLOAT32 = 1.2e-7  # 2**-23: two roundings of float32


@dataclass(frozen=True, eq=False)
class Deviations:
    """One statistic of one kind of one rank.

    - `a`, `b`, `value`: float64, targets x columns
    - `resolution`: deviation up to which the digits of the files, or float32, are not evidence: from `grain`,
      relative, and `decimal`, absolute
    """

    rank: int
    kind: str
    statistic: str
    names: tuple[str, ...]
    step: Array
    micro_step: Array
    a: Array
    b: Array
    value: Array
    resolution: Array
    grain: float
    decimal: float
    lone_rows: int = 0
    """Rows of the kind that only one side has, at the steps and of the targets that both have."""
    empty: tuple[int, ...] = ()
    """The targets whose tensors have no elements."""


def finite_on_neither(of: Deviations) -> Array:
    """Return the numbers that are not finite on both sides, which cannot be compared; a tensor without elements has
    none, and the ratio of an update to weights that are zero is undefined."""
    if of.statistic == "ratio" and of.kind == "update_ratio":
        return np.zeros(of.value.shape, bool)
    found = ~np.isfinite(of.a) & ~np.isfinite(of.b) & ~np.isnan(of.value)
    if of.empty:
        found[list(of.empty)] = False
    return np.asarray(found)


def finite_on_one_side(of: Deviations, first: int = 0, last: int | None = None) -> Array:
    """Return the numbers that are not finite on one side, or on both sides in different ways: they differ, for any
    band."""
    part = slice(first, last)
    found = np.isinf(of.value[:, part])
    if found.any():
        found &= ~(np.isfinite(of.a[:, part]) & np.isfinite(of.b[:, part]))
    return np.asarray(found)


def deviations(paired: Paired) -> Iterator[Deviations]:
    """Return the deviations of all common series, kind by kind, and the changes by the update at the end of each
    rank."""
    weights: dict[tuple[int, str], dict[str, Deviations]] = {}
    for table in paired.tables:
        found = dict(_of_table(table))
        yield from found.values()
        if table.kind in ("param_origin", "param_updated"):
            weights[table.rank, table.kind] = found
    for rank in paired.ranks:
        before, after = (weights.get((rank, kind), {}) for kind in ("param_origin", "param_updated"))
        for statistic in after:
            if statistic in before and statistic not in _PLAIN:
                yield from _update(before[statistic], after[statistic])


def band_around(of: Deviations, row: int, part: slice, limit: Array) -> tuple[Array, Array]:
    """Return the range of A in which the deviation of a target is within `limit`; nan if unknown."""
    b = of.b[row, part]
    with np.errstate(all="ignore"):  # nothing is known about non-finite values
        if of.statistic in _NORMS and of.kind != UPDATE:
            return np.asarray(b * np.exp(-limit)), np.asarray(b * np.exp(limit))
        scale = _scale_of(of, row, part)
        return b - limit * scale, b + limit * scale


def _scale_of(of: Deviations, row: int, part: slice) -> Array:
    """Return the divisor of the differences of a target: from the deviations, or from their resolution; if neither has
    it, that of the steps around."""
    if of.statistic in _PLAIN and of.kind != UPDATE:
        return np.ones(of.step[part].shape)
    a, b, value, resolution = (each[row, part] for each in (of.a, of.b, of.value, of.resolution))
    with np.errstate(all="ignore"):
        scale = np.abs((a - b) / value)
        unit = np.maximum(np.abs(b) * of.grain, of.decimal)
        if of.kind != UPDATE and of.statistic not in SHARES:
            scale = np.where(np.isfinite(scale) & (scale > 0), scale, unit / resolution)
    known = np.isfinite(scale) & (scale > 0)
    if known.any() and not known.all():
        scale = np.where(known, scale, np.interp(np.arange(len(scale)), np.flatnonzero(known), scale[known]))
    return np.asarray(np.where(np.isfinite(scale) & (scale > 0), scale, np.nan))


def _of_table(table: PairedTable) -> Iterator[tuple[str, Deviations]]:
    common = [name for name in table.b.statistics if name in table.a.statistics]
    shape = len(table.names), len(table.step)
    sides = (
        (table.a, _Places.of(table.row_of_a[table.a.target], table.column_of_a, shape)),
        (table.b, _Places.of(table.row_of_b[table.b.target], table.column_of_b, shape)),
    )
    a, b = ({name: places.matrix(side.statistics[name]) for name in common} for side, places in sides)
    there, lone_rows = None, 0
    if not all(places.is_full for _, places in sides):
        of_a, of_b = (places.there() for _, places in sides)
        there, lone_rows = of_a & of_b, int((of_a ^ of_b).sum())
    empty = tuple(_without_elements(table.b, table.row_of_b))
    grains = {name: max(_grain(table.a.statistics[name]), _grain(table.b.statistics[name])) for name in a}
    decimals = {name: max(_decimal(table.a.statistics[name]), _decimal(table.b.statistics[name])) for name in a}
    for name in a:
        with np.errstate(all="ignore"):
            scale = _scale(name, b)
            unit = np.maximum(np.abs(b[name]) * grains[name], decimals[name])
            if scale is None:
                value = np.log(np.maximum(np.abs(a[name]), unit) / np.maximum(np.abs(b[name]), unit))
                resolution = unit / np.maximum(np.abs(b[name]), unit)
            else:
                if name in SHARES:
                    unit = np.maximum(unit, _quantum(a[name], b[name]))
                value, resolution = (a[name] - b[name]) / scale, unit / scale
        value = _settled(a[name], b[name], value, there)
        yield (
            name,
            Deviations(
                table.rank,
                table.kind,
                name,
                table.names,
                table.step,
                table.micro_step,
                a[name],
                b[name],
                value,
                _finite(resolution),
                grains[name],
                decimals[name],
                lone_rows,
                empty,
            ),
        )


def _without_elements(table: Table, row_of: Array) -> Iterator[int]:
    """Return the rows of targets whose shape, as text, has a 0."""
    for number, shape in enumerate(table.shapes):
        if row_of[number] >= 0 and "0" in re.findall(r"[0-9]+", shape):
            yield int(row_of[number])


@dataclass(frozen=True, eq=False)
class _Places:
    """Positions of the rows of a table in a matrix of targets x columns.

    `order` is None if they are in the order of that matrix, column by column; otherwise the flat position of each row
    that is used (`chosen`).
    """

    shape: tuple[int, int]
    chosen: Array | None
    order: Array | None
    is_full: bool

    @staticmethod
    def of(rows: Array, columns: Array, shape: tuple[int, int]) -> "_Places":
        if rows.size == shape[0] * shape[1] and rows.min(initial=0) >= 0 and columns.min(initial=0) >= 0:
            grid = rows.reshape(shape[1], shape[0]), columns.reshape(shape[1], shape[0])
            if (grid[0] == np.arange(shape[0])).all() and (grid[1] == np.arange(shape[1])[:, None]).all():
                return _Places(shape, None, None, True)
        chosen = (rows >= 0) & (columns >= 0)
        order = rows[chosen].astype(np.int64) * shape[1] + columns[chosen]
        reached = np.zeros(shape[0] * shape[1], bool)
        reached[order] = True
        return _Places(shape, chosen, order, bool(reached.all()))

    def matrix(self, values: Array) -> Array:
        """Return the values of a column; nan without a row."""
        if self.order is None:
            return np.ascontiguousarray(values.reshape(self.shape[1], self.shape[0]).T)
        found = np.full(self.shape[0] * self.shape[1], np.nan)
        found[self.order] = values[self.chosen]
        return found.reshape(self.shape)

    def there(self) -> Array:
        """Return whether there is a row."""
        found = np.zeros(self.shape[0] * self.shape[1], bool)
        found[slice(None) if self.order is None else self.order] = True
        return found.reshape(self.shape)


def _scale(name: str, b: Mapping[str, Array]) -> Array | float | None:
    """Return the divisor of a difference; None for the logarithm of the ratio."""
    if name in _NORMS:
        return None
    if name in _PLAIN:
        return 1.0
    tiny = np.finfo(np.float64).tiny
    if name in ("min", "max") and "min" in b and "max" in b:
        return np.asarray(np.maximum(np.maximum(np.abs(b["min"]), np.abs(b["max"])), tiny))
    if name == "mean" and "norm" in b:
        return np.maximum(b["norm"], tiny)
    return _own_scale(b[name])


def _quantum(a: Array, b: Array) -> Array:
    """Return the smallest distance of two values of a target on both sides: one element, or a few."""
    both = np.sort(np.concatenate([a, b], axis=1), axis=1)
    steps = np.diff(both, axis=1)
    smallest = np.min(np.where(steps > 0, steps, np.inf), axis=1, initial=np.inf)
    return np.asarray(np.where(np.isfinite(smallest), smallest, 0.0)[:, None])


def _own_scale(values: Array) -> Array:
    magnitude = np.where(np.isfinite(values), np.abs(values), 0.0)
    return np.asarray(np.maximum(magnitude + np.median(magnitude, axis=1, keepdims=True), np.finfo(np.float64).tiny))


def _settled(a: Array, b: Array, value: Array, there: Array | None = None) -> Array:
    """Set equal values to 0, values that are not finite on one side only to infinity, and values on one side only to
    nan."""
    value[a == b] = 0.0
    odd = ~np.isfinite(value)
    if odd.any():
        value[odd] = np.where(np.isnan(a[odd]) & np.isnan(b[odd]), 0.0, np.inf)
    if there is not None:
        value[~there] = np.nan
    return value


def _finite(resolution: Array) -> Array:
    return np.asarray(np.nan_to_num(resolution, copy=False, nan=0.0, posinf=0.0))


def _update(before: Deviations, after: Deviations) -> Iterator[Deviations]:
    rows = [(n, before.names.index(name)) for n, name in enumerate(after.names) if name in set(before.names)]
    common, of_after, of_before = np.intersect1d(after.step, before.step, return_indices=True)
    if not rows or not len(common):
        return
    places_after, places_before = (
        np.ix_(np.array([pair[at] for pair in rows]), columns) for at, columns in ((0, of_after), (1, of_before))
    )
    with np.errstate(all="ignore"):
        a = after.a[places_after] - before.a[places_before]
        b = after.b[places_after] - before.b[places_before]
        scale = _own_scale(b)
        value = (a - b) / scale
        # Both terms are rounded, on both sides.
        unit = 2 * np.maximum(np.abs(after.b[places_after]) * after.grain, after.decimal)
        resolution = unit / scale
    known = ~(np.isnan(after.value[places_after]) | np.isnan(before.value[places_before]))
    yield Deviations(
        after.rank,
        UPDATE,
        after.statistic,
        tuple(after.names[n] for n, _ in rows),
        common,
        np.zeros_like(common),
        a,
        b,
        _settled(a, b, value, known),
        _finite(resolution),
        after.grain,
        after.decimal,
    )


def _grain(values: Array) -> float:
    """Return the relative distance of two adjacent numbers, by their significant digits, at least that of float32."""
    sample = _sample(values)
    sample = sample[np.abs(sample) < 1]
    if not len(sample):
        return _FLOAT32
    exponent = np.floor(np.log10(np.abs(sample)))
    mantissa = np.abs(sample) / 10.0**exponent
    for digits in range(2, 8):
        if (np.abs(mantissa - np.round(mantissa, digits - 1)) < 1e-9).all():
            return float(10.0 ** (1 - digits))
    return _FLOAT32


def _decimal(values: Array) -> float:
    """Return the absolute distance of two adjacent numbers, by their decimals; 0 if these are not limited."""
    sample = _sample(values)
    for digits in range(9):
        if len(sample) and (np.abs(sample - np.round(sample, digits)) <= 1e-12 * np.abs(sample)).all():
            return float(10.0**-digits) if digits else 0.0
    return 0.0


def _sample(values: Array) -> Array:
    chosen = values[:: max(1, len(values) // _SAMPLE)]
    return np.asarray(chosen[np.isfinite(chosen) & (chosen != 0)])
