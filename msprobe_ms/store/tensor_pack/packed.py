"""Tensors in a pack, read by the names that their files would have."""

import json
import math
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.base.errors import DumpError
from msprobe.base.files import open_input
from msprobe.base.statistic import of_bfloat16_bits
from msprobe.store import layout
from msprobe.store.tensor_file import KINDS, TensorFile

from .chunks import BFLOAT16, CHUNK, Bytes, Chunks

Array = np.ndarray[Any, Any]

_MOST_ELEMENTS = (1 << 63) - 1
_AGAIN = "collect this step again"


class PackedTensor(TensorFile):
    """One tensor of a pack. bfloat16 is given as float32, as an npy has it."""

    def __init__(
        self, path: Path, dtype: "np.dtype[Any]", is_bfloat16: bool, shape: tuple[int, ...], place: "_Place"
    ) -> None:
        self.path, self.dtype, self.shape = path, dtype, shape
        self.size = math.prod(shape)
        self._is_bfloat16 = is_bfloat16
        self._width = 2 if is_bfloat16 else dtype.itemsize
        self._length = CHUNK // self._width  # elements of a chunk
        self._pack, self._spans = place
        self._chunks: Chunks | None = None
        self._last: tuple[int, Array] = (-1, np.empty(0, dtype))

    def part(self, start: int, stop: int) -> Array:
        """The elements [start, stop) of the flat array; DumpError where they cannot be read."""
        first, last = start // self._length, (stop - 1) // self._length
        if start >= stop:
            return np.empty(0, self.dtype)
        found = [self._chunk(number) for number in range(first, last + 1)]
        if len(found) == 1:
            return found[0][start - first * self._length : stop - first * self._length]
        found[0] = found[0][start - first * self._length :]
        found[-1] = found[-1][: stop - last * self._length]
        return np.concatenate(found)

    def whole(self) -> Array:
        """All elements, in their shape; the array is the caller's."""
        try:
            flat = np.empty(self.size, self.dtype)
            for number in range(len(self._spans)):
                chunk = self._chunk(number)
                flat[number * self._length : number * self._length + chunk.size] = chunk
            return flat.reshape(self.shape)
        except (MemoryError, ValueError) as err:
            raise DumpError(f"{self.path}: cannot be read ({err}); check the memory of this machine") from err

    def _chunk(self, number: int) -> Array:
        if self._last[0] != number:
            self._last = number, self._read(number)
        return self._last[1]

    def _read(self, number: int) -> Array:
        size = min(self._length, self.size - number * self._length) * self._width
        at, length = self._spans[number]
        try:
            with open_input(self._pack) as file:
                stored = os.pread(file.fileno(), length, at)
            if len(stored) < length:
                raise DumpError(f"{self.path}: {layout.PACK} was cut short; {_AGAIN}")
            raw = self._unpacked(stored, size)
        except OSError as err:  # pyarrow's own error of broken data is one too
            raise DumpError(f"{self.path}: cannot be read from {layout.PACK} ({err}); {_AGAIN}") from err
        except ValueError as err:
            raise DumpError(f"{self.path}: is damaged in {layout.PACK} ({err}); {_AGAIN}") from err
        return of_bfloat16_bits(raw.view(np.uint16)) if self._is_bfloat16 else raw.view(self.dtype)

    def _unpacked(self, stored: bytes, size: int) -> Bytes:
        """The bytes of a chunk; DumpError where it is compressed and pyarrow is missing, ValueError where damaged."""
        if len(stored) == size:
            return np.frombuffer(stored, np.uint8)
        if self._chunks is None:
            self._chunks = Chunks(f"{self.path}: is in {layout.PACK}, which is compressed")
        return self._chunks.unpacked(stored, size, self._width)


_Place = tuple[Path, list[tuple[int, int]]]


def find_packed(path: Path) -> PackedTensor | None:
    """The tensor that a pack in the folder of `path` has under its name; None where there is none.

    DumpError where the index says of it what cannot be, or where the pack does not hold what it says.
    """
    pack = path.parent / layout.PACK
    fields = names_in(path.parent).get(path.name)
    if fields is None:
        return None
    try:
        dtype, written, _, spans = fields.split("\t")
        is_bfloat16 = dtype == BFLOAT16
        kind = np.dtype(np.float32 if is_bfloat16 else dtype)
        lengths = tuple(json.loads(written))
        places = [(at, length) for at, length in json.loads(spans)]
        _check(kind, lengths, places, 2 if is_bfloat16 else kind.itemsize, os.stat(pack).st_size)
    except OSError as err:
        raise DumpError(
            f"{pack}: cannot be opened ({err.strerror or err}); copy it beside {layout.PACK_INDEX}"
        ) from err
    except (ValueError, TypeError, RecursionError) as err:
        raise DumpError(f"{path}: {layout.PACK_INDEX} says of it what cannot be read ({err}); {_AGAIN}") from err
    return PackedTensor(path, kind, is_bfloat16, lengths, (pack, places))


def _check(kind: "np.dtype[Any]", shape: tuple[Any, ...], spans: list[tuple[Any, Any]], width: int, end: int) -> None:
    if kind.hasobject or kind.kind not in KINDS:
        raise ValueError(f"it holds {kind}, not numbers")
    if any(type(n) is not int or n < 0 for n in shape) or (size := math.prod(shape)) > _MOST_ELEMENTS:
        raise ValueError(f"shape {shape}")
    if len(spans) != -(-size // (CHUNK // width)):
        raise ValueError(f"{len(spans)} chunks")
    for at, length in spans:
        if type(at) is not int or type(length) is not int or at < 0 or not 0 < length <= CHUNK or at + length > end:
            raise ValueError(f"a chunk at {at} of {length} bytes, in a file of {end}")


def names_in(folder: Path) -> dict[str, str]:
    """By name: the fields of each tensor in the pack of a folder; empty where there is no pack."""
    index = folder / layout.PACK_INDEX
    try:
        state = os.stat(index)
    except OSError:
        return {}
    return _index(index, state.st_ino, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=16)
def _index(index: Path, *state: int) -> dict[str, str]:
    """An index in one `state` of its file. Lines that a full disk or the end of the process cut off are left out."""
    found: dict[str, str] = {}
    try:
        with open_input(index) as lines:
            for line in lines:
                quoted, _, fields = line.rstrip(b"\n").decode("ascii", "replace").partition("\t")
                if line.endswith(b"\n") and fields.endswith("]"):
                    try:
                        found[json.loads(quoted)] = fields
                    except (ValueError, TypeError, RecursionError):
                        continue
    except OSError as err:
        raise DumpError(f"{index}: cannot be read ({err.strerror or err}); check the path and its permissions") from err
    return found
