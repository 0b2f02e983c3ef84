"""What records are called and look like, in cells: names, dtypes, shapes and the four statistics."""

from collections.abc import Sequence
from functools import cached_property
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.match.pairs import Ints
from msprobe.store.columns import NULL, TENSOR, VALUE, Columns, row_name
from msprobe.store.record import Number

from .cells import NOT_APPLICABLE, guard, shape_text

Four = tuple[Number | str, Number | str, Number | str, Number | str]

_SHORT = 10_000  # characters: two such texts still fit into a cell

_NONE: Four = (None,) * 4
_NO_RECORD: Four = (NOT_APPLICABLE,) * 4


class Side:
    """The records of one side of a comparison, as cells."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._dtypes = [guard(dtype) for _, dtype, _ in columns.looks]
        self._shapes = [shape_text(shape) for _, _, shape in columns.looks]
        self._endings: dict[tuple[int, int], str] = {}
        self._statistics = [
            np.frombuffer(c, np.float64) for c in (columns.max, columns.min, columns.mean, columns.norm)
        ]

    def names(self, rows: Sequence[int], calls: Sequence[int]) -> list[str]:
        """The names of records; `N/A` for row -1."""
        columns, part, path, endings = self._columns, self._columns.part, self._columns.path, self._endings
        found: list[str] = []
        last, beginning = -1, ""
        for row, call in zip(rows, calls, strict=True):
            if row < 0:
                found.append(NOT_APPLICABLE)
                continue
            if columns.file[row] or row in columns.named:
                found.append(guard(columns.row_name(row, call)))
                continue
            if call != last:
                last, beginning = call, columns.names[call]
                # With something behind it: `-1` alone is a number, and `-1.x` is none.
                is_plain = guard(f"{beginning}.x") == f"{beginning}.x" and len(beginning) < _SHORT
            ending = endings.get((part[row], path[row])) or self._ending(row)
            found.append(beginning + ending if is_plain and ending[0] == "." else guard(columns.row_name(row, call)))
        return found

    def _ending(self, row: int) -> str:
        """What stands behind the name of the call; does not begin with a dot where it cannot be joined unseen."""
        place = self._columns.part[row], self._columns.path[row]
        ending = row_name("", place[0], self._columns.paths[place[1]])
        is_plain = ending.startswith(".") and ";" not in ending and ending.isprintable() and len(ending) < _SHORT
        self._endings[place] = ending if is_plain else "?"
        return self._endings[place]

    def dtypes(self, rows: Sequence[int]) -> list[str]:
        """The dtype of a tensor, the Python type of anything else."""
        kind, look, dtypes = self._columns.kind, self._columns.look, self._dtypes
        return [
            NOT_APPLICABLE if row < 0 else dtypes[look[row]] if kind[row] == TENSOR else self._type(row) for row in rows
        ]

    def shapes(self, rows: Sequence[int]) -> list[str]:
        """The shape of a tensor, `[]` for a single value."""
        kind, look, shapes = self._columns.kind, self._columns.look, self._shapes
        return [
            NOT_APPLICABLE if row < 0 else shapes[look[row]] if kind[row] == TENSOR else self._extent(row)
            for row in rows
        ]

    @cached_property
    def is_plain(self) -> NDArray[np.bool_]:
        """Which rows are tensors whose statistics are four floats."""
        found = np.frombuffer(self._columns.kind, np.uint8) == TENSOR
        found[list(self._columns.odd)] = False
        return found if len(found) else np.zeros(1, bool)  # row -1 of a side without records is asked for too

    def floats(self, rows: Ints) -> list[NDArray[np.float64]]:
        """The four statistics of rows as columns; anything where `is_plain` is not."""
        return [column[rows] if len(column) else np.zeros(len(rows)) for column in self._statistics]

    def four(self, rows: Ints) -> list[Four]:
        """The statistics of records as msprobe 8.1 has them: a value that is no tensor stands for all four."""
        found: list[Four] = list(zip(*(column.tolist() for column in self.floats(rows)), strict=True))
        kind, odd = self._columns.kind, self._columns.odd
        for at, row in enumerate(rows.tolist()):
            if row < 0:
                found[at] = _NO_RECORD
            elif kind[row] != TENSOR:
                found[at] = self._value(row)
            elif row in odd:
                s = odd[row]
                found[at] = _NONE if s is None else (s.max, s.min, s.mean, s.norm)
        return found

    def digests(self, rows: Sequence[int]) -> list[str]:
        """The digests of records; of a value that is no tensor the CRC-32 of its text, as msprobe has it."""
        return [NOT_APPLICABLE if row < 0 else self._digest(row) for row in rows]

    def _digest(self, row: int) -> str:
        if told := self._columns.digest[row]:
            return guard(told)
        if self._columns.kind[row] != VALUE:
            return NOT_APPLICABLE
        return f"{crc32(str(self._columns.values.get(row)).encode('utf-8', 'replace')):08x}"

    def _type(self, row: int) -> str:
        if self._columns.kind[row] == NULL:
            return "None"
        kind = self._columns.looks[self._columns.look[row]][0]
        return kind if kind in ("slice", "ellipsis") else str(type(self._columns.values.get(row)))

    def _extent(self, row: int) -> str:
        if self._columns.kind[row] == NULL:
            return "None"
        return "(3,)" if self._columns.looks[self._columns.look[row]][0] == "slice" else "[]"

    def _value(self, row: int) -> Four:
        if self._columns.kind[row] == NULL or self._columns.looks[self._columns.look[row]][0] == "slice":
            return _NONE
        value = self._columns.values.get(row)
        if value is None or isinstance(value, (int, float)):
            return (value,) * 4
        return (str(value),) * 4
