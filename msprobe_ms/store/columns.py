"""All records of one dump as columns, and the calls that are made from them when somebody asks.

A dump of millions of records is compared column by column; a `Record` is made for the few that somebody looks at.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args, overload

from .record import Call, Gradient, Kind, NonFinite, Part, Record, Statistics

PARTS: tuple[Part, ...] = get_args(Part)
KINDS: tuple[Kind, ...] = get_args(Kind)
GRADIENTS: tuple[Gradient, ...] = get_args(Gradient)
TENSOR, VALUE, NULL = range(3)  # in KINDS

# Rows of these parts are named after the call and their path alone.
_WITHOUT_PART = (PARTS.index("parameters_grad"), PARTS.index("debug"))
_TENSOR_SUFFIXES = (".npy", ".pt")

_NANS = (float("nan"),) * 4

Look = tuple[str, str, tuple[int, ...] | None]


@dataclass(slots=True, eq=False)
class Columns:
    """Every record of one dump; the rows of one call stand together, in row order.

    Per call: `names`; its rows are `starts[c]:starts[c + 1]`. Per row: `part`, `kind` and `gradient` are places in
    PARTS, KINDS and GRADIENTS, `path` is one in `paths`, and `look` one in `looks` (type, dtype and shape).

    `max`, `min`, `mean` and `norm` are NaN in rows that are no tensors, and in those of `odd`: tensors whose four
    statistics are not four plain floats, or which tell a `true_count`; None there means no statistics at all. A NaN
    that the dump itself holds is a float like any other, and not odd; `non_finite` has the counts of such rows, where
    there are any. `values` has the value of every row of kind `value`; `digest`, `file` and `source` are empty texts
    where there is none. `named` has the names of rows that a reader called otherwise than `row_name` would.
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
    max: "array[float]"
    min: "array[float]"
    mean: "array[float]"
    norm: "array[float]"
    odd: dict[int, Statistics | None]
    values: dict[int, object]
    digest: list[str]
    file: list[str]
    source: list[str]
    named: dict[int, str] = field(default_factory=dict)
    non_finite: dict[int, NonFinite] = field(default_factory=dict)

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.path)

    def row_name(self, row: int, call: int) -> str:
        """The name of a row of a call: that of its tensor's file, or made of call, part and path."""
        if row in self.named:
            return self.named[row]
        if stem := file_stem(self.file[row]):
            return stem
        return row_name(self.names[call], self.part[row], self.paths[self.path[row]])

    def statistics(self, row: int) -> Statistics | None:
        """The statistics of a row as the dump holds them."""
        if row in self.odd:
            return self.odd[row]
        if self.kind[row] != TENSOR:
            return None
        counts = self.non_finite.get(row)
        return Statistics(self.max[row], self.min[row], self.mean[row], self.norm[row], None, counts)

    def record(self, row: int, call: int) -> Record:
        """A row of a call as a record."""
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
        )

    def records(self, call: int) -> tuple[Record, ...]:
        """All rows of a call as records, in row order."""
        return tuple([self.record(row, call) for row in range(self.starts[call], self.starts[call + 1])])


def row_name(call: str, part: int, path: tuple[str, ...]) -> str:
    """The name of a row whose tensor was not saved."""
    return ".".join((call, *path) if part in _WITHOUT_PART else (call, PARTS[part], *path))


def file_stem(file: str) -> str:
    """The name that a tensor's file lends to its row; empty for any other file."""
    return file[: file.rindex(".")] if file.endswith(_TENSOR_SUFFIXES) else ""


class Calls(Sequence[Call]):
    """The calls of a dump, made from its columns at the moment of asking, and not kept.

    `parents` and `stacks` are by name, `missing`, `lost` and `recomputed` by place.
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

    def __len__(self) -> int:
        """How many calls there are."""
        return len(self.columns.names)

    @overload
    def __getitem__(self, at: int) -> Call: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Call, ...]: ...
    def __getitem__(self, at: int | slice) -> Call | tuple[Call, ...]:
        """The call at a place, or a tuple of those in a slice."""
        places = range(len(self))[at]
        return self._call(places) if isinstance(places, int) else tuple(map(self._call, places))

    def __iter__(self) -> Iterator[Call]:
        """Every call in turn."""
        return map(self._call, range(len(self)))

    def __eq__(self, other: object) -> bool:
        """Whether the other is a sequence of calls that are all equal to these."""
        if not isinstance(other, (Calls, tuple, list)):
            return NotImplemented
        return self is other or (len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True)))

    __hash__ = None  # type: ignore[assignment]  # its calls may hold lists

    def __repr__(self) -> str:
        """How many calls and records; the whole would fill books."""
        return f"<{len(self)} calls, {len(self.columns)} records>"

    def parent(self, at: int) -> str | None:
        """What `self[at].parent` is, without its records."""
        return self._parents.get(self.columns.names[at])

    def stack(self, at: int) -> tuple[str, ...]:
        """What `self[at].stack` is, without its records."""
        return self._stacks.get(self.columns.names[at], ())

    def missing(self, at: int) -> tuple[str, ...]:
        """What `self[at].missing` is, without its records."""
        return self._missing.get(at, ())

    def is_recompute(self, at: int) -> bool:
        """What `self[at].is_recompute` is, without its records."""
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
    """The columns of calls that a reader made by hand."""
    rows = Rows()
    for call in calls:
        rows.call(call.name)
        for record in call.records:
            rows.record(record)
    return rows.columns()


class Rows:
    """Columns in the making: row after row behind the call that was begun last.

    What few rows have is kept by row here, and gets its column at the end.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.starts = array("q")
        self.part, self.kind = bytearray(), bytearray()
        self.path, self.look = array("i"), array("i")
        self.max, self.min, self.mean, self.norm = array("d"), array("d"), array("d"), array("d")
        self.odd: dict[int, Statistics | None] = {}
        self.values: dict[int, object] = {}
        self.gradient: dict[int, int] = {}
        self.digest: dict[int, str] = {}
        self.file: dict[int, str] = {}
        self.source: dict[int, str] = {}
        self.named: dict[int, str] = {}
        self.non_finite: dict[int, NonFinite] = {}
        self.paths: list[tuple[str, ...]] = []
        self._path_numbers: dict[tuple[str, ...], int] = {}
        self.looks: dict[Look, int] = {}

    def call(self, name: str) -> None:
        """Begin a call."""
        self.names.append(name)
        self.starts.append(len(self.path))

    def path_number(self, path: tuple[str, ...]) -> int:
        """The place of a path in `paths`."""
        number = self._path_numbers.get(path)
        if number is None:
            number = self._path_numbers[path] = len(self.paths)
            self.paths.append(path)
        return number

    def row(self, kind: int, path: int, look: Look, statistics: Statistics | None) -> None:
        """Add a row of any kind; its part is added by the caller, and what it has besides stands by its number."""
        numbers = _four_floats(statistics) if kind == TENSOR else None
        if numbers is None and (kind == TENSOR or statistics is not None):
            self.odd[len(self.path)] = statistics
        elif statistics is not None and statistics.non_finite is not None:
            self.non_finite[len(self.path)] = statistics.non_finite
        self.kind.append(kind)
        self.path.append(path)
        self.look.append(self.looks.setdefault(look, len(self.looks)))
        for column, number in zip((self.max, self.min, self.mean, self.norm), numbers or _NANS, strict=True):
            column.append(number)

    def record(self, record: Record) -> None:
        """Add a record to the call that was begun last."""
        row, part, kind = len(self.path), PARTS.index(record.part), KINDS.index(record.kind)
        if kind == VALUE or record.value is not None:
            self.values[row] = record.value
        for column, text in ((self.digest, record.digest), (self.file, record.file), (self.source, record.source)):
            if text:
                column[row] = text
        if record.gradient != "own":
            self.gradient[row] = GRADIENTS.index(record.gradient)
        if record.name != (file_stem(record.file) or row_name(self.names[-1], part, record.path)):
            self.named[row] = record.name
        self.part.append(part)
        look = record.type, record.dtype, record.shape
        self.row(kind, self.path_number(record.path), look, record.statistics)

    def columns(self) -> Columns:
        """What was gathered; nothing is added afterwards."""
        count = len(self.path)
        gradient = bytearray(count)
        for row, place in self.gradient.items():
            gradient[row] = place
        self.starts.append(count)
        return Columns(
            names=self.names,
            starts=self.starts,
            part=self.part,
            kind=self.kind,
            gradient=gradient,
            path=self.path,
            paths=self.paths,
            look=self.look,
            looks=list(self.looks),
            max=self.max,
            min=self.min,
            mean=self.mean,
            norm=self.norm,
            odd=self.odd,
            values=self.values,
            digest=_column(self.digest, count),
            file=_column(self.file, count),
            source=_column(self.source, count),
            named=self.named,
            non_finite=self.non_finite,
        )


def _four_floats(statistics: Statistics | None) -> tuple[float, ...] | None:
    """The four statistics where they are plain floats and, but for what is not finite, all that is told."""
    if statistics is None or statistics.true_count is not None:
        return None
    numbers = [statistics.max, statistics.min, statistics.mean, statistics.norm]
    floats = tuple(number for number in numbers if type(number) is float)
    return floats if len(floats) == len(numbers) else None


def _column(texts: dict[int, str], count: int) -> list[str]:
    column = [""] * count
    for row, text in texts.items():
        column[row] = text
    return column
