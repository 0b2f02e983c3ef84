"""One value that the framework's own kernel dump wrote: what its file's name, or its line in statistic.csv, says."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

IO = Literal["input", "output"]

PARAMETER = "Parameter"
"""The op type under which the framework writes parameters and the arguments of a graph, after the graph has run."""

MOST_SLOTS = 9999
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
    """What statistic.csv says of one value; None or an empty text where the column is not there."""

    shape: tuple[int, ...] | None
    max: float | None
    min: float | None
    mean: float | None
    norm: float | None


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
        """What a file and its line in statistic.csv have in common."""
        return (self.op_type, key(self.name), self.task, self.stream, self.stamp, self.io, self.slot)

    @property
    def is_raw(self) -> bool:
        """Whether the file is no npy: the framework leaves types without a numpy form as bytes."""
        return self.path is not None and self.path.suffix != ".npy"


def is_kernel_file(name: str) -> bool:
    """Whether a file may be one of a kernel's, by a look that is quick."""
    return ".input." in name or ".output." in name


def from_file(path: Path, name: str, graph: int) -> Value | None:
    """The value that a file holds, by its (original) name; None where that is no name of a kernel dump."""
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
    """A name as files spell it, so that a full name and a file's name can be held against each other."""
    return re.sub(r"[/.]", "_", name)


def spelled(dtype: str) -> str:
    """A dtype's name as the framework writes it: `float32` becomes `Float32`, `uint8` `UInt8`, `bool` `Bool`."""
    if m := re.fullmatch(r"([a-z]+)(\d+)", dtype):
        return _CAPITALS.get(m[1], m[1].capitalize()) + m[2]
    return dtype.capitalize() if dtype.islower() else dtype


def stem_and_number(name: str) -> tuple[str, int]:
    """`.../MatMul-op2` as `.../MatMul` and 2; -1 where a name has no number."""
    found = _NUMBER.search(name)
    return (name[: found.start()], int(found[1])) if found else (name, -1)
