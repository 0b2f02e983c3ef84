"""What lies in a rank's folder of a kernel dump beside its kernels: planned orders, graphs, the settings in force.

The settings say which kernels were asked for.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from msprobe.base.errors import DumpError, UsageError
from msprobe.base.files import TABLE, read_input
from msprobe.base.log import logger
from msprobe.base.names import hangs_on_number, matches, of_any_number, type_of, unmatched, wrong_kernel
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
from msprobe.store.reader import json_object, json_object_or_empty

from .ir_dataflow import Flow
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
        raise UsageError(f"{raw}: is not a folder; give the dump_path of a kernel dump")
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
            f"{raw}: contains no kernel dump (rank_0/Net/0/0/*.npy or statistic.csv); give the dump_path of the "
            "settings in MINDSPORE_DUMP_CONFIG, and make sure that this variable was set before the first graph "
            "was compiled"
        )
    found = sorted(ranks.values(), key=lambda rank: rank.rank)
    for one, other in pairwise(found):
        if one.rank == other.rank:
            raise DumpError(
                f"{raw}: contains two dumps of rank {one.rank}, {one.root} and {other.root}; give one of them"
            )
    return found


@dataclass(frozen=True)
class DumpSettings:
    """`common`: the framework's `common_dump_settings`. `ours`: the settings of the debugger at level L2 that wrote
    them; empty where somebody else did."""

    common: Mapping[str, Any] = field(default_factory=dict)
    ours: Mapping[str, Any] = field(default_factory=dict)

    @property
    def named(self) -> tuple[str, ...]:
        """The kernels that were asked for by name; empty where all were, or where no settings are known."""
        kernels = self.common.get("kernels")
        is_list = self._dump_mode == 1 and isinstance(kernels, list)
        return tuple(name for name in kernels or () if isinstance(name, str)) if is_list else ()

    @property
    def all_kernels(self) -> bool:
        """Whether every kernel was to be dumped; also where no settings are known."""
        return self._dump_mode == 0

    @property
    def _dump_mode(self) -> int:
        """0 all kernels, 1 those that `kernels` names, 2 what the program switches on."""
        mode = self.common.get("dump_mode")
        return mode if type(mode) is int else 0

    @property
    def counts_steps(self) -> bool:
        """Whether an iteration is a step of the program, which may run a graph several times: our debugger sees to it.
        By itself the framework counts an iteration for every run of a graph."""
        return bool(self.ours)

    @property
    def wants_tensors(self) -> bool:
        """Whether the dump is to hold tensors: on a CPU the framework saves them for statistics too."""
        return self.ours.get("task") != "statistics"

    def wants(self, io: str) -> bool:
        """Whether inputs, or outputs, were asked for."""
        return self.common.get("input_output") in ((0, None, 1) if io == "input" else (0, None, 2))


def _read_settings(paths: Iterable[Path]) -> DumpSettings:
    """The newest settings among the files: the framework keeps its copy of the first run that used a folder."""
    found: list[tuple[int, DumpSettings]] = []
    for path in paths:
        try:
            settings = json_object(path) if path.suffix == ".json" else {}
        except DumpError:  # any JSON may lie about in a dump_path
            continue
        common, ours = settings.get("common_dump_settings"), settings.get("msprobe")
        if isinstance(common, dict):
            found.append((path.stat().st_mtime_ns, DumpSettings(common, ours if isinstance(ours, dict) else {})))
    return max(found, key=lambda pair: pair[0])[1] if found else DumpSettings()


_SHOWN = 8  # types in a line


def lacking(requested: Iterable[str], dumped: Sequence[str], known: Sequence[str]) -> list[str]:
    """A sentence for each element of `kernels` of which nothing was dumped. `dumped` and `known` are full names: of
    what there is, and of all kernels of the graphs."""
    faults = {name: wrong_kernel(name) for name in requested}
    messages = [f"kernels: {wrong}" for wrong in faults.values() if wrong]
    names = [name for name, wrong in faults.items() if not wrong]
    for name, near in unmatched(names, dumped).items():
        idle = [kernel for kernel in known if matches(name, kernel)]
        if idle and hangs_on_number(name, idle[0]):
            what = (
                f"is {idle[0]}, which was not dumped: it did not run, or ran under another number, as in graphs "
                f"after the first; {of_any_number(idle[0])!r} selects all numbers"
            )
        elif idle:
            what = f"is {idle[0]}, which did not run in the dumped steps"
        else:
            near = unmatched([name], known).get(name) or near
            what = f"matches no kernel; {f'did you mean {near}?' if near else _available(known or dumped)}"
        messages.append(f"kernels: {name!r} {what}")
    return messages


def _available(known: Sequence[str]) -> str:
    types = sorted({type_of(name) for name in known})
    if not types:
        return "no kernel ran at all"
    return f"available: {', '.join(types[:_SHOWN])}{(' and others' if len(types) > _SHOWN else '')}"


_ORDER = re.compile(r"ms_execution_order_graph_(\d{1,9})\.csv")
_TRACE = re.compile(r"ms_output_trace_code_graph_(\d{1,9})\.ir")


@dataclass
class Metadata:
    """`orders`: graph -> full names in planned order. `flows`: graph -> what its IR says."""

    orders: dict[int, list[str]] = field(default_factory=dict)
    flows: dict[int, Flow] = field(default_factory=dict)
    settings: DumpSettings = field(default_factory=DumpSettings)
    framework: str = ""

    def known(self, graph: int) -> list[str]:
        """The full names of a graph's kernels (of all its nodes where there is no order), in the order of its nodes."""
        nodes = self.flows[graph].trace.nodes if graph in self.flows else {}
        kernels = self.orders.get(graph)
        if kernels is None:
            return list(nodes)
        place = {name: at for at, name in enumerate(nodes)}
        return sorted(kernels, key=lambda name: place.get(name, len(place)))


def read_metadata(root: Path, raw: Path) -> Metadata:
    """Read what lies in a rank's folder and, for the settings, in the folder that holds the ranks and in `raw`."""
    settings = _read_settings(path for folder in {root.parent, raw, root / METADATA} for path in _files(folder))
    found = Metadata(settings=settings, framework=_framework(root))
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
        logger.warning("%s: cannot be read (%s); kernels are ordered only by time", path, err)
        return []
    names = [line.split(",")[0].strip() for line in lines]
    return [name for name in names if name and "FullNameWithScope" not in name]


def _framework(root: Path) -> str:
    version = json_object_or_empty(root / METADATA / "config.json").get("ms_version")
    return f"mindspore {version}" if isinstance(version, str) else ""
