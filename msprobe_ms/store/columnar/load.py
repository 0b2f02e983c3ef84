"""The table of a columnar dump becomes the rows of columns, without a text for each call.

Each template is flattened once, by the same code as an entry of a dump.json, with invented numbers in the places of
its marks: where they come out is where the numbers of every call with this template belong.
"""

import json
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from msprobe.base.names import parse
from msprobe.base.schema import AT, NAMES, members
from msprobe.store import layout
from msprobe.store.flatten import ColumnsBuilder
from msprobe.store.record import Columns, NonFinite
from msprobe.store.stacks_and_construct import MAX_ENCLOSING, enclosing

from .records import Integers, Records, damaged, read_records
from .templates import CALL, DIGEST, MARKS, NAME, PARAMETER, STATISTICS

# No entry has these: statistics that count the marks from here on (whole numbers, which a float holds exactly), and
# texts that begin with a control character.
_FIRST = 1 << 52
_SIGN = "\x01"
_INVENTED = r"\u0001"  # in JSON

_GRADIENTS = ".parameters_grad"

T = TypeVar("T")


class TableColumns:
    """What `ColumnsBuilder` makes of the entries of a dump.json, made of a table."""

    def __init__(self, records: Records) -> None:
        self._records, self._order = records, records.order
        rows = self._order.tolist()
        self.names = records.names if rows == list(range(len(records.names))) else [records.names[row] for row in rows]
        self._patterns = patterns = _Patterns(records, self._order)
        self.missing: dict[int, list[str]] = {}
        self.recomputed: set[int] = set()
        for pattern, parts in patterns.missing.items():
            self.missing.update((place, list(parts)) for place in np.flatnonzero(patterns.of == pattern).tolist())
        for pattern in patterns.recomputed:
            self.recomputed.update(np.flatnonzero(patterns.of == pattern).tolist())

    def columns(self) -> Columns:
        """Return the columns of all entries."""
        return _spread(self._records, self._order, self.names, self._patterns)


@dataclass(slots=True)
class Table:
    """A table as read: the members of a dump.json other than `data`, its rows, and the dump's other JSON files."""

    members: dict[str, Any]
    columns: TableColumns
    construct: dict[str, str | None]
    stacks: dict[str, tuple[str, ...]]


def read_table(path: Path) -> Table:
    """Read a table; DumpError if it is damaged."""
    records = read_records(path)
    with damaged(path):
        columns, members = TableColumns(records), records.above.members
        level = members.get("level")
        if not records.above.extra_info or level == "debug":
            return Table(members, columns, {}, {})
        return Table(members, columns, {} if level in layout.FLAT_LEVELS else _construct(records), _frames(records))


def _construct(records: Records) -> dict[str, str | None]:
    names, parents = records.names, records.parents
    row_of = dict(zip(names, range(len(names)), strict=True))
    above = {parent: row_of.get(parent, -1) for parent in set(parents) if parent is not None}
    # A parent is the very text that is the name of its row, so that each is in memory once.
    own: dict[str | None, str | None] = {
        parent: parent if parent is None or above[parent] < 0 else names[above[parent]] for parent in set(parents)
    }
    made = {names[row]: own[parents[row]] for row in np.flatnonzero(records.ran).tolist()}
    at = np.array([-1 if parent is None else above[parent] for parent in parents] + [-1], np.int64)
    rows = at[:-1]
    for _ in range(MAX_ENCLOSING):
        if (rows < 0).all():
            return made
        rows = at[rows]
    return enclosing(dict(made))  # which says what is wrong, and cuts it


def _frames(records: Records) -> dict[str, tuple[str, ...]]:
    groups = {}
    for stack, text in records.frames.items():
        frames = json.loads(text)
        groups[stack] = tuple(each for each in frames if type(each) is str) if type(frames) is list else ()
    rows = np.flatnonzero(records.stacks >= 0)
    return {
        records.names[row]: groups[at] for row, at in zip(rows.tolist(), records.stacks[rows].tolist(), strict=True)
    }


_KINDS = (STATISTICS, DIGEST, CALL, PARAMETER)


class _Patterns:
    """The rows of each template, and of each call whose entry differs from its template in more than numbers.

    `of` is the pattern of each call, in the order of the entries; `columns` has the rows of all patterns one after the
    other. By kind of mark and row of a pattern, `marks` counts the marks of that kind in the template whose value
    belongs there, -1 for none; `own_files` are the rows whose file's name begins with the call's. `counts` has, by row,
    the counts of non-finite elements from the template, which are used where the norm is not finite.
    """

    def __init__(self, records: Records, order: Integers) -> None:
        builder = ColumnsBuilder()
        found: dict[int, _Found] = {}
        names = [records.names[row] for row in order.tolist()]
        is_saved = np.array([name.endswith(".debug") and parse(name).kind == "debug" for name in names], bool)
        is_gradients = np.array([_GRADIENTS in name for name in names], bool)
        self.of: Integers = np.full(len(order), -1, np.int64)
        keys = np.where(is_saved, -1, 2 * records.entry[order] + is_gradients)
        for key, calls in _groups(keys):
            made = _of_template(records.templates[key // 2], bool(key % 2)) if key >= 0 else None
            if made is not None:
                found[len(builder.names)] = made
                self.of[calls] = len(builder.names)
                builder.add(made.name, made.entry)
            else:
                for call in calls.tolist():
                    self.of[call] = len(builder.names)
                    builder.add(names[call], json.loads(records.text(int(order[call]))))
        self.missing, self.recomputed = builder.missing, builder.recomputed
        self.columns = builder.columns()
        self.starts: Integers = np.array(self.columns.starts, np.int64)
        self.marks = {kind: np.full(len(self.columns), -1, np.int64) for kind in _KINDS}
        self.own_files: set[int] = set()
        self.counts: dict[int, NonFinite] = {}
        for pattern, each in found.items():
            start = int(self.starts[pattern])
            for kind, rows in each.marks.items():
                for number, row in enumerate(rows):
                    self.marks[kind][start + row] = number
            self.own_files.update(start + row for row in each.own_files)
            self.counts.update((start + row, counts) for row, counts in each.counts.items())


def _groups(keys: Integers) -> Iterator[tuple[int, Integers]]:
    """Return each key with the places where it occurs."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
    for places in np.split(order, starts[1:]) if len(order) else []:
        yield int(keys[places[0]]), places


@dataclass(frozen=True, slots=True)
class _Found:
    """An entry with invented values, and by kind of mark the row of each."""

    name: str
    entry: Any
    marks: dict[str, list[int]]
    own_files: list[int]
    counts: dict[int, NonFinite]


def _of_template(template: str, is_gradients: bool) -> _Found | None:
    """Return the rows of a template; None if one is not like those of most entries, and calls are read individually."""
    if _INVENTED in template:
        return None
    name = f"x{_GRADIENTS}" if is_gradients else "x"
    text, counts = _with_invented(template)
    entry = json.loads(text)
    builder = ColumnsBuilder()
    builder.add(name, entry)
    columns = builder.columns()
    rows = range(len(columns))
    marks: dict[str, list[int]] = {
        STATISTICS: [row for row in rows if columns.max[row] >= _FIRST],
        DIGEST: [row for row in rows if _SIGN in columns.digest[row]],
        CALL: [row for row in rows if columns.source[row].startswith(f"call {_SIGN}")],
        PARAMETER: [row for row in rows if columns.source[row].startswith(f"parameter {_SIGN}")],
    }
    own_files = [row for row in rows if columns.file[row].startswith(_SIGN)]
    told: dict[str, list[Any]] = {
        STATISTICS: [columns.numbers_of(row) for row in marks[STATISTICS]],
        DIGEST: ["".join(columns.digest[row].partition(_SIGN)[1:]) for row in marks[DIGEST]],
        CALL: [columns.source[row].split(_SIGN)[1] for row in marks[CALL]],
        PARAMETER: [columns.source[row].split(_SIGN)[1] for row in marks[PARAMETER]],
    }
    # In the order of the marks, each once: rows have another order where the keys of an entry have.
    for kind, values in told.items():
        wanted = [_invented(kind, number) for number in range(counts[kind])]
        if sorted(values) != sorted(wanted):
            return None
        marks[kind] = [row for _, row in sorted(zip(map(wanted.index, values), marks[kind], strict=True))]
    if len(own_files) != counts[NAME]:
        return None
    return _Found(name, entry, marks, own_files, _counts_of(template, name) if "_count" in template else {})


def _invented(kind: str, number: int) -> Any:
    """Return the value that represents a mark after it was read."""
    if kind == STATISTICS:
        return tuple(float(_FIRST + len(NAMES) * number + at) for at in range(len(NAMES)))
    return f"{_SIGN}{number}" if kind == DIGEST else str(number)


def _with_invented(template: str, norm: str = "") -> tuple[str, dict[str, int]]:
    """Return the text of an entry with invented values, and how many marks of each kind it has."""
    counts = dict.fromkeys((NAME, *_KINDS), 0)

    def invent(found: Any) -> str:
        mark = found[0]
        number = counts[mark]
        counts[mark] += 1
        if mark == NAME:
            return _INVENTED
        if mark == STATISTICS:
            numbers = [*map(str, _invented(mark, number))]
            numbers[AT["norm"]] = norm or numbers[AT["norm"]]
            return members(tuple(numbers))
        return f"{_INVENTED}{number}" if mark == DIGEST else f"{_INVENTED}{number}{_INVENTED}"

    return MARKS.sub(invent, template), counts


def _counts_of(template: str, name: str) -> dict[int, NonFinite]:
    builder = ColumnsBuilder()
    builder.add(name, json.loads(_with_invented(template, norm="NaN")[0]))
    return builder.columns().non_finite


def _spread(records: Records, order: Integers, names: list[str], patterns: _Patterns) -> Columns:
    """Return the columns of all calls from those of their patterns."""
    source = patterns.columns
    lengths = np.diff(patterns.starts)[patterns.of]
    starts = np.concatenate(([0], np.cumsum(lengths)))
    calls = np.repeat(np.arange(len(order)), lengths)
    rows = np.arange(starts[-1]) + np.repeat(patterns.starts[:-1][patterns.of] - starts[:-1], lengths)

    def places(kind: str, first: Integers) -> tuple[Integers, Integers]:
        """Return the rows that have a value of a kind, and its place among all values of the kind."""
        count = patterns.marks[kind][rows]
        has = np.flatnonzero(count >= 0)
        return has, first[order][calls[has]] + count[has]

    has, at = places(STATISTICS, records.statistics.starts)
    at = records.statistics.of[at]
    numbers = np.empty((len(rows), len(NAMES)), order="F")
    numbers[:] = source.numbers[rows]
    numbers[has] = records.numbers[at]
    non_finite = _some(source.non_finite, rows)
    if patterns.counts:
        for row in has[~np.isfinite(numbers[has, AT["norm"]])].tolist():
            if (counts := patterns.counts.get(int(rows[row]))) is not None:
                non_finite[row] = counts
    digest, file, told = _texts(source.digest, rows), _texts(source.file, rows), _texts(source.source, rows)
    has, at = places(DIGEST, records.digests.starts)
    signs = {
        row: source.digest[row].partition(_SIGN)[0] for row in np.flatnonzero(patterns.marks[DIGEST] >= 0).tolist()
    }
    signed = {sign: [f"{sign}{digits}" for digits in records.digest] for sign in set(signs.values())}
    for row, pattern, number in zip(has.tolist(), rows[has].tolist(), records.digests.of[at].tolist(), strict=True):
        digest[row] = signed[signs[pattern]][number]
    is_own = np.zeros(len(source), bool)
    is_own[list(patterns.own_files)] = True
    has = np.flatnonzero(is_own[rows])
    for row, call in zip(has.tolist(), calls[has].tolist(), strict=True):
        file[row] = names[call] + file[row][1:]
    _sources(records, told, *places(CALL, records.calls.starts))
    has, at = places(PARAMETER, records.parameters.starts)
    once: dict[str, str] = {}
    for row, number in zip(has.tolist(), at.tolist(), strict=True):
        parameter = records.parameters.of[number]
        told[row] = once.get(parameter) or once.setdefault(parameter, f"parameter {parameter}")
    return Columns(
        names=names,
        starts=array("q", starts.astype(np.int64).tobytes()),
        part=_bytes(source.part, rows),
        kind=_bytes(source.kind, rows),
        gradient=_bytes(source.gradient, rows),
        path=array("i", np.array(source.path, np.int32)[rows].tobytes()),
        paths=source.paths,
        look=array("i", np.array(source.look, np.int32)[rows].tobytes()),
        looks=source.looks,
        numbers=numbers,
        odd=_some(source.odd, rows),
        values=_some(source.values, rows),
        digest=digest,
        file=file,
        source=told,
        non_finite=non_finite,
        shares={name: column[rows] for name, column in source.shares.items()},
        layout=_some(source.layout, rows),
        shards=_some(source.shards, rows),
    )


def _sources(records: Records, told: list[str], has: Integers, at: Integers) -> None:
    once: dict[tuple[int, str], str] = {}
    producers = records.calls.of[at].tolist()
    for row, producer in zip(has.tolist(), producers, strict=True):
        rest = told[row]
        text = once.get((producer, rest))
        if text is None:
            # `call {sign}0{sign}.output.0`
            text = once[producer, rest] = f"call {records.names[producer]}{rest.split(_SIGN)[2]}"
        told[row] = text


def _bytes(column: bytearray, rows: Integers) -> bytearray:
    return bytearray(np.frombuffer(column, np.uint8)[rows].tobytes())


def _texts(column: list[str], rows: Integers) -> list[str]:
    if not any(column):
        return [""] * len(rows)
    found: list[str] = np.array(column, object)[rows].tolist()
    return found


def _some(column: Mapping[int, T], rows: Integers) -> dict[int, T]:
    """Return the values that only some rows have."""
    if not column:
        return {}
    has = np.zeros(int(rows.max(initial=0)) + 1, bool)
    has[[row for row in column if row < has.size]] = True
    found = np.flatnonzero(has[rows])
    return dict(zip(found.tolist(), map(column.__getitem__, rows[found].tolist()), strict=True))
