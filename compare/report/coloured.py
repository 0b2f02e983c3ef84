"""The rows of a table with what msprobe 8.1 would colour: the reasons in `Err_message`, the colour beside the row."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Literal

from msprobe.compare.judge.judged import Comparison
from msprobe.store.columns import PARTS

from .cells import Cell
from .columns import Column
from .highlight import Figures, highlights
from .rows import Row

_PART: dict[str, Literal["input", "parameters", "output"]] = {"input": "input", "output": "output"}


def coloured(
    comparison: Comparison, columns: Sequence[Column], rows: Iterable[Row]
) -> Iterator[tuple[Row, str | None]]:
    """Each row with its reasons, and its colour (ARGB) or None; a call at a time, because outputs are held against
    inputs. Digests have no figures, so there is nothing to colour."""
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
        for (_, row), (colour, reasons) in zip(call, highlights(figures), strict=True):
            yield _with(row, message, reasons), colour


def _with(row: Row, message: int, reasons: Sequence[str]) -> Row:
    """The row with the reasons behind what `Err_message` says already, one a line."""
    if not reasons:
        return row
    said: Cell = row[message]
    text = "\n".join((str(said), *reasons) if said else reasons)
    return (*row[:message], text, *row[message + 1 :])


def _part(comparison: Comparison, number: int) -> Literal["input", "parameters", "output"]:
    pairs = comparison.pairs
    row, dump = int(pairs.target_rows[number]), comparison.target
    if row < 0:
        row, dump = int(pairs.golden_rows[number]), comparison.golden
    return _PART.get(PARTS[dump.columns.part[row]], "parameters")
