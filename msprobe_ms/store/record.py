"""What a dump holds: a dump has calls, a call has records; all records of a dump are also columns.

The reader makes these and the comparison takes them; no dictionary with magic keys goes past the reader. A dump of
millions of records is compared column by column: a `Call` or `Record` is made of the columns when it is asked for.
"""

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from operator import attrgetter
from typing import Any, Literal, NamedTuple, get_args, overload

import numpy as np
from numpy.typing import NDArray

from msprobe.base.names import Name, parse
from msprobe.base.schema import AT, NAMES, SHARES

from .layout import TENSORS
from .stacks_and_construct import without_secrets

Part = Literal["input", "parameters", "output", "parameters_grad", "debug"]
Kind = Literal["tensor", "value", "null"]
Gradient = Literal["own", "accumulated", "unavailable"]
Number = int | float | bool | None
Floats = NDArray[np.float64]


class NonFinite(NamedTuple):
    """How many elements of a tensor are NaN, infinite and infinite below zero; at least one is."""

    nan: int
    positive_inf: int
    negative_inf: int


@dataclass(frozen=True, slots=True)
class Statistics:
    """The statistics of one tensor as the dump holds them; None where a dtype or an empty tensor has none.

    `true_count` says how many elements of a bool tensor are true, `non_finite` how many are not finite; None where the
    dump does not say, and `non_finite` also where all are finite. `is_damaged`: some are None because the dump has
    no number there.
    """

    max: Number
    min: Number
    mean: Number
    norm: Number
    true_count: Number = None
    non_finite: NonFinite | None = None
    is_damaged: bool = False

    @property
    def numbers(self) -> tuple[Number, ...]:
        """Return the statistics in the order of the columns."""
        return _numbers_of(self)


statistics_from: Callable[..., Statistics] = Statistics
"""`Statistics` of numbers in the order of the columns, which are followed by the other fields."""

NO_STATISTICS = statistics_from(*(None,) * len(NAMES))
"""The statistics of a tensor without elements."""


class Layout(NamedTuple):
    """Where the elements of a tensor lie in its storage, in elements."""

    stride: tuple[int, ...]
    storage_offset: int

    def __str__(self) -> str:
        return f"stride {list(self.stride)}, offset {self.storage_offset}"


@dataclass(frozen=True, slots=True)
class Record:
    """One value of a call.

    `name` is the row's name (`Functional.add.0.forward.input.1`). `kind` says what the value is: a `tensor` has dtype,
    shape and statistics; a `value` (number, text, slice, dtype...) has `value`; a `null` was None or absent.
    `shape` is None where there is none. `file` is the npy's name in `dump_tensor_data`, empty without one.
    `gradient` says how a backward output came about: `own` is this call's contribution, `accumulated` the sum over
    every user of the tensor. `source` says who produced a forward input: `call X.output.0`, `parameter fc1.weight`,
    `leaf`, `code` (operations that were not recorded), or nothing where that is not known. `shares` are the optional
    statistics with their names, and `layout` where the elements lie, as far as the dump has them. `shard` describes the
    place of a distributed tensor's elements on this rank in the whole tensor (`format.md` 2.3).
    """

    name: str
    part: Part
    path: tuple[str, ...]
    kind: Kind
    type: str
    dtype: str = ""
    shape: tuple[int, ...] | None = None
    statistics: Statistics | None = None
    value: object = None
    digest: str = ""
    file: str = ""
    gradient: Gradient = "own"
    source: str = ""
    shares: tuple[tuple[str, float], ...] = ()
    layout: Layout | None = None
    shard: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One execution of a cell, API, primitive or jit function, forward or backward, with all its records.

    `records` are in row order: inputs (arguments, then keyword arguments), parameters, outputs, parameter gradients.
    `parent` is the enclosing cell's call, None at the root. `stack` is innermost frame first; a backward call has none.
    `missing` names the parts that could not be collected, `lost` those of them whose cause the dump says: there was a
    value. A kernel's slot that the framework did not write is missing, and not lost.
    """

    name: str
    records: tuple[Record, ...]
    parent: str | None = None
    stack: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    is_recompute: bool = False
    lost: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dump:
    """One step of one rank, read. `where` is the path for messages; `missing` says what could not be collected at all.

    `calls` may be given as plain calls; they are made of the columns one by one when they are asked for, and not kept.
    `construct` maps every executed call's name to its parent, also of calls that were not collected. `unfinished` says
    why calls may be missing at the end (the process still writes, or died); empty for a dump that was closed.
    `tensors` is the folder, below `folder`, that holds the files of the records, by their bare names; empty for files
    of others that lie anywhere below `folder`, and then a record's `file` is a path relative to it. `run` is the same
    for all dumps of one run; empty where the dump does not say. `extra_info` is False where the dump says that no call
    stacks and no enclosing cells were wanted. `made_with` has versions (`tool`, `framework`, `python`, `numpy`) and the
    `device`, as far as the dump says. `frozen` are the parameters that the training had frozen, by their full names.
    """

    where: str
    folder: str
    task: str
    level: str
    framework: str
    calls: "Calls"
    construct: dict[str, str | None] = field(default_factory=dict)
    step: int | None = None
    rank: int | None = None
    format_version: int = 0
    missing: tuple[str, ...] = ()
    unfinished: str = ""
    tensors: str = TENSORS
    run: str = ""
    extra_info: bool = True
    made_with: Mapping[str, str] = field(default_factory=dict)
    frozen: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not isinstance(self.calls, Calls):
            object.__setattr__(self, "calls", Calls.of(self.calls))

    def __getstate__(self) -> dict[str, Any]:
        """Return its fields only: computing derived values again is faster than sending them to another process."""
        return {each.name: self.__dict__[each.name] for each in fields(self)}

    @property
    def columns(self) -> "Columns":
        """Return all records as columns."""
        return self.calls.columns

    @cached_property
    def names(self) -> list[Name]:
        """Return the names of all calls, parsed."""
        return [parse(text) for text in self.columns.names]

    @cached_property
    def place(self) -> dict[str, int]:
        """Return the place of each call by its name."""
        return {text: at for at, text in enumerate(self.columns.names)}

    @cached_property
    def cells(self) -> dict[str, str]:
        """Return the class of each cell that was called, by its path."""
        return {name.path: name.stem.rpartition(".")[2] for name in self.names if name.kind == "cell"}

    def parameter_name(self, row: int) -> str:
        """Return the name of a cell's own parameter, or of its gradient: the cell's path and the place of the row."""
        columns = self.columns
        return ".".join(filter(None, (self.names[columns.call_of(row)].path, *columns.path_of(row))))

    @cached_property
    def gradients(self) -> dict[str, list[int]]:
        """Return, by stem of a cell, the calls that are gradients of its parameters, in order."""
        found: dict[str, list[int]] = {}
        for at, name in enumerate(self.names):
            if name.kind == "parameters_grad":
                found.setdefault(name.stem, []).append(at)
        return found

    def parent(self, call: int) -> str | None:
        """Return the cell around a call, also where the calls themselves do not say it."""
        return self.enclosing[call]

    @cached_property
    def enclosing(self) -> list[str | None]:
        """Return `parent` of every call."""
        others = map(self.construct.get, self.columns.names)
        return [parent or other for parent, other in zip(self.calls.parents(), others, strict=True)]

    @cached_property
    def parents(self) -> list[int]:
        """Return, by call, the nearest recorded cell that encloses it, -1 at the root."""
        nearest: dict[str | None, int] = {}
        found = []
        for at, parent in enumerate(self.enclosing):
            if (cell := nearest.get(parent)) is None:
                cell = next((self.place[name] for name in self.upwards(parent) if name in self.place), -1)
                nearest[parent] = cell
            found.append(cell if cell != at else -1)
        return found

    def upwards(self, cell: str | None) -> tuple[str, ...]:
        """Return a cell's call and those of the cells around it, innermost first."""
        found: dict[str, None] = {}
        while cell and cell not in found:
            found[cell] = None
            cell = self.construct.get(cell)
        return tuple(found)

    def counterpart(self, call: int, direction: Literal["forward", "backward"]) -> int:
        """Return the other direction of a call; -1 where that was not recorded, and for a call that has this
        direction."""
        return self._counterparts[direction][call]

    def counterparts(self, direction: Literal["forward", "backward"]) -> Sequence[int]:
        """Return `counterpart` of every call."""
        return self._counterparts[direction]

    @cached_property
    def _counterparts(self) -> dict[str, list[int]]:
        """Return `counterpart` of every call, by direction."""
        names, found = self.names, dict[str, list[int]]()
        keys = [(name.kind, name.stem, name.number) if name.kind in ("cell", "api") else None for name in names]
        odd = set[int]()  # numbers that begin with zeros: no other direction of a call is called so
        if _ZEROS.search("\n".join(self.columns.names)):
            lengths = [len(name.stem) + len(name.direction) + len(str(name.number)) + 2 for name in names]
            odd = {call for call, (name, size) in enumerate(zip(names, lengths, strict=True)) if len(name.text) != size}
        for direction in get_args(Literal["forward", "backward"]):
            calls = [
                call
                for call, (name, key) in enumerate(zip(names, keys, strict=True))
                if key is not None and name.direction == direction and call not in odd
            ]
            found[direction] = others = [-1] * len(names)
            if len(calls) in (0, len(names)):
                continue
            places = {keys[call]: call for call in calls}
            for call, key in enumerate(keys):
                if key is not None and (other := places.get(key, -1)) != call:
                    others[call] = other
        return found

    def forward(self, call: int) -> int:
        """Return the forward call of a backward call; the call itself for any other, and where that was not
        recorded."""
        found = self.counterpart(call, "forward")
        return call if found < 0 else found


PARTS: tuple[Part, ...] = get_args(Part)
KINDS: tuple[Kind, ...] = get_args(Kind)
GRADIENTS: tuple[Gradient, ...] = get_args(Gradient)
INPUT, PARAMETERS, OUTPUT, PARAMETERS_GRAD, DEBUG = range(5)  # in PARTS
TENSOR, VALUE, NULL = range(3)  # in KINDS

REDUCTION = "reduction"
"""The type of the operation of a collective, whose value is `sum`, `avg`, `max`, `min`, `prod`... or null."""

UNWRITTEN = "uninitialized"
"""The type of a record that stands for a tensor whose memory was not written: not a value. Its `value` is what a tensor
has as type, dtype and shape."""

# Rows of these parts are named after the call and their path alone.
_WITHOUT_PART = (PARAMETERS_GRAD, DEBUG)
_TENSOR_SUFFIXES = (".npy", ".pt")

_NAN = float("nan")
_NANS = (_NAN,) * len(NAMES)
_numbers_of = attrgetter(*NAMES)
_VIEWS = ("max", "min", "mean", "norm")

Look = tuple[str, str, tuple[int, ...] | None]


_ZEROS = re.compile(r"\.0[0-9]")


@dataclass(slots=True, eq=False)
class Columns:
    """All records of one dump; the rows of one call are consecutive.

    Per call: `names`; its rows are `starts[c]:starts[c + 1]`. Per row: `part`, `kind` and `gradient` are places in
    PARTS, KINDS and GRADIENTS, `path` is one in `paths`, and `look` one in `looks` (type, dtype and shape).

    `numbers` has a row for each record and a column for each of the `NUMBERS` of `msprobe.base.schema`; the columns
    that formulas use are also attributes (`max`, `min`, `mean`, `norm`), views that give Python's floats. A row is
    NaN where the record is not a tensor, and in `odd`: tensors whose statistics are not all plain floats, or which
    have a `true_count`; None there means no statistics at all. A NaN that the dump itself holds is a float like any
    other, and not odd; `non_finite` has the counts of such rows, where there are any. `values` has the value of every
    row of kind `value`; `digest`, `file` and `source` are empty texts where there is none. `shares` has a column for
    each optional statistic that any row has, NaN in the others, and `layout` those rows that have one. `named` has
    the names of rows that a reader called otherwise than `row_name` would, and `shards` the descriptions of rows that
    are shards of distributed tensors.
    """

    names: list[str]
    starts: "array[int]"
    part: bytearray
    kind: bytearray
    gradient: bytearray
    path: "array[int]"
    paths: list[tuple[str, ...]]
    look: "array[int]"
    looks: list[Look]
    numbers: Floats
    odd: dict[int, Statistics | None]
    values: dict[int, object]
    digest: list[str]
    file: list[str]
    source: list[str]
    named: dict[int, str] = field(default_factory=dict)
    non_finite: dict[int, NonFinite] = field(default_factory=dict)
    shares: dict[str, Floats] = field(default_factory=dict)
    layout: dict[int, Layout] = field(default_factory=dict)
    shards: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    max: "memoryview[float]" = field(init=False, repr=False)
    min: "memoryview[float]" = field(init=False, repr=False)
    mean: "memoryview[float]" = field(init=False, repr=False)
    norm: "memoryview[float]" = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.numbers = np.asfortranarray(self.numbers)
        for name in _VIEWS:
            setattr(self, name, self.floats(name))

    def __getstate__(self) -> tuple[Any, ...]:
        return tuple(getattr(self, each.name) for each in fields(self) if each.init)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]  # of the same class

    def __len__(self) -> int:
        return len(self.path)

    def rows(self, call: int) -> range:
        """Return the rows of a call."""
        return range(self.starts[call], self.starts[call + 1])

    def tensors(self, call: int, part: int) -> Iterator[int]:
        """Return the rows of the tensors of one part of a call."""
        return (row for row in self.rows(call) if self.part[row] == part and self.kind[row] == TENSOR)

    def call_of(self, row: int) -> int:
        """Return the call that a row belongs to."""
        return bisect_right(self.starts, row) - 1

    def path_of(self, row: int) -> tuple[str, ...]:
        """Return the place of a row within its part of the call."""
        return self.paths[self.path[row]]

    def dtype(self, row: int) -> str:
        """Return the dtype of a row as its framework calls it; empty if there is none."""
        return self.looks[self.look[row]][1]

    def shape(self, row: int) -> tuple[int, ...] | None:
        """Return the shape of a tensor; None for anything else."""
        return self.looks[self.look[row]][2] if self.kind[row] == TENSOR else None

    def column(self, name: str) -> Floats:
        """Return one statistic of all rows."""
        return self.numbers[:, AT[name]]

    def floats(self, name: str) -> "memoryview[float]":
        """Return one statistic of all rows as a view that gives Python's floats."""
        return memoryview(self.column(name))  # type: ignore[arg-type]  # not in numpy's stub

    def numbers_of(self, row: int) -> tuple[float, ...]:
        """Return the statistics of a row in the order of the columns, NaN for each that there is not."""
        if row not in self.odd:
            return tuple(self.numbers[row].tolist())
        s = self.odd[row]
        return _NANS if s is None else tuple([_NAN if number is None else number for number in s.numbers])

    def row_name(self, row: int, call: int) -> str:
        """Return the name of a row of a call: that of its tensor's file, or made of call, part and path."""
        if row in self.named:
            return self.named[row]
        if stem := file_stem(self.file[row]):
            return stem
        return row_name(self.names[call], self.part[row], self.paths[self.path[row]])

    def statistics(self, row: int) -> Statistics | None:
        """Return the statistics of a row as the dump holds them."""
        if row in self.odd:
            return self.odd[row]
        if self.kind[row] != TENSOR:
            return None
        return statistics_from(*self.numbers[row].tolist(), None, self.non_finite.get(row))

    def record(self, row: int, call: int) -> Record:
        kind, dtype, shape = self.looks[self.look[row]]
        return Record(
            self.row_name(row, call),
            PARTS[self.part[row]],
            self.paths[self.path[row]],
            KINDS[self.kind[row]],
            kind,
            dtype,
            shape,
            self.statistics(row),
            self.values.get(row),
            self.digest[row],
            self.file[row],
            GRADIENTS[self.gradient[row]],
            self.source[row],
            self.shares_of(row) if self.shares else (),
            self.layout.get(row),
            self.shards.get(row),
        )

    def shares_of(self, row: int) -> tuple[tuple[str, float], ...]:
        """Return the optional statistics of a row, with their names."""
        found = [(name, float(column[row])) for name, column in self.shares.items()]
        return tuple([(name, share) for name, share in found if share == share])

    def records(self, call: int) -> tuple[Record, ...]:
        """Return all rows of a call as records, in row order."""
        return tuple([self.record(row, call) for row in self.rows(call)])


def row_name(call: str, part: int, path: tuple[str, ...]) -> str:
    """Return the name of a row whose tensor was not saved."""
    return ".".join((call, *path) if part in _WITHOUT_PART else (call, PARTS[part], *path))


def file_stem(file: str) -> str:
    """Return the name that a tensor's file lends to its row; empty for any other file."""
    return file[: file.rindex(".")] if file.endswith(_TENSOR_SUFFIXES) else ""


class Calls(Sequence[Call]):
    """The calls of a dump, made from its columns at the moment of asking, and not kept.

    `parents` and `stacks` are by name, `missing`, `lost` and `recomputed` by place. The methods that are called like a
    field of `Call` return that field without making the records of the call.
    """

    __slots__ = ("_missing", "_parents", "_recomputed", "_stacks", "columns", "lost")

    def __init__(
        self,
        columns: Columns,
        parents: Mapping[str, str | None],
        stacks: Mapping[str, tuple[str, ...]],
        missing: Mapping[int, tuple[str, ...]],
        recomputed: frozenset[int],
        lost: Mapping[int, tuple[str, ...]],
    ) -> None:
        self.columns, self.lost = columns, lost
        self._parents, self._stacks, self._missing, self._recomputed = parents, stacks, missing, recomputed

    @classmethod
    def of(cls, calls: Iterable[Call]) -> "Calls":
        """Make columns of plain calls."""
        every = list(calls)
        return cls(
            columns_of(every),
            {call.name: call.parent for call in every},
            {call.name: call.stack for call in every},
            {at: call.missing for at, call in enumerate(every) if call.missing},
            frozenset(at for at, call in enumerate(every) if call.is_recompute),
            {at: call.lost for at, call in enumerate(every) if call.lost},
        )

    def __len__(self) -> int:
        return len(self.columns.names)

    @overload
    def __getitem__(self, at: int) -> Call: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Call, ...]: ...
    def __getitem__(self, at: int | slice) -> Call | tuple[Call, ...]:
        places = range(len(self))[at]
        return self._call(places) if isinstance(places, int) else tuple(map(self._call, places))

    def __iter__(self) -> Iterator[Call]:
        return map(self._call, range(len(self)))

    def __eq__(self, other: object) -> bool:
        """Return whether the other is a sequence of calls that are all equal to these."""
        if not isinstance(other, (Calls, tuple, list)):
            return NotImplemented
        return self is other or (len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True)))

    __hash__ = None  # type: ignore[assignment]  # its calls may hold lists

    def __repr__(self) -> str:
        return f"<{len(self)} calls, {len(self.columns)} records>"

    def parent(self, at: int) -> str | None:
        return self._parents.get(self.columns.names[at])

    def parents(self) -> Iterator[str | None]:
        """Return `parent` of every call."""
        return map(self._parents.get, self.columns.names)

    def are_enclosed_as(self, other: "Calls") -> bool:
        """Return whether the calls of each name have the same parent in both, as far as these know it."""
        return self._parents == other._parents

    def stack(self, at: int) -> tuple[str, ...]:
        """Return the stack of a call, without secrets: a dump of another tool or version may hold some."""
        return self.stack_of(self.columns.names[at])

    def stack_of(self, name: str) -> tuple[str, ...]:
        """Return the stack of any call that ran, also of one that was not recorded."""
        frames = self._stacks.get(name)
        return without_secrets(frames) if frames else ()

    def missing(self, at: int) -> tuple[str, ...]:
        return self._missing.get(at, ())

    def is_recompute(self, at: int) -> bool:
        return at in self._recomputed

    def _call(self, at: int) -> Call:
        return Call(
            self.columns.names[at],
            self.columns.records(at),
            self.parent(at),
            self.stack(at),
            self.missing(at),
            self.is_recompute(at),
            self.lost.get(at, ()),
        )


def columns_of(calls: Iterable[Call]) -> Columns:
    """Return the columns of calls that were not made of columns."""
    rows = Rows()
    for call in calls:
        rows.call(call.name)
        for record in call.records:
            rows.record(record)
    return rows.columns()


class Rows:
    """Builds columns: rows are added to the call that was begun last.

    Properties that few rows have are kept by row here, and become columns at the end.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.starts = array("q")
        self.part, self.kind = bytearray(), bytearray()
        self.path, self.look = array("i"), array("i")
        self.numbers = array("d")  # row after row
        self.odd: dict[int, Statistics | None] = {}
        self.values: dict[int, object] = {}
        self.gradient: dict[int, int] = {}
        self.digest: dict[int, str] = {}
        self.file: dict[int, str] = {}
        self.source: dict[int, str] = {}
        self.named: dict[int, str] = {}
        self.non_finite: dict[int, NonFinite] = {}
        self.shares: dict[str, dict[int, float]] = {}
        self.layout: dict[int, Layout] = {}
        self.shards: dict[int, Mapping[str, Any]] = {}
        self.paths: list[tuple[str, ...]] = []
        self._path_numbers: dict[tuple[str, ...], int] = {}
        self.looks: dict[Look, int] = {}

    def call(self, name: str) -> None:
        """Begin a call."""
        self.names.append(name)
        self.starts.append(len(self.path))

    def path_number(self, path: tuple[str, ...]) -> int:
        """Return the place of a path in `paths`."""
        number = self._path_numbers.get(path)
        if number is None:
            number = self._path_numbers[path] = len(self.paths)
            self.paths.append(path)
        return number

    def row(self, kind: int, path: int, look: Look, statistics: Statistics | None) -> None:
        """Add a row of any kind; the caller adds its part, and its other properties by the number of the row."""
        numbers = _plain_floats(statistics) if kind == TENSOR else None
        if numbers is None and (kind == TENSOR or statistics is not None):
            self.odd[len(self.path)] = statistics
        elif statistics is not None and statistics.non_finite is not None:
            self.non_finite[len(self.path)] = statistics.non_finite
        self.kind.append(kind)
        self.path.append(path)
        self.look.append(self.looks.setdefault(look, len(self.looks)))
        self.numbers.extend(numbers or _NANS)

    def record(self, record: Record) -> None:
        """Add a record to the call that was begun last."""
        row, part, kind = len(self.path), PARTS.index(record.part), KINDS.index(record.kind)
        if kind == VALUE or record.value is not None:
            self.values[row] = record.value
        for column, text in ((self.digest, record.digest), (self.file, record.file), (self.source, record.source)):
            if text:
                column[row] = text
        for share, number in record.shares:
            self.shares.setdefault(share, {})[row] = number
        if record.layout is not None:
            self.layout[row] = record.layout
        if record.gradient != "own":
            self.gradient[row] = GRADIENTS.index(record.gradient)
        if record.shard is not None:
            self.shards[row] = record.shard
        if record.name != (file_stem(record.file) or row_name(self.names[-1], part, record.path)):
            self.named[row] = record.name
        self.part.append(part)
        look = record.type, record.dtype, record.shape
        self.row(kind, self.path_number(record.path), look, record.statistics)

    def columns(self) -> Columns:
        """Return the columns; nothing is added afterwards."""
        count = len(self.path)
        self.starts.append(count)
        nothing = [""] * count  # one list for all columns without a text: of dumps of statistics each of them
        dense: dict[str, Any] = {
            "gradient": bytearray(count),
            **{name: nothing.copy() if getattr(self, name) else nothing for name in ("digest", "file", "source")},
        }
        for name, column in dense.items():
            for row, value in getattr(self, name).items():
                column[row] = value
        shares = [each.name for each in SHARES if each.name in self.shares]
        dense["shares"] = {name: _column(self.shares[name], count) for name in shares}
        dense["numbers"] = np.array(self.numbers).reshape(count, len(NAMES))
        same = {each.name: getattr(self, each.name) for each in fields(Columns) if each.init and each.name not in dense}
        return Columns(**{**same, "looks": list(self.looks)}, **dense)


def _column(numbers: Mapping[int, float], count: int) -> Floats:
    """Return a column of `count` rows, of which some have a number."""
    found = np.full(count, _NAN)
    found[list(numbers)] = list(numbers.values())
    return found


def _plain_floats(statistics: Statistics | None) -> tuple[float, ...] | None:
    """Return the statistics if all are plain floats, and there is nothing else but counts of what is not finite."""
    if statistics is None or statistics.true_count is not None:
        return None
    floats = tuple(number for number in statistics.numbers if type(number) is float)
    return floats if len(floats) == len(NAMES) else None
