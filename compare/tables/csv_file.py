"""Write rows as a csv file, large ones by several processes.

Rows become a csv file: UTF-8, commas, one line of headings, as the module `csv` writes them.

It is not used for the rows themselves: of thousands of cells most are alike (stacks above all), and a text that was
put into quotes once is not looked at again. That halves the time of a large table (docs/performance.md).
"""

import re
import shutil
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import BinaryIO

from msprobe.base.files import part_of, replacing
from msprobe.compare.judge.judged import Comparison
from msprobe.compare.locate.find import Located
from msprobe.compare.workers.run import Lost, cores, run

from .cells import Cell
from .columns import Column
from .rows import rows

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


WORTH_SHARES = 30_000
"""Rows that one process writes before others would have started."""


@dataclass(frozen=True)
class Share:
    """The rows from `start` to `stop` of a comparison, and the file that their lines go to."""

    comparison: Comparison
    located: Located
    with_stack: bool
    start: int
    stop: int
    path: str


def write_csv_shares(
    path: Path, columns: Sequence[Column], comparison: Comparison, located: Located, with_stack: bool, workers: int
) -> None:
    """Write what `write_csv` would write of all `rows`, byte for byte, by so many processes (0: as many as cores)."""
    count, size = workers or cores(), len(comparison.grades)
    cuts = [size * n // count for n in range(count + 1)]
    with ExitStack() as parts:
        shares = [
            Share(comparison, located, with_stack, start, stop, str(parts.enter_context(part_of(path)).path))
            for start, stop in pairwise(cuts)
        ]
        for at, result in run(write_share, shares, workers=count):
            if isinstance(result, Lost):  # whatever it died of, its rows are not lost
                write_share(shares[at])
        with replacing(path) as file:
            file.write(heading(columns))
            for share in shares:
                with open(share.path, "rb") as lines:
                    shutil.copyfileobj(lines, file, 1 << 20)


def write_share(share: Share) -> None:
    """Write the lines of one share."""
    with open(share.path, "wb") as file:
        write_lines(file, rows(share.comparison, share.located, share.with_stack, share.start, share.stop))
