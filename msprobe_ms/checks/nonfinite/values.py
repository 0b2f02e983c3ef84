"""Which records of a dump are not finite, and what is in them."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Flag

import numpy as np

from msprobe.store.record import PARAMETERS, PARAMETERS_GRAD, PARTS, TENSOR, Columns


class Content(Flag):
    """What of a record is not finite."""

    NOTHING = 0
    NAN = 1
    PLUS = 2
    MINUS = 4


@dataclass(frozen=True, slots=True)
class Amount:
    """What is not finite in one record: how many elements, or, in dumps that hold no counts, 1 for what there is.

    `place` is where the record stands in its call: `output.0`, `parameter weight`, `gradient of weight`.
    """

    place: str
    nan: int = 0
    inf: int = 0
    minus_inf: int = 0
    is_counted: bool = False

    @property
    def content(self) -> Content:
        """The same without the numbers."""
        found = Content.NAN if self.nan else Content.NOTHING
        found |= Content.PLUS if self.inf else Content.NOTHING
        return found | (Content.MINUS if self.minus_inf else Content.NOTHING)


def together(amounts: Iterable[Amount]) -> Content:
    """What there is in any of several records."""
    found = Content.NOTHING
    for amount in amounts:
        found |= amount.content
    return found


def nonfinite_rows(columns: Columns) -> list[int]:
    """The rows that are not finite, rising: tensors by their statistics, and arguments that are numbers."""
    kind = np.frombuffer(columns.kind, np.uint8)
    high, low = (np.frombuffer(column, np.float64) for column in (columns.max, columns.min))
    bad = (kind == TENSOR) & ~(np.isfinite(high) & np.isfinite(low))
    if columns.odd:
        bad[list(columns.odd)] = False
    found = set(np.flatnonzero(bad).tolist())
    found.update(row for row in columns.odd if amount(columns, row).content)
    found.update(columns.non_finite)
    found.update(row for row, value in columns.values.items() if type(value) is float and not math.isfinite(value))
    return sorted(found)


def amount(columns: Columns, row: int) -> Amount:
    """What is not finite in a record."""
    place = place_of(columns, row)
    if columns.kind[row] != TENSOR:
        value = columns.values.get(row)
        return _by_numbers(place, (value,)) if type(value) is float else Amount(place)
    statistics = columns.statistics(row)
    if statistics is None:
        return Amount(place)
    if (counts := statistics.non_finite) is not None:
        return Amount(place, counts.nan, counts.positive_inf, counts.negative_inf, is_counted=True)
    return _by_numbers(place, (statistics.max, statistics.min))


def _by_numbers(place: str, numbers: Iterable[object]) -> Amount:
    floats = [number for number in numbers if type(number) is float]
    nan, plus, minus = any(map(math.isnan, floats)), math.inf in floats, -math.inf in floats
    return Amount(place, int(nan), int(plus), int(minus))


def place_of(columns: Columns, row: int) -> str:
    """Where a record stands in its call."""
    path, part = ".".join(columns.path_of(row)), columns.part[row]
    if part == PARAMETERS:
        return f"parameter {path}"
    if part == PARAMETERS_GRAD:
        return f"gradient of {path}"
    return ".".join(filter(None, (PARTS[part], path)))
