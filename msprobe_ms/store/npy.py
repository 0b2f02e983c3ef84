"""One tensor in one npy file: written in one go, examined without reading it, read without trusting it."""

import io
import math
import os
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from msprobe.base.errors import DumpError
from msprobe.base.files import FILE_MODE, NO_LINK

Array = np.ndarray[Any, Any]
Dtype = np.dtype[Any]

_format: Any = np.lib.format  # numpy 1 gives this module no types

# Bool, integers, floats and complex numbers. Objects would need pickle, which runs what a file says.
_KINDS = "?buifc"

# Longer headers are no header of a plain array; numpy draws the same line since 1.24.
_HEADER_LIMIT = 10_000


def write_npy(path: str, array: Array) -> None:
    """Write an array whole, numpy format 1.0, its own dtype, in C order.

    OSError when the disk refuses, and no part of the file stays; DumpError for an array of objects or records. A file
    that is there already is replaced in one stroke, because a finished record may name it.
    """
    if array.dtype.kind not in _KINDS:
        raise DumpError(f"{path}: an array of {array.dtype} cannot be stored as a tensor; pass numbers")
    if not array.flags.c_contiguous:
        array = array.copy(order="C")
    head = _header(array.dtype, array.shape)
    body = memoryview(array.reshape(-1).view(np.uint8).data)
    flags = os.O_WRONLY | os.O_CREAT | NO_LINK
    try:
        _fill(path, os.open(path, flags | os.O_EXCL, FILE_MODE), head, body)
    except FileExistsError:
        _fill(path + ".part", os.open(path + ".part", flags | os.O_TRUNC, FILE_MODE), head, body)
        os.replace(path + ".part", path)


@lru_cache(maxsize=4096)
def _header(dtype: Dtype, shape: tuple[int, ...]) -> bytes:
    made = io.BytesIO()
    _format.write_array_header_1_0(
        made, {"descr": _format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    )
    return made.getvalue()


def _fill(path: str, number: int, head: bytes, body: memoryview) -> None:
    try:
        done = os.writev(number, [head, body])
        if done < len(head):
            head, done = head[done:], 0
            while head:
                head = head[os.write(number, head) :]
        else:
            done -= len(head)
        while done < len(body):
            done += os.write(number, body[done:])
    except BaseException:
        with suppress(OSError):
            os.unlink(path)
        raise
    finally:
        os.close(number)


@dataclass(frozen=True, slots=True)
class Header:
    """What an npy file says of itself: dtype, shape, order of the elements, and where they begin."""

    dtype: Dtype
    shape: tuple[int, ...]
    fortran_order: bool
    offset: int


def examine(path: Path) -> Header:
    """Read an npy's header and check that the file holds what it promises; DumpError otherwise."""
    with _open(path) as file:
        return _examine(path, file)


def load_npy(path: Path) -> Array:
    """Read an npy; DumpError when it is missing, cut short, or holds anything else than numbers."""
    with _open(path) as file:
        header = _examine(path, file)
        try:
            flat = np.fromfile(file, header.dtype, math.prod(header.shape))
        except (OSError, MemoryError) as err:
            raise DumpError(f"{path}: cannot be read ({err}); check the disk and the memory of this machine") from err
    return flat.reshape(header.shape, order="F" if header.fortran_order else "C")


def _open(path: Path) -> BinaryIO:
    try:
        return open(path, "rb")
    except FileNotFoundError:
        raise DumpError(f"{path}: the tensor is missing; copy dump_tensor_data beside its dump.json") from None
    except (OSError, ValueError) as err:  # ValueError: a name that no file can have
        raise DumpError(f"{path}: the tensor cannot be opened ({err}); check the path and its permissions") from err


def _examine(path: Path, file: BinaryIO) -> Header:
    try:
        size = os.fstat(file.fileno()).st_size
        version = _format.read_magic(file)
        width = {(1, 0): 2, (2, 0): 4}[version]
        length = int.from_bytes(file.read(width), "little")
        if length > _HEADER_LIMIT:
            raise ValueError(f"its header claims {length} bytes")
        file.seek(-width, os.SEEK_CUR)
        reader = _format.read_array_header_1_0 if width == 2 else _format.read_array_header_2_0
        shape, fortran_order, dtype = reader(file)
    except Exception as err:  # the header is foreign text, and numpy parses it: whatever that raises says "not an npy"
        raise DumpError(f"{path}: not a readable npy file ({err}); collect this step again") from err
    if dtype.hasobject or dtype.kind not in _KINDS:
        raise DumpError(f"{path}: holds {dtype}, not numbers; such a file is never opened, store plain arrays instead")
    if any(n < 0 for n in shape):
        raise DumpError(f"{path}: its header says shape {shape}; collect this step again")
    offset = file.tell()
    promised = offset + math.prod(shape) * dtype.itemsize
    if promised != size:
        raise DumpError(
            f"{path}: holds {size} bytes where its header promises {promised}; it was not finished or was damaged, "
            "collect this step again"
        )
    return Header(dtype, tuple(shape), fortran_order, offset)
