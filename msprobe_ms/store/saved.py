"""Tensors that were saved by name become calls: one call for each time that a name was saved.

The calls are named `{name}.{k}.debug`, like those of a debug.json, with k counting the saves of the name within a step
and rank; what was saved as a list or dict is one call, with a record for each element.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from msprobe.base.errors import DumpError

from .folders import printable
from .kernel_value import spelled
from .read import tensor_file
from .record import Call, Record


@dataclass(frozen=True, slots=True)
class Saved:
    """One tensor that was saved: of which name, in which save of it, and its record, which has no name yet.

    dtype and shape of a record may be left for `calls_of` to read from the file.
    """

    name: str
    number: int
    record: Record


def saved_file(name: str, number: int, file: str, place: tuple[str, ...] = (), kind: str = "mindspore.Tensor") -> Saved:
    """What a file's name says, before it is opened; `file` is its path in the folder of the dump."""
    return Saved(name, number, Record("", "debug", place, "tensor", kind, file=file))


def calls_of(saves: Iterable[Saved], folder: Path) -> tuple[Call, ...]:
    """The calls, in the order of their first record; `folder` is what the paths of the files begin at.

    Two tensors at one place of one call do not replace each other: the later one counts as the next save of its name.
    """
    made: dict[str, dict[tuple[str, ...], Record]] = {}
    last: dict[tuple[str, tuple[str, ...]], int] = {}
    for saved in saves:
        name = printable(saved.name) or "_"
        path = tuple(map(printable, saved.record.path))
        number = saved.number
        if path in made.get(f"{name}.{number}.debug", ()):
            number = last[name, path] + 1
        last[name, path] = max(number, last.get((name, path), 0))
        call = f"{name}.{number}.debug"
        record = _described(saved.record, folder)
        made.setdefault(call, {})[path] = replace(record, name=".".join((call, *path)), path=path)
    return tuple(Call(call, tuple(records.values())) for call, records in made.items())


def _described(record: Record, folder: Path) -> Record:
    """The record with dtype and shape of its file's header, where nothing else says them.

    One whose file cannot be read stays as it is: whoever compares it opens it again, and says what is wrong.
    """
    if record.dtype or record.shape is not None or not record.file:
        return record
    from .npy import examine  # here: who only asks what a folder is does without numpy

    try:
        header = examine(tensor_file(folder, record.file, ""))
    except DumpError:
        return record
    dtype = header.dtype.name
    return replace(record, dtype=spelled(dtype) if record.type == "mindspore.Tensor" else dtype, shape=header.shape)
