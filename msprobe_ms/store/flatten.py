"""The entries of a dump.json, nested lists and objects, become the rows of columns.

A value of a wrong type inside a record counts as absent: it is a foreign file, and one bad number must not cost the
other ten thousand records. Not so where absence would let a record pass: statistics of which one is no number are
marked as damaged, and a file name of a wrong type becomes a name that cannot be opened. No `Record` is made on the way:
a row costs little more than a microsecond.

Where the extension `_entries` is built, entries that are like most are scanned without becoming objects at all; this
module takes the others, and all of them without it. Both make the same rows.
"""

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any

from msprobe.base.errors import DumpError
from msprobe.base.names import parse
from msprobe.base.schema import AT, DIGEST, KEYS, LAYOUT, NON_FINITE, OPTIONAL, SHARES

from .record import (
    DEBUG,
    GRADIENTS,
    INPUT,
    NULL,
    OUTPUT,
    PARAMETERS,
    PARAMETERS_GRAD,
    PARTS,
    TENSOR,
    VALUE,
    Columns,
    Layout,
    NonFinite,
    Number,
    Rows,
    Statistics,
    row_name,
    statistics_from,
)

try:
    from . import _entries  # type: ignore[attr-defined]  # the optional extension, which has no Python source

    entries: Any = _entries
except ImportError:
    entries = None

# Collectors cut at 50. What nests much deeper is no dump, and would exhaust the stack of the code that walks it.
_MAX_NESTING = 100

# No array has more; a product of lengths that are made up could not even become a float.
_MAX_ELEMENTS = (1 << 63) - 1

_ONE = [bytes((part,)) for part in range(len(PARTS))]
# In row order. An entry of a backward call has `input` where a forward call has its arguments.
_TREES = (
    ("input_args", INPUT),
    ("input_kwargs", INPUT),
    ("input", INPUT),
    ("parameters", PARAMETERS),
    ("output", OUTPUT),
)
# A tensor that has these and no key more says nothing else.
_PLAIN = len(("type", "dtype", "shape", *KEYS))
_looks_of, _numbers_of = itemgetter("type", "dtype", "shape"), itemgetter(*KEYS)
_FLOATS = {float}
_NORM = AT["norm"]
_MIN_SECRET_LENGTH = 6  # characters of a text that can hold a secret: `-pword`, `pw=abc`
_MAX_NAME_LENGTH = 60  # characters of a value that is no file name and is shown as one
# Placeholders of the other tool, left over where it died before it resolved them.
_UNRESOLVED = "tensor_stat_index"


class ColumnsBuilder:
    """Makes the columns of a dump of its entries, which are added one after the other.

    `missing` has the parts that an entry says could not be collected, and `recomputed` the second runs of recomputed
    cells, both by the place of the call.
    """

    def __init__(self) -> None:
        self._rows = Rows()
        sources: dict[str, str] = {}  # each text once, however many rows have it
        self._walk = _walker(self._rows, sources)
        self._scanner = None if entries is None else _scanner(self._rows, sources)
        self.missing: dict[int, list[str]] = {}
        self.recomputed: set[int] = set()

    def add(self, call: str, entry: Any) -> None:
        """Add a call with its rows; DumpError if its entry is no object or is nested without end."""
        self._rows.call(call)
        if call.endswith(".debug") and parse(call).kind == "debug":
            self._tree(entry, DEBUG)
        elif type(entry) is not dict:
            raise DumpError(f"{call}: its entry is not an object; the file is damaged or is not a dump")
        elif ".parameters_grad" in call:
            for name, tree in _gradients(entry):
                self._tree(tree, PARAMETERS_GRAD, (name,))
        else:
            for key, part in _TREES:
                if key in entry and (tree := entry[key]) is not None:
                    self._tree(tree, part)
        if type(entry) is dict:
            if type(missing := entry.get("missing")) is list:
                self.missing[len(self._rows.names) - 1] = [part for part in missing if type(part) is str]
            if entry.get("is_recompute") is True:
                self.recomputed.add(len(self._rows.names) - 1)

    def scan(self, text: str, at: int) -> int:
        """Add the entries of a JSON text that follow the one that ended at a place, up to the first unusual one.

        Return the place where the last of them ended: the given place if none was added."""
        if self._scanner is None:
            return at
        rows = self._rows
        end, names, starts, *columns = self._scanner.scan(text, at, len(rows.path))
        if names:
            rows.names += names
            rows.starts.frombytes(starts)
            if columns[0]:  # None where no call has a row
                rows.part += columns[0]
                rows.kind += columns[1]
                of_rows: tuple[array[Any], ...] = (rows.path, rows.look, rows.numbers)
                for column, scanned in zip(of_rows, columns[2:], strict=True):
                    column.frombytes(scanned)
        return int(end)

    @property
    def names(self) -> list[str]:
        return self._rows.names

    def columns(self) -> Columns:
        """Return the columns of all entries, texts without secrets; nothing is added afterwards."""
        values = self._rows.values
        texts = [row for row, value in values.items() if type(value) is str and len(value) >= _MIN_SECRET_LENGTH]
        if texts:
            from msprobe.base import redaction  # its tables are not needed where there are no texts

            values.update((row, redaction.text(value)) for row in texts if type(value := values[row]) is str)
        return self._rows.columns()

    def _tree(self, tree: Any, part: int, path: tuple[str, ...] = ()) -> None:
        parts, paths = self._rows.part, self._rows.path
        try:
            self._walk(tree, self._rows.path_number(path), len(path))
        except _TooDeep as err:
            name = row_name(self._rows.names[-1], part, err.path)
            raise DumpError(
                f"{name[:200]}...: is nested deeper than {_MAX_NESTING} levels; the file is damaged"
            ) from None
        parts += _ONE[part] * (len(paths) - len(parts))


class _TooDeep(Exception):
    def __init__(self, path: tuple[str, ...]) -> None:
        self.path = path


def _gradients(entry: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the name of each parameter and its record. The list around a single record is not part of the name, and
    flags of the entry are not records."""
    for name, value in entry.items():
        if type(value) is list:
            if name == "missing" and value and all(type(item) is str for item in value):
                continue
            if len(value) == 1:
                yield name, value[0]
                continue
        if type(value) in (list, dict):
            yield name, value


def _scanner(rows: Rows, sources: dict[str, str]) -> Any:
    """Return the scanner of entries that are like most; it enters what few rows have by itself."""

    def look_number(kind: str, dtype: str, shape: tuple[int, ...] | None) -> int:
        return rows.looks.setdefault((kind, dtype, shape), len(rows.looks))

    numbers = {word: number for number, word in enumerate(GRADIENTS)}
    sparse = (rows.digest, rows.file, rows.source, rows.gradient, rows.values)
    return entries.Entries(rows.path_number, look_number, rows.paths, *sparse, numbers, sources)


def _walker(rows: Rows, sources: dict[str, str]) -> Callable[[Any, int, int], None]:
    """Return the function that adds a tree to the rows, given the tree, the number of its path, and its depth.

    A closure, because what it uses in every row is then a variable, and no chain of attributes. Tensors with the usual
    members are added here, all other rows by `_Rare`.
    """
    rare, looks, row_paths, isfinite = _Rare(rows, sources), rows.looks, rows.path, math.isfinite
    add_kind, add_path, add_look = rows.kind.append, rows.path.append, rows.look.append
    add_numbers = rows.numbers.extend
    children: dict[int, dict[Any, int]] = {}  # path -> key -> path

    def is_tensor_like_most(node: dict[str, Any], path: int) -> bool:
        """Return whether a leaf was added; False for one that has other members."""
        try:
            kind, dtype, shape = _looks_of(node)
            numbers = _numbers_of(node)
        except KeyError:
            return False
        if {*map(type, numbers)} != _FLOATS or type(dtype) is not str:
            return False
        if type(shape) is not list:
            return False
        for n in shape:
            if type(n) is not int or n < 0:
                return False
        if len(node) != _PLAIN:
            if "value" in node or _UNRESOLVED in node:
                return False
            rare.words(node, len(row_paths))
            if not isfinite(numbers[_NORM]):  # else every element is finite
                rare.counts(node, len(row_paths))
        key = (kind, dtype, tuple(shape))
        if key not in looks:
            if math.prod(shape) > _MAX_ELEMENTS:
                return False
            looks[key] = len(looks)
        add_kind(TENSOR)
        add_path(path)
        add_look(looks[key])
        add_numbers(numbers)
        return True

    def walk(node: Any, path: int, depth: int) -> None:
        items: Iterable[tuple[Any, Any]]
        kind = type(node)
        if kind is dict:
            if type(node.get("type")) is str:
                if not is_tensor_like_most(node, path):
                    rare.leaf(node, path)
                return
            items = node.items()
        elif kind is list:
            items = enumerate(node)
        else:
            rare.scalar(node, path)
            return
        if depth >= _MAX_NESTING:
            raise _TooDeep(rows.paths[path])
        known = children.setdefault(path, {})
        for key, child in items:
            number = known.get(key)
            if number is None:
                number = known[key] = rows.path_number((*rows.paths[path], str(key)))
            walk(child, number, depth + 1)

    return walk


class _Rare:
    """Adds the rare rows: whatever is no tensor, and tensors with odd statistics or shape."""

    def __init__(self, rows: Rows, sources: dict[str, str]) -> None:
        self._rows, self._sources = rows, sources
        self._counts: dict[NonFinite, NonFinite] = {}  # each once too: where training blew up, every row has them

    def scalar(self, value: Any, path: int) -> None:
        """Add None, or a value without its type."""
        if value is None:
            self._rows.row(NULL, path, ("", "", None), None)
        else:
            self._rows.values[len(self._rows.path)] = value
            self._rows.row(VALUE, path, (type(value).__name__, "", None), None)

    def leaf(self, node: dict[str, Any], path: int) -> None:
        """Add an object that has a type."""
        row = len(self._rows.path)
        if "value" in node or not ("shape" in node or "dtype" in node):
            self._rows.values[row] = _value(node)
            self._files(node, row)
            self._rows.row(VALUE, path, (node["type"], "", None), None)
            return
        self.words(node, row)
        dtype = node.get("dtype")
        look = node["type"], dtype if type(dtype) is str else "", _shape(node.get("shape"))
        self._rows.row(TENSOR, path, look, _statistics(node))

    def words(self, node: dict[str, Any], row: int) -> None:
        """Add the members that only some tensors have, for the next row."""
        self._files(node, row)
        gradient, source = node.get("gradient"), node.get("from")
        if gradient is not None and gradient in GRADIENTS:
            self._rows.gradient[row] = GRADIENTS.index(gradient)
        if source and type(source) is str:
            self._rows.source[row] = self._sources.setdefault(source, source)
        if type(shard := node.get("shard")) is dict:
            self._rows.shards[row] = shard
        if not OPTIONAL.isdisjoint(node):
            self._optional(node, row)

    def _optional(self, node: dict[str, Any], row: int) -> None:
        """Add the statistics that are only present if the configuration requests them."""
        for each in SHARES:
            if type(share := node.get(each.key)) is float and 0 <= share <= 1:
                self._rows.shares.setdefault(each.name, {})[row] = share
        stride, offset = (node.get(each.key) for each in LAYOUT)
        if type(stride) is list and all(type(each) is int for each in stride) and type(offset) is int:
            self._rows.layout[row] = Layout(tuple(stride), offset)

    def counts(self, node: dict[str, Any], row: int) -> None:
        """Add the numbers of non-finite elements, for the next row."""
        if (counts := _counts(node)) is not None:
            self._rows.non_finite[row] = self._counts.setdefault(counts, counts)

    def _files(self, node: dict[str, Any], row: int) -> None:
        digest, file = node.get(DIGEST.key), node.get("data_name")
        if digest and type(digest) is str:
            self._rows.digest[row] = digest
        if file is not None:
            # Of any type: only a record without this member says that its tensor was not saved.
            self._rows.file[row] = file if file and type(file) is str else repr(file)[:_MAX_NAME_LENGTH]


def _value(node: dict[str, Any]) -> Any:
    """Return the value of a leaf that is no tensor; some types name theirs differently (`format`, `group_ranks`)."""
    if "value" in node:
        return node["value"]
    rest = {key: value for key, value in node.items() if key != "type"}
    return next((rest[key] for key in ("group_ranks", "format") if key in rest), rest or None)


def _shape(shape: Any) -> tuple[int, ...] | None:
    if type(shape) is not list or any(type(n) is not int or n < 0 for n in shape):
        return None
    return tuple(shape) if math.prod(shape) <= _MAX_ELEMENTS else None


def _statistics(node: dict[str, Any]) -> Statistics | None:
    if _UNRESOLVED in node:
        return None
    stored = [*map(node.get, KEYS)]
    norm = stored[_NORM]
    counts = None if type(norm) is not float or math.isfinite(norm) else _counts(node)
    if {*map(type, stored)} == _FLOATS:
        return statistics_from(*stored, None, counts)
    if not any(key in node for key in KEYS):
        return None
    stored.append(node.get("true_count"))
    numbers = [_number(value) for value in stored]
    is_damaged = any(number is None and value is not None for number, value in zip(numbers, stored, strict=True))
    return statistics_from(*numbers, counts, is_damaged)


def _counts(node: dict[str, Any]) -> NonFinite | None:
    """Return how many elements are NaN, inf and -inf, of which a record leaves out what is 0; None if all are."""
    nan, up, down = counts = NonFinite(*[node.get(each.key, 0) for each in NON_FINITE])
    if not type(nan) is type(up) is type(down) is int:
        return None
    return counts if any(counts) and min(counts) >= 0 and max(counts) <= _MAX_ELEMENTS else None


def _number(value: Any) -> Number:
    if type(value) is int:
        # No dtype holds more; a float could not take it and would fail far from here.
        return value if -(1 << 63) <= value < 1 << 64 else None
    return value if type(value) in (float, bool) else None
