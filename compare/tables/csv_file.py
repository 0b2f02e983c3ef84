"""Write rows as a csv file, large ones by several processes: UTF-8, commas, one line of headings.

The file is equal to one that the module `csv` writes. An extension formats the lines; without it they are formatted
here, and a text that occurs in many cells (especially stacks) is quoted once (explanation/performance.md).
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from msprobe.base.files import replace_atomically, temporary_file
from msprobe.compare.judge.judged import Comparison
from msprobe.compare.locate.find import Located
from msprobe.compare.workers.run import Lost, cores, run

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


WORTH_SHARES = 30_000
"""Number of rows up to which one process is faster than starting others."""


def write_csv_of(
    path: Path, columns: Sequence[Column], comparison: Comparison, located: Located, with_stack: bool, workers: int
) -> None:
    """Write the same bytes as `write_csv` for all `rows`; many by `workers` processes (0: as many as cores)."""
    size = len(comparison.grades)
    count = (workers or cores()) if size >= WORTH_SHARES else 1
    cuts = [(size * n // count, size * (n + 1) // count) for n in range(count)]
    if count == 1:
        with replace_atomically(path) as file:
            _write_headings(file, columns)
            _write_stretches(file, comparison, located, with_stack, *cuts[0])
        return
    from shutil import copyfileobj  # here: small tables are written by one process

    with ExitStack() as parts:
        shares = [
            (str(parts.enter_context(temporary_file(path)).path), (comparison, located, with_stack, *cut))
            for cut in cuts
        ]
        for at, result in run(_write_share, shares, workers=count):
            if isinstance(result, Lost):  # for any cause, its rows are not lost
                _write_share(shares[at])
        with replace_atomically(path) as file:
            _write_headings(file, columns)
            for share, _ in shares:
                with open(share, "rb") as lines:
                    copyfileobj(lines, file, 1 << 20)


def _write_share(share: tuple[str, tuple[Comparison, Located, bool, int, int]]) -> None:
    """Write some of the lines; `share` is their file, and the arguments of `stretches`."""
    path, of_rows = share
    with open(path, "wb") as file:
        _write_stretches(file, *of_rows)


def _write_stretches(
    file: BinaryIO, comparison: Comparison, located: Located, with_stack: bool, start: int, stop: int
) -> None:
    for columns in stretches(comparison, located, with_stack, start, stop):
        _write_lines(file, columns)
