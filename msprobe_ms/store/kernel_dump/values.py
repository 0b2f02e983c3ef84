"""The values of a kernel dump: npy files, and the lines of statistic.csv."""

import ast
import csv
import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msprobe.base.errors import DumpError
from msprobe.base.files import open_input, open_text
from msprobe.base.literals import parsed
from msprobe.base.log import logger

if TYPE_CHECKING:
    import numpy as np

IO = Literal["input", "output"]

MAX_SLOT = 9999
"""A larger number is no slot; a list of so many would be made for it."""

# The format page of the reference says that names hold no dots; the second pattern is for those that do.
_TAIL = r"\.(?P<io>input|output)\.(?P<slot>\d{1,4}(?:\.\d{1,4})*)\.(?P<format>[^.\d][^.]*)(?:\.(?P<dtype>[^.]+))?"
_IDS = r"\.(?P<task>\d{1,18})\.(?P<stream>\d{1,18})\.(?P<stamp>\d{1,18})"
_FILES = (
    re.compile(r"(?P<type>[^.]+)\.(?P<name>[^.]+)" + _IDS + r"(?:\.\d+)*" + _TAIL),
    re.compile(r"(?P<type>[^.]+)\.(?P<name>.+)" + _IDS + _TAIL),
)
_NUMBER = re.compile(r"-op(\d{1,9})$")

_CAPITALS = {"int": "Int", "uint": "UInt", "float": "Float", "complex": "Complex", "bfloat": "BFloat"}


@dataclass(frozen=True, slots=True)
class Row:
    """The line of one value in statistic.csv: its shape, and its statistics by name; None for missing columns."""

    shape: tuple[int, ...] | None
    statistics: dict[str, float | None]


@dataclass(frozen=True, slots=True)
class Value:
    """One input or output of one execution of a kernel.

    `name` is as the file writes it, `/` mostly as `_`. `stamp` is the framework's clock, in microseconds or whatever it
    counts. `path` is None where there is no file, `row` where no statistic.csv has a line.
    """

    op_type: str
    name: str
    task: int
    stream: int
    stamp: int
    io: IO
    slot: tuple[int, ...]
    dtype: str = ""
    path: Path | None = None
    row: Row | None = None
    graph: int = 0

    @property
    def identity(self) -> tuple[object, ...]:
        """Return the fields that a file and its line in statistic.csv have in common."""
        return (self.op_type, key(self.name), self.task, self.stream, self.stamp, self.io, self.slot)

    @property
    def is_raw(self) -> bool:
        """Return whether the file is no npy: the framework leaves types without a numpy form as bytes."""
        return self.path is not None and self.path.suffix != ".npy"


def is_kernel_file(name: str) -> bool:
    """Return whether a file may be one of a kernel's, by a look that is quick."""
    return ".input." in name or ".output." in name


def from_file(path: Path, name: str, graph: int) -> Value | None:
    """Return the value that a file holds, by its (original) name; None if that is no name of a kernel dump."""
    stem = name.removesuffix(".npy")
    found = next((m for pattern in _FILES if (m := pattern.fullmatch(stem))), None)
    if found is None:
        return None
    return Value(
        op_type=found["type"],
        name=found["name"],
        task=int(found["task"]),
        stream=int(found["stream"]),
        stamp=int(found["stamp"]),
        io="input" if found["io"] == "input" else "output",
        slot=tuple(map(int, found["slot"].split("."))),
        dtype=found["dtype"] or "",
        path=path,
        graph=graph,
    )


def key(name: str) -> str:
    """Return a name as files spell it, so that a full name and a file's name can be compared."""
    return re.sub(r"[/.]", "_", name)


def spelled(dtype: str) -> str:
    """Return a dtype's name as the framework writes it: `float32` becomes `Float32`, `uint8` `UInt8`, `bool` `Bool`."""
    if m := re.fullmatch(r"([a-z]+)(\d+)", dtype):
        return _CAPITALS.get(m[1], m[1].capitalize()) + m[2]
    return dtype.capitalize() if dtype.islower() else dtype


def stem_and_number(name: str) -> tuple[str, int]:
    """Split `.../MatMul-op2` into `.../MatMul` and 2; the number is -1 if the name has none."""
    found = _NUMBER.search(name)
    return (name[: found.start()], int(found[1])) if found else (name, -1)


# What MindSpore writes in the header of a bfloat16 array. It is no dtype of numpy's.
_BFLOAT16 = "<E2"
_MAGIC = b"\x93NUMPY\x01\x00"
_HEAD = re.compile(rb"'descr': *'<(?:E2|f2)'")
_BEGINNING = 4096  # bytes: a header is far shorter


@dataclass(frozen=True, slots=True)
class Tensor:
    """An array and its dtype as the framework spells it; `is_plain` says that the file is an npy like any other."""

    array: "np.ndarray[Any, Any]"
    dtype: str
    is_plain: bool = True


@dataclass(frozen=True, slots=True)
class _Nonstandard:
    """A file whose header is wrong: what the file really holds, and where."""

    dtype: str
    stored: str
    shape: tuple[int, ...]
    offset: int


def load(path: Path) -> Tensor:
    """Read a file of the framework's; DumpError if it is missing, cut short or no npy.

    Two kinds are read that numpy refuses or misreads, both seen with MindSpore 2.10 on CPU: bfloat16, which becomes
    float32, and a kernel that computes in float32 where the graph says float16: its header says float16, its body has
    four bytes for each element.
    """
    import numpy as np  # here: what a path is, is found without numpy

    from msprobe.base.statistic import bfloat16_bits_to_float32
    from msprobe.store.npy import load_npy

    found = _nonstandard(path)
    if found is None:
        array = load_npy(path)
        return Tensor(array, spelled(array.dtype.name))
    try:
        with open_input(path) as file:
            flat: Any = np.fromfile(file, found.stored, math.prod(found.shape), offset=found.offset)
    except (OSError, MemoryError) as err:
        raise DumpError(f"{path}: cannot be read ({err}); check the disk and the memory of this machine") from err
    wide = bfloat16_bits_to_float32(flat) if found.stored == "uint16" else flat
    return Tensor(wide.reshape(found.shape), found.dtype, is_plain=False)


def header_of(path: Path) -> tuple[str, tuple[int, ...]]:
    """Return the dtype, as the framework spells it, and the shape from the header of a file; DumpError as `load`."""
    found = _nonstandard(path)
    if found is not None:
        return found.dtype, found.shape
    from msprobe.store.npy import examine  # here: what a path is, is found without numpy

    header = examine(path)
    return spelled(header.dtype.name), header.shape


def _nonstandard(path: Path) -> _Nonstandard | None:
    """Return the content of a file of the two kinds; None for all other files, which the strict reader checks."""
    try:
        with open_input(path) as file:
            head = file.read(_BEGINNING)
            size = os.fstat(file.fileno()).st_size
        if not (head.startswith(_MAGIC) and _HEAD.search(head)):
            return None
        begin = 10 + int.from_bytes(head[8:10], "little")
        text = head[10:begin].decode("latin-1").strip()
        fields = parsed(lambda: ast.literal_eval(text))
        shape = tuple(int(n) for n in fields["shape"])
        count = math.prod(shape)
        if min(shape, default=0) < 0:
            return None
        if fields["descr"] == "<f2" and count and size - begin == 4 * count:
            return _Nonstandard("Float32", "float32", shape, begin)
        if fields["descr"] != _BFLOAT16:
            return None
    except (OSError, ValueError, SyntaxError, KeyError, TypeError, RecursionError, MemoryError):
        return None
    if size - begin != 2 * count:
        raise DumpError(
            f"{path}: holds {size - begin} bytes of bfloat16, but its header requires {2 * count}; run again"
        )
    return _Nonstandard("BFloat16", "uint16", shape, begin)


STATISTIC = "statistic.csv"

_NEEDED = ("Op Type", "Op Name", "Task ID", "Stream ID", "Timestamp", "IO", "Slot")
_WHOLE = re.compile(r"-?[0-9]{1,20}")
_SHAPE = re.compile(r"\(\s*(?:\d+\s*,\s*)*(?:\d+\s*)?\)")
_MAX_FIELD_LENGTH = 1 << 20  # characters of one field; names and shapes are far shorter


def csv_rows(path: Path, consequence: str) -> list[list[str]]:
    """Return the lines of a csv file; none where there is no such file, or none that can be read, which is logged."""
    csv.field_size_limit(_MAX_FIELD_LENGTH)
    try:
        with open_text(path, newline="") as lines:
            return list(csv.reader(lines))
    except FileNotFoundError:
        pass
    except (OSError, csv.Error) as err:
        logger.warning("%s: cannot be read (%s); %s", path, err, consequence)
    return []


def read_table(path: Path, graph: int) -> list[Value]:
    """Return the values of all whole lines of a statistic.csv; none where it cannot be read, which is logged."""
    rows = csv_rows(path, "its statistics are skipped")
    if not rows:
        return []
    head = {name.strip(): at for at, name in enumerate(rows[0])}
    if lacking := [name for name in _NEEDED if name not in head]:
        logger.warning("%s: has no column %s; its statistics are skipped", path, ", ".join(lacking))
        return []
    found = []
    broken = 0
    for row in rows[1:]:
        try:
            found.append(_value({name: row[at].strip() for name, at in head.items() if at < len(row)}, graph))
        except (KeyError, ValueError):
            broken += 1
    if broken:
        logger.warning("%s: %d lines are incomplete and are skipped; the file may be truncated", path, broken)
    return found


def _value(cell: dict[str, str], graph: int) -> Value:
    io = cell["IO"].lower()
    if io not in ("input", "output"):
        raise ValueError(io)
    slot = tuple(map(int, cell["Slot"].split(".")))
    if not all(0 <= n <= MAX_SLOT for n in slot):
        raise ValueError(slot)
    return Value(
        op_type=cell["Op Type"],
        name=cell["Op Name"],
        task=int(cell["Task ID"]),
        stream=int(cell["Stream ID"]),
        stamp=int(cell["Timestamp"]),
        io="input" if io == "input" else "output",
        slot=slot,
        dtype=cell.get("Data Type", ""),
        row=Row(
            _shape(cell.get("Shape", "")),
            {name: read(cell.get(column)) for name, (column, read) in _STATISTICS.items()},
        ),
        graph=graph,
    )


def _shape(text: str) -> tuple[int, ...] | None:
    """Parse `(1,4096)`, `(2,)` or `()`; None for any other text."""
    if not _SHAPE.fullmatch(text):
        return None
    lengths = re.findall(r"\d+", text)
    # 2**63 elements and more are in no array; and Python reads no numbers of thousands of digits.
    if any(len(length) > 18 for length in lengths):
        return None
    shape = tuple(map(int, lengths))
    return shape if math.prod(shape) < 1 << 63 else None


def _number(text: str | None) -> float | None:
    """Return a number; of bool tensors `True` is 1 and `False` 0; None for `null` and for what is none."""
    if text is None or text in ("", "null"):
        return None
    if text in ("True", "False"):
        return float(text == "True")
    try:
        return float(text)
    except ValueError:
        return math.nan if text.lower().strip("-+") == "nan" else None


def _exact(text: str | None) -> float | int | None:
    """Return `_number`, or an integer of 64 bits with all of its digits."""
    return int(text) if text and _WHOLE.fullmatch(text) else _number(text)


def extreme(number: float | None, dtype: str) -> float | int | bool | None:
    """Return the extreme of integers as an integer, of bools as a bool, as our own statistics give it."""
    if number is None or not math.isfinite(number):
        return number
    if dtype == "Bool":
        return bool(number)
    return int(number) if dtype.startswith(("Int", "UInt")) and number == int(number) else float(number)


_STATISTICS: dict[str, tuple[str, Callable[[str | None], float | None]]] = {
    "max": ("Max Value", _exact),
    "min": ("Min Value", _exact),
    "mean": ("Avg Value", _number),
    "norm": ("L2Norm Value", _number),
}
"""The statistics that MindSpore writes: the column of each, and how a cell is read."""
