"""Join the tables of several ranks by record, and write the result."""

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from msprobe.base.errors import UsageError
from msprobe.base.files import replacing
from msprobe.base.log import logger, visible
from msprobe.compare.tables.cells import Cell, guard, share
from msprobe.compare.tables.sheet import PERCENT
from msprobe.store.lock import claimed

from .choice import Choice, check_measures, read_choice
from .tables import BESIDE, GOLDEN, NAME, TARGET, Mode, Table, measures_of, open_table, tables_of_ranks

_NO_NUMBER = ("N/A", "unsupported", "Nan", "nan")
"""Measures that say nothing; the two values themselves say more: a group's ranks, a number, a text."""

Key = tuple[str, int]


@dataclass(frozen=True)
class Merged:
    """Per rank the cells of every record that was asked for, one cell per measure; and the records in order.

    A record is known by its name and, where a table has that name more than once, by which of them it is.
    """

    measures: tuple[str, ...]
    keys: tuple[Key, ...]
    cells: Mapping[int, Mapping[Key, tuple[Cell, ...]]]

    @property
    def titles(self) -> tuple[str, ...]:
        """The headings of every sheet."""
        return (NAME, *(f"rank{rank}" for rank in self.cells))

    def rows(self, measure: str) -> Iterator[tuple[Cell, ...]]:
        """One row per record: its name, and the measure at every rank; empty where a rank has no such record."""
        at = self.measures.index(measure)
        for key in self.keys:
            of_ranks = (known.get(key) for known in self.cells.values())
            yield (guard(key[0]), *(cells[at] if cells else "" for cells in of_ranks))


def merge(
    tables: Iterable[tuple[int, Table]], measures: Sequence[str], place_of: Callable[[str], int | None]
) -> Merged:
    """Join the tables, each with its rank, over all records whose name has a place; one table is read after the other.

    Names with the same place stand together, places in their order, and within a place as the tables have them.
    """
    cells = {rank: _cells(table, measures, place_of) for rank, table in tables}
    ordered = _in_order([list(known) for known in cells.values()])
    return Merged(tuple(measures), tuple(sorted(ordered, key=lambda key: place_of(key[0]) or 0)), cells)


def _cells(table: Table, measures: Sequence[str], place_of: Callable[[str], int | None]) -> dict[Key, tuple[Cell, ...]]:
    found: dict[Key, tuple[Cell, ...]] = {}
    met: Counter[str] = Counter()
    for name, target, golden, *values in table.picked((NAME, TARGET, GOLDEN, *measures)):
        if not isinstance(name, str) or place_of(name) is None:
            continue
        found[name, met[name]] = tuple(
            guard(f"NPU:{target}  Bench:{golden}") if value in _NO_NUMBER else _guarded(value) for value in values
        )
        met[name] += 1
    return found


def _guarded(value: Cell) -> Cell:
    return guard(value) if isinstance(value, str) else value


def _in_order(sequences: Sequence[Sequence[Key]]) -> list[Key]:
    """Every key once; one that only later tables have stands behind the key that it follows there."""
    follows: dict[Key | None, Key | None] = {None: None}  # a chain from None to None
    for sequence in sequences:
        before: Key | None = None
        for key in sequence:
            if key not in follows:
                follows[key], follows[before] = follows[before], key
            before = key
    ordered: list[Key] = []
    at = follows[None]
    while at is not None:
        ordered.append(at)
        at = follows[at]
    return ordered


ROWS_IN_A_SHEET = 1_048_575  # of records; the format ends at 1,048,576, and the first row is the heading


def write_workbook(path: Path, merged: Merged) -> None:
    """Write one sheet per measure, called as the measure; what a sheet cannot hold goes on in a further one."""
    from openpyxl import Workbook
    from openpyxl.utils import get_column_letter

    book = Workbook(write_only=True)
    letters = [get_column_letter(at) for at in range(1, len(merged.titles) + 1)]
    for measure in merged.measures:
        rows, number = merged.rows(measure), 0
        while (part := list(islice(rows, ROWS_IN_A_SHEET))) or not number:
            number += 1
            sheet = book.create_sheet(measure if number == 1 else f"{measure} {number}")
            sheet.freeze_panes = "B2"
            for at, letter in enumerate(letters):
                sheet.column_dimensions[letter].width = 18 if at else 56
            sheet.append(merged.titles)
            for row in part:
                sheet.append([None if cell == "" else _set(sheet, cell) for cell in row])
    with replacing(path) as file:
        book.save(file)


def _set(sheet: Any, cell: Cell) -> Any:
    """A cell as it is, but for a share, which is a number that is shown in percent."""
    if (part := share(cell)) is None:
        return cell
    from openpyxl.cell import WriteOnlyCell

    shown = WriteOnlyCell(sheet, part)
    shown.number_format = PERCENT
    return shown


def write_csv_files(paths: Sequence[Path], merged: Merged) -> None:
    """Write a file per measure, UTF-8 with commas; numbers with all their digits."""
    for path, measure in zip(paths, merged.measures, strict=True):
        with replacing(path) as raw, io.TextIOWrapper(raw, encoding="utf-8", errors="replace", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(merged.titles)
            writer.writerows(merged.rows(measure))


def merge_result(folder: Path, output: Path, config: Path, *, form: str = "xlsx") -> tuple[Path, ...]:
    """Put the comparison tables that lie in a folder side by side; gives the files that were written.

    `form` is `xlsx`, for one file with a sheet per measure, or `csv`, for a file per measure. UsageError where the
    tables or the file `config` cannot be read or meant, or no record was asked for.
    """
    choice = read_choice(config)
    paths = tables_of_ranks(folder)
    logger.info("merging %d tables, of the ranks %s", len(paths), ", ".join(map(str, paths)))
    merging = _Merging(config, choice, paths)
    merged = merge(merging.tables(), merging.measures, merging.place_of)
    merging.check(folder)
    task = f"merge_result {folder.absolute()} {choice} {form}"
    with claimed(output, task, lambda second: _paths(output, second, merged, form)) as second:
        written = _paths(output, second, merged, form)
        try:
            if form == "csv":
                write_csv_files(written, merged)
            else:
                write_workbook(written[0], merged)
        except OSError as err:
            raise UsageError(f"{output}: cannot be written ({err.strerror}); give another folder with -o") from err
        return written


class _Merging:
    """One merging: opens the tables one after the other, holds them to the first, and notes what was found in them."""

    def __init__(self, config: Path, choice: Choice, paths: Mapping[int, Path]) -> None:
        self._config, self._choice, self._paths = config, choice, paths
        self._used: set[int] = set()
        self._first = next(iter(paths.values()))
        self._mode: Mode = open_table(self._first).mode
        own = measures_of(self._mode)
        check_measures(config, choice.compare_index, (*own, *BESIDE[self._mode]))
        self.measures = choice.compare_index or own
        self._without: dict[str, list[int]] = {title: [] for title in self.measures}

    def tables(self) -> Iterator[tuple[int, Table]]:
        """Every table with its rank; UsageError for one of another mode than the first."""
        for rank, path in self._paths.items():
            table = open_table(path)
            if table.mode != self._mode:
                raise UsageError(
                    f"{self._first} compares by {self._mode} and {path} by {table.mode}; merge tables of one kind"
                )
            for title in self.measures:
                if title not in table.titles:
                    self._without[title].append(rank)
            yield rank, table

    def place_of(self, name: str) -> int | None:
        """The place of the first entry that a record belongs to; None where it was not asked for."""
        places = self._choice.places_of(name)
        self._used.update(places)
        return places[0] if places else None

    def check(self, folder: Path) -> None:
        """Say what was asked for and was not there; UsageError where nothing was, or no table had a measure."""
        if not self._used:
            raise UsageError(
                f"{self._config}: no record in {folder} has one of these in its name: "
                f"{', '.join(self._choice.api)[:300]}; take entries from the column NPU Name of the tables"
            )
        for at, entry in enumerate(self._choice.api):
            if at not in self._used:
                logger.warning("%s: no record has %s in its name", self._config, visible(entry))
        for title, ranks in self._without.items():
            if len(ranks) == len(self._paths):
                raise UsageError(
                    f"{self._config}: compare_index holds {title}, and no table in {folder} has that column; leave it "
                    "out, or compare again with this version"
                )
            if ranks:
                logger.warning("%s stays empty for rank %s: no such column there", title, ", ".join(map(str, ranks)))


def _paths(output: Path, second: str, merged: Merged, form: str) -> tuple[Path, ...]:
    stem = f"multi_ranks_compare_merge_{second}"
    if form == "csv":
        return tuple(output / f"{stem}_{measure.replace(' ', '_')}.csv" for measure in merged.measures)
    return (output / f"{stem}.xlsx",)
