"""The index of a pack: what one line says of a tensor, and how lines get there (`reference/format.md`, page 13)."""

import hashlib
import json
import os
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from json.encoder import encode_basestring_ascii as quote
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from msprobe.base.errors import DumpError
from msprobe.base.files import FILE_MODE, NO_FOLLOW
from msprobe.base.statistic import is_bfloat16
from msprobe.store import layout
from msprobe.store.lock import HeldFile, with_high_number
from msprobe.store.tensor_file import is_storable

from .chunks import BFLOAT16

xxh3_128: Callable[..., Any] | None
xxh3_128_hexdigest: Callable[[memoryview], str] | None
try:
    from xxhash import xxh3_128, xxh3_128_hexdigest
except ImportError:  # the extra `fast` is not installed
    xxh3_128 = xxh3_128_hexdigest = None

_XXH3 = "xxh3:"
_DIGITS = 32

LINE_BYTES = 400
"""Bytes that a tensor takes beside its elements, about."""

Span = tuple[int, int]
"""Where a chunk begins in the pack, and its length."""

Array = np.ndarray[Any, Any]


class Elements(NamedTuple):
    """The elements of a tensor: the dtype of the index, their bytes in C order, and how many one takes."""

    dtype: str
    raw: memoryview
    width: int


def elements_of(path: str, array: Array) -> Elements:
    """Return the elements of an array, in its memory where they lie in C order; DumpError for one of objects or
    records."""
    if not is_storable(array):
        raise DumpError(f"{path}: an array of {array.dtype} cannot be stored as a tensor; pass a numeric array")
    return Elements(BFLOAT16 if is_bfloat16(array) else array.dtype.str, _bytes_of(array), array.itemsize)


def _bytes_of(array: Array) -> memoryview:
    if not array.flags.c_contiguous:
        array = array.copy(order="C")
    return memoryview(array.reshape(-1).view(np.uint8).data)


def digest_of(raw: memoryview) -> str:
    """Return a digest of bytes: XXH3 of 128 bits, as fast as memory, or SHA-256, which is slower than many disks. Its
    first characters name the algorithm."""
    if xxh3_128_hexdigest is None:
        return hashlib.sha256(raw).hexdigest()[:_DIGITS]
    return f"{_XXH3}{xxh3_128_hexdigest(raw)}"


class Hasher:
    """The digest of bytes that come in pieces, of the same function as the digest of an index line."""

    def __init__(self, expected: str) -> None:
        """Choose the function by `expected`. ValueError if it is none of an index; LookupError without xxhash."""
        self.is_fast = expected.startswith(_XXH3)
        self._expected = expected[len(_XXH3) :] if self.is_fast else expected
        if len(self._expected) != _DIGITS:
            raise ValueError(f"its digest is {expected!r}")
        if not self.is_fast:
            self._state: Any = hashlib.sha256()
        elif xxh3_128 is not None:
            self._state = xxh3_128()
        else:
            raise LookupError("xxhash is not installed")

    def update(self, raw: Any) -> None:
        """Add a piece."""
        self._state.update(raw)

    def matches(self) -> bool:
        """Return whether the bytes so far have the expected digest."""
        found: str = self._state.hexdigest()
        return found[:_DIGITS] == self._expected


def narrow_elements_of(path: str, array: Array) -> Elements:
    """Return the same, but float32 numbers that are all of bfloat16 become such."""
    if array.dtype == np.float32:
        words = np.ascontiguousarray(array).reshape(-1).view(np.uint32)
        if not (words & 0xFFFF).any():
            return Elements(BFLOAT16, _bytes_of((words >> 16).astype(np.uint16)), 2)
    return elements_of(path, array)


def line_of(name: str, dtype: str, shape: Sequence[int], digest: str, spans: Sequence[Span]) -> bytes:
    """Return the line of one tensor. After the digest it has the CRC-32 of all of it but that."""
    if len(spans) == 1:
        ((at, length),) = spans
        chunks = f"[{at},{length}]"
    else:
        chunks = ",".join([f"[{at},{length}]" for at, length in spans])
    head, tail = f"{quote(name)}\t{dtype}\t{list(shape)}\t{digest}", f"\t[{chunks}]"
    return f"{head};{crc32((head + tail).encode('ascii')):08x}{tail}\n".encode("ascii")


class Fields(NamedTuple):
    """The fields of a line, as they are written there."""

    dtype: str
    shape: str
    digest: str
    spans: str


def parse_line(line: bytes) -> tuple[str, Fields]:
    """Return the name and the other fields of a line; ValueError if it is torn or damaged.

    Lines of version 0.1.0 had no checksum.
    """
    if not line.endswith(b"]\n"):
        raise ValueError("it is incomplete")
    quoted, dtype, shape, digest, chunks = line[:-1].split(b"\t")
    digest, has_checksum, checksum = digest.partition(b";")
    if has_checksum and checksum != b"%08x" % crc32(b"\t".join((quoted, dtype, shape, digest, chunks))):
        raise ValueError("its checksum differs")
    name = json.loads(quoted)
    if type(name) is not str:
        raise ValueError("it does not begin with a name")
    return name, Fields(*(field.decode("ascii") for field in (dtype, shape, digest, chunks)))


class PackFile:
    """A file in the folder of a pack that is written piece by piece; it is made when the first piece comes.

    It stays open. A training may close descriptors that it does not know: then it is opened again.
    """

    def __init__(self, path: str, flags: int = 0) -> None:
        self._open = partial(_open, path, flags)
        self._held: HeldFile | None = None

    def write(self, data: bytes | memoryview, at: int | None = None) -> None:
        """Write all of `data`, at a place or at the end. OSError if writing fails."""
        if self._held is None:
            self._held = HeldFile(self._open(), self._open)
            weakref.finalize(self, self._held.release).atexit = False
        self._held.check()
        number, done = self._held.number, 0
        while done < len(data):
            rest = data[done:] if done else data
            done += os.write(number, rest) if at is None else os.pwrite(number, rest, at + done)

    def close(self) -> None:
        """Close the file; a later `write` opens it again."""
        if self._held is not None:
            self._held.release()
            self._held = None


def _open(path: str, flags: int) -> int:
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | NO_FOLLOW | flags, FILE_MODE)
    return with_high_number(number, is_beside=True)


class Index:
    """The index in `folder`, to which lines are appended."""

    def __init__(self, folder: Path) -> None:
        self._file = PackFile(os.path.join(folder, layout.PACK_INDEX), os.O_APPEND)
        self._is_torn = False

    def append(self, lines: Iterable[bytes]) -> None:
        """Append lines, in one write if the system takes them immediately. OSError if writing fails."""
        text = b"".join(lines)
        if self._is_torn:  # what the disk took of the last ones may have no end
            text = b"\n" + text
        self._is_torn = True
        self._file.write(text)
        self._is_torn = False

    def close(self) -> None:
        """Close the file; a later `append` opens it again."""
        self._file.close()
