"""Tensors in a pack, read by the names that their files would have."""

import json
import math
import os
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.base.errors import DumpError
from msprobe.base.files import open_input
from msprobe.base.log import log_once
from msprobe.base.statistic import bfloat16_bits_to_float32
from msprobe.store import layout
from msprobe.store.tensor_file import KINDS, TensorFile

from .chunks import BFLOAT16, CHUNK, Bytes, Chunks
from .index import Fields, Hasher, parse_line

Array = np.ndarray[Any, Any]

_MAX_ELEMENTS = (1 << 63) - 1
_AGAIN = "collect this step again"
MISSING_HASHER = "pip install 'msprobe-ms[fast]'"


class PackedTensor(TensorFile):
    """One tensor of a pack. bfloat16 is given as float32, as an npy has it.

    The digest in the index is checked when a tensor is read from its beginning to its end; pieces from elsewhere are
    not checked. SHA-256 takes longer than all the measures of a comparison: only `is_strict` reading checks it.
    """

    def __init__(self, path: Path, content: "_Content", is_strict: bool) -> None:
        self.path, self.dtype, self.shape = path, content.dtype, content.shape
        self.size = math.prod(self.shape)
        self._content = content
        self._width = 2 if content.is_bfloat16 else self.dtype.itemsize
        self._length = CHUNK // self._width  # elements of a chunk
        self._chunks: Chunks | None = None
        self._last: tuple[int, Array] = (-1, np.empty(0, self.dtype))
        self._number = -1  # the descriptor of the open pack
        self._buffer = np.empty(0, np.uint8)
        self._is_strict = is_strict
        self._hasher = self._new_hasher()
        self._hashed = 0  # chunks that are in the digest

    def part(self, start: int, stop: int) -> Array:
        """Return the elements [start, stop) of the flat array, until the next part is read; DumpError if that fails."""
        if start >= stop:
            return np.empty(0, self.dtype)
        first, last = start // self._length, (stop - 1) // self._length
        if first == last:
            return self._chunk(first)[start - first * self._length : stop - first * self._length]
        found = np.empty(stop - start, self.dtype)
        for number in range(first, last + 1):
            begin = number * self._length
            chunk = self._chunk(number)[max(start - begin, 0) : stop - begin]
            at = max(begin - start, 0)
            found[at : at + chunk.size] = chunk
        return found

    def whole(self) -> Array:
        """Return all elements, in their shape; the array is the caller's. DumpError if they cannot be read, or are
        damaged."""
        try:
            flat = np.empty(self.size, self.dtype)
            for number in range(len(self._content.spans)):
                chunk = self._chunk(number)
                flat[number * self._length : number * self._length + chunk.size] = chunk
            return flat.reshape(self.shape)
        except (MemoryError, ValueError) as err:
            raise DumpError(f"{self.path}: cannot be read ({err}); check the memory of this machine") from err

    def verify(self) -> bool:
        """Read all of it; DumpError if it is damaged. Return whether its digest can be checked here."""
        for number in range(len(self._content.spans)):
            self._chunk(number)
        return self._new_hasher() is not None

    def _new_hasher(self) -> Hasher | None:
        try:
            hasher = Hasher(self._content.digest)
        except LookupError as err:
            log_once("pack: no hasher", f"digests in {layout.PACK_INDEX} are not checked ({err}): {MISSING_HASHER}")
            return None
        return hasher if hasher.is_fast or self._is_strict else None

    def _chunk(self, number: int) -> Array:
        if self._last[0] != number:
            self._last = -1, self._last[1]  # its memory is used again
            raw = self._raw(number)
            self._check_digest(number, raw)
            self._last = number, self._elements(raw)
        return self._last[1]

    def _check_digest(self, number: int, raw: Bytes) -> None:
        if self._hasher is None or number != self._hashed:
            return
        self._hasher.update(raw)
        self._hashed += 1
        if self._hashed < len(self._content.spans):
            return
        if self._hasher.matches():
            self._hasher = None
            return
        self._hasher, self._hashed = self._new_hasher(), 0  # so that reading it again fails again
        raise DumpError(f"{self.path}: is damaged, its bytes in {layout.PACK} do not match their digest; {_AGAIN}")

    def _elements(self, raw: Bytes) -> Array:
        return bfloat16_bits_to_float32(raw.view(np.uint16)) if self._content.is_bfloat16 else raw.view(self.dtype)

    def _raw(self, number: int) -> Bytes:
        """Return the bytes of a chunk, until the next one is read."""
        size = min(self._length, self.size - number * self._length) * self._width
        at, length = self._content.spans[number]
        try:
            if self._buffer.size < length:
                self._buffer = np.empty(length, np.uint8)
            stored = self._buffer[:length]
            if len(self._content.spans) == 1:  # it is read once: no descriptor is kept
                with open_input(self._content.pack) as file:
                    done = os.preadv(file.fileno(), [stored.data], at)
            else:
                if self._number < 0:
                    with open_input(self._content.pack) as file:
                        self._number = os.dup(file.fileno())
                done = os.preadv(self._number, [stored.data], at)
            if done < length:
                raise DumpError(f"{self.path}: {layout.PACK} is truncated; {_AGAIN}")
            return stored if length == size else self._unpacked(stored, size)
        except OSError as err:  # pyarrow's own error of broken data is one too
            raise DumpError(f"{self.path}: cannot be read from {layout.PACK} ({err}); {_AGAIN}") from err
        except ValueError as err:
            raise DumpError(f"{self.path}: is damaged in {layout.PACK} ({err}); {_AGAIN}") from err

    def _unpacked(self, stored: Bytes, size: int) -> Bytes:
        """Return the bytes of a compressed chunk; DumpError if pyarrow is missing, ValueError if it is damaged."""
        if self._chunks is None:
            self._chunks = Chunks(f"{self.path}: is in {layout.PACK}, which is compressed")
        return self._chunks.unpacked(stored, size, self._width)

    def __del__(self) -> None:
        if getattr(self, "_number", -1) >= 0:
            os.close(self._number)


@dataclass(frozen=True, slots=True)
class _Content:
    """The entry of a tensor in the index: its elements, where they are in which file, and their digest."""

    dtype: "np.dtype[Any]"
    is_bfloat16: bool
    shape: tuple[int, ...]
    pack: str
    spans: list[tuple[int, int]]
    digest: str


def find_packed(path: Path, *, is_strict: bool = False) -> PackedTensor | None:
    """Return the tensor that a pack in the folder of `path` has under its name; None if there is none.

    DumpError if the index says of it what cannot be, or where the pack does not hold what it says. `is_strict`: also
    digests that take long are checked.
    """
    folder, name = os.path.split(path)
    index = index_of(folder)
    fields = index.tensors.get(name)
    if fields is None:
        if index.damaged:
            raise DumpError(f"{path}: is not in {layout.PACK_INDEX}, {_lines(index.damaged)} damaged; {_AGAIN}")
        return None
    pack = os.path.join(folder, layout.PACK)
    try:
        is_bfloat16 = fields.dtype == BFLOAT16
        kind = np.dtype(np.float32 if is_bfloat16 else fields.dtype)
        shape = tuple(json.loads(fields.shape))
        spans = [(at, length) for at, length in json.loads(fields.spans)]
        _check(kind, shape, spans, 2 if is_bfloat16 else kind.itemsize, os.stat(pack).st_size)
        return PackedTensor(path, _Content(kind, is_bfloat16, shape, pack, spans, fields.digest), is_strict)
    except OSError as err:
        raise DumpError(
            f"{pack}: cannot be opened ({err.strerror or err}); copy it to the folder of {layout.PACK_INDEX}"
        ) from err
    except (ValueError, TypeError, RecursionError) as err:
        raise DumpError(f"{path}: its entry in {layout.PACK_INDEX} cannot be read ({err}); {_AGAIN}") from err


def _lines(number: int) -> str:
    return "of which 1 line is" if number == 1 else f"of which {number} lines are"


def _check(kind: "np.dtype[Any]", shape: tuple[Any, ...], spans: list[tuple[Any, Any]], width: int, end: int) -> None:
    if kind.hasobject or kind.kind not in KINDS:
        raise ValueError(f"it contains {kind}, not numbers")
    if any(type(n) is not int or n < 0 for n in shape) or (size := math.prod(shape)) > _MAX_ELEMENTS:
        raise ValueError(f"shape {shape}")
    if len(spans) != -(-size // (CHUNK // width)):
        raise ValueError(f"{len(spans)} chunks")
    for at, length in spans:
        if type(at) is not int or type(length) is not int or at < 0 or not 0 < length <= CHUNK or at + length > end:
            raise ValueError(f"a chunk at {at} of {length} bytes, in a file of {end}")


@dataclass(frozen=True, slots=True)
class PackIndex:
    """The fields of each tensor by its name, and how many lines are damaged.

    A last line without end is not damaged: the process died while it wrote it, before any record named its tensor.
    """

    tensors: dict[str, Fields] = field(default_factory=dict)
    damaged: int = 0


def names_in(folder: "str | os.PathLike[str]") -> Collection[str]:
    """Return the names of the tensors in the pack of a folder; empty if there is no pack."""
    return index_of(folder).tensors.keys()


def index_of(folder: "str | os.PathLike[str]") -> PackIndex:
    """Return the index in a folder; an empty one where there is no pack."""
    index = os.path.join(folder, layout.PACK_INDEX)
    try:
        state = os.stat(index)
    except OSError:
        return PackIndex()
    return _index(index, state.st_ino, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=16)
def _index(index: str, *state: int) -> PackIndex:
    """Return an index in one `state` of its file, without its damaged lines."""
    found: dict[str, Fields] = {}
    damaged = 0
    try:
        with open_input(index) as lines:
            for line in lines:
                try:
                    name, fields = parse_line(line)
                except (ValueError, RecursionError):
                    damaged += line.endswith(b"\n") and line != b"\n"
                else:
                    found[name] = fields
    except OSError as err:
        raise DumpError(f"{index}: cannot be read ({err.strerror or err}); check the path and its permissions") from err
    return PackIndex(found, damaged)
