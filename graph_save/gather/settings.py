"""The dump settings that were in force, and the kernels that they asked for."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msprobe.base.errors import DumpError
from msprobe.base.names import hangs_on_number, matches, of_any_number, type_of, unmatched, wrong_kernel
from msprobe.store.reader import json_object


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


_SHOWN = 8  # types in a line


def lacking(asked: Iterable[str], dumped: Sequence[str], known: Sequence[str]) -> list[str]:
    """A sentence for each element of `kernels` of which nothing was dumped. `dumped` and `known` are full names: of
    what there is, and of all kernels of the graphs."""
    faults = {name: wrong_kernel(name) for name in asked}
    says = [f"kernels: {wrong}" for wrong in faults.values() if wrong]
    names = [name for name, wrong in faults.items() if not wrong]
    for name, near in unmatched(names, dumped).items():
        idle = [kernel for kernel in known if matches(name, kernel)]
        if idle and hangs_on_number(name, idle[0]):
            what = (
                f"is {idle[0]}, of which nothing was dumped: it did not run, or ran under another number, as in graphs "
                f"after the first; {of_any_number(idle[0])!r} asks for all numbers"
            )
        elif idle:
            what = f"is {idle[0]}, which did not run in what was dumped"
        else:
            near = unmatched([name], known).get(name) or near
            what = f"matches no kernel; {f'did you mean {near}?' if near else _there(known or dumped)}"
        says.append(f"kernels: {name!r} {what}")
    return says


def _there(known: Sequence[str]) -> str:
    types = sorted({type_of(name) for name in known})
    if not types:
        return "no kernel ran at all"
    return f"there are {', '.join(types[:_SHOWN])}{' and others' if len(types) > _SHOWN else ''}"
