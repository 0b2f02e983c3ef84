"""The records of a dump as a table of Parquet: one row for each call that ran.

What a journal holds goes in, and comes out again text by text, so that the JSON files can be made of either. Statistics
are stored in the row of the call where they first occur; every later tensor with the same ones refers back to them.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.base.errors import DumpError
from msprobe.base.files import open_input, replace_atomically
from msprobe.base.memory import check_fits_in_memory
from msprobe.base.schema import NAMES
from msprobe.store import layout
from msprobe.store.arrow import require_pyarrow
from msprobe.store.journal import Journal, construct_of, in_order, merged

from .templates import CALL, DIGEST, NAME, STATISTICS, Lists, Splitter, joined, statistics_text

HEADER = b"msprobe"
"""The key in the file's metadata: a JSON object with `header`, `extra_info`, `missing` and, if so, `rebuilt`."""

_LEVEL = 6  # of zstd; higher ones take several times as long for a percent
_ELEMENT = "list.element"

Integers = np.ndarray[Any, np.dtype[np.int64]]
Floats = np.ndarray[Any, np.dtype[np.float64]]


def write_records(folder: Path, journal: Journal, rebuilt: bool = False) -> None:
    """Write the table of a journal, whole or not at all. OSError if writing fails; DumpError without pyarrow.

    `rebuilt` writes down that the process died before its step was closed.
    """
    pa = require_pyarrow(f"{folder}: columnar dumps are written with pyarrow")
    in_order(journal)
    table = _table(pa, journal, rebuilt)
    path = folder / layout.data_file(str(journal.header.get("level")), columnar=True)
    with replace_atomically(path) as file:
        pa.parquet.write_table(
            table,
            file,
            row_group_size=max(1, len(table)),
            compression="zstd",
            compression_level=_LEVEL,
            use_dictionary=["parent", "entry", f"parameters.{_ELEMENT}"],
            dictionary_pagesize_limit=1 << 30,
            write_statistics=False,
            column_encoding={
                "name": "DELTA_BYTE_ARRAY",
                **dict.fromkeys(("place", "stack_place"), "DELTA_BINARY_PACKED"),
                **dict.fromkeys((f"{each}.{_ELEMENT}" for each in NAMES), "BYTE_STREAM_SPLIT"),
            },
        )


def _table(pa: Any, journal: Journal, rebuilt: bool) -> Any:
    names = list(dict.fromkeys((*journal.parents, *journal.entries, *journal.stack_of)))
    splitter = Splitter({name: row for row, name in enumerate(names)})
    construct = dict(construct_of(journal))
    templates: list[str | None] = []
    for name in names:
        texts = journal.entries.get(name)
        templates.append(None if texts is None else splitter.split(name, merged(texts)))
        splitter.end_row()
    stacks, frames = _stacks(journal, names)
    places = _places(journal.entries)
    stack_places = _places(name for name, number in journal.stack_of.items() if number in journal.stacks)

    def lists(each: Lists, kind: Any) -> Any:
        values = pa.array(each.of if isinstance(each.of, list) else np.array(each.of), kind)
        starts = pa.array(np.array(each.starts))
        return pa.ListArray.from_arrays(starts, values, pa.list_(pa.field("element", kind)))

    columns = {
        "name": pa.array(names, pa.string()),
        "ran": pa.array([name in construct for name in names], pa.bool_()),
        "parent": pa.array([construct.get(name) for name in names], pa.string()),
        "stack": pa.array(stacks, pa.int32()),
        "stack_place": pa.array([stack_places.get(name) for name in names], pa.int32()),
        "frames": pa.array(frames, pa.string()),
        "entry": pa.array(templates, pa.string()),
        "place": pa.array([places.get(name) for name in names], pa.int32()),
        "statistics": lists(splitter.statistics, pa.int32()),
        "digests": lists(splitter.digests, pa.int32()),
        "calls": lists(splitter.calls, pa.int32()),
        "parameters": lists(splitter.parameters, pa.string()),
        "digest": lists(splitter.digest, pa.uint32()),
    }
    columns.update((key, lists(each, pa.float64())) for key, each in zip(NAMES, splitter.numbers, strict=True))
    above = {"header": journal.header, "extra_info": journal.extra_info, "missing": journal.missing}
    if rebuilt:
        above["rebuilt"] = {"lost_lines": journal.malformed}
    return pa.table(columns).replace_schema_metadata({HEADER: json.dumps(above).encode("ascii")})


def _places(names: Iterable[str]) -> dict[str, int]:
    return {name: place for place, name in enumerate(names)}


def _stacks(journal: Journal, names: list[str]) -> tuple[list[int | None], list[str | None]]:
    """Return, by row, the number of its stack, counted from 0 without a gap, and the frames if the row is the first one
    with them."""
    used = sorted({number for number in journal.stack_of.values() if number in journal.stacks})
    counted = {number: place for place, number in enumerate(used)}
    stacks = [counted.get(journal.stack_of.get(name, -1)) for name in names]
    left = dict(zip(counted.values(), (journal.stacks[number] for number in used), strict=True))
    return stacks, [None if stack is None else left.pop(stack, None) for stack in stacks]


@contextmanager
def damaged(path: Path) -> Iterator[None]:
    """Raise DumpError if a file of this format cannot be read or is inconsistent."""
    try:
        yield
    except DumpError:
        raise
    except MemoryError:
        raise DumpError(f"{path}: does not fit into the memory of this machine; use a larger machine") from None
    except OSError as err:  # pyarrow's own error of broken files is one too
        if err.errno is None:
            raise DumpError(
                f"{path}: is not a complete Parquet table ({err}); copy it again, or collect again"
            ) from err
        raise DumpError(f"{path}: cannot be read ({err.strerror}); check the path and its permissions") from err
    # Each ArrowException is also a ValueError, a KeyError, a TypeError or a NotImplementedError.
    except (ValueError, LookupError, TypeError, AttributeError, NotImplementedError, RecursionError) as err:
        raise DumpError(
            f"{path}: is damaged, or is not the table of a dump ({err}); copy it again, or collect again"
        ) from err


@dataclass(frozen=True, slots=True)
class Above:
    """The members of a dump other than its records.

    `missing` are texts of JSON; `lost_lines` is None unless the dump was rebuilt.
    """

    header: dict[str, Any]
    extra_info: bool
    missing: list[str]
    lost_lines: int | None

    @property
    def members(self) -> dict[str, Any]:
        """Return the same as the members that a dump.json has in addition to its data."""
        made = dict(self.header)
        if self.lost_lines is not None:
            made["rebuilt"] = {"lost_lines": self.lost_lines}
        if self.missing:
            made["missing"] = [json.loads(text) for text in self.missing]
        return made


def read_above(path: Path) -> Above:
    """Return the content of a dump.json above its data, as stored with a table; DumpError if that cannot be read."""
    pa = require_pyarrow(f"{path}: is a Parquet table")
    with damaged(path), open_input(path) as file:
        return _above(pa.parquet.read_schema(file))


def _above(schema: Any) -> Above:
    made = json.loads(schema.metadata[HEADER])
    rebuilt, missing = made.get("rebuilt"), made["missing"]
    if type(made["header"]) is not dict or any(type(text) is not str for text in missing):
        raise ValueError("its header has a wrong type")
    return Above(
        made["header"],
        made["extra_info"] is not False,
        missing,
        None if rebuilt is None else int(rebuilt["lost_lines"]),
    )


@dataclass(frozen=True, slots=True)
class Parts:
    """What the entries of all rows have of one kind: those of row r are `of[starts[r]:starts[r + 1]]`."""

    starts: Integers
    of: Any


@dataclass(frozen=True, slots=True)
class Records:
    """A table, read. Per row: `names`, `ran`, `parents`, `stacks` (-1: none), `stack_places`, `entry` (a place in
    `templates`, -1: not collected) and `places` (in the order of the entries).

    `statistics` and `digests` are rows of `numbers`, whose columns are `NAMES`, and places in `digest`; `calls` are
    rows; `parameters` are names. `frames` has the JSON text of each stack.
    """

    above: Above
    names: list[str]
    ran: np.ndarray[Any, np.dtype[np.bool_]]
    parents: list[str | None]
    stacks: Integers
    stack_places: Integers
    frames: dict[int, str]
    templates: list[str]
    entry: Integers
    places: Integers
    statistics: Parts
    digests: Parts
    calls: Parts
    parameters: Parts
    numbers: Floats
    digest: list[str]

    @property
    def order(self) -> Integers:
        """Return the rows that have an entry, in the order of the entries."""
        rows = np.flatnonzero(self.entry >= 0)
        return rows[np.argsort(self.places[rows], kind="stable")]

    def entries(self) -> dict[str, Any]:
        """Return every entry, parsed."""
        return {self.names[row]: json.loads(self.text(row)) for row in self.order.tolist()}

    def text(self, row: int) -> str:
        """Return the text of a row's entry."""
        name = self.names[row]
        return joined(self.templates[int(self.entry[row])], name, self._marks(row))

    def _marks(self, row: int) -> Iterator[str]:
        waiting = {
            STATISTICS: (statistics_text(self.numbers[at].tolist()) for at in _of(self.statistics, row)),
            DIGEST: (self.digest[at] for at in _of(self.digests, row)),
            CALL: (self.names[at] for at in _of(self.calls, row)),
        }
        parameters = iter(_of(self.parameters, row))
        for mark in self.templates[int(self.entry[row])]:
            if mark < "\x06" and mark != NAME:
                yield next(waiting.get(mark, parameters))


def _of(parts: Parts, row: int) -> Sequence[Any]:
    found: Sequence[Any] = parts.of[parts.starts[row] : parts.starts[row + 1]]
    return found


def read_records(path: Path) -> Records:
    """Read a whole table; DumpError if it is none, or does not fit together."""
    pa = require_pyarrow(f"{path}: is a Parquet table")
    with damaged(path), open_input(path) as file:
        check_fits_in_memory(file, path)
        table = pa.parquet.read_table(file, read_dictionary=["entry", "parent", f"parameters.{_ELEMENT}"])
        return _records(table)


def _records(table: Any) -> Records:
    table = table.unify_dictionaries().combine_chunks()
    count = len(table)
    entry = _column(table, "entry")
    names = _objects(_column(table, "name"))
    if None in names or len(set(names)) < count:
        raise ValueError("a row has no unique name")
    columns = [_parts(table, key).of for key in NAMES]
    count_of_numbers = min(map(len, columns))
    numbers = np.stack([column[:count_of_numbers] for column in columns], axis=1)
    digests, calls = _parts(table, "digests"), _parts(table, "calls")
    rows = np.repeat(np.arange(count), np.diff(calls.starts)) - calls.of
    stacks = _integers(_column(table, "stack"))
    texts = _objects(_column(table, "frames"))
    frames = {int(stacks[row]): text for row, text in enumerate(texts) if text is not None}
    if not frames.keys() >= set(np.unique(stacks[stacks >= 0]).tolist()):
        raise ValueError("a stack has no frames")
    digest = [f"{number:08x}" for number in _parts(table, "digest").of.tolist()]
    return Records(
        above=_above(table.schema),
        names=names,
        ran=_column(table, "ran").to_numpy(zero_copy_only=False).astype(bool),
        parents=_decoded(_column(table, "parent")),
        stacks=stacks,
        stack_places=_integers(_column(table, "stack_place")),
        frames=frames,
        templates=entry.dictionary.to_pylist(),
        entry=_integers(entry.indices),
        places=_integers(_column(table, "place")),
        statistics=_looked_up(_parts(table, "statistics"), count_of_numbers),
        digests=_looked_up(digests, len(digest)),
        calls=Parts(calls.starts, _within(rows, count)),
        parameters=_parts(table, "parameters"),
        numbers=numbers,
        digest=digest,
    )


def _column(table: Any, key: str) -> Any:
    column = table.column(key)
    return column.chunk(0) if column.num_chunks else column.combine_chunks()


def _integers(array: Any) -> Integers:
    found: Integers = array.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _objects(array: Any) -> list[Any]:
    found: list[Any] = array.to_numpy(zero_copy_only=False).tolist()  # `to_pylist` takes ten times as long
    return found


def _decoded(array: Any) -> list[Any]:
    """Return the texts of a dictionary's array, each once in memory."""
    words = np.array([*array.dictionary.to_pylist(), None], object)
    found: list[Any] = words[_integers(array.indices)].tolist()
    return found


def _parts(table: Any, key: str) -> Parts:
    array = _column(table, key)
    starts = array.offsets.to_numpy().astype(np.int64)
    values = array.flatten()
    if len(array) and starts[-1] - starts[0] != len(values):
        raise ValueError(f"{key}: a list is missing")
    starts = starts - starts[0] if len(starts) else np.zeros(1, np.int64)
    if key == "parameters":
        return Parts(starts, _decoded(values))
    return Parts(starts, values.to_numpy(zero_copy_only=False))


def _looked_up(parts: Parts, count: int) -> Parts:
    """Return the places in a table: 0 is the next new member, any other number is the distance back to the member."""
    back = parts.of.astype(np.int64)
    new = back == 0
    until = np.cumsum(new)
    return Parts(parts.starts, _within(until - np.where(new, 1, back), count))


def _within(places: Integers, count: int) -> Integers:
    if places.size and (places.min() < 0 or places.max() >= count):
        raise ValueError("a row refers to a missing row")
    return places


def journal_of(records: Records) -> Journal:
    """Return the journal that a table could have been made of; its order is the one that the files have."""
    above = records.above
    names = records.names
    journal = Journal(header=dict(above.header), extra_info=above.extra_info, missing=list(above.missing))
    journal.malformed = above.lost_lines or 0
    journal.parents = {names[row]: records.parents[row] for row in np.flatnonzero(records.ran).tolist()}
    journal.stacks = dict(records.frames)
    with_stack = np.flatnonzero(records.stacks >= 0)
    with_stack = with_stack[np.argsort(records.stack_places[with_stack], kind="stable")]
    journal.stack_of = {names[row]: int(records.stacks[row]) for row in with_stack.tolist()}
    journal.entries = {names[row]: [records.text(row)] for row in records.order.tolist()}
    return journal
