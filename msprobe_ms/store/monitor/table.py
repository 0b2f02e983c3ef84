"""What the files of a monitor hold, in memory: for each rank and kind, the rows as columns."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.base.phrase import Words

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Target:
    """What a row is about: a parameter, a tensor of a module or a collective; `vpp_stage` is the model's number."""

    vpp_stage: int
    name: str


@dataclass(frozen=True, eq=False)
class Table:
    """The rows of one kind of one rank, ordered by step and micro step, as columns of equal length.

    - `target`: int32, the number in `targets`
    - `step`, `micro_step`: int64; `micro_step` is 0 where the file has no such column
    - `statistics`: float64 by name in the order of the file; NaN where the file has no value or says nan
    - `shapes`, `dtypes`: by the number of the target, "" where the file does not say
    """

    kind: str
    targets: tuple[Target, ...]
    target: Array
    step: Array
    micro_step: Array
    statistics: dict[str, Array]
    shapes: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.step)


@dataclass(frozen=True)
class RankOutput:
    """What one rank wrote: its tables by kind, and where they were read from, in the order of time."""

    rank: int
    tables: dict[str, Table]
    folders: tuple[Path, ...]


@dataclass(frozen=True)
class Output:
    """One run of a monitor: by rank; `form` is `v1`, `v2` or `grad_probe`; `notes` say what was left out, and why."""

    path: Path
    form: str
    ranks: dict[int, RankOutput]
    notes: tuple[Words, ...] = field(default=())
