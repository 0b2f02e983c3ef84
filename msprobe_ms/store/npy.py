"""One tensor in one npy file: written in one go, read without trusting it."""

import errno
import io
import math
import os
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from msprobe.base.errors import DumpError
from msprobe.base.files import FILE_MODE, NAME_LIMIT, NO_FOLLOW, open_input
from msprobe.base.literals import parsed
from msprobe.base.statistic import is_bfloat16, widen

from .layout import TENSORS
from .tensor_file import KINDS, TensorFile, is_storable
from .tensor_pack.packed import PackedTensor, find_packed

AGAIN = "collect this step again"
"""What to do about the broken file of a dump."""

_MISSING = f"the tensor is missing; copy {TENSORS} next to its dump.json"


def open_tensor(path: Path, *, missing: str = _MISSING, again: str = AGAIN) -> BinaryIO:
    """Return the open file; DumpError if it is missing, no plain file, or may not be read.

    `missing` and `again`: the advice for a file that is missing, or is no plain file.
    """
    try:
        return open_input(path)
    except FileNotFoundError:
        raise DumpError(f"{path}: {missing}") from None
    except OSError as err:
        remedy = again if err.errno in (errno.EINVAL, errno.EISDIR) else "check the path and its permissions"
        raise DumpError(f"{path}: cannot be opened ({err.strerror or err}); {remedy}") from err


Array = np.ndarray[Any, Any]
Dtype = np.dtype[Any]

_format: Any = np.lib.format  # numpy 1 gives this module no types

_BLOCK = 1 << 17  # elements of bfloat16 that are widened at once
_SMALL = 1 << 16  # bytes: up to that a file is read whole
_HEADER_LIMIT = 10_000  # bytes: numpy refuses longer headers too since 1.24


def stored_size(array: Array) -> int:
    """Return the bytes of an array's file, whose header has 128 bytes; with more than 32 dimensions it may have
    more."""
    return 128 + array.nbytes * (2 if is_bfloat16(array) else 1)


def write_npy(path: str, array: Array) -> None:
    """Write an array whole, numpy format 1.0, its own dtype (bfloat16 becomes float32), in C order.

    OSError if writing fails, and no part of the file stays; DumpError for an array of objects or records. A file that
    is there already is replaced in one stroke, because a finished record may name it.
    """
    write_file(path, array, _fill)


def write_file(path: str, array: Array, fill: Callable[[int, Array], None]) -> None:
    """Write an array whole, by `fill`, which writes its elements in C order to an open file; as `write_npy`."""
    if not is_storable(array):
        raise DumpError(f"{path}: an array of {array.dtype} cannot be stored as a tensor; pass a numeric array")
    if not array.flags.c_contiguous:
        array = array.copy(order="C")
    flags = os.O_WRONLY | os.O_CREAT | NO_FOLLOW
    try:
        _filled(path, os.open(path, flags | os.O_EXCL, FILE_MODE), array, fill)
    except FileExistsError:
        folder, name = os.path.split(path)
        # Of the longest names the end, where they differ; two such files are not replaced at the same moment.
        part = os.path.join(folder, f"{os.fsencode(name)[5 - NAME_LIMIT :].decode('utf-8', 'ignore')}.part")
        _filled(part, os.open(part, flags | os.O_TRUNC, FILE_MODE), array, fill)
        os.replace(part, path)


@lru_cache(maxsize=4096)
def _header(dtype: Dtype, shape: tuple[int, ...]) -> bytes:
    made = io.BytesIO()
    fields = {"descr": _format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    _format.write_array_header_1_0(made, fields)
    return made.getvalue()


def _fill(number: int, array: Array) -> None:
    if is_bfloat16(array):
        _write(number, _header(np.dtype(np.float32), array.shape))
        flat = array.reshape(-1)
        for start in range(0, flat.size, _BLOCK):
            _write(number, _bytes(widen(flat[start : start + _BLOCK])))
    else:
        _write(number, _header(array.dtype, array.shape), _bytes(array))


def _filled(path: str, number: int, array: Array, fill: Callable[[int, Array], None]) -> None:
    try:
        fill(number, array)
    except BaseException:
        with suppress(OSError):
            os.unlink(path)
        raise
    finally:
        os.close(number)


def _bytes(array: Array) -> memoryview:
    return memoryview(array.reshape(-1).view(np.uint8).data)


def _write(number: int, *pieces: bytes | memoryview) -> None:
    """Write the pieces in order, usually immediately; the kernel takes 2 GiB at most."""
    done = os.writev(number, pieces)
    for piece in pieces:
        skip = min(done, len(piece))
        done -= skip
        while skip < len(piece):
            skip += os.write(number, piece[skip:])


@dataclass(frozen=True, slots=True)
class Header:
    """What an npy file says of itself: dtype, shape, order of the elements, and where they begin."""

    dtype: Dtype
    shape: tuple[int, ...]
    fortran_order: bool
    offset: int


def examine(path: Path) -> Header:
    """Read an npy's header and check that the file holds what it promises; DumpError otherwise."""
    if packed := packed_at(path):
        return Header(packed.dtype, packed.shape, False, 0)
    with open_tensor(path) as file:
        return _examine(path, file)


def load_npy(path: Path) -> Array:
    """Read an npy; DumpError when it is missing, cut short, or holds anything else than numbers."""
    if packed := packed_at(path):
        return packed.whole()
    with open_tensor(path) as file:
        return _read(path, file, _examine(path, file))


def _read(path: Path, file: BinaryIO, header: Header) -> Array:
    try:
        flat = np.empty(math.prod(header.shape), header.dtype)
        read = file.readinto(_bytes(flat))  # type: ignore[attr-defined]  # a file that was opened for reading has it
    except (OSError, MemoryError) as err:
        raise DumpError(f"{path}: cannot be read ({err}); check the disk and the memory of this machine") from err
    if read != flat.nbytes:
        raise DumpError(f"{path}: was truncated while it was read; collect this step again")
    try:
        return flat.reshape(header.shape, order="F" if header.fortran_order else "C")
    except ValueError as err:  # too many dimensions for this numpy, or lengths that exceed the memory next to a 0
        raise DumpError(f"{path}: numpy cannot create an array of its shape ({err}); collect this step again") from err


def packed_at(path: Path) -> PackedTensor | None:
    """Return the tensor of this name in the pack of a columnar dump; None if there is a file of that name, or no
    pack."""
    return None if os.path.lexists(path) else find_packed(path)


def is_written_alike(path: Path) -> bool:
    """Return whether `write_npy` would make the same file of the array in a file; DumpError if it is no readable
    npy."""
    with open_tensor(path) as file:
        header = _examine(path, file)
        if header.fortran_order:
            return False
        file.seek(0)
        return file.read(header.offset) == _header(header.dtype, header.shape)


class NpyFile(TensorFile):
    """An npy file whose elements lie in C order, read piece by piece into one buffer: memory does not grow with it.

    It is open as long as this object is there. (Not a memory map: its pages would count as this process's memory, and a
    file that is cut while it is mapped kills the process.)
    """

    def __init__(self, path: Path, header: Header, number: int) -> None:
        """`number` is a file descriptor, which this object closes."""
        self.path = path
        self.dtype = header.dtype
        self.shape = header.shape
        self.size = math.prod(header.shape)
        self._offset = header.offset
        self._number = number
        self._buffer = np.empty(0, header.dtype)

    def part(self, start: int, stop: int) -> Array:
        """Return the elements [start, stop) of the flat array, until the next part is requested; DumpError if they
        lack."""
        if stop - start > self._buffer.size:
            self._buffer = np.empty(stop - start, self.dtype)
        found = self._buffer[: stop - start]
        rest, at = _bytes(found), self._offset + start * self.dtype.itemsize
        try:
            while rest and (read := os.preadv(self._number, [rest], at)):
                rest, at = rest[read:], at + read
        except OSError as err:
            raise DumpError(f"{self.path}: cannot be read ({err}); check the disk") from err
        if rest:
            raise DumpError(f"{self.path}: was truncated while it was read; collect this step again")
        return found

    def __del__(self) -> None:
        os.close(self._number)


def open_npy(path: Path) -> Array | TensorFile:
    """Return an npy to be read once: an array where it is small or in Fortran order, else an open file.

    Both have `shape`, `dtype` and `size`. DumpError as of `load_npy`.
    """
    if packed := packed_at(path):
        return packed.whole() if packed.size * packed.dtype.itemsize <= _SMALL else packed
    with open_tensor(path) as file:
        header = _examine(path, file)
        if header.fortran_order or math.prod(header.shape) * header.dtype.itemsize <= _SMALL:
            return _read(path, file, header)
        try:
            return NpyFile(path, header, os.dup(file.fileno()))
        except OSError as err:
            raise DumpError(f"{path}: the tensor cannot be opened ({err}); close other files") from err


def _examine(path: Path, file: BinaryIO) -> Header:
    try:
        size = os.fstat(file.fileno()).st_size
        version = _format.read_magic(file)
        width = {(1, 0): 2, (2, 0): 4}[version]
        length = int.from_bytes(file.read(width), "little")
        if length > _HEADER_LIMIT:
            raise ValueError(f"its header claims {length} bytes")
        shape, fortran_order, dtype = _parse(width, file.read(length))
    except Exception as err:  # the header is foreign text, and numpy parses it: whatever that raises says "not an npy"
        raise DumpError(f"{path}: not a readable npy file ({err}); collect this step again") from err
    if dtype.hasobject or dtype.kind not in KINDS:
        raise DumpError(f"{path}: contains {dtype}, not numbers; such files are not opened, store numeric arrays")
    if any(type(n) is not int or n < 0 for n in shape):
        raise DumpError(f"{path}: its header has the shape {shape}; collect this step again")
    offset = file.tell()
    promised = offset + math.prod(shape) * dtype.itemsize
    if promised != size:
        raise DumpError(
            f"{path}: contains {size} bytes, but its header requires {promised}; it is unfinished or damaged, "
            "collect this step again"
        )
    return Header(dtype, tuple(shape), fortran_order, offset)


@lru_cache(maxsize=1024)
def _parse(width: int, header: bytes) -> tuple[tuple[int, ...], bool, Dtype]:
    """Parse shape, order and dtype, once for all equal headers, because numpy is slow."""
    reader = _format.read_array_header_1_0 if width == 2 else _format.read_array_header_2_0

    def parse() -> tuple[tuple[int, ...], bool, Dtype]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a header that Python 2 wrote, or with odd escapes: read, or refused
            found: tuple[tuple[int, ...], bool, Dtype] = reader(
                io.BytesIO(len(header).to_bytes(width, "little") + header)
            )
        return found

    return parsed(parse)
