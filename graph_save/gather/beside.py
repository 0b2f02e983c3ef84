"""What a rank's folder holds beside its kernels: planned orders, graphs, and the settings that were in force."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from msprobe.base.files import TABLE, read_input
from msprobe.base.log import logger
from msprobe.store.document import json_object_or_empty
from msprobe.store.kernel_folders import GRAPHS, METADATA, ORDERS

from .flow import Flow
from .told import Told, read_told
from .trace import read_trace

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
