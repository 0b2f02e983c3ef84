"""The framework's npy files, also those whose header is not numpy's."""

import ast
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.base.errors import DumpError
from msprobe.base.statistic import of_bfloat16_bits
from msprobe.store.npy import load_npy

Array = np.ndarray[Any, Any]

# What MindSpore writes in the header of a bfloat16 array. It is no dtype of numpy's.
_BFLOAT16 = "<E2"
_MAGIC = b"\x93NUMPY\x01\x00"
_HEAD = re.compile(rb"'descr': *'<(?:E2|f2)'")
_BEGINNING = 4096  # bytes: a header is far shorter

_CAPITALS = {"int": "Int", "uint": "UInt", "float": "Float", "complex": "Complex", "bfloat": "BFloat"}


@dataclass(frozen=True, slots=True)
class Tensor:
    """An array and its dtype as the framework spells it; `is_plain` says that the file is an npy like any other."""

    array: Array
    dtype: str
    is_plain: bool = True


def load(path: Path) -> Tensor:
    """Read a file of the framework's; DumpError where it is missing, cut short or no npy.

    Two kinds are read that numpy refuses or misreads, both seen with MindSpore 2.10 on CPU: bfloat16, which becomes
    float32, and a kernel that computes in float32 where the graph says float16: its header says float16, its body has
    four bytes for each element.
    """
    odd = _odd(path)
    if odd is not None:
        return odd
    array = load_npy(path)
    return Tensor(array, spelled(array.dtype.name))


def spelled(dtype: str) -> str:
    """A dtype's name as the framework writes it: `float32` becomes `Float32`, `uint8` `UInt8`, `bool` `Bool`."""
    if m := re.fullmatch(r"([a-z]+)(\d+)", dtype):
        return _CAPITALS.get(m[1], m[1].capitalize()) + m[2]
    return dtype.capitalize() if dtype.islower() else dtype


def _odd(path: Path) -> Tensor | None:
    """A file of the two kinds; None for every other, about which the strict reader has the word."""
    try:
        with open(path, "rb") as file:
            head = file.read(_BEGINNING)
            if not (head.startswith(_MAGIC) and _HEAD.search(head)):
                return None
            begin = 10 + int.from_bytes(head[8:10], "little")
            fields = ast.literal_eval(head[10:begin].decode("latin-1").strip())
            shape = tuple(int(n) for n in fields["shape"])
            file.seek(0, 2)
            size = file.tell() - begin
            count = math.prod(shape)
            file.seek(begin)
            if fields["descr"] == _BFLOAT16 and size == 2 * count:
                wide = of_bfloat16_bits(np.fromfile(file, np.uint16))
                return Tensor(wide.reshape(shape), "BFloat16", is_plain=False)
            if fields["descr"] == "<f2" and count and size == 4 * count:
                return Tensor(np.fromfile(file, np.float32).reshape(shape), "Float32", is_plain=False)
    except (OSError, ValueError, SyntaxError, KeyError, TypeError, RecursionError, MemoryError):
        return None
    if fields["descr"] == _BFLOAT16:
        raise DumpError(f"{path}: holds {size} bytes of bfloat16 where its header promises {2 * count}; run again")
    return None
