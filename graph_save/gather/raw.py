"""Where the framework put its files: which folder is which rank, graph and iteration."""

import csv
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from msprobe.base.errors import DumpError, UsageError
from msprobe.base.log import logger

from .table import STATISTIC, read_table
from .value import Value, from_file

_RANK = re.compile(r"rank_(\d{1,9})")
_STEP = re.compile(r"step_(\d{1,9})")
_INT = re.compile(r"(\d{1,9})")
_MAPPING = "mapping.csv"
ORDERS, GRAPHS, METADATA = "execution_order", "graphs", ".dump_metadata"
"""What lies in a rank's folder beside its kernels."""
_DEEPEST = 10  # folders below the one that was given


@dataclass(frozen=True, slots=True)
class Place:
    """One folder of kernel files; `root` is the rank's."""

    path: Path
    root: Path
    rank: int
    graph: int
    iteration: int


@dataclass
class Rank:
    """What one rank left: its own folder, which also holds orders and graphs, and the folders of its kernels."""

    rank: int
    root: Path
    places: list[Place] = field(default_factory=list)

    def iterations(self) -> list[int]:
        """The iterations of which there are files."""
        return sorted({place.iteration for place in self.places})


def find(raw: Path) -> list[Rank]:
    """Every rank below `raw`, which may also be a rank's folder or one below.

    UsageError where it is no folder, DumpError where nothing below is a kernel dump or two dumps of one rank are.
    """
    if not raw.is_dir():
        raise UsageError(f"{raw}: is no folder; give the dump_path of a kernel dump")
    ranks: dict[Path, Rank] = {}
    for folder, inner, names in _folders(raw.absolute()):
        place = _place(folder)
        if place is not None and any(map(_may_be_kernel, names)):
            ranks.setdefault(place.root, Rank(place.rank, place.root)).places.append(place)
        elif (m := _RANK.fullmatch(folder.name)) and not {ORDERS, METADATA}.isdisjoint(inner):
            ranks.setdefault(folder, Rank(int(m[1]), folder))  # it ran, though perhaps nothing was dumped
    if not ranks:
        raise DumpError(
            f"{raw}: holds no kernel dump (rank_0/Net/0/0/*.npy or statistic.csv); give the dump_path of the settings "
            "that MINDSPORE_DUMP_CONFIG names, and see that the variable was set before the first graph was compiled"
        )
    found = sorted(ranks.values(), key=lambda rank: rank.rank)
    for one, other in pairwise(found):
        if one.rank == other.rank:
            raise DumpError(f"{raw}: holds two dumps of rank {one.rank}, {one.root} and {other.root}; give one of them")
    return found


def _folders(raw: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Every folder with the names of its folders and files, except what cannot hold kernels."""
    for folder, inner, names in os.walk(raw):
        path = Path(folder)
        yield path, list(inner), names
        is_deep = len(path.parts) - len(raw.parts) >= _DEEPEST
        skipped = {ORDERS, GRAPHS, METADATA, "dump_tensor_data", "debug_files"}
        inner[:] = [] if is_deep else sorted(name for name in inner if name not in skipped)


def _may_be_kernel(name: str) -> bool:
    return name in (STATISTIC, _MAPPING) or ".input." in name or ".output." in name


def _place(folder: Path) -> Place | None:
    """The folder as `rank_R/net/graph/iteration`, `rank_R/time/step_N`, `R/net/graph/iteration` or `R/x/iteration`."""
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


@dataclass(frozen=True)
class Content:
    """What one folder holds: its values, and the names of files that are no kernel's."""

    values: tuple[Value, ...]
    foreign: tuple[str, ...]


def content(place: Place) -> Content:
    """Read the names of a folder's files, its mapping.csv and its statistic.csv; no tensor is opened."""
    long_names = _long_names(place.path / _MAPPING)
    found: list[Value] = []
    foreign: list[str] = []
    for name in sorted(os.listdir(place.path)):
        if name in (STATISTIC, _MAPPING) or os.path.isdir(place.path / name):
            continue
        whole = long_names.get(name) or long_names.get(name.removesuffix(".npy")) or name
        value = from_file(place.path / name, whole, place.graph)
        if value is None:
            foreign.append(name)
        else:
            found.append(value)
    told = {value.identity: value for value in read_table(place.path / STATISTIC, place.graph)}
    for at, value in enumerate(found if told else ()):
        if line := told.pop(value.identity, None):
            found[at] = replace(value, row=line.row)  # of use where the file is no npy, or broken
    return Content((*found, *told.values()), tuple(foreign))


def _long_names(path: Path) -> dict[str, str]:
    """Short file name -> original name, where names were longer than a file system takes."""
    try:
        with open(path, encoding="utf-8", errors="replace", newline="") as lines:
            rows = list(csv.reader(lines))
    except FileNotFoundError:
        return {}
    except (OSError, csv.Error) as err:
        logger.warning("%s: cannot be read (%s); files with hashed names cannot be told apart", path, err)
        return {}
    return {row[0].strip(): row[1].strip() for row in rows if len(row) >= 2}
