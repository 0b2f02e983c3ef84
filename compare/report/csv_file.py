"""Rows become a csv file: UTF-8, commas, one line of headings, as the module `csv` writes them.

It is not used for the rows themselves: of thousands of cells most are alike (stacks above all), and a text that was
put into quotes once is not looked at again. That halves the time of a large table (docs/performance.md).
"""

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from msprobe.base.files import replacing

from .cells import Cell
from .columns import Column

_AT_ONCE = 4096  # rows
_SPECIAL = re.compile('[",\r\n]').search


def write_csv(path: Path, columns: Sequence[Column], rows: Iterable[tuple[Cell, ...]]) -> None:
    """Write rows as they come; numbers with all their digits, so that they read back as the same floats."""
    with replacing(path) as file:
        file.write(heading(columns))
        write_lines(file, rows)


def heading(columns: Sequence[Column]) -> bytes:
    """The first line."""
    return _lines([[_text(column.title)] for column in columns])


def write_lines(file: BinaryIO, rows: Iterable[tuple[Cell, ...]]) -> None:
    """Write the lines of rows."""
    rest = iter(rows)
    while made := list(islice(rest, _AT_ONCE)):
        file.write(_lines([_texts(column) for column in zip(*made, strict=True)]))


def _lines(columns: Sequence[Sequence[str]]) -> bytes:
    return "".join([",".join(row) + "\r\n" for row in zip(*columns, strict=True)]).encode("utf-8", "replace")


def _texts(column: Sequence[Cell]) -> Sequence[str]:
    """The cells of a column as they stand in the file."""
    kinds = set(map(type, column))
    if kinds == {float}:
        return list(map(repr, column))
    if kinds == {str} and not _SPECIAL("".join(column)):  # type: ignore[arg-type]  # texts all
        return column  # type: ignore[return-value]  # as above
    known: dict[Cell, str] = {}
    texts = []
    for cell in column:
        if type(cell) is not str:
            texts.append(str(cell))
            continue
        text = known.get(cell)
        if text is None:
            text = known[cell] = _text(cell)
        texts.append(text)
    return texts


def _text(cell: str) -> str:
    if not _SPECIAL(cell):
        return cell
    return '"' + cell.replace('"', '""') + '"'
