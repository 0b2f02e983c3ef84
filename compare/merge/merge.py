"""Join the tables of several ranks by record, for the calls in a YAML file, and write the result."""

import errno
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # ships without types

from msprobe.base.errors import UsageError
from msprobe.base.files import read_input, replace_atomically, writing
from msprobe.base.log import join_names, logger, terminal_line
from msprobe.base.phrase import Words
from msprobe.base.verdicts import Verdicts, last_line
from msprobe.compare.tables.cells import Cell, guard, share
from msprobe.compare.tables.columns import Column
from msprobe.compare.tables.csv_file import write_csv
from msprobe.compare.tables.sheet import PERCENT, ROWS_IN_A_SHEET
from msprobe.mapping.user_files import one_line
from msprobe.store.lock import claimed

from .tables import GOLDEN, NAME, NEIGHBORS, TARGET, Table, measures_of, open_table, tables_of_ranks

_LONGEST = 1 << 20  # bytes; a list of calls is short
_EXAMPLE = "write a list of names or name prefixes below `api:`, such as `- Distributed.all_reduce`"
_KEYS = ("api", "compare_index")


@dataclass(frozen=True)
class Choice:
    """`api` has parts of names, as in `Mint.add`; `compare_index` the headings of measures, empty for all."""

    api: tuple[str, ...]
    compare_index: tuple[str, ...] = ()

    def places_of(self, name: str) -> list[int]:
        """Return the positions of the entries that a record's name contains, followed by a dot or the end of the
        name."""
        text = f"{name}."
        return [at for at, entry in enumerate(self.api) if f"{entry}." in text]


def read_choice(path: Path) -> Choice:
    """Read the file; raise a UsageError if it cannot be read or is invalid."""
    try:
        inputs: Any = yaml.safe_load(read_input(path, _LONGEST))
    except OSError as err:
        is_large = err.errno == errno.EFBIG
        hint = "use parts of names that many calls share" if is_large else "check the path after -config"
        raise UsageError(f"{path}: cannot be read ({err.strerror or err}); {hint}") from err
    except (yaml.YAMLError, ValueError, RecursionError) as err:
        text = one_line(err)[:300] if not isinstance(err, RecursionError) else "nested too deeply"
        raise UsageError(f"{path}: is not valid YAML ({text}); {_EXAMPLE}") from err
    if not inputs:
        raise UsageError(f"{path}: is empty; {_EXAMPLE}")
    if not isinstance(inputs, dict):
        raise UsageError(f"{path}: must have the keys api and compare_index; {_EXAMPLE}")
    for key in inputs:
        if key not in _KEYS:
            near = get_close_matches(str(key), _KEYS, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            logger.warning("%s: the key %s is ignored%s", path, terminal_line(str(key)[:80]), hint)
    api = _texts(path, inputs, "api", _EXAMPLE)
    if not api:
        raise UsageError(f"{path}: api is missing or empty; {_EXAMPLE}")
    hint = "write a list of column headings, such as `- Max diff`, or omit it for all"
    return Choice(tuple(entry.rstrip(".") for entry in api), _texts(path, inputs, "compare_index", hint))


def _texts(path: Path, inputs: dict[Any, Any], key: str, hint: str) -> tuple[str, ...]:
    """Return a list of texts, without duplicates; empty if the key is missing or has no value."""
    value = inputs.get(key)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise UsageError(f"{path}: {key} is a {type(value).__name__} and must be a list; {hint}")
    for item in value:
        if not isinstance(item, str) or not item.strip(". "):
            text = "an empty string" if isinstance(item, str) else f"a {type(item).__name__}"
            raise UsageError(f"{path}: {key} contains {text} but must be a list of strings; {hint}")
    return tuple(dict.fromkeys(item.strip() for item in value))


def check_measures(path: Path, wanted: Sequence[str], known: Sequence[str]) -> None:
    """Raise a UsageError if a requested measure never exists in tables of this kind."""
    for name in wanted:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"available: {', '.join(known)}"
            raise UsageError(f"{path}: compare_index contains {name!r}, which is not a measure of these tables; {hint}")


_NO_NUMBER = ("N/A", "unsupported", "Nan", "nan")
"""Measures that are not numbers; the two values are written instead: a group's ranks, a number, a text."""

_NAMED = 5
"""Maximum number of names in a line."""


class Absent(Enum):
    """Requested measures or records that are not in the result."""

    ENTRY = "entries of api that are in no table"
    MEASURE = "columns of compare_index missing in the table of a rank"


Key = tuple[str, int]
"""The name of a record and, if a table has that name more than once, its number among them."""


@dataclass(frozen=True)
class Merged:
    """By rank the cells of every requested record, one cell per measure; and the records in order.

    `absent` are the entries of `api` without a record in any table, `without` the ranks whose table lacks a measure.
    """

    measures: tuple[str, ...]
    keys: tuple[Key, ...]
    cells: Mapping[int, Mapping[Key, tuple[Cell, ...]]]
    absent: tuple[str, ...] = ()
    without: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def lacking(self) -> dict[tuple[str, ...], list[int]]:
        """Return the ranks by the records that they lack and another rank has; without ranks that lack nothing."""
        found: dict[tuple[str, ...], list[int]] = {}
        for rank, cells in self.cells.items():
            if names := tuple(key[0] for key in self.keys if key not in cells):
                found.setdefault(names, []).append(rank)
        return found

    @property
    def verdicts(self) -> Verdicts:
        """Return the numbers of records in the result, and of missing ones. A record that some rank has is not missing:
        the stages of a pipeline have different calls."""
        gaps = {Absent.ENTRY: len(self.absent), Absent.MEASURE: sum(map(len, self.without.values()))}
        return Verdicts(len(self.keys), gaps=gaps)

    @property
    def answer(self) -> Words:
        """Return the last line: the number of records, and of those that are missing."""
        number = f"{len(self.keys)} record{'s' * (len(self.keys) != 1)}"
        ranks = f"{len(self.cells)} rank{'s' * (len(self.cells) != 1)}"
        return last_line(f"merged: {number} of {ranks}", self.verdicts)

    def notes(self) -> Iterator[str]:
        """Yield lines about the ranks that lack records."""
        for names, ranks in self.lacking.items():
            which = (
                f"missing on rank {ranks[0]}:" if len(ranks) == 1 else f"missing on ranks {join_names(ranks, _NAMED)}:"
            )
            number = f"{len(names)} of {len(self.keys)} records"
            yield f"{which} {number}, as with pipeline stages: {join_names(names, _NAMED)}"

    @property
    def titles(self) -> tuple[str, ...]:
        """Return the headings of every sheet."""
        return (NAME, *(f"rank{rank}" for rank in self.cells))

    def rows(self, measure: str) -> Iterator[tuple[Cell, ...]]:
        """Yield one row per record: its name, and the measure at every rank; empty if a rank does not have the
        record."""
        at = self.measures.index(measure)
        for key in self.keys:
            of_ranks = (known.get(key) for known in self.cells.values())
            yield (guard(key[0]), *(cells[at] if cells else "" for cells in of_ranks))


def merge_result(folder: Path, output: Path, config: Path, *, form: str = "xlsx") -> tuple[Path, ...]:
    """Combine the comparison tables in a folder; return the files that were written.

    `form` is `xlsx`, for one file with a sheet per measure, or `csv`, for a file per measure. Raise a UsageError if the
    tables or the file `config` cannot be read or are invalid, or no record was selected.
    """
    return merge_tables(folder, output, config, form=form)[0]


def merge_tables(folder: Path, output: Path, config: Path, *, form: str = "xlsx") -> tuple[tuple[Path, ...], Merged]:
    """Do the same as `merge_result`; return the merged records too."""
    choice = read_choice(config)
    paths = tables_of_ranks(folder)
    logger.info("merging %d tables, of the ranks %s", len(paths), ", ".join(map(str, paths)))
    merged = _merged(folder, paths, config, choice)

    def named(second: str) -> tuple[Path, ...]:
        stem = f"multi_ranks_compare_merge_{second}"
        if form == "csv":
            return tuple(output / f"{stem}_{measure.replace(' ', '_')}.csv" for measure in merged.measures)
        return (output / f"{stem}.xlsx",)

    with claimed(output, f"merge_result {folder.absolute()} {choice} {form}", named) as second:
        written = named(second)
        with writing(output):
            titles = [Column(title, "") for title in merged.titles]
            if form == "xlsx":
                write_workbook(written[0], merged)
            for path, measure in zip(written if form == "csv" else (), merged.measures, strict=False):
                write_csv(path, titles, merged.rows(measure))
        return written, merged


def _merged(folder: Path, paths: Mapping[int, Path], config: Path, choice: Choice) -> Merged:
    """Join all tables, one read after the other, and log what is missing.

    Records of one entry of `choice.api` are together, entries in their order, and within one as in the tables. Raise a
    UsageError for tables of two modes, if no record was selected, or if no table has a measure.
    """
    first = next(iter(paths.values()))
    mode = open_table(first).mode
    own = measures_of(mode)
    check_measures(config, choice.compare_index, (*own, *NEIGHBORS[mode]))
    measures = choice.compare_index or own
    used: set[int] = set()
    without: dict[str, list[int]] = {title: [] for title in measures}
    cells: dict[int, dict[Key, tuple[Cell, ...]]] = {}

    def place_of(name: str) -> int | None:
        """Return the position of the first entry that a record belongs to; None if it was not selected."""
        places = choice.places_of(name)
        used.update(places)
        return places[0] if places else None

    for rank, path in paths.items():
        table = open_table(path)
        if table.mode != mode:
            raise UsageError(f"{first} compares by {mode}, but {path} by {table.mode}; merge tables of one kind")
        for title in measures:
            if title not in table.titles:
                without[title].append(rank)
        cells[rank] = _cells(table, measures, place_of)
    if not used:
        raise UsageError(
            f"{config}: no record in {folder} has a name with one of these entries: "
            f"{', '.join(choice.api)[:300]}; use names from the column NPU Name of the tables"
        )
    for at, entry in enumerate(choice.api):
        if at not in used:
            logger.warning("%s: no record name contains %s", config, terminal_line(entry))
    for title, ranks in without.items():
        if len(ranks) == len(paths):
            raise UsageError(
                f"{config}: compare_index contains {title}, but no table in {folder} has this column; remove it, "
                "or compare again with this version"
            )
        if ranks:
            logger.warning(
                "%s is empty for rank %s: its table does not have this column", title, ", ".join(map(str, ranks))
            )
    ordered = _in_order([list(known) for known in cells.values()])
    return Merged(
        measures,
        tuple(sorted(ordered, key=lambda key: place_of(key[0]) or 0)),
        cells,
        tuple(entry for at, entry in enumerate(choice.api) if at not in used),
        {title: tuple(ranks) for title, ranks in without.items() if ranks},
    )


def _cells(table: Table, measures: Sequence[str], place_of: Callable[[str], int | None]) -> dict[Key, tuple[Cell, ...]]:
    found: dict[Key, tuple[Cell, ...]] = {}
    met: Counter[str] = Counter()
    for name, target, golden, *values in table.picked((NAME, TARGET, GOLDEN, *measures)):
        if not isinstance(name, str) or place_of(name) is None:
            continue
        shown = (f"NPU:{target}  Bench:{golden}" if value in _NO_NUMBER else value for value in values)
        found[name, met[name]] = tuple(guard(value) if isinstance(value, str) else value for value in shown)
        met[name] += 1
    return found


def _in_order(sequences: Sequence[Sequence[Key]]) -> list[Key]:
    """Return every key once; one that only later tables have comes after the key that precedes it there."""
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


def write_workbook(path: Path, merged: Merged) -> None:
    """Write one sheet per measure, with its name; rows that do not fit continue in a further sheet."""
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
    with replace_atomically(path) as file:
        book.save(file)


def _set(sheet: Any, cell: Cell) -> Any:
    """Return a cell unchanged, except for a share, which is a number in percent format."""
    if (part := share(cell)) is None:
        return cell
    from openpyxl.cell import WriteOnlyCell

    shown = WriteOnlyCell(sheet, part)
    shown.number_format = PERCENT
    return shown
