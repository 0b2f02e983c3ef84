"""Where the framework's own kernel dump puts its files: which folder is which rank, graph and iteration.

```
rank_{r}/{net}/{graph}/{iteration}        kernel by kernel (jit_level O0, O1)
rank_{r}/{time}/step_{iteration}          whole graphs (jit_level O2)
{r}/{net}/{graph}/{iteration}             older layouts
{r}/{anything}/{iteration}
```
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .folders import walk
from .kernel_statistics import STATISTIC
from .kernel_value import is_kernel_file

MAPPING = "mapping.csv"
"""Short file name -> original name, where names were longer than a file system takes."""

ORDERS, GRAPHS, METADATA = "execution_order", "graphs", ".dump_metadata"
"""What lies in a rank's folder beside its kernels."""

WITHOUT_KERNELS = frozenset((ORDERS, GRAPHS, METADATA, "dump_tensor_data", "debug_files"))

_RANK = re.compile(r"rank_(\d{1,9})")
_STEP = re.compile(r"step_(\d{1,9})")
_INT = re.compile(r"(\d{1,9})")


@dataclass(frozen=True, slots=True)
class Place:
    """One folder of kernel files; `root` is the rank's."""

    path: Path
    root: Path
    rank: int
    graph: int
    iteration: int


def rank_of(folder: str) -> int | None:
    """The rank that a folder's name says, None where it says none."""
    found = _RANK.fullmatch(folder)
    return int(found[1]) if found else None


def place_of(folder: Path) -> Place | None:
    """What a folder's absolute path says of it; None where that is none of the layouts."""
    parts = folder.parts
    if len(parts) < 5:
        return None
    if step := _STEP.fullmatch(parts[-1]):
        rank = _RANK.fullmatch(parts[-3])
        return Place(folder, folder.parents[1], int(rank[1]), 0, int(step[1])) if rank else None
    if not _INT.fullmatch(parts[-1]):
        return None
    iteration = int(parts[-1])
    graph = int(parts[-2]) if _INT.fullmatch(parts[-2]) else 0
    if rank := _RANK.fullmatch(parts[-4]) or _INT.fullmatch(parts[-4]):
        return Place(folder, folder.parents[2], int(rank[1]), graph, iteration)
    if rank := _INT.fullmatch(parts[-3]):
        return Place(folder, folder.parents[1], int(rank[1]), 0, iteration)
    return None


def holds_kernels(files: Iterable[str]) -> bool:
    """Whether one of a folder's files is a kernel's, or a table of them."""
    return any(name in (STATISTIC, MAPPING) or is_kernel_file(name) for name in files)


def kernel_dumps(root: Path) -> dict[tuple[int, int], tuple[Path, ...]]:
    """(rank, iteration) -> its folders (one for each graph), in numeric order, of every kernel dump below `root`.

    `root` may also be a rank's folder or one below. A folder whose path says no rank and iteration is left out.
    """
    found: dict[tuple[int, int], list[Place]] = {}
    for folder in walk(root.absolute(), WITHOUT_KERNELS):
        place = place_of(folder.path)
        if place is not None and holds_kernels(folder.files):
            found.setdefault((place.rank, place.iteration), []).append(place)
    return {
        at: tuple(place.path for place in sorted(found[at], key=lambda place: (place.graph, place.path)))
        for at in sorted(found)
    }
