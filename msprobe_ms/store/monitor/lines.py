"""The files of a monitor as pieces of whole lines, and the notes of what was left out of them."""

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import numpy as np

from msprobe.base.errors import reason
from msprobe.base.files import open_input
from msprobe.base.phrase import Phrase, phrase

from .columns import MAX_LINE_LENGTH, integer_of

_BLOCK = 16 << 20
_NO_LINES = 4 * _BLOCK  # bytes without a line end: that is no table


class Cause(Enum):
    """Why something was omitted; the value follows the number of cases in a note."""

    TORN = "unfinished last lines were skipped (their process was killed or is still writing)"
    BROKEN = "lines that are not rows were skipped"
    NO_STEP = "rows without an integer as step, micro_step or vpp_stage were skipped"
    WRONG_NUMBER = "rows have non-numeric fields that should be numbers; they are read as NaN"
    REPEATED = "rows were written twice; the later row is used"
    UNREADABLE = "files or folders could not be read"
    NO_TABLE = "files that are not tables of a monitor were skipped"
    EMPTY = "files or folders are empty"
    UNKNOWN_KIND = "files of an unknown kind were skipped"
    UNKNOWN_SCOPE = "rows of an unknown scope were skipped"
    UNKNOWN_COLUMN = "columns without numbers were skipped"
    OTHER_RUN = "folders are from an older run and were skipped; to read one of them, give its path"
    OTHER_FORM = "folders in another format were skipped; to read one of them, give its path"
    RESUMED = "steps were written again by a resumed run; its rows are used"
    NOT_MEASURED = "measurements failed in the training; see lost.csv for the reasons"


_HARMLESS = (Cause.RESUMED, Cause.OTHER_RUN)
"""Causes by which the reader leaves something out; everything else should have been read."""


@dataclass
class Notes:
    """What was left out: how often for each cause, and where first."""

    _found: dict[Cause, tuple[int, str]] = field(default_factory=dict)

    def add(self, cause: Cause, where: object, count: int = 1) -> None:
        """Note that something was left out."""
        before, first = self._found.get(cause, (0, str(where)))
        if count:
            self._found[cause] = (before + count, first)

    @property
    def faults(self) -> int:
        """Return how much was left out that should have been read."""
        return sum(count for cause, (count, _) in self._found.items() if cause not in _HARMLESS)

    def texts(self) -> tuple[Phrase, ...]:
        """Return one sentence for each cause."""
        return tuple(
            phrase(
                "{first}: {cause}" if count == 1 else "{number} {cause}; the first: {first}",
                number=count,
                cause=phrase(cause.value),
                first=first,
            )
            for cause, (count, first) in self._found.items()
        )


@dataclass(frozen=True)
class Source:
    """A file; `step` is that of its rows where they have no column for it."""

    path: Path
    step: int | None = None


@dataclass(frozen=True)
class Piece:
    """Whole lines of files with the same columns; `files` says at which byte each file begins, and its line there."""

    header: tuple[str, ...]
    data: bytes
    files: tuple[tuple[int, Path, int], ...]

    def place(self, line: int) -> str:
        """Return the file and line of a line of the piece."""
        start = 0
        for _ in range(line):
            start = self.data.index(b"\n", start) + 1
        at, path, first = max((each for each in self.files if each[0] <= start), key=lambda each: each[0])
        number = first + self.data.count(b"\n", at, start)
        return f"{path}, line {number}"


def pieces(sources: Iterable[Source], required: Iterable[str], notes: Notes) -> Iterator[Piece]:
    """Return the lines below the headers, of many small files together; files without the required columns are
    noted."""
    needed = set(required)
    header: tuple[str, ...] = ()
    parts: list[bytes] = []
    files: list[tuple[int, Path, int]] = []
    size = 0
    for source in sources:
        for columns, line, data in _blocks(source, needed, notes):
            if parts and (columns != header or size + len(data) > _BLOCK):
                yield Piece(header, b"".join(parts), tuple(files))
                parts, files, size = [], [], 0
            header = columns
            parts.append(data)
            files.append((size, source.path, line))
            size += len(data)
    if parts:
        yield Piece(header, b"".join(parts), tuple(files))


def first_step(source: Source) -> int | None:
    """Return the step of the first row of a file; None if there is none."""
    if source.step is not None:
        return source.step
    try:
        with open_input(source.path) as file:
            lines = _clean(file.read(MAX_LINE_LENGTH), True).decode("utf-8", "replace").split("\n")
        rows = csv.reader(lines[:-1])
        at = next(rows).index("step")
        return integer_of(next(rows)[at])
    except (OSError, ValueError, IndexError, StopIteration, csv.Error):
        return None


def _blocks(source: Source, needed: set[str], notes: Notes) -> Iterator[tuple[tuple[str, ...], int, bytes]]:
    """Yield (columns, number of the first line, complete lines) of each block of a file."""
    header: tuple[str, ...] = ()
    rest, line = b"", 1
    end = b"" if source.step is None else b",%d\n" % source.step
    try:
        with open_input(source.path) as file:
            while block := file.read(_BLOCK):
                data = rest + block
                cut = data.rfind(b"\n") + 1
                rest = data[cut:]
                if not cut and len(rest) < _NO_LINES:
                    continue
                data = _clean(data[:cut], line == 1)
                if not header:
                    first, _, data = data.partition(b"\n")
                    header, line = _header(first, needed), 2
                    if not header:
                        notes.add(Cause.NO_TABLE, source.path)
                        return
                if data:
                    columns = (*header, "step") if end else header
                    yield columns, line, data.replace(b"\n", end) if end else data
                    line += int(np.count_nonzero(np.frombuffer(data, np.uint8) == ord("\n")))
                if len(rest) >= _NO_LINES:
                    break
    except OSError as err:
        notes.add(Cause.UNREADABLE, f"{source.path} ({err.strerror or reason(err)})")
        return
    if rest.strip():
        notes.add(Cause.TORN, source.path)
    elif not header or line == 2:
        notes.add(Cause.EMPTY, source.path)


def _clean(data: bytes, is_first: bool) -> bytes:
    """Lines ended by `\\n`, without a byte order mark, and without bytes that the parsers take in different ways."""
    if is_first:
        data = data.removeprefix(b"\xef\xbb\xbf")
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b" ")
    if b"\0" in data:
        data = data.replace(b"\0", "\ufffd".encode())
    return data


def _header(line: bytes, needed: set[str]) -> tuple[str, ...]:
    """Return the names of the columns; none where the line is no header of a table with the columns that are needed."""
    if len(line) > MAX_LINE_LENGTH:
        return ()
    try:
        names = next(csv.reader([line.decode("utf-8", "replace")]), [])
    except csv.Error:
        return ()
    columns = tuple(name.strip() for name in names)
    return columns if needed <= {name.lower() for name in columns} else ()
