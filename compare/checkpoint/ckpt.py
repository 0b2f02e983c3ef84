"""MindSpore's `.ckpt`, read without MindSpore.

Such a file is one protobuf message, written in pieces. The grammar is that of `checkpoint.proto`:

```
file      { value } [ "crc_num" ten bytes ]
value     1: tag (the name)   2: tensor   3: map tensor
tensor    1: dims, an integer each   2: tensor_type, as in `Float32`   3: tensor_content, bytes in C order
```

A parameter of more than 512 MiB is split into several values of one tag, each with the dims of the whole; a scalar has
dims [0] in files of older versions. Only the positions of the bytes are stored; elements are read on demand.
"""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from msprobe.base.errors import DumpError
from msprobe.base.files import open_input

from .formats import Array, Checkpoint, Extent, Parameter, read_array

_DTYPES = {
    **{"Int8": "|i1", "Int16": "<i2", "Int32": "<i4", "Int64": "<i8"},
    **{"UInt8": "|u1", "UInt16": "<u2", "UInt32": "<u4", "UInt64": "<u8"},
    **{"Float16": "<f2", "Float32": "<f4", "Float64": "<f8", "BFloat16": "<u2", "Bool": "|b1"},
    **{"Complex64": "<c8", "Complex128": "<c16"},
}

_CRC = b"crc_num"
_ENCRYPTED = tuple(bytes((mode, 0x5E, 0x3A, 0x7F)) for mode in (0xD8, 0xD9, 0xDA))  # the beginning of such a file
_TRAILER = len(_CRC) + 10
_LONGEST = 1 << 16  # bytes of a name, a dtype or packed dims
_MAX_AXES = 64
_TEXT = "str"

_VARINT, _WIDE, _BYTES, _NARROW = 0, 1, 2, 5  # wire types
_FIXED = {_WIDE: 8, _NARROW: 4}


class _Field(NamedTuple):
    """One field of a message: its number, and its integer (-1 for bytes), or the positions of its bytes."""

    number: int
    integer: int
    extent: Extent


@dataclass
class _Found:
    """The data of one parameter so far."""

    dtype: str = ""
    dims: tuple[int, ...] = ()
    pieces: list[Extent] = field(default_factory=list)
    is_map: bool = False


class _NotProtobuf(Exception):
    """The bytes are not a message of this grammar."""


def read_ckpt(path: Path) -> Checkpoint:
    """Return the parameters of a `.ckpt`; texts, which `append_dict` may contain, are left out.

    Raise a DumpError if the file cannot be read, is empty, truncated or encrypted, or is not MindSpore's.
    """
    try:
        with open_input(path) as file:
            size = os.fstat(file.fileno()).st_size
            if file.read(4) in _ENCRYPTED:
                raise DumpError(f"{path}: is encrypted; load it with dec_key and save it without enc_key")
            if size >= _TRAILER:  # a checksum may follow the message
                file.seek(size - _TRAILER)
                size -= _TRAILER if file.read(len(_CRC)) == _CRC else 0
            found = _read(file, Extent(0, size))
    except OSError as err:
        raise DumpError(f"{path}: cannot be read ({err.strerror or err}); check the path and its permissions") from err
    except (_NotProtobuf, UnicodeDecodeError) as err:
        raise DumpError(
            f"{path}: is not a complete checkpoint of MindSpore ({err}); copy it again, or give a file of "
            "save_checkpoint"
        ) from err
    if not found:
        raise DumpError(f"{path}: is empty, so it is unfinished: copy it again, or give a file of save_checkpoint")
    made = {name: _parameter(path, name, one) for name, one in found.items() if one.dtype != _TEXT}
    return Checkpoint(str(path), "mindspore", made)


def _read(file: BinaryIO, whole: Extent) -> dict[str, _Found]:
    found: dict[str, _Found] = {}
    last = ""
    for value in _fields(file, whole):
        if value.number != 1:
            raise _NotProtobuf(f"field {value.number} at its top")
        name, one = "", _Found()
        for part in _fields(file, value.extent):
            if part.number == 1:
                name = _text(file, part.extent)
            elif part.number == 2:
                _tensor(file, part.extent, one)
            elif part.number == 3:
                one.is_map = True
        if not name:
            raise _NotProtobuf("a value without a name")
        if name == last and not one.is_map:  # the next piece of a long parameter
            found[name].pieces += one.pieces
        else:
            found[name] = one
        last = name
    return found


def _tensor(file: BinaryIO, extent: Extent, one: _Found) -> None:
    dims: list[int] = []
    for part in _fields(file, extent):
        if part.number == 1:
            dims += [part.integer] if part.integer >= 0 else _packed(file, part.extent)
        elif part.number == 2:
            one.dtype = _text(file, part.extent)
        elif part.number == 3:
            one.pieces.append(part.extent)
    if len(dims) > _MAX_AXES or any(n >= 1 << 63 for n in dims):
        raise _NotProtobuf(f"a tensor of shape {dims[:8]}")
    one.dims = tuple(dims)


def _fields(file: BinaryIO, extent: Extent) -> Iterator[_Field]:
    at, stop = extent
    while at < stop:
        file.seek(at)
        key = _varint(file)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            integer = _varint(file)
            at = file.tell()
            yield _Field(number, integer, Extent(at, at))
        elif wire == _BYTES:
            length = _varint(file)
            start = file.tell()
            at = start + length
            if at > stop:
                raise _NotProtobuf(f"a field of {length} bytes goes beyond its end")
            yield _Field(number, -1, Extent(start, at))
        elif wire in _FIXED:
            at = file.tell() + _FIXED[wire]
        else:
            raise _NotProtobuf(f"wire type {wire}")
    if at != stop:
        raise _NotProtobuf("a field goes beyond its end")


def _varint(file: BinaryIO) -> int:
    """Return an integer of seven bits per byte, the lowest first; the eighth bit means that more follow."""
    made = 0
    for shift in range(0, 70, 7):
        byte = file.read(1)
        if not byte:
            raise _NotProtobuf("it is truncated")
        made |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return made
    raise _NotProtobuf("an integer of more than ten bytes")


def _packed(file: BinaryIO, extent: Extent) -> list[int]:
    if extent.stop - extent.start > _LONGEST:
        raise _NotProtobuf("a tensor with too many dimensions")
    file.seek(extent.start)
    dims = []
    while file.tell() < extent.stop:
        dims.append(_varint(file))
    return dims


def _text(file: BinaryIO, extent: Extent) -> str:
    if extent.stop - extent.start > _LONGEST:
        raise _NotProtobuf(f"a name of {extent.stop - extent.start} bytes")
    file.seek(extent.start)
    return file.read(extent.stop - extent.start).decode()


def _parameter(path: Path, name: str, one: _Found) -> Parameter:
    held = sum(piece.stop - piece.start for piece in one.pieces)
    shape = () if one.dims == (0,) and held else one.dims  # the form of a scalar in older versions

    def load() -> Array:
        if one.is_map:
            raise DumpError(
                f"{path}: {name} is a MapParameter, which has keys in addition to its values; export its data"
            )
        if one.dtype not in _DTYPES:
            raise DumpError(
                f"{path}: {name} is of {one.dtype}, which numpy does not support; save it with another dtype"
            )
        dtype = np.dtype(_DTYPES[one.dtype])
        if math.prod(shape) * dtype.itemsize != held:
            text = f"contains {held} bytes, which does not match its shape {list(shape)}"
            raise DumpError(f"{path}: {name} {text}; copy it")
        return read_array(path, one.pieces, dtype, shape, is_bfloat16=one.dtype == "BFloat16")

    return Parameter(name, one.dtype, shape, load)
