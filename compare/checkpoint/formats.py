"""Parameters in files of safetensors and torch.save; elements are read on demand.

`.safetensors`, read by its header alone: eight bytes of length, that many of JSON, then the elements.

```
{"__metadata__": {"format": "pt"}, "fc.weight": {"dtype": "F32", "shape": [4, 3], "data_offsets": [0, 48]}}
```
"""

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from msprobe.base.errors import DumpError
from msprobe.base.files import open_input
from msprobe.base.statistic import bfloat16_bits_to_float32
from msprobe.store.torch_files import Listed, PtTensor, Tree, load_tree

Array = np.ndarray[Any, Any]


class Extent(NamedTuple):
    """Bytes of a file from `start` to `stop`."""

    start: int
    stop: int


def read_array(
    path: Path, pieces: Sequence[Extent], dtype: np.dtype[Any], shape: tuple[int, ...], *, is_bfloat16: bool
) -> Array:
    """Return the array whose bytes are in pieces of a file; raise a DumpError if they cannot be read."""
    try:
        flat = np.empty(math.prod(shape), dtype)
        rest = memoryview(flat.view(np.uint8).data)
        with open_input(path) as file:
            for piece in pieces:
                file.seek(piece.start)
                length = piece.stop - piece.start
                if file.readinto(rest[:length]) != length:  # type: ignore[attr-defined]  # an opened file has it
                    raise DumpError(f"{path}: was truncated while it was read; copy it again")
                rest = rest[length:]
    except (OSError, MemoryError) as err:
        raise DumpError(f"{path}: cannot be read ({err}); check the disk and the memory of this machine") from err
    try:
        return (bfloat16_bits_to_float32(flat) if is_bfloat16 else flat).reshape(shape)
    # too many dimensions for this numpy, or lengths next to a 0 that are larger than any memory
    except ValueError as err:
        raise DumpError(f"{path}: numpy cannot create an array of shape {list(shape)} ({err}); copy it again") from err


Framework = Literal["mindspore", "pytorch", ""]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter. `dtype` is that of its file; `load` returns the elements (bfloat16 as float32), or raises a
    DumpError."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    load: Callable[[], Array]

    @property
    def size(self) -> int:
        """Return the number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Checkpoint:
    """All parameters of one model, or of one rank of it. `framework` is empty if the files do not contain it."""

    where: str
    framework: Framework
    parameters: Mapping[str, Parameter] = field(default_factory=dict)


_DTYPES = {
    **{"BOOL": "|b1", "U8": "|u1", "I8": "|i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4", "U64": "<u8"},
    **{"I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8", "BF16": "<u2", "C64": "<c8"},
}
_SPELLED = {"U": "uint", "I": "int", "F": "float", "BF": "bfloat", "C": "complex"}

_LONGEST = 100_000_000  # bytes of a header; the library has the same limit
_FRAMEWORKS: dict[str, Framework] = {"ms": "mindspore", "pt": "pytorch"}


def read_safetensors(path: Path) -> Checkpoint:
    """Return the tensors of a file; raise a DumpError if it cannot be read, has another format, or is shorter than its
    header declares."""
    try:
        with open_input(path) as file:
            size = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or not 2 <= length <= min(_LONGEST, size - 8):
                raise DumpError(f"{path}: is not a complete safetensors file; copy it again")
            header = json.loads(file.read(length).decode(), object_pairs_hook=_once)
    except OSError as err:
        raise DumpError(f"{path}: cannot be read ({err.strerror or err}); check the path and its permissions") from err
    except (ValueError, RecursionError) as err:  # invalid UTF-8 or JSON, or nested too deeply
        raise DumpError(f"{path}: has a header that is not valid JSON ({err}); copy it again") from err
    if not isinstance(header, dict):
        raise DumpError(f"{path}: has a header that is not a JSON object; copy it again")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict):
        metadata = {}
    parameters = {
        name: _parameter(path, name, entry, Extent(8 + length, size), metadata.get(name, ""))
        for name, entry in header.items()
    }
    _check_layout(path, header, size - 8 - length)
    return Checkpoint(str(path), _FRAMEWORKS.get(str(metadata.get("format")), ""), parameters)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of the header; raise a ValueError for a duplicate key, which the format does not allow."""
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = next(key for at, (key, _) in enumerate(pairs) if key in dict(pairs[:at]))
        raise ValueError(f"duplicate key {twice[:80]!r}")
    return made


def _check_layout(path: Path, header: dict[str, Any], size: int) -> None:
    """Raise a DumpError unless the tensors are contiguous, from the first byte to the last, as the format requires."""
    spans = sorted((*entry["data_offsets"], name) for name, entry in header.items())
    end, before = 0, "the header"
    for begin, stop, name in spans:
        if begin != end:
            how = "overlaps" if begin < end else f"leaves {begin - end} bytes unused after"
            raise DumpError(
                f"{path}: {name} {how} {before}, which the format does not allow; copy it again, or save again"
            )
        end, before = stop, name
    if end != size:
        raise DumpError(
            f"{path}: contains {size - end} bytes that do not belong to a tensor; copy it again, or save it again"
        )


def _parameter(path: Path, name: str, entry: Any, data: Extent, packed: object) -> Parameter:
    """Return a parameter; `packed` is the type with which MindSpore stores two elements in a byte: such bytes are
    compared as they are."""
    try:
        code, shape = str(entry["dtype"]), tuple(entry["shape"])
        begin, end = entry["data_offsets"]
        if any(type(n) is not int or n < 0 for n in (*shape, begin, end)) or begin > end:
            raise ValueError(f"shape {shape}, data_offsets {[begin, end]}")
    except (TypeError, KeyError, ValueError) as err:
        raise DumpError(f"{path}: the entry of {name} in the header is invalid ({err}); copy it again") from err
    extent = Extent(data.start + begin, data.start + end)
    known = _DTYPES.get(code)
    if extent.stop > data.stop or (known and math.prod(shape) * np.dtype(known).itemsize != end - begin):
        raise DumpError(f"{path}: the size of {name} differs from that in the header; copy it again")

    def load() -> Array:
        if known is None:
            raise DumpError(f"{path}: {name} is of {code}, which numpy does not support; save it with another dtype")
        return read_array(path, [extent], np.dtype(known), shape, is_bfloat16=code == "BF16")

    return Parameter(name, str(packed) or _dtype_name(code), shape, load)


def _dtype_name(code: str) -> str:
    """Return `float32` for `F32`, `bfloat16` for `BF16`; an unknown code unchanged."""
    letters = code.rstrip("0123456789")
    return f"{_SPELLED[letters]}{code[len(letters) :]}" if letters in _SPELLED and code in _DTYPES else code.lower()


STATES = ("model", "state_dict", "model_state_dict", "module", "net", "network", "weights")
"""Keys under which programs store the model's parameters next to the optimizer's state; the first that exists is
used."""

_OF_MODULE = ("_parameters", "_buffers", "_modules")

_WRAPPERS = ("module.", "_orig_mod.")
"""Prefixes of every name by DistributedDataParallel and torch.compile."""


def read_pt(path: Path) -> Checkpoint:
    """Return the model's parameters in a file of `torch.save`.

    Raise the DumpErrors of `load_tree`, and one if it contains several dictionaries of tensors none of which has a
    known name.
    """
    found = parameters(state_of(load_tree(path), path))
    for prefix in _WRAPPERS:
        if found and all(name.startswith(prefix) for name in found):
            found = {name.removeprefix(prefix): one for name, one in found.items()}
    return Checkpoint(str(path), "pytorch", found)


def state_of(tree: Tree, path: Path) -> Tree:
    """Return the dictionary of the model's parameters in a tree."""
    if any(isinstance(value, PtTensor) for value in tree.values()) or _is_module(tree):
        return tree
    # A list next to the model belongs to something else: random states, or one state for each optimizer.
    states = {key: value for key, value in tree.items() if isinstance(value, Mapping) and not isinstance(value, Listed)}
    inner = {key: value for key, value in states.items() if next(_walk(value, ""), None) is not None}
    for key in STATES:
        if key in inner:
            return state_of(inner[key], path)
    if len(tree) == len(inner) > 1:  # without others next to them: the parts of one model
        return tree
    if len(inner) != 1:
        raise DumpError(
            f"{path}: it is unclear which of its entries ({', '.join(map(str, list(tree)[:8])) or 'none'}) are "
            "the model's parameters; save the state_dict() alone with torch.save"
        )
    return state_of(next(iter(inner.values())), path)


def parameters(state: Tree) -> dict[str, Parameter]:
    """Return the tensors of nested dictionaries, named by their paths."""
    return {name: Parameter(name, one.dtype, one.shape, one.array) for name, one in _walk(state, "")}


def _is_module(tree: Tree) -> bool:
    """Return whether this was an nn.Module: the model itself was saved instead of its state_dict()."""
    return all(isinstance(tree.get(key), Mapping) for key in _OF_MODULE)


def _walk(state: Tree, before: str) -> Iterator[tuple[str, PtTensor]]:
    if _is_module(state):
        state = {name: one for key in _OF_MODULE for name, one in state[key].items()}
    for key, value in state.items():
        if isinstance(value, PtTensor):
            yield before + key, value
        elif isinstance(value, Mapping):
            yield from _walk(value, f"{before}{key}.")
