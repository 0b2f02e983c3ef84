"""A rank's folder of a kernel dump beside its kernels: planned orders, graphs, settings in force."""

import re
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from msprobe.base.errors import DumpError, UsageError
from msprobe.base.files import TABLE, read_input
from msprobe.base.log import logger
from msprobe.store.folders import walk
from msprobe.store.kernel_dump.files import (
    GRAPHS,
    METADATA,
    ORDERS,
    WITHOUT_KERNELS,
    Place,
    holds_kernels,
    place_of,
    rank_of,
)
from msprobe.store.reader import json_object_or_empty

from .ir_dataflow import Flow
from .settings import Told, read_told
from .trace import read_trace


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
    for folder in walk(raw.absolute(), WITHOUT_KERNELS):
        place = place_of(folder.path)
        if place is not None and holds_kernels(folder.files):
            ranks.setdefault(place.root, Rank(place.rank, place.root)).places.append(place)
            continue
        rank = rank_of(folder.path.name)
        if rank is not None and not {ORDERS, METADATA}.isdisjoint(folder.folders):
            ranks.setdefault(folder.path, Rank(rank, folder.path))  # it ran, though perhaps nothing was dumped
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


_ORDER = re.compile(r"ms_execution_order_graph_(\d{1,9})\.csv")
_TRACE = re.compile(r"ms_output_trace_code_graph_(\d{1,9})\.ir")


@dataclass
class Beside:
    """`orders`: graph -> full names in planned order. `flows`: graph -> what its IR says."""

    orders: dict[int, list[str]] = field(default_factory=dict)
    flows: dict[int, Flow] = field(default_factory=dict)
    told: Told = field(default_factory=Told)
    framework: str = ""

    def known(self, graph: int) -> list[str]:
        """The full names of a graph's kernels (of all its nodes where there is no order), in the order of its nodes."""
        nodes = self.flows[graph].trace.nodes if graph in self.flows else {}
        kernels = self.orders.get(graph)
        if kernels is None:
            return list(nodes)
        place = {name: at for at, name in enumerate(nodes)}
        return sorted(kernels, key=lambda name: place.get(name, len(place)))


def read_beside(root: Path, raw: Path) -> Beside:
    """Read what lies in a rank's folder and, for the settings, in the folder that holds the ranks and in `raw`."""
    told = read_told(path for folder in {root.parent, raw, root / METADATA} for path in _files(folder))
    found = Beside(told=told, framework=_framework(root))
    for path in _files(root / ORDERS):
        if m := _ORDER.fullmatch(path.name):
            found.orders[int(m[1])] = _order(path)
    for path in _files(root / GRAPHS):
        if m := _TRACE.fullmatch(path.name):
            found.flows[int(m[1])] = Flow(read_trace(path))
    return found


def _files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _order(path: Path) -> list[str]:
    """One full name a line, under a heading."""
    try:
        lines = read_input(path, TABLE).decode("utf-8", "replace").splitlines()
    except OSError as err:
        logger.warning("%s: cannot be read (%s); kernels are ordered by time alone", path, err)
        return []
    names = [line.split(",")[0].strip() for line in lines]
    return [name for name in names if name and "FullNameWithScope" not in name]


def _framework(root: Path) -> str:
    version = json_object_or_empty(root / METADATA / "config.json").get("ms_version")
    return f"mindspore {version}" if isinstance(version, str) else ""
