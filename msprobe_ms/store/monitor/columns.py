"""Lines of csv become columns: by pyarrow where it is installed (extra `monitor`), else by the csv module.

pyarrow parses only what it takes without a complaint and reads as one row per line; the rest goes the second way, so
that both ways give the same columns. A row that has another number of fields is left out and its line reported; of a
row that has a field that is no number, that field becomes NaN.
"""

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np

try:
    import pyarrow as arrow
    from pyarrow import csv as arrow_csv
except ImportError:
    arrow = None

Array = np.ndarray[Any, Any]

MAX_LINE_LENGTH = 1 << 16
"""Bytes of the longest line that is read as a row; fields of more the csv module refuses."""

_MAX_LINES = 100  # of one row whose name has line ends
_BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class Texts:
    """A column of texts: for each row the number of its text in `values`, int32."""

    codes: Array
    values: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Columns:
    """The rows of some lines; columns by their place. `broken`, `wrong`: lines (from 0) that are no rows, and rows that
    have fields which should be numbers and are none."""

    rows: int
    numbers: dict[int, Array]
    texts: dict[int, Texts]
    broken: tuple[int, ...] = ()
    wrong: tuple[int, ...] = ()


def parse(data: bytes, width: int, numbers: Sequence[int], texts: Sequence[int]) -> Columns:
    """The columns of lines in UTF-8, each ended by `\\n` and with `width` fields; other columns are not looked at."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    too_long = set(np.flatnonzero(np.diff(ends, prepend=-1) > MAX_LINE_LENGTH).tolist())
    if arrow is not None and not too_long:
        taken = _by_arrow(data, ends.size, width, numbers, texts)
        if taken is not None:
            return taken
    lines = data.decode("utf-8", "replace").split("\n")[:-1]
    rows, broken = _row_by_row(lines, width, too_long) if too_long else _rows(lines, width)
    fields = list(chain.from_iterable(rows))
    wrong: set[int] = set()
    found = {at: _numbers(fields[at::width], wrong) for at in numbers}
    of_texts = {at: _texts(fields[at::width]) for at in texts}
    return Columns(len(rows), found, of_texts, tuple(broken), tuple(sorted(wrong)))


def _by_arrow(data: bytes, lines: int, width: int, numbers: Sequence[int], texts: Sequence[int]) -> Columns | None:
    """Parse with pyarrow; None if it does not accept the lines."""
    names = [str(at) for at in range(width)]
    text = arrow.dictionary(arrow.int32(), arrow.string())
    # A quotation mark that is not closed swallows the rest of its line: of all columns only the last can have one.
    last = width - 1
    types = {str(at): text for at in (*texts, last)} | {str(at): arrow.float64() for at in numbers}
    try:
        table = arrow_csv.read_csv(
            arrow.BufferReader(data),
            read_options=arrow_csv.ReadOptions(column_names=names, block_size=_BLOCK),
            parse_options=arrow_csv.ParseOptions(newlines_in_values=False),
            convert_options=arrow_csv.ConvertOptions(
                column_types=types, include_columns=list(types), null_values=[""], strings_can_be_null=False
            ),
        )
    except (arrow.ArrowException, UnicodeError):
        return None
    if table.num_rows != lines:
        return None
    found = {at: _texts_of(table.column(str(at))) for at in {*texts, last}.difference(numbers)}
    if last in found and any("\n" in value for value in found[last].values):
        return None
    return Columns(lines, {at: table.column(str(at)).to_numpy() for at in numbers}, {at: found[at] for at in texts})


def _texts_of(column: Any) -> Texts:
    whole = column.unify_dictionaries().combine_chunks()
    if isinstance(whole, arrow.ChunkedArray):  # no row
        return Texts(np.empty(0, np.int32), ())
    return Texts(whole.indices.to_numpy(), tuple(whole.dictionary.to_pylist()))


def _rows(lines: Sequence[str], width: int) -> tuple[list[list[str]], list[int]]:
    """Return the rows, and the lines that belong to none."""
    try:
        rows = list(csv.reader(chain(lines, [""])))
    except csv.Error:
        rows = []
    # One row per line, and the last quotation mark was closed before the empty line at the end.
    if len(rows) == len(lines) + 1 and not rows.pop() and set(map(len, rows)) <= {width}:
        return rows, []
    return _row_by_row(lines, width, set())


def _row_by_row(lines: Sequence[str], width: int, too_long: set[int]) -> tuple[list[list[str]], list[int]]:
    rows, broken, at = [], [], 0
    while at < len(lines):
        row, consumed = (None, 1) if at in too_long else _row(lines, at, width)
        if row is None:
            broken.append(at)
        else:
            rows.append(row)
        at += consumed
    return rows, broken


def _row(lines: Sequence[str], at: int, width: int) -> tuple[list[str] | None, int]:
    """Return the row that begins in a line, and its number of lines; None if that is no row."""
    for strict in (False, True):
        following = islice(lines, at, at + _MAX_LINES) if strict else (lines[at], "")
        reader = csv.reader((line + "\n" for line in following), strict=strict)
        try:
            row = next(reader)
        except (csv.Error, StopIteration):
            return None, 1
        if len(row) == width and (strict or reader.line_num == 1):
            return row, reader.line_num
        if reader.line_num == 1:  # closed, and of another width
            break
    return None, 1


def _texts(column: Sequence[str]) -> Texts:
    code = {text: number for number, text in enumerate(dict.fromkeys(column))}
    return Texts(np.fromiter(map(code.__getitem__, column), np.int32, len(column)), tuple(code))


def _numbers(column: Sequence[str], wrong: set[int]) -> Array:
    try:
        return np.fromiter(map(float, column), np.float64, len(column))
    except ValueError:
        values = np.full(len(column), math.nan)
    for at, text in enumerate(column):
        if text:
            number = number_of(text)
            values[at] = math.nan if number is None else number
            if number is None:
                wrong.add(at)
    return values


def number_of(text: str) -> float | None:
    """Return a text as a number; NaN for an empty one, None for a text that is no number."""
    try:
        return float(text) if text else math.nan
    except ValueError:
        return None


def integer_of(text: str) -> int | None:
    """Return a text as an integer of 64 bits, which may be written as `5.0`; 0 for an empty one, None for another
    text."""
    try:
        number = int(text) if text else 0
    except ValueError:
        real = number_of(text)
        if real is None or not real.is_integer():
            return None
        number = int(real)
    return number if -(1 << 63) <= number < 1 << 63 else None


def first_rows(group: Array, groups: int) -> Array:
    """Return the first row of each group, -1 for an empty one."""
    found = np.full(groups, -1, np.int64)
    found[group[::-1]] = np.arange(group.size - 1, -1, -1)
    return found


def numbered(keys: Iterable[Texts]) -> tuple[Array, list[tuple[str, ...]]]:
    """Return, by row, the number of its tuple of texts; distinct tuples are numbered in the order of their first
    row."""
    columns = tuple(keys)
    key, size = columns[0].codes.astype(np.int64), len(columns[0].values)
    for column in columns[1:]:
        key, size = key * len(column.values) + column.codes, size * len(column.values)
    if size > 4 * key.size + 1024:
        _, key = np.unique(key, return_inverse=True)
        size = int(key.max(initial=-1)) + 1
    first = first_rows(key, size)
    present = np.flatnonzero(first >= 0)
    present = present[np.argsort(first[present])]
    number = np.zeros(size, np.int32)
    number[present] = np.arange(present.size)
    tuples = [tuple(column.values[column.codes[at]] for column in columns) for at in first[present].tolist()]
    return number[key], tuples
