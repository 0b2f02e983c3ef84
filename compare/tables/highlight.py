"""The rows that msprobe 8.1 would color, and why: by the row itself, and by a call's outputs against its inputs.

Only cells of the table are read. Three slips of 8.1 are not repeated (reference/differences.md):
- It divides by the golden maximum as it is, or by 2.2e-16 if that is smaller, so that the smallest difference from a
  golden maximum of 0 or below is red. Here the floor is 0.01, as in its manual, and the absolute value is used.
- It recognizes NaN only as `nan`, not as `Nan`, which its own table contains.
- Without inputs it uses a call's first output as one, and leaves it white for any difference.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, TypeAlias

from msprobe.compare.judge.judged import Comparison
from msprobe.store.record import PARTS

from .cells import Cell
from .columns import Column
from .rows import Row

RED = "FFFF0000"
YELLOW = "FFFFFF00"


Highlight: TypeAlias = tuple[str | None, tuple[str, ...]]
"""The color of a row and the reasons for it, without duplicates; a red row has no reasons for yellow.

`(None, ())` for most rows.
"""

HUGE = 1e10
"""A greater difference is red in any row."""

FLOOR = 0.01
"""The minimum by which a difference of maxima is divided."""

NON_FINITE = "The target's maximum or minimum is NaN or infinite."
TOO_FAR = "The largest difference is above 1e10."
THOUSANDTH_LOST = "An input has more than 90 % of its elements within 0.001 of the golden, this output less than 60 %."
THOUSANDTH_FELL = "The share of elements within 0.001 of the golden is lower by more than 0.1 than that of an input."
COSINE_FELL = "The cosine is lower by more than 0.1 than that of an input."
MAXIMUM_OFF = "The maximum differs by more than half of the golden one."
MAXIMUM_GREW = "The maximum differs by more than a tenth of the golden one, that of an input by less than a hundredth."
MAGNITUDE_GREW = "The difference is at least ten times that of an input."

_RED_REASONS = {NON_FINITE, TOO_FAR, THOUSANDTH_LOST, MAXIMUM_OFF}


@dataclass(frozen=True, slots=True)
class Figures:
    """The cells of one row that determine its color.

    `difference` is `Max diff` in a table of statistics and `MaxAbsErr` in one of tensors; `thousandth` (`One Thousandth
    Err Ratio`) and `cosine` are None in a table of statistics.
    """

    part: Literal["input", "parameters", "output"]
    target_max: Cell
    target_min: Cell
    golden_max: Cell
    difference: Cell
    thousandth: Cell | None = None
    cosine: Cell | None = None


_NOTHING: Highlight = (None, ())

_NUMBERS = (float, int)


def highlights(rows: Sequence[Figures]) -> list[Highlight]:
    """Return the highlight of each row; `rows` are all of one call, in any order."""
    inputs = [row for row in rows if row.part != "output" and _is_numeric(row)]
    return [_highlight(row, inputs) for row in rows]


def _highlight(row: Figures, inputs: Sequence[Figures]) -> Highlight:
    reasons = tuple(dict.fromkeys(_reasons(row, inputs)))
    if red := tuple(reason for reason in reasons if reason in _RED_REASONS):
        return RED, red
    return (YELLOW, reasons) if reasons else _NOTHING


def _reasons(row: Figures, inputs: Sequence[Figures]) -> Iterator[str]:
    if _is_non_finite(row.target_max) or _is_non_finite(row.target_min):
        yield NON_FINITE
    if isinstance(row.difference, _NUMBERS) and abs(row.difference) > HUGE:
        yield TOO_FAR
    if row.part != "output" or not _is_numeric(row):
        return
    share = _share(row)
    if row.thousandth is None and share > 0.5:
        yield MAXIMUM_OFF
    for before in inputs:
        if row.thousandth is not None:
            yield from _ratios_fell(before, row)
        elif 0.1 < share <= 0.5 and _share(before) < 0.01:
            yield MAXIMUM_GREW
        if _grew_by_a_magnitude(before.difference, row.difference):
            yield MAGNITUDE_GREW


def _ratios_fell(before: Figures, after: Figures) -> Iterator[str]:
    if isinstance(before.thousandth, _NUMBERS) and isinstance(after.thousandth, _NUMBERS):
        if before.thousandth > 0.9 and after.thousandth < 0.6:
            yield THOUSANDTH_LOST
        elif before.thousandth - after.thousandth > 0.1:
            yield THOUSANDTH_FELL
    a, b = after.cosine, before.cosine
    if isinstance(a, _NUMBERS) and isinstance(b, _NUMBERS) and b - a > 0.1:
        yield COSINE_FELL


def _share(row: Figures) -> float:
    """Return the difference of the maxima relative to the golden one."""
    return abs(float(row.difference or 0)) / max(abs(float(row.golden_max or 0)), FLOOR)


def _grew_by_a_magnitude(before: Cell, after: Cell) -> bool:
    """Return whether a difference has one digit more before the decimal point than that of an input; below 1 there is
    no digit to count."""
    small, great = abs(float(before or 0)), abs(float(after or 0))
    return small <= great and math.log10(max(great, 1.0)) - math.log10(max(small, 1.0)) >= 1


def _is_numeric(row: Figures) -> bool:
    """Return whether a row can be compared with another one: both maxima and the difference are numbers."""
    cells = (row.target_max, row.golden_max, row.difference)
    return all(isinstance(cell, _NUMBERS) and math.isfinite(cell) for cell in cells)


def _is_non_finite(cell: Cell) -> bool:
    if type(cell) is float:  # as nearly every cell is
        return cell - cell != 0
    return isinstance(cell, str) and cell.rstrip("\t").lower() in ("nan", "inf", "-inf")


_PART: dict[str, Literal["input", "parameters", "output"]] = {"input": "input", "output": "output"}


def colored(comparison: Comparison, columns: Sequence[Column], rows: Iterable[Row]) -> Iterator[tuple[Row, str | None]]:
    """Yield each row with its reasons, and its color (ARGB) or None; one call at a time, because outputs are compared
    with inputs. Digests have no numbers, and no colors."""
    if comparison.mode == "digest":
        yield from ((row, None) for row in rows)
        return
    at = {column.title: place for place, column in enumerate(columns)}
    message = at["Err_message"]
    cells = [at[title] for title in ("NPU max", "NPU min", "Bench max")]
    cells.append(at["Max diff" if comparison.mode == "statistics" else "MaxAbsErr"])
    if comparison.mode == "tensor":
        cells += [at["One Thousandth Err Ratio"], at["Cosine"]]
    call_of = comparison.pairs.call_of.tolist()
    for _, numbered in groupby(enumerate(rows), lambda pair: call_of[pair[0]]):
        call = list(numbered)
        figures = [Figures(_part(comparison, number), *(row[place] for place in cells)) for number, row in call]
        for (_, row), (color, reasons) in zip(call, highlights(figures), strict=True):
            if reasons:  # after the text of `Err_message`, one per line
                text = "\n".join((str(row[message]), *reasons) if row[message] else reasons)
                row = (*row[:message], text, *row[message + 1 :])
            yield row, color


def _part(comparison: Comparison, number: int) -> Literal["input", "parameters", "output"]:
    pairs = comparison.pairs
    row, dump = int(pairs.target_rows[number]), comparison.target
    if row < 0:
        row, dump = int(pairs.golden_rows[number]), comparison.golden
    return _PART.get(PARTS[dump.columns.part[row]], "parameters")
