"""Write rows as a csv file: UTF-8, commas, one line of headings.

The file is equal to one that the module `csv` writes. An extension formats the lines; without it they are formatted
here, and a text that occurs in many cells (especially stacks) is quoted once (explanation/performance.md).
"""

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from msprobe.base.files import replace_atomically
from msprobe.compare.judge.judged import Comparison
from msprobe.compare.locate.find import Located

from .cells import Cell, Numbers
from .columns import Column
from .rows import stretches

try:
    from . import _cells  # type: ignore[attr-defined]  # the optional extension, which has no Python source

    lines_of: Any = _cells.csv_lines
except ImportError:
    lines_of = None

_AT_ONCE = 4096  # rows
_SPECIAL = re.compile('[",\r\n]').search


def write_csv(path: Path, columns: Sequence[Column], rows: Iterable[tuple[Cell, ...]]) -> None:
    """Write rows as they are created; numbers with all their digits, so that reading gives the same floats."""
    with replace_atomically(path) as file:
        _write_headings(file, columns)
        rest = iter(rows)
        while made := list(islice(rest, _AT_ONCE)):
            _write_lines(file, list(zip(*made, strict=True)))


def _write_headings(file: BinaryIO, columns: Sequence[Column]) -> None:
    _write_lines(file, [(column.title,) for column in columns])


def _write_lines(file: BinaryIO, columns: Sequence[Sequence[Cell]]) -> None:
    """Write lines whose cells are passed by column."""
    if lines_of is not None:
        as_buffers = [(c.values, c.suffix, c.others) if isinstance(c, Numbers) else list(c) for c in columns]
        file.write(lines_of(as_buffers))
        return
    texts = map(",".join, zip(*map(_texts, columns), strict=True))
    file.write(("\r\n".join(texts) + "\r\n").encode("utf-8", "replace"))


def _texts(cells: Sequence[Cell]) -> Sequence[str]:
    """Return the cells of a column as the file contains them."""
    column = list(cells)
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
            text = known[cell] = '"' + cell.replace('"', '""') + '"' if _SPECIAL(cell) else cell
        texts.append(text)
    return texts


def write_csv_of(
    path: Path, columns: Sequence[Column], comparison: Comparison, located: Located, with_stack: bool
) -> None:
    """Write the same bytes as `write_csv` for all `rows`, column by column."""
    with replace_atomically(path) as file:
        _write_headings(file, columns)
        for made in stretches(comparison, located, with_stack):
            _write_lines(file, made)
