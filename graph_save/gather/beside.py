"""What a rank's folder holds beside its kernels: planned orders, graphs, and the settings that were in force."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msprobe.base.log import logger

from .flow import Flow
from .raw import GRAPHS, METADATA, ORDERS
from .trace import read_trace

_ORDER = re.compile(r"ms_execution_order_graph_(\d{1,9})\.csv")
_TRACE = re.compile(r"ms_output_trace_code_graph_(\d{1,9})\.ir")


@dataclass
class Beside:
    """`orders`: graph -> full names in planned order. `flows`: graph -> what its IR says."""

    orders: dict[int, list[str]] = field(default_factory=dict)
    flows: dict[int, Flow] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    framework: str = ""

    def known(self, graph: int) -> list[str]:
        """The full names of a graph's kernels (of all its nodes where there is no order), in the order of its nodes."""
        nodes = self.flows[graph].trace.nodes if graph in self.flows else {}
        kernels = self.orders.get(graph)
        if kernels is None:
            return list(nodes)
        place = {name: at for at, name in enumerate(nodes)}
        return sorted(kernels, key=lambda name: place.get(name, len(place)))

    @property
    def dump_mode(self) -> int:
        """0 all kernels, 1 those that `kernels` names, 2 what the program switches on; 0 where nothing tells."""
        mode = self.settings.get("dump_mode")
        return mode if type(mode) is int else 0

    def wants(self, io: str) -> bool:
        """Whether inputs, or outputs, were asked for."""
        return self.settings.get("input_output") in ((0, None, 1) if io == "input" else (0, None, 2))


def read_beside(root: Path, raw: Path) -> Beside:
    """Read what lies in a rank's folder and, for the settings, in the folder that holds the ranks and in `raw`."""
    found = Beside(settings=_settings(root, raw), framework=_framework(root))
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
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError as err:
        logger.warning("%s: cannot be read (%s); kernels are ordered by time alone", path, err)
        return []
    names = [line.split(",")[0].strip() for line in lines]
    return [name for name in names if name and "FullNameWithScope" not in name]


def _settings(root: Path, raw: Path) -> dict[str, Any]:
    """The newest dump settings: the framework keeps its copy of the first run that used a folder."""
    candidates = [path for folder in {root.parent, raw, root / METADATA} for path in _files(folder)]
    found: list[tuple[int, dict[str, Any]]] = []
    for path in candidates:
        common = _json(path).get("common_dump_settings") if path.suffix == ".json" else None
        if isinstance(common, dict):
            found.append((path.stat().st_mtime_ns, common))
    return max(found, key=lambda pair: pair[0])[1] if found else {}


def _framework(root: Path) -> str:
    version = _json(root / METADATA / "config.json").get("ms_version")
    return f"mindspore {version}" if isinstance(version, str) else ""


def _json(path: Path) -> dict[str, Any]:
    """The object in a file; an empty one where there is none. Any JSON may lie about in a dump_path."""
    try:
        made = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return made if isinstance(made, dict) else {}
