"""`.safetensors`, read by its header alone: eight bytes of length, that many of JSON, then the elements.

```
{"__metadata__": {"format": "pt"}, "fc.weight": {"dtype": "F32", "shape": [4, 3], "data_offsets": [0, 48]}}
```
"""

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.base.errors import DumpError
from msprobe.base.files import open_input

from .extent import Extent, read_array
from .parameter import Array, Checkpoint, Framework, Parameter

_DTYPES = {
    **{"BOOL": "|b1", "U8": "|u1", "I8": "|i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4", "U64": "<u8"},
    **{"I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8", "BF16": "<u2", "C64": "<c8"},
}
_SPELLED = {"U": "uint", "I": "int", "F": "float", "BF": "bfloat", "C": "complex"}

_LONGEST = 100_000_000  # bytes of a header; the library draws the same line
_FRAMEWORKS: dict[str, Framework] = {"ms": "mindspore", "pt": "pytorch"}


def read_safetensors(path: Path) -> Checkpoint:
    """The tensors of a file; DumpError where it cannot be read, is no such file, or claims more than it holds."""
    try:
        with open_input(path) as file:
            size = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or not 2 <= length <= min(_LONGEST, size - 8):
                raise DumpError(f"{path}: is no whole safetensors file; copy it again")
            header = json.loads(file.read(length).decode(), object_pairs_hook=_once)
    except OSError as err:
        raise DumpError(f"{path}: cannot be read ({err.strerror or err}); check the path and its permissions") from err
    except (ValueError, RecursionError) as err:  # no UTF-8, no JSON, or nested without end
        raise DumpError(f"{path}: has a header that is no JSON ({err}); copy it again") from err
    if not isinstance(header, dict):
        raise DumpError(f"{path}: has a header that is no JSON object; copy it again")
    metadata = header.pop("__metadata__", {})
    written_by = metadata.get("format", "") if isinstance(metadata, dict) else ""
    packed = metadata if isinstance(metadata, dict) else {}
    parameters = {
        name: _parameter(path, name, entry, Extent(8 + length, size), packed.get(name, ""))
        for name, entry in header.items()
    }
    _check_layout(path, header, size - 8 - length)
    return Checkpoint(str(path), _FRAMEWORKS.get(written_by, "") if isinstance(written_by, str) else "", parameters)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of the header; ValueError for a key that stands twice, of which the format allows none."""
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = next(key for at, (key, _) in enumerate(pairs) if key in dict(pairs[:at]))
        raise ValueError(f"{twice[:80]!r} stands twice")
    return made


def _check_layout(path: Path, header: dict[str, Any], size: int) -> None:
    """DumpError unless the tensors lie one behind the other, from the first byte to the last, as the format demands."""
    spans = sorted((*entry["data_offsets"], name) for name, entry in header.items())
    end, before = 0, "the header"
    for begin, stop, name in spans:
        if begin != end:
            how = "overlaps" if begin < end else f"leaves {begin - end} bytes unused behind"
            raise DumpError(
                f"{path}: {name} {how} {before}, which the format does not allow; copy it again, or save again"
            )
        end, before = stop, name
    if end != size:
        raise DumpError(f"{path}: holds {size - end} bytes that belong to no tensor; copy it again, or save it again")


def _parameter(path: Path, name: str, entry: Any, data: Extent, packed: object) -> Parameter:
    """`packed` is the type under which MindSpore keeps two elements in a byte; such bytes are compared as they are."""
    try:
        code, shape = str(entry["dtype"]), tuple(entry["shape"])
        begin, end = entry["data_offsets"]
        if any(type(n) is not int or n < 0 for n in (*shape, begin, end)) or begin > end:
            raise ValueError(f"shape {shape}, data_offsets {[begin, end]}")
    except (TypeError, KeyError, ValueError) as err:
        raise DumpError(f"{path}: the header's entry of {name} is broken ({err}); copy it again") from err
    extent = Extent(data.start + begin, data.start + end)
    known = _DTYPES.get(code)
    if extent.stop > data.stop or (known and math.prod(shape) * np.dtype(known).itemsize != end - begin):
        raise DumpError(f"{path}: the header promises other bytes of {name} than there are; copy it again")

    def load() -> Array:
        if known is None:
            raise DumpError(f"{path}: {name} is of {code}, which numpy does not have; save it as another dtype")
        return read_array(path, [extent], np.dtype(known), shape, is_bfloat16=code == "BF16")

    return Parameter(name, str(packed) or _spelled(code), shape, load)


def _spelled(code: str) -> str:
    """`F32` as `float32`, `BF16` as `bfloat16`; what is not known as it is."""
    letters = code.rstrip("0123456789")
    return f"{_SPELLED[letters]}{code[len(letters) :]}" if letters in _SPELLED and code in _DTYPES else code.lower()
