"""What a checkpoint holds, as values: parameters whose elements are read when they are asked for."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

Array = np.ndarray[Any, Any]
Framework = Literal["mindspore", "pytorch", ""]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter. `dtype` as its file says it; `load` gives the elements (bfloat16 as float32), or DumpError."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    load: Callable[[], Array]

    @property
    def size(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Checkpoint:
    """All parameters of one model, or of one rank of it. `framework` is empty where the files do not tell."""

    where: str
    framework: Framework
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
