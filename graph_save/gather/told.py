"""What the framework was told to dump, and by whom: the settings in force, read from beside the dump."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msprobe.base.errors import DumpError
from msprobe.store.document import json_object


@dataclass(frozen=True)
class Told:
    """`common`: the framework's `common_dump_settings`. `ours`: the settings of the debugger at level L2 that wrote
    them; empty where somebody else did."""

    common: Mapping[str, Any] = field(default_factory=dict)
    ours: Mapping[str, Any] = field(default_factory=dict)

    @property
    def named(self) -> tuple[str, ...]:
        """The kernels that were asked for by name; empty where all were, or where nothing tells."""
        kernels = self.common.get("kernels")
        is_list = self._dump_mode == 1 and isinstance(kernels, list)
        return tuple(name for name in kernels or () if isinstance(name, str)) if is_list else ()

    @property
    def all_kernels(self) -> bool:
        """Whether every kernel was to be dumped; also where nothing tells."""
        return self._dump_mode == 0

    @property
    def _dump_mode(self) -> int:
        """0 all kernels, 1 those that `kernels` names, 2 what the program switches on."""
        mode = self.common.get("dump_mode")
        return mode if type(mode) is int else 0

    @property
    def counts_steps(self) -> bool:
        """Whether an iteration is a step of the program, which may run a graph several times: our debugger sees to it.
        Left alone the framework counts an iteration for every run of a graph."""
        return bool(self.ours)

    @property
    def wants_tensors(self) -> bool:
        """Whether the dump is to hold tensors: on a CPU the framework saves them for statistics too."""
        return self.ours.get("task") != "statistics"

    def wants(self, io: str) -> bool:
        """Whether inputs, or outputs, were asked for."""
        return self.common.get("input_output") in ((0, None, 1) if io == "input" else (0, None, 2))


def read_told(paths: Iterable[Path]) -> Told:
    """The newest settings among the files: the framework keeps its copy of the first run that used a folder."""
    found: list[tuple[int, Told]] = []
    for path in paths:
        settings = _object(path) if path.suffix == ".json" else {}
        common, ours = settings.get("common_dump_settings"), settings.get("msprobe")
        if isinstance(common, dict):
            found.append((path.stat().st_mtime_ns, Told(common, ours if isinstance(ours, dict) else {})))
    return max(found, key=lambda pair: pair[0])[1] if found else Told()


def _object(path: Path) -> dict[str, Any]:
    """The object in a file; an empty one where there is none: any JSON may lie about in a dump_path."""
    try:
        return json_object(path)
    except DumpError:
        return {}
