"""Bytes of a file, and the array that they are."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from msprobe.base.errors import DumpError
from msprobe.base.files import open_input
from msprobe.base.statistic import of_bfloat16_bits

from .parameter import Array


class Extent(NamedTuple):
    """Bytes of a file from `start` on, up to `stop`."""

    start: int
    stop: int


def read_array(
    path: Path, pieces: Sequence[Extent], dtype: np.dtype[Any], shape: tuple[int, ...], *, is_bfloat16: bool
) -> Array:
    """The array whose bytes lie in pieces of a file; DumpError where they cannot be read."""
    try:
        flat = np.empty(math.prod(shape), dtype)
        rest = memoryview(flat.view(np.uint8).data)
        with open_input(path) as file:
            for piece in pieces:
                file.seek(piece.start)
                length = piece.stop - piece.start
                if file.readinto(rest[:length]) != length:  # type: ignore[attr-defined]  # an opened file has it
                    raise DumpError(f"{path}: was cut short while it was read; copy it again")
                rest = rest[length:]
    except (OSError, MemoryError) as err:
        raise DumpError(f"{path}: cannot be read ({err}); check the disk and the memory of this machine") from err
    try:
        return (of_bfloat16_bits(flat) if is_bfloat16 else flat).reshape(shape)
    except ValueError as err:  # too many dimensions for this numpy, or lengths beside a 0 that are beyond any memory
        raise DumpError(f"{path}: numpy makes no array of shape {list(shape)} ({err}); copy it again") from err
