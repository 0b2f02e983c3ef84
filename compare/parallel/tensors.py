"""Read the elements of the ranks' tensors while ranks are merged, and write those of merged tensors."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.base.errors import DumpError
from msprobe.base.files import make_folder, safe_name
from msprobe.store import layout
from msprobe.store.npy import write_npy
from msprobe.store.reader import load_file, tensor_file

from .values import Record

Array = np.ndarray[Any, Any]


class Tensors:
    """Reads the tensors of ranks, by the folders of their dumps, and writes merged ones to a folder."""

    def __init__(self, ranks: Sequence[Path], folder: Path, trusted: Path | None) -> None:
        """Read from the folders of `ranks`; `trusted` is the folder of the golden's merged dump, None if there is none
        yet."""
        self._ranks, self._folder, self._trusted = ranks, folder / layout.TENSORS, trusted
        self._is_made = False

    def all(self, records: Sequence[Record]) -> list[Array] | None:
        """Return the elements of the ranks' records; None unless every rank has them, in the shape of the record."""
        found: list[Array] = []
        for folder, record in zip(self._ranks, records, strict=True):
            array = load_of(folder, record)
            if array is None or list(array.shape) != record["shape"]:
                return None
            found.append(array)
        return found

    def trusted(self, record: Record) -> Array | None:
        """Return the elements of a golden record."""
        return None if self._trusted is None else load_of(self._trusted, record)

    def save(self, name: str, array: Array) -> str:
        """Write a merged tensor; return the name of its file."""
        if not self._is_made:
            make_folder(self._folder)
            self._is_made = True
        file = safe_name(f"{name}{layout.NPY}")
        write_npy(str(self._folder / file), np.asarray(array))
        return file


def load_of(folder: Path, record: Record) -> Array | None:
    """Return the elements of a record of a dump; None if they were not collected, or cannot be read."""
    name = record.get("data_name")
    if type(name) is not str or not name:
        return None
    try:
        return load_file(tensor_file(folder, name))
    except DumpError:
        return None


def joined_axis(shapes: Sequence[Sequence[int]], whole: Sequence[int]) -> int | None:
    """Return the axis along which tensors of these shapes are the whole; None if there is none, or several."""
    first = shapes[0]
    if any(len(shape) != len(whole) for shape in shapes):
        return None
    axes = [
        axis
        for axis in range(len(whole))
        if sum(shape[axis] for shape in shapes) == whole[axis]
        and all(n == whole[at] for shape in shapes for at, n in enumerate(shape) if at != axis)
    ]
    return axes[0] if len(axes) == 1 and len(first) else None
