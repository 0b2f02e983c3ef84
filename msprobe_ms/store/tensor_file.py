"""A tensor on disk, whatever holds it: what can be one, one that could not be written, one that is read in pieces."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.base.log import log_once
from msprobe.base.statistic import is_bfloat16

KINDS = "?buifc"
"""Bool, integers, floats and complex numbers. Objects would need pickle, which runs what a file says."""


def is_storable(array: "np.ndarray[Any, Any]") -> bool:
    """Return whether an array holds numbers, which is all that is ever written or read."""
    return array.dtype.kind in KINDS or is_bfloat16(array)


def note_failure(failed: dict[str, str], path: str, cause: Exception) -> None:
    """Note in `failed` that a tensor could not be written, and why; the log says it once for each cause."""
    why = (cause.strerror if isinstance(cause, OSError) else None) or str(cause) or type(cause).__name__
    failed[path] = why
    message = f"{path}: cannot be written ({why}); the training continues, and the dump lists what is missing"
    log_once(f"tensor: {why}", message)


class TensorFile(ABC):
    """A tensor whose elements lie in C order. `path` is for messages; `size` counts elements."""

    path: Path
    dtype: "np.dtype[Any]"
    shape: tuple[int, ...]
    size: int

    @abstractmethod
    def part(self, start: int, stop: int) -> "np.ndarray[Any, Any]":
        """Return the elements [start, stop) of the flat array, until the next part is requested; DumpError if they
        lack."""
