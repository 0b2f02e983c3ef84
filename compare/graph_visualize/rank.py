"""One rank's step, read for drawing: the dump as for all comparisons, and the unchanged content of its dump.json."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from msprobe.base import names
from msprobe.base.errors import DumpError
from msprobe.store import layout
from msprobe.store.reader import entries_of, find, read
from msprobe.store.record import Call, Calls, Dump
from msprobe.store.stacks_and_construct import user_line

from .graph import Graph, build

_STRUCTURE = "structure"


@dataclass(frozen=True)
class Rank:
    """The graph of a dump, the dump, and the entries of its dump.json by the names of calls.

    A dump of task `structure` has calls without any record.
    """

    dump: Dump
    graph: Graph
    entries: Mapping[str, Any] = field(repr=False)

    @property
    def has_values(self) -> bool:
        """Return whether anything but the structure was collected."""
        return self.dump.task != _STRUCTURE

    @cached_property
    def tensors(self) -> str | None:
        """Return the folder of the tensors' files; None if none were saved."""
        folder = Path(self.dump.folder).absolute() / layout.TENSORS
        return str(folder) if folder.is_dir() else None


def read_rank(path: Path) -> Rank:
    """Read the dump of one rank; raise a DumpError, with settings for collecting again, if it cannot be drawn."""
    dump = read(path, structure=True)
    if not dump.construct:
        level = f"level {dump.level}" if dump.level else "its level"
        raise DumpError(
            f"{dump.where}: the modules around its calls are unknown ({layout.CONSTRUCT} next to it is empty or "
            f"missing; {level}); collect with level L0 or mix"
        )
    entries: dict[str, Any] = {}
    if dump.task == _STRUCTURE:
        calls = [Call(name, (), parent, dump.calls.stack_of(name)) for name, parent in dump.construct.items()]
        dump = replace(dump, calls=Calls.of(calls))
    else:
        entries = entries_of(find(path))[1]
    return Rank(dump, build(dump.construct, dump.columns.names), entries)


def stack_of(dump: Dump, node: str, is_short: bool) -> tuple[str, ...]:
    """Return the stack of a call; for a backward call that of its forward call, or of the first call of its cell.

    `is_short`: only the line of the call, as msprobe 8.1 writes it.
    """
    name = names.parse(node)
    calls = [node]
    if name.direction == "backward" and name.kind in ("cell", "api"):
        calls += [names.counterpart(node, "forward"), names.cell_call(name.stem, 0, "forward")]
    for call in calls:
        if stack := dump.calls.stack_of(call):
            return _short(stack, name) if is_short else stack
    return ()


def _short(stack: tuple[str, ...], name: names.Name) -> tuple[str, ...]:
    """Return the line that calls a cell by its name, or the one after the collector's own frame, or the innermost of
    the user's; otherwise the whole stack."""
    if name.kind == "cell":
        called = f"{name.path.rpartition('.')[2]}("
        return next(((line,) for line in stack if called in line), stack)
    behind = (at + 1 for at, line in enumerate(stack) if "Template(" in line)
    at = next(behind, len(stack))
    return stack[at : at + 1] or next(((line,) for line in stack if user_line([line])), stack)
