"""Writing the tables of TrainerMon: the rows of a step at once, so that a finished step survives a kill.

All lines of a step of one kind go to the system in one `write` to a file that is open for appending: what it took is in
the file whatever happens to the process. A line that a killed process left unfinished is cut off by the run that goes
on with the file.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Literal, NamedTuple

from msprobe.base.files import FILE_MODE, NO_FOLLOW, make_folder

from .layout import KINDS, OWN_STATISTICS, TEXTS, file_name, find_folder, new_folder, statistics_of

__all__ = ["AppendedFiles", "Row", "RowWriter", "find_folder", "line_text", "new_folder", "numbers_text"]

_LINE_ENDS = {"\n": "\\n", "\r": "\\r", "\0": "\\0"}
_BLOCK = 1 << 16
_MAX_DIGITS = 17  # more significant digits than that no float has


class Row(NamedTuple):
    """What was measured of a target in a step; `values` in the order of the writer's statistics, None for missing."""

    vpp_stage: int
    name: str
    micro_step: int | None
    values: Sequence[float | None]
    shape: str = ""
    dtype: str = ""


@lru_cache(1 << 16)
def quoted(text: str) -> str:
    """A text as one field of a line: a line end in it becomes `\\n`, for a row is one line."""
    for character, name in _LINE_ENDS.items():
        text = text.replace(character, name)
    return '"' + text.replace('"', '""') + '"' if "," in text or '"' in text else text


def numbers_text(digits: int) -> Callable[[Sequence[float | None]], str]:
    """Return a function that formats numbers with `digits` decimals, or below 1 with `digits` significant digits.

    `11.83216`, `0.0`, `1.23457e-09`, `nan`, `-inf`. A missing value is `nan`.
    """
    small = f"%.{max(1, min(digits, _MAX_DIGITS))}g"

    def text(values: Sequence[float | None]) -> str:
        return ",".join(
            [
                (f"{round(x, digits)}" if x >= 1 or x <= -1 else small % x) if x else ("0.0" if x == 0 else "nan")
                for x in values
            ]
        )

    return text


class RowWriter:
    """The files of one process in the form of TrainerMon. OSError where something cannot be written."""

    def __init__(
        self,
        folder: Path,
        operations: Sequence[str],
        digits: int,
        steps_per_file: int,
        form: Literal["csv"] = "csv",
    ):
        if form != "csv":
            raise ValueError(f"form: {form!r}; this class writes only csv")
        self.folder = folder
        self.steps_per_file = steps_per_file
        self._operations = tuple(operation for operation in operations if operation not in TEXTS)
        self._numbers = numbers_text(digits)
        self._files = AppendedFiles(folder)
        self._with_micro_step = {kind.name for kind in KINDS.values() if kind.has_micro_step}

    def write(self, step: int, rows: Mapping[str, Sequence[Row]]) -> None:
        """Append the rows of a step, by kind."""
        for kind, of_kind in rows.items():
            if not of_kind:
                continue
            if any(row.micro_step is not None for row in of_kind):
                self._with_micro_step.add(kind)
            lines = self._lines(kind, step, of_kind)
            self._files.append(kind, file_name(kind, step, self.steps_per_file), self._header(kind), lines)

    def _header(self, kind: str) -> str:
        leading = ["vpp_stage", "name", "step", *(["micro_step"] if kind in self._with_micro_step else [])]
        return line_text([*leading, *statistics_of(kind, self._operations), *(TEXTS if _has_texts(kind) else ())])

    def _lines(self, kind: str, step: int, rows: Sequence[Row]) -> str:
        numbers, width = self._numbers, len(statistics_of(kind, self._operations))
        has_micro, has_texts = kind in self._with_micro_step, _has_texts(kind)
        lines = []
        for vpp_stage, name, micro_step, values, shape, dtype in rows:
            if len(values) != width:
                raise ValueError(f"{kind}, {name}: {len(values)} values for {width} statistics")
            micro = f",{micro_step or 0}" if has_micro else ""
            texts = f",{quoted(shape)},{quoted(dtype)}" if has_texts else ""
            lines.append(f"{vpp_stage},{quoted(name)},{step}{micro},{numbers(values)}{texts}\n")
        return "".join(lines)

    def close(self) -> None:
        """Close the files; the next step opens them again."""
        self._files.close()


def line_text(fields: Sequence[str]) -> str:
    """Return texts as one line of a table."""
    return ",".join(map(quoted, fields)) + "\n"


def _has_texts(kind: str) -> bool:
    return kind not in OWN_STATISTICS


@dataclass
class _OpenFile:
    name: str
    header: str
    number: int
    size: int


class AppendedFiles:
    """Files of a folder that grow by whole lines; of each series (a kind, a monitor) one is open at a time."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._open: dict[str, _OpenFile] = {}

    def append(self, series: str, name: str, header: str, lines: str) -> None:
        """Append lines to the file of that name, or to `{stem}.1.csv` in the same folder if it has another header."""
        file = self._open.get(series)
        if file is None or (file.name, file.header) != (name, header):
            self._close(series)
            file = self._open[series] = self._opened(name, header)
        text = lines if file.size else header + lines
        data = text.encode("utf-8", "backslashreplace")
        try:
            _write(file.number, data)
        except BaseException:
            with suppress(OSError):  # the rest of a line is recognized when the file is read
                os.ftruncate(file.number, file.size)
            self._close(series)
            raise
        file.size += len(data)

    def _opened(self, name: str, header: str) -> _OpenFile:
        make_folder(self._folder)
        stem = name.removesuffix(".csv")
        start = header.encode("utf-8", "backslashreplace")
        for beside in count():
            path = self._folder / (f"{stem}.{beside}.csv" if beside else name)
            number = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | NO_FOLLOW, FILE_MODE)
            try:
                size = os.fstat(number).st_size
                if size == 0:
                    os.fchmod(number, FILE_MODE)
                head = os.pread(number, len(start), 0)
                if head == start[: len(head)]:  # ours, or the beginning of our header, which a kill left
                    return _OpenFile(name, header, number, _cut_torn_line(number, size))
            except BaseException:
                os.close(number)
                raise
            os.close(number)
        raise AssertionError("a folder has an end")

    def _close(self, series: str) -> None:
        file = self._open.pop(series, None)
        if file is not None:
            os.close(file.number)

    def close(self) -> None:
        """Close all files."""
        for series in list(self._open):
            self._close(series)


def _write(number: int, data: bytes) -> None:
    """Write all: one call of the system, but where a signal or a full disk ends it early."""
    left = memoryview(data)
    while left:
        left = left[os.write(number, left) :]


def _cut_torn_line(number: int, size: int) -> int:
    """Truncate a file after its last line end, and return its size."""
    end = size
    while end > 0:
        start = max(0, end - _BLOCK)
        at = os.pread(number, end - start, start).rfind(b"\n")
        if at >= 0:
            end = start + at + 1
            break
        end = start
    if end != size:
        os.ftruncate(number, end)
    return end
