"""The framework's npy files, also those whose header is not numpy's."""

import ast
import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.base.errors import DumpError
from msprobe.base.files import open_input
from msprobe.base.statistic import of_bfloat16_bits

from .kernel_value import spelled
from .npy import examine, load_npy

Array = np.ndarray[Any, Any]

# What MindSpore writes in the header of a bfloat16 array. It is no dtype of numpy's.
_BFLOAT16 = "<E2"
_MAGIC = b"\x93NUMPY\x01\x00"
_HEAD = re.compile(rb"'descr': *'<(?:E2|f2)'")
_BEGINNING = 4096  # bytes: a header is far shorter


@dataclass(frozen=True, slots=True)
class Tensor:
    """An array and its dtype as the framework spells it; `is_plain` says that the file is an npy like any other."""

    array: Array
    dtype: str
    is_plain: bool = True


@dataclass(frozen=True, slots=True)
class _Odd:
    """A file whose header is not to be believed: what it really holds, and where."""

    dtype: str
    stored: type[np.generic]
    shape: tuple[int, ...]
    offset: int


def load(path: Path) -> Tensor:
    """Read a file of the framework's; DumpError where it is missing, cut short or no npy.

    Two kinds are read that numpy refuses or misreads, both seen with MindSpore 2.10 on CPU: bfloat16, which becomes
    float32, and a kernel that computes in float32 where the graph says float16: its header says float16, its body has
    four bytes for each element.
    """
    odd = _odd(path)
    if odd is None:
        array = load_npy(path)
        return Tensor(array, spelled(array.dtype.name))
    try:
        with open_input(path) as file:
            flat: Array = np.fromfile(file, odd.stored, math.prod(odd.shape), offset=odd.offset)
    except (OSError, MemoryError) as err:
        raise DumpError(f"{path}: cannot be read ({err}); check the disk and the memory of this machine") from err
    wide = of_bfloat16_bits(flat) if odd.stored is np.uint16 else flat
    return Tensor(wide.reshape(odd.shape), odd.dtype, is_plain=False)


def look(path: Path) -> tuple[str, tuple[int, ...]]:
    """Dtype, as the framework spells it, and shape of a file, of which only the header is read; DumpError as above."""
    odd = _odd(path)
    if odd is not None:
        return odd.dtype, odd.shape
    header = examine(path)
    return spelled(header.dtype.name), header.shape


def _odd(path: Path) -> _Odd | None:
    """What a file of the two kinds holds; None for every other, about which the strict reader has the word."""
    try:
        with open_input(path) as file:
            head = file.read(_BEGINNING)
            size = os.fstat(file.fileno()).st_size
        if not (head.startswith(_MAGIC) and _HEAD.search(head)):
            return None
        begin = 10 + int.from_bytes(head[8:10], "little")
        fields = ast.literal_eval(head[10:begin].decode("latin-1").strip())
        shape = tuple(int(n) for n in fields["shape"])
        count = math.prod(shape)
        if min(shape, default=0) < 0:
            return None
        if fields["descr"] == "<f2" and count and size - begin == 4 * count:
            return _Odd("Float32", np.float32, shape, begin)
        if fields["descr"] != _BFLOAT16:
            return None
    except (OSError, ValueError, SyntaxError, KeyError, TypeError, RecursionError, MemoryError):
        return None
    if size - begin != 2 * count:
        raise DumpError(
            f"{path}: holds {size - begin} bytes of bfloat16 where its header promises {2 * count}; run again"
        )
    return _Odd("BFloat16", np.uint16, shape, begin)
