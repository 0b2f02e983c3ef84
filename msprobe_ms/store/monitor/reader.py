"""Reading what a monitor wrote: ours or the reference's, of TrainerMon, TrainerMonitorV2 or grad_probe."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.base.errors import DumpError
from msprobe.base.files import open_input
from msprobe.base.memory import without_gc

from .columns import Columns, Texts, first_rows, integer_of, number_of, numbered, parse
from .layout import KINDS, LOST, OWN_STATISTICS, STATISTICS, TEXTS
from .lines import Cause, Notes, Piece, pieces
from .runs import Folder, Form, find_runs
from .table import Output, RankOutput, Table, Target

Array = np.ndarray[Any, Any]

_INTEGERS = ("vpp_stage", "step", "micro_step")
_GREATEST = {"vpp_stage": 1 << 20, "step": 1 << 40, "micro_step": 1 << 20}
"""Larger numbers, and negative ones, are no position in a training."""

_KNOWN = {*STATISTICS, *(name for names in OWN_STATISTICS.values() for name in names)}
_KIND_OF = {(kind.monitor, kind.scope): kind.name for kind in KINDS.values()}
_NAME_COLUMN = {"v1": "name", "v2": "module_name", "grad_probe": "param_name"}
_GRADIENT_STATISTICS = ("max", "min", "norm")


def read_output(path: Path) -> Output:
    """Read one run of a monitor: a folder with one folder per process, or one of these.

    Folders of a resumed run are joined; of several runs the newest is read. What was left out is in the notes.
    DumpError if nothing can be read.
    """
    notes = Notes()
    form, runs = find_runs(path, notes)
    ranks = {rank: found for rank, folders in runs.items() if (found := read_rank(form, rank, folders, notes))}
    if not ranks:
        raise nothing_read(path, notes)
    return Output(path, form.name, ranks, notes.texts(), notes.faults)


def nothing_read(path: Path, notes: Notes) -> DumpError:
    """Return the error for a path whose files have no row."""
    why = "; ".join(map(str, notes.texts()))
    return DumpError(f"{path}: no row of a monitor can be read ({why}); check the files, or give another folder")


def read_rank(form: Form, rank: int, folders: Sequence[Folder], notes: Notes) -> RankOutput | None:
    """Read the output of one rank in folders of one run; None, and a note, if there is no row."""
    with without_gc():
        tables = _tables(form, folders, notes)
    for folder in folders:
        notes.add(Cause.NOT_MEASURED, folder.path, _not_measured(folder.path / LOST))
    if tables:
        return RankOutput(rank, tables, tuple(folder.path for folder in folders))
    notes.add(Cause.EMPTY, folders[-1].path)
    return None


def _not_measured(path: Path) -> int:
    """Return how many lines a monitor's note of failed measurements has below its header; 0 if there is none."""
    try:
        with open_input(path) as file:
            return max(0, sum(1 for line in file if line.strip()) - 1)
    except OSError:
        return int(path.exists())


def _tables(form: Form, folders: Sequence[Folder], notes: Notes) -> dict[str, Table]:
    builders: dict[str, _Builder] = {}
    for number, folder in enumerate(folders):
        for series, files in folder.files.items():
            for piece in pieces(files, _required(form), notes):
                for kind, rows in _rows_of(form, series, piece, notes):
                    if not len(rows):
                        continue
                    builders.setdefault(kind, _Builder(kind)).add(number, rows)
    tables = {kind: builders[kind].table(folders, notes) for kind in KINDS if kind in builders}
    return {kind: table for kind, table in tables.items() if len(table)}


def _required(form: Form) -> tuple[str, ...]:
    scope = ("step", "scope") if form.name == "v2" else ()
    return (_NAME_COLUMN[form.name], *scope) if form.name != "v1" else ("name", "step")


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of one kind: for each the number of its target in `targets`, its step, micro step and statistics."""

    targets: list[Target]
    target: Array
    step: Array
    micro_step: Array
    statistics: dict[str, Array]
    texts: dict[str, list[str]]

    def __len__(self) -> int:
        return len(self.step)


def _rows_of(form: Form, series: str, piece: Piece, notes: Notes) -> Iterable[tuple[str, _Rows]]:
    """Yield (kind, rows) of a piece."""
    place = _places(form, piece.header)
    statistics = _statistics(form, place)
    known = [place[name] for name in statistics if name in _KNOWN]
    unknown = [name for name in statistics if name not in _KNOWN]
    wanted = [_NAME_COLUMN[form.name], *_INTEGERS, "scope", *TEXTS, *unknown]
    columns = parse(piece.data, len(piece.header), known, [place[name] for name in wanted if name in place])
    _note_lines(columns, piece, notes)
    numbers = {name: columns.numbers[place[name]] for name in statistics if name in _KNOWN}
    texts = {name: columns.texts[place[name]] for name in wanted if name in place}
    for name in unknown:
        values = _as_numbers(texts.pop(name), piece, notes, name)
        if values is not None:
            numbers[name] = values
    numbers = {name: numbers[name] for name in statistics if name in numbers}
    yield from _split(form, series, texts, numbers, piece, notes)


def _places(form: Form, header: Sequence[str]) -> dict[str, int]:
    """Return where the columns are; of two with one name the first counts. grad_probe in graph mode has capitals."""
    place: dict[str, int] = {}
    for at, name in enumerate(header):
        place.setdefault(name.lower() if form.name == "grad_probe" else name, at)
    return place


def _statistics(form: Form, place: dict[str, int]) -> list[str]:
    if form.name == "grad_probe":
        return [name for name in _GRADIENT_STATISTICS if name in place]
    return [name for name in place if name not in (_NAME_COLUMN[form.name], *_INTEGERS, "scope", *TEXTS)]


def _note_lines(columns: Columns, piece: Piece, notes: Notes) -> None:
    if columns.broken:
        notes.add(Cause.BROKEN, piece.place(columns.broken[0]), len(columns.broken))
    if columns.wrong:
        notes.add(Cause.WRONG_NUMBER, piece.files[0][1], len(columns.wrong))


def _as_numbers(column: Texts, piece: Piece, notes: Notes, name: str) -> Array | None:
    """Return a column of unknown meaning as numbers; None, and a note, where it holds none."""
    values = [number_of(text) for text in column.values]
    if column.values and all(value is None for value in values):
        notes.add(Cause.UNKNOWN_COLUMN, f"{piece.files[0][1]}, column {name}")
        return None
    wrong = [at for at, value in enumerate(values) if value is None]
    if wrong:
        notes.add(Cause.WRONG_NUMBER, piece.files[0][1], int(np.isin(column.codes, wrong).sum()))
    numbers = np.array([np.nan if value is None else value for value in values], np.float64)
    return numbers[column.codes]


def _split(
    form: Form, series: str, texts: dict[str, Texts], numbers: dict[str, Array], piece: Piece, notes: Notes
) -> Iterable[tuple[str, _Rows]]:
    """Return the rows of a piece by kind, without those that have no step."""
    name = texts[_NAME_COLUMN[form.name]]
    rows = name.codes.size
    integers, valid = {}, np.ones(rows, bool)
    for column in _INTEGERS:
        integers[column], fine = _integers(texts.get(column), rows, _GREATEST[column])
        valid &= fine
    if not valid.all():
        notes.add(Cause.NO_STEP, piece.files[0][1], int(rows - valid.sum()))
    for kind, chosen in _by_scope(series, texts.get("scope"), valid, piece, notes):

        def of(column: Array, chosen: Array | slice = chosen) -> Array:
            return column[chosen]

        vpp_stage = texts.get("vpp_stage", Texts(np.zeros(rows, np.int32), ("0",)))
        keys = [Texts(of(column.codes), column.values) for column in (vpp_stage, name)]
        target, pairs = numbered(keys)
        first = first_rows(target, len(pairs))
        yield (
            kind,
            _Rows(
                [Target(integer_of(stage) or 0, target_name) for stage, target_name in pairs],
                target,
                of(integers["step"]),
                of(integers["micro_step"]),
                {statistic: of(values) for statistic, values in numbers.items()},
                {
                    text: [texts[text].values[code] for code in of(texts[text].codes)[first].tolist()]
                    for text in TEXTS
                    if text in texts
                },
            ),
        )


def _integers(column: Texts | None, rows: int, greatest: int) -> tuple[Array, Array]:
    """Return a column as integers from -1 on, and which rows have one; zeros for a column that is not there."""
    if column is None:
        return np.zeros(rows, np.int64), np.ones(rows, bool)
    read = (integer_of(text) for text in column.values)
    values = [value if value is not None and -1 <= value <= greatest else None for value in read]
    numbers = np.array([value or 0 for value in values], np.int64)
    return numbers[column.codes], np.array([value is not None for value in values], bool)[column.codes]


def _by_scope(
    series: str, scope: Texts | None, valid: Array, piece: Piece, notes: Notes
) -> Iterable[tuple[str, Array | slice]]:
    """Yield (kind, its rows); without a column for the scope the kind is the series."""
    if scope is None:
        yield series, slice(None) if valid.all() else np.flatnonzero(valid)
        return
    for code, text in enumerate(scope.values):
        chosen = np.flatnonzero((scope.codes == code) & valid)
        kind = _KIND_OF.get((series, text))
        if kind is None:
            notes.add(Cause.UNKNOWN_SCOPE, f"{piece.files[0][1]}, scope {text}", chosen.size)
        elif chosen.size:
            yield kind, chosen


@dataclass
class _Builder:
    """Joins the rows of one kind of one rank."""

    kind: str
    _numbers: dict[Target, int] = field(default_factory=dict)
    _texts: dict[str, list[str]] = field(default_factory=lambda: {text: [] for text in TEXTS})
    _parts: list[tuple[int, _Rows]] = field(default_factory=list)

    def add(self, folder: int, rows: _Rows) -> None:
        """Add rows of a folder, the older folders first."""
        number = np.empty(len(rows.targets), np.int32)
        for at, target in enumerate(rows.targets):
            number[at] = self._numbers.setdefault(target, len(self._numbers))
        for text, values in self._texts.items():
            values.extend([""] * (len(self._numbers) - len(values)))
            for at, value in enumerate(rows.texts.get(text, ())):
                values[number[at]] = values[number[at]] or value
        self._parts.append((folder, _Rows([], number[rows.target], rows.step, rows.micro_step, rows.statistics, {})))

    def table(self, folders: Sequence[Folder], notes: Notes) -> Table:
        """Return all rows by step and micro step, each target once for each: of rows that repeat, the last one
        counts."""
        names = list(dict.fromkeys(name for _, rows in self._parts for name in rows.statistics))
        folder = np.concatenate([np.full(len(rows), at, np.int32) for at, rows in self._parts])
        target, step, micro_step = (
            np.concatenate(parts)
            for parts in zip(*((r.target, r.step, r.micro_step) for _, r in self._parts), strict=True)
        )
        chosen = _in_order(target, step, micro_step, self._written_last(folder, step, folders, notes), notes, folders)
        statistics = {name: np.concatenate([_column(rows, name) for _, rows in self._parts])[chosen] for name in names}
        shapes, dtypes = (tuple(self._texts[text]) for text in TEXTS)
        return Table(
            self.kind,
            tuple(self._numbers),
            target[chosen],
            step[chosen],
            micro_step[chosen],
            statistics,
            shapes,
            dtypes,
        )

    def _written_last(self, folder: Array, step: Array, folders: Sequence[Folder], notes: Notes) -> Array | None:
        """Return the rows whose step no later folder has; None for all."""
        if folder[0] == folder[-1]:
            return None
        kept = np.ones(folder.size, bool)
        for later in np.unique(folder)[1:].tolist():
            again = np.unique(step[folder == later])
            lost = (folder < later) & np.isin(step, again)
            kept &= ~lost
            if lost.any():
                notes.add(Cause.RESUMED, f"{folders[later].path}, {self.kind}", int(np.unique(step[lost]).size))
        return np.flatnonzero(kept)


def _column(rows: _Rows, statistic: str) -> Array:
    found = rows.statistics.get(statistic)
    return np.full(len(rows), np.nan) if found is None else found


def _in_order(
    target: Array, step: Array, micro_step: Array, rows: Array | None, notes: Notes, folders: Sequence[Folder]
) -> Array | slice:
    """Return the rows sorted by step, micro step and target, of equal ones the last; unchanged if they are sorted."""
    all_rows = step.size
    if rows is None:
        rows = np.arange(all_rows)
    target, step, micro_step = target[rows], step[rows], micro_step[rows]
    if not rows.size:
        return rows
    low, few = int(step.min()), int(micro_step.min())
    micros, targets = int(micro_step.max()) - few + 1, int(target.max()) + 1
    size = (int(step.max()) - low + 1) * micros * targets
    if size <= 4 * rows.size + (1 << 20):
        key = ((step - low) * micros + (micro_step - few)) * targets + target
        last = np.full(size, -1, np.int64)
        last[key] = np.arange(rows.size)
        chosen = last[last >= 0]
    else:
        order = np.lexsort((np.arange(rows.size), target, micro_step, step))
        same = [np.diff(column[order]) == 0 for column in (target, micro_step, step)]
        chosen = order[np.append(~(same[0] & same[1] & same[2]), True)]
    notes.add(Cause.REPEATED, folders[-1].path, int(rows.size - chosen.size))
    found: Array = rows[chosen]
    in_order = found.size == all_rows and (np.diff(found) == 1).all()
    return slice(None) if in_order else found
