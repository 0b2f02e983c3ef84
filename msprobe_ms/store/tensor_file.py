"""A tensor on disk that is read piece by piece, whatever holds it."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.base.statistic import is_bfloat16

KINDS = "?buifc"
"""Bool, integers, floats and complex numbers. Objects would need pickle, which runs what a file says."""


def is_storable(array: "np.ndarray[Any, Any]") -> bool:
    """Whether an array holds numbers, which is all that is ever written or read."""
    return array.dtype.kind in KINDS or is_bfloat16(array)


class TensorFile(ABC):
    """A tensor whose elements lie in C order. `path` is for messages; `size` counts elements."""

    path: Path
    dtype: "np.dtype[Any]"
    shape: tuple[int, ...]
    size: int

    @abstractmethod
    def part(self, start: int, stop: int) -> "np.ndarray[Any, Any]":
        """The elements [start, stop) of the flat array, until the next part is asked for; DumpError where they lack."""
