"""Planting: while a graph is compiled, the cells of the model have a `construct` that reports their calls.

So do the optimizers of the model's parameters, which receive the gradients: to hook a parameter where it is used
would ask the compiler for hooks that it refuses as soon as two layers share a parameter.

Before and after, nothing of ours is left on the cells: a graph keeps what it was compiled with, and Python's own calls
go the usual way. Where the framework refuses the planted code, the graph is compiled again without it.
"""

import gc
from collections.abc import Callable, Iterator
from functools import partial, wraps
from typing import Any
from weakref import ref

from mindspore import nn

from msprobe.base.errors import reason
from msprobe.base.framework import named_cells, own_parameters
from msprobe.base.log import once
from msprobe.base.patches import Patches
from msprobe.executors import COMPILERS, GRAPHS, api

from .calls import Owners
from .operators import synchronize
from .planted_calls import planted, planted_optimizer, planted_root

_NOTHING = object()


class Planting:
    """The cells to plant, by their stems, and the compilers that are to find them planted."""

    def __init__(self, values: bool, gradients: bool) -> None:
        self._values, self._gradients = values, gradients
        self._found: list[tuple[nn.Cell, Callable[..., Any] | None]] = []
        self._roots: list[tuple[str, ref[nn.Cell]]] = []
        self.is_called_by_python = False
        """Whether Python calls the graphs, and runs their backward: it then hooks the parameters itself."""
        self.leaves_root = False
        """Whether the cell that a graph is compiled of is recorded by others, who call it."""
        self.root: Any = _NOTHING
        """The cell whose graph is being requested; None for a function."""
        self.refused: list[str] = []
        """Why graphs were compiled without our operators."""

    def take(self, prefix: str, root: nn.Cell) -> None:
        """Take a model in, whose cells are named below `prefix`; one that is known already keeps its prefix."""
        if not any(known() is root for _, known in self._roots):
            self._roots.append((prefix, ref(root)))  # a model that the training lets go is let go

    @property
    def any(self) -> bool:
        """Whether a model was taken in."""
        return bool(self._roots)

    def _cells(self) -> Iterator[tuple[str, nn.Cell]]:
        """The cells that the models have now, by their stems, each under the first name found."""
        seen: set[int] = set()
        for prefix, known in self._roots:
            for stem, cell in named_cells(prefix, root) if (root := known()) is not None else ():
                if id(cell) not in seen and _is_called(cell):
                    seen.add(id(cell))
                    yield stem, cell

    def plan(self, compiling: Patches, calling: Patches) -> None:
        """Plan to plant when a graph is compiled, and to have all its calls reported when one is called."""
        for name in GRAPHS:
            compiling.add(getattr(api, name), "compile", partial(_requested, self))
        for name in COMPILERS:
            compiling.add(getattr(api, name), "compile", partial(_compiled, self))
        calling.add(api._JitExecutor, "__call__", _complete)

    def plant(self) -> None:
        """Give every cell its planted construct."""
        for stem, cell in self._cells():
            if self.leaves_root and cell is self.root:
                continue
            gradients = self._gradients and not callable(getattr(cell, "bprop", None))
            self._put(cell, planted(cell.construct, stem, tuple(own_parameters(cell)), self._values, gradients))
        if self.is_called_by_python:
            return
        for model, (_, known) in enumerate(self._roots):
            if (root := known()) is not None:
                self._put(root, planted_root(root.construct, model))
        if self._gradients:
            owners = self._owners()
            for optimizer in _optimizers():
                owned = tuple(owners.get(id(parameter), ()) for parameter in optimizer.parameters)
                if any(owned):
                    self._put(optimizer, planted_optimizer(optimizer.construct, owned))

    def _put(self, cell: nn.Cell, construct: Callable[..., Any]) -> None:
        self._found.append((cell, vars(cell).get("construct")))
        vars(cell)["construct"] = construct.__get__(cell, type(cell))

    def _owners(self) -> dict[int, Owners]:
        """The cells of each parameter, by the parameter's id."""
        owners: dict[int, Owners] = {}
        for stem, cell in self._cells():
            for name, parameter in own_parameters(cell):
                owners[id(parameter)] = (*owners.get(id(parameter), ()), (stem, name))
        return owners

    def uproot(self) -> None:
        """Give every cell back what it had."""
        while self._found:
            cell, own = self._found.pop()
            if own is None:
                del vars(cell)["construct"]
            else:
                vars(cell)["construct"] = own

    @property
    def planted(self) -> bool:
        """Whether a compilation goes on with planted cells."""
        return bool(self._found)


def _requested(planting: Planting, original: Callable[..., Any]) -> Callable[..., Any]:
    """A graph is requested: it may have been compiled before, and then there is nothing to plant."""

    @wraps(original)
    def compile(executor: Any, *args: Any, **kwargs: Any) -> Any:
        if planting.root is not _NOTHING:
            return original(executor, *args, **kwargs)
        planting.root = executor.obj if isinstance(executor, api._JitExecutor) else args[0]
        try:
            return original(executor, *args, **kwargs)
        except Exception as cause:
            if not planting.planted:
                raise
            refused = cause
        finally:
            planting.root = _NOTHING
            planting.uproot()
        result = original(executor, *args, **kwargs)  # raises again what is the user's own
        planting.refused.append(reason(refused))
        what = f"a graph could not be compiled with the debugger's operators ({reason(refused)})"
        once(what, f"{what}; it was compiled without them and its cells are not recorded")
        return result

    return compile


def _compiled(planting: Planting, original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def compile(executor: Any, *args: Any, **kwargs: Any) -> Any:
        if planting.root is not _NOTHING and not planting.planted:
            planting.plant()
        return original(executor, *args, **kwargs)

    return compile


def _complete(original: Callable[..., Any]) -> Callable[..., Any]:
    """A graph that Python calls reports all its calls before Python goes on: what encloses them is still open."""

    @wraps(original)
    def __call__(executor: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(executor, *args, **kwargs)
        synchronize()
        return result

    return __call__


def _optimizers() -> Iterator[nn.Optimizer]:
    """Every optimizer that lives: a graph may find its own in a global name or a closure."""
    for each in gc.get_objects():
        if issubclass(type(each), nn.Optimizer) and hasattr(each, "parameters"):  # one is being made without
            yield each


def _is_called(cell: nn.Cell) -> bool:
    """Whether a cell has a construct of its own; lists of cells have none."""
    return type(cell).construct is not nn.Cell.construct and not isinstance(cell, nn.Optimizer)
