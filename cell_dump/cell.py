"""Cells: which ones a model has, how they are named, and how their calls are seen.

`__call__` of the cells' classes is replaced while a collection is open. Unlike the framework's cell hooks this sees
cells with their own `bprop`, results of every shape and calls that raise, adds no node to the graph, and leaves
nothing on the cells. The caller's view is recorded: arguments before the user's own pre-hooks, results after the
user's own forward hooks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any
from weakref import finalize, ref

from mindspore import nn

from msprobe.base.errors import UsageError

from .patches import Patches
from .session import Session, own_parameters


@dataclass(frozen=True, slots=True)
class Named:
    """A cell to collect, not kept alive: its stem, and the class whose `__call__` runs when it is called."""

    cell: "ref[Any]"
    stem: str
    owner: type


def named_cells(model: Any) -> list[Named]:
    """The descendants of a model (the root itself is not collected), each under the first name found.

    `model` is a cell, or a list or tuple of cells, whose index then stands in the names: `Cell.0.fc.Dense`.
    """
    roots = [("Cell", model)] if isinstance(model, nn.Cell) else [(f"Cell.{i}", m) for i, m in enumerate(model)]
    seen: set[int] = set()
    found = []
    for prefix, root in roots:
        for name, cell in root.cells_and_names():
            # a recomputed cell is wrapped by the framework in cells of its own
            if not name or "_recompute_cell" in name or id(cell) in seen:
                continue
            seen.add(id(cell))
            owner = next(c for c in type(cell).__mro__ if "__call__" in vars(c))
            found.append(Named(ref(cell), f"{prefix}.{name}.{type(cell).__name__}", owner))
    return found


def check_model(model: Any, level: str) -> None:
    """Refuse, before anything runs, what cannot be collected at `level`."""
    if model is None:
        if level in ("L0", "mix"):
            raise UsageError(f'start(): the model cannot be None when level is "{level}"; pass the network: start(net)')
        return
    for member in model if isinstance(model, (list, tuple)) else [model]:
        if not isinstance(member, nn.Cell):
            raise UsageError(
                "start(): the model must be a mindspore.nn.Cell, or a list or tuple of them, "
                f"not {type(member).__name__}; pass the network itself"
            )


class CellCalls:
    """Sees the calls of the given cells while its patches are installed."""

    def __init__(self, current: Callable[[], Session | None]) -> None:
        self._current = current
        self._stems: dict[int, Named] = {}
        self._owners: set[type] = set()
        self._hooked: set[int] = set()
        self._handles: list[Any] = []

    def add(self, cells: list[Named], patches: Patches) -> None:
        """Take cells in; a class that is new here gets its patch."""
        for named in cells:
            key = id(named.cell())
            if key not in self._stems:
                self._stems[key] = named
                finalize(named.cell(), self._stems.pop, key, None).atexit = False
            if named.owner not in self._owners:
                self._owners.add(named.owner)
                patches.add(named.owner, "__call__", partial(self._wrap, named.owner))

    def hook_parameters(self, session: Session) -> None:
        """Hook the gradients of every cell's own parameters, once a step; `unhook_parameters` ends the step."""
        for key, named in list(self._stems.items()):
            if key in self._hooked:
                continue
            self._hooked.add(key)
            cell = named.cell()
            if isinstance(cell, nn.Optimizer):
                continue  # it holds the parameters of others
            for name, parameter in own_parameters(cell):
                if parameter.requires_grad:
                    tell = session.hook(session.parameter_gradient, named.stem, name)
                    self._handles.append(parameter.register_hook(tell))

    def unhook_parameters(self) -> None:
        """Take the parameters' hooks off."""
        self._hooked.clear()
        while self._handles:
            self._handles.pop().remove()

    def _wrap(self, owner: type, original: Callable[..., Any]) -> Callable[..., Any]:
        stems, current = self._stems, self._current

        @wraps(original)
        def __call__(cell: Any, *args: Any, **kwargs: Any) -> Any:
            named = stems.get(id(cell))
            # a class may call its base's __call__: only the outermost is the call
            if named is None or named.owner is not owner or (session := current()) is None or not session.listens():
                return original(cell, *args, **kwargs)
            return session.call_cell(named.stem, original, cell, args, kwargs)

        return __call__
