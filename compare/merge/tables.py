"""Find the comparison tables of ranks, and read them from xlsx or csv."""

import csv
import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Literal

from msprobe.base.errors import UsageError
from msprobe.base.files import open_input, open_text
from msprobe.base.log import logger, terminal_line
from msprobe.compare.tables.cells import Cell, is_number, number
from msprobe.compare.tables.columns import columns
from msprobe.compare.tables.sheet import SUMMARY

Mode = Literal["statistics", "tensor"]

NAME, TARGET, GOLDEN = "NPU Name", "NPU max", "Bench max"
NEIGHBORS: dict[Mode, tuple[str, ...]] = {
    "statistics": ("Verdict", "Requires_grad Consistent"),
    "tensor": ("Verdict", "Scale Error", "Bias", "Max ULP", "Requires_grad Consistent"),
}
"""Columns of some tables in addition to the measures of their mode, which are merged on request."""

_MAX_COLUMNS, _MAX_ROWS = 128, 1_048_576  # the declared size of a sheet is limited to this
_EMPTY_ROWS = 1000
_UNPACKED = 16 << 30  # bytes of all sheets; they are read sequentially
_HELD = 512 << 20  # bytes of any other part, especially texts, which openpyxl keeps in memory
_SWOLLEN, _FROM = 300, 64 << 20  # largest compression ratio of a table; checked for parts from this size on

_WHOLE = re.compile(r"-?[0-9]{1,15}")
_DECIMAL = re.compile(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")


def measures_of(mode: Mode) -> tuple[str, ...]:
    """Return the headings of a mode's measures: those between the six columns of names and the values."""
    titles = [column.title for column in columns(mode, with_stack=False)]
    return tuple(titles[6 : titles.index(TARGET)])


@dataclass(frozen=True)
class Table:
    """A table of one rank: its headings, and the rows as they are in the file, which can be read once.

    A sheet has shares as numbers (0.125), a csv file has texts (`12.5%`).
    """

    where: str
    mode: Mode
    titles: tuple[str, ...]
    rows: Iterator[Sequence[Cell]]
    is_sheet: bool = False

    def picked(self, wanted: Sequence[str]) -> Iterator[tuple[Cell, ...]]:
        """Yield the cells below these headings, row by row; empty if the table has no such heading or the row ends.

        Shares are texts in both forms.
        """
        places = [self.titles.index(title) if title in self.titles else len(self.titles) for title in wanted]
        in_percent = {column.title for column in columns(self.mode, with_stack=False) if column.percent}
        shares = [at for at, title in enumerate(wanted) if self.is_sheet and title in in_percent]
        for row in self.rows:
            cells = [row[at] if at < len(row) else "" for at in places]
            for at in shares:
                if is_number(cell := cells[at]):
                    cells[at] = f"{cell * 100}%"
            yield tuple(cells)


def open_table(path: Path) -> Table:
    """Open a table; raise a UsageError if it is not one, or has no measures. Reading its rows may raise one too."""
    rows = _checked(path, _sheet_rows(path) if path.suffix == ".xlsx" else _csv_rows(path))
    titles = tuple(map(str, next(rows, ())))
    if "NPU MD5" in titles:
        raise UsageError(
            f"{path}: is a comparison of digests, which have no measures; merge tables of statistics or tensors"
        )
    mode = next((mode for mode in NEIGHBORS if {NAME, TARGET, GOLDEN, *measures_of(mode)} <= {*titles}), None)
    if mode is None:
        raise UsageError(
            f"{path}: does not have the column headings of a comparison table; remove it, or compare again"
        )
    return Table(str(path), mode, titles, rows, path.suffix == ".xlsx")


def _checked(path: Path, rows: Iterator[Sequence[Cell]]) -> Iterator[Sequence[Cell]]:
    try:
        yield from rows
    except UsageError:
        raise
    except OSError as err:
        raise UsageError(f"{path}: cannot be read ({err.strerror or err}); compare this rank again") from err
    # zipfile, the XML parser and openpyxl raise many types of errors for a broken file.
    except Exception as err:
        text = " ".join(f"{type(err).__name__}: {err}".split())[:200]
        raise UsageError(f"{path}: is damaged or not a table ({text}); compare this rank again, or remove it") from err


def _csv_rows(path: Path) -> Iterator[Sequence[Cell]]:
    with open_text(path, errors="strict", newline="") as file:
        rows = csv.reader(file, strict=True)
        yield next(rows, [])
        for row in rows:
            yield [_cell(text) for text in row]


def _cell(text: str) -> Cell:
    """Return a number for the text of a number; other text unchanged."""
    if _WHOLE.fullmatch(text):
        return int(text)
    return number(float(text)) if _DECIMAL.fullmatch(text) else text


def _sheet_rows(path: Path) -> Iterator[Sequence[Cell]]:
    """Yield the rows of the first sheet that has records, and of further ones with the same headings: a large table
    continues there. A sheet with a summary may precede it."""
    from openpyxl import load_workbook

    with open_input(path) as file:
        _check_size(path, file)
        book = load_workbook(file, read_only=True, data_only=True, keep_links=False)
        titles: tuple[Cell, ...] = ()
        for sheet in book.worksheets:
            sheet.reset_dimensions()  # the declared size in a file may be anything
            rows = sheet.iter_rows(max_row=_MAX_ROWS, max_col=_MAX_COLUMNS, values_only=True)
            head = _filled(next(rows, ()))
            if (head != titles) if titles else (NAME not in head and sheet.title == SUMMARY):
                continue
            yield from _to_the_end(rows) if titles else chain((head,), _to_the_end(rows))
            titles = head


def _to_the_end(rows: Iterator[Sequence[Any]]) -> Iterator[Sequence[Cell]]:
    """Yield the rows that have cells; after many that have none, the sheet has ended, for any number of its last
    row."""
    empty = 0
    for row in map(_filled, rows):
        empty = 0 if row else empty + 1
        if row:
            yield row
        elif empty > _EMPTY_ROWS:
            return


def _filled(row: Sequence[Any]) -> tuple[Cell, ...]:
    """Return a row without the empty cells at its end."""
    end = len(row)
    while end and row[end - 1] is None:
        end -= 1
    return tuple("" if cell is None else number(cell) for cell in row[:end])


def _check_size(path: Path, file: BinaryIO) -> None:
    """Raise a UsageError for a file that is larger when unpacked than any table; zipfile ensures that a part is not
    larger than declared."""
    with zipfile.ZipFile(file) as packed:
        parts = packed.infolist()
    if sum(part.file_size for part in parts) > _UNPACKED:
        raise UsageError(f"{path}: unpacks to more than {_UNPACKED >> 30} GiB; write this table as csv")
    for part in parts:
        is_sheet = part.filename.startswith("xl/worksheets/")
        swollen = part.file_size > _FROM and part.file_size > _SWOLLEN * part.compress_size
        if swollen or (not is_sheet and part.file_size > _HELD):
            raise UsageError(
                f"{path}: {part.filename[:80]} unpacks from {part.compress_size} to {part.file_size} bytes, which "
                "is implausible for a table; write this table as csv, or compare this rank again"
            )


_TABLE = re.compile(r"compare_result_rank([0-9]{1,9})(?:-rank[0-9]{1,9})?_[0-9]{14}\.(?:xlsx|csv)")
_ONE_CARD = re.compile(r"compare_result_(?:rank_)?[0-9]{14}\.(?:xlsx|csv)")

_COMPARE_FIRST = "compare the ranks first, with msprobe compare"
_OTHER_FILES = re.compile(r"(?:compare_summary|diff_analyze|advisor|compare_result)_.*\.(?:json|txt)")
"""Files that a comparison writes in addition to its tables."""


def tables_of_ranks(folder: Path) -> dict[int, Path]:
    """Return the table of each rank, in the order of the ranks.

    Skipped files are logged. Raise a UsageError if the folder cannot be read, has fewer than two tables, or two of one
    rank.
    """
    try:
        entries = sorted(folder.iterdir())
    except OSError as err:
        raise UsageError(f"{folder}: cannot be read ({err.strerror}); give the folder with the tables") from err
    found: dict[int, Path] = {}
    for entry in entries:
        if _OTHER_FILES.fullmatch(entry.name):
            continue
        named = _TABLE.fullmatch(entry.name)
        if not named or not entry.is_file():
            why_not = "not called compare_result_rank<N>_<time>.xlsx or .csv"
            if entry.is_dir():
                why_not = "a folder; to merge its tables, give it with -i"
            elif _ONE_CARD.fullmatch(entry.name):
                why_not = "the table of a single card"
            logger.info("%s is skipped: %s", terminal_line(str(entry)), why_not)
            continue
        rank = int(named[1])
        if rank in found:
            raise UsageError(
                f"{folder}: {found[rank].name} and {entry.name} are both of rank {rank}; remove one of them"
            )
        found[rank] = entry
    if len(found) < 2:
        below = next((entry for entry in entries if entry.is_dir() and _has_tables(entry)), None)
        remedy = f"{below.name} has some: merge one step at a time, with -i {below}" if below else _COMPARE_FIRST
        raise UsageError(
            f"{folder}: holds {len(found) or 'no'} table{'' if len(found) == 1 else 's'} of a rank and two are needed, "
            f"compare_result_rank<N>_<time>.xlsx or .csv; {remedy}"
        )
    return dict(sorted(found.items()))


def _has_tables(folder: Path) -> bool:
    try:
        return any(_TABLE.fullmatch(entry.name) for entry in folder.iterdir())
    except OSError:
        return False  # only needed for the hint
