"""Metadata of a kernel dump in the folder of a rank: execution orders, graphs, and the settings of the dump."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from msprobe.base.errors import DumpError, UsageError
from msprobe.base.files import MAX_TABLE_BYTES, read_input
from msprobe.base.log import logger
from msprobe.base.names import depends_on_number, kernel_name_problem, matches, type_of, unmatched, with_any_number
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

from .ir_dataflow import GraphDataflow
from .trace import read_trace


@dataclass
class Rank:
    """The dump of one rank: its folder `root`, with orders and graphs, and the folders of its kernels."""

    rank: int
    root: Path
    places: list[Place] = field(default_factory=list)

    def iterations(self) -> list[int]:
        """Return the iterations that have files."""
        return sorted({place.iteration for place in self.places})


def find(raw: Path) -> list[Rank]:
    """Return all ranks below `raw`, which may also be the folder of a rank or a folder in it.

    UsageError if it is not a folder, DumpError if it contains no kernel dump or two dumps of a rank.
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
            ranks.setdefault(folder.path, Rank(rank, folder.path))  # ran, possibly without dumped kernels
    if not ranks:
        raise DumpError(
            f"{raw}: contains no kernel dump (rank_0/Net/0/0/*.npy or statistic.csv); give the dump_path of the "
            "settings in MINDSPORE_DUMP_CONFIG, and make sure that this variable was set before the first graph "
            "was compiled"
        )
    found = sorted(ranks.values(), key=lambda rank: rank.rank)
    for first, second in pairwise(found):
        if first.rank == second.rank:
            raise DumpError(
                f"{raw}: contains two dumps of rank {first.rank}, {first.root} and {second.root}; give one of them"
            )
    return found


@dataclass(frozen=True)
class DumpSettings:
    """Settings of a kernel dump.

    common : the framework's `common_dump_settings`.
    debugger : settings of the debugger at level L2 that wrote them; empty if they were written by hand.
    """

    common: Mapping[str, Any] = field(default_factory=dict)
    debugger: Mapping[str, Any] = field(default_factory=dict)

    @property
    def requested(self) -> tuple[str, ...]:
        """Return the kernels that were requested by name; empty if all were requested, or if there are no settings."""
        kernels = self.common.get("kernels")
        is_list = self._dump_mode == 1 and isinstance(kernels, list)
        return tuple(name for name in kernels or () if isinstance(name, str)) if is_list else ()

    @property
    def all_kernels(self) -> bool:
        """Return whether all kernels were requested; also True without settings."""
        return self._dump_mode == 0

    @property
    def _dump_mode(self) -> int:
        """Return 0 for all kernels, 1 for those in `kernels`, 2 for those that the program enables."""
        mode = self.common.get("dump_mode")
        return mode if type(mode) is int else 0

    @property
    def counts_steps(self) -> bool:
        """Return whether an iteration is a step of the program, as set by the debugger.

        By default the framework counts an iteration for every run of a graph.
        """
        return bool(self.debugger)

    @property
    def wants_tensors(self) -> bool:
        """Return whether the dump should contain tensors; on a CPU the framework saves them for statistics too."""
        return self.debugger.get("task") != "statistics"

    def wants(self, io: str) -> bool:
        """Return whether inputs ("input") or outputs ("output") were requested."""
        return self.common.get("input_output") in ((0, None, 1) if io == "input" else (0, None, 2))


def _read_settings(paths: Iterable[Path]) -> DumpSettings:
    """Return the newest settings among the files; the framework's copy may be of an earlier run in the same folder."""
    found: list[tuple[int, DumpSettings]] = []
    for path in paths:
        try:
            settings = json_object(path) if path.suffix == ".json" else {}
        except DumpError:  # a dump_path may contain unrelated JSON files
            continue
        common, debugger = settings.get("common_dump_settings"), settings.get("msprobe")
        if isinstance(common, dict):
            found.append(
                (path.stat().st_mtime_ns, DumpSettings(common, debugger if isinstance(debugger, dict) else {}))
            )
    return max(found, key=lambda pair: pair[0])[1] if found else DumpSettings()


_MAX_TYPES_LISTED = 8


def missing_kernel_messages(requested: Iterable[str], dumped: Sequence[str], kernel_names: Sequence[str]) -> list[str]:
    """Return a message for each requested kernel that was not dumped.

    requested : elements of the setting `kernels`.
    dumped : full names of dumped kernels.
    kernel_names : full names of all kernels in the graphs.
    """
    faults = {name: kernel_name_problem(name) for name in requested}
    messages = [f"kernels: {wrong}" for wrong in faults.values() if wrong]
    names = [name for name, wrong in faults.items() if not wrong]
    for name, near in unmatched(names, dumped).items():
        not_run = [kernel for kernel in kernel_names if matches(name, kernel)]
        if not_run and depends_on_number(name, not_run[0]):
            problem = (
                f"is {not_run[0]}, which was not dumped: it did not run, or ran under another number, as in graphs "
                f"after the first; {with_any_number(not_run[0])!r} selects all numbers"
            )
        elif not_run:
            problem = f"is {not_run[0]}, which did not run in the dumped steps"
        else:
            near = unmatched([name], kernel_names).get(name) or near
            problem = f"matches no kernel; {f'did you mean {near}?' if near else _available(kernel_names or dumped)}"
        messages.append(f"kernels: {name!r} {problem}")
    return messages


def _available(kernel_names: Sequence[str]) -> str:
    types = sorted({type_of(name) for name in kernel_names})
    if not types:
        return "no kernel ran at all"
    return (
        f"available: {', '.join(types[:_MAX_TYPES_LISTED])}{(' and others' if len(types) > _MAX_TYPES_LISTED else '')}"
    )


_ORDER = re.compile(r"ms_execution_order_graph_(\d{1,9})\.csv")
_TRACE = re.compile(r"ms_output_trace_code_graph_(\d{1,9})\.ir")


@dataclass
class Metadata:
    """Metadata of a rank's kernel dump.

    orders : full names in planned order, by graph.
    flows : dataflow from the IR, by graph.
    framework : framework and version; empty if unknown.
    """

    orders: dict[int, list[str]] = field(default_factory=dict)
    flows: dict[int, GraphDataflow] = field(default_factory=dict)
    settings: DumpSettings = field(default_factory=DumpSettings)
    framework: str = ""

    def kernel_names(self, graph: int) -> list[str]:
        """Return the full names of a graph's kernels (of all nodes if there is no order), in the order of its nodes."""
        nodes = self.flows[graph].trace.nodes if graph in self.flows else {}
        kernels = self.orders.get(graph)
        if kernels is None:
            return list(nodes)
        place = {name: at for at, name in enumerate(nodes)}
        return sorted(kernels, key=lambda name: place.get(name, len(place)))


def read_metadata(root: Path, raw: Path) -> Metadata:
    """Read the metadata in the folder of a rank, and the settings also in its parent folder and in `raw`."""
    settings = _read_settings(path for folder in {root.parent, raw, root / METADATA} for path in _files(folder))
    found = Metadata(settings=settings, framework=_framework(root))
    for path in _files(root / ORDERS):
        if m := _ORDER.fullmatch(path.name):
            found.orders[int(m[1])] = _order(path)
    for path in _files(root / GRAPHS):
        if m := _TRACE.fullmatch(path.name):
            found.flows[int(m[1])] = GraphDataflow(read_trace(path))
    return found


def _files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _order(path: Path) -> list[str]:
    """Read an execution order: a heading, then one full name per line."""
    try:
        lines = read_input(path, MAX_TABLE_BYTES).decode("utf-8", "replace").splitlines()
    except OSError as err:
        logger.warning("%s: cannot be read (%s); kernels are ordered only by time", path, err)
        return []
    names = [line.split(",")[0].strip() for line in lines]
    return [name for name in names if name and "FullNameWithScope" not in name]


def _framework(root: Path) -> str:
    version = json_object_or_empty(root / METADATA / "config.json").get("ms_version")
    return f"mindspore {version}" if isinstance(version, str) else ""
