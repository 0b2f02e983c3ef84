"""Instrumentation: while a graph is compiled, the cells of the model have a `construct` that reports their calls.

The optimizers of the model's parameters are instrumented too, because they receive the gradients. Hooks on the
parameters themselves are not possible: the compiler rejects them if two layers share a parameter.

Before and after compilation the cells are unchanged: a graph keeps the code that it was compiled with, and calls from
Python use the original code. If the framework cannot compile the instrumented code, the graph is compiled without it.
"""

import gc
from collections.abc import Callable, Iterator
from functools import partial, wraps
from typing import Any
from weakref import ref

from mindspore import nn

from msprobe.base.errors import reason
from msprobe.base.framework import named_cells, own_parameters
from msprobe.base.log import log_once
from msprobe.base.patches import Patches
from msprobe.frameworks.mindspore.executors import COMPILERS, GRAPHS, api

from .calls import Owners
from .compiled_calls import reporting_construct, reporting_optimizer_construct, reporting_root_construct
from .operators import synchronize

_NO_GRAPH = object()


class Instrumentation:
    """The cells of registered models that are instrumented while a graph is compiled."""

    def __init__(self, values: bool, gradients: bool) -> None:
        self._values, self._gradients = values, gradients
        self._originals: list[tuple[nn.Cell, Callable[..., Any] | None]] = []
        self._roots: list[tuple[str, ref[nn.Cell]]] = []
        self.is_called_by_python = False
        """Whether Python calls the graphs and runs their backward; parameters are then hooked in Python."""
        self.skips_root = False
        """Whether the cell that a graph is compiled from is recorded by its caller."""
        self.root: Any = _NO_GRAPH
        """The cell whose graph is requested; None for a function."""
        self.compile_errors: list[str] = []
        """Error messages of graphs that were compiled without instrumentation."""

    def add_model(self, prefix: str, root: nn.Cell) -> None:
        """Register a model, whose cells are named below `prefix`; a registered model keeps its prefix."""
        if not any(reference() is root for _, reference in self._roots):
            self._roots.append((prefix, ref(root)))  # weak: does not extend the lifetime of the model

    @property
    def has_model(self) -> bool:
        """Return whether a model is registered."""
        return bool(self._roots)

    def _cells(self) -> Iterator[tuple[str, nn.Cell]]:
        """Yield the current cells of the models with their stems, each cell once under its first name."""
        seen: set[int] = set()
        for prefix, reference in self._roots:
            for stem, cell in named_cells(prefix, root) if (root := reference()) is not None else ():
                if id(cell) not in seen and _is_called(cell):
                    seen.add(id(cell))
                    yield stem, cell

    def register_patches(self, compiling: Patches, calling: Patches) -> None:
        """Add the patches that instrument cells during compilation and synchronize after a graph is called."""
        for name in GRAPHS:
            compiling.add(getattr(api, name), "compile", partial(_patched_request, self))
        for name in COMPILERS:
            compiling.add(getattr(api, name), "compile", partial(_patched_compile, self))
        calling.add(api._JitExecutor, "__call__", _patched_call)

    def instrument(self) -> None:
        """Replace the `construct` of every cell and optimizer by one that reports."""
        for stem, cell in self._cells():
            if self.skips_root and cell is self.root:
                continue
            gradients = self._gradients and not callable(getattr(cell, "bprop", None))
            self._replace_construct(
                cell, reporting_construct(cell.construct, stem, tuple(own_parameters(cell)), self._values, gradients)
            )
        if self.is_called_by_python:
            return
        for model, (_, reference) in enumerate(self._roots):
            if (root := reference()) is not None:
                self._replace_construct(root, reporting_root_construct(root.construct, model))
        if self._gradients:
            owners = self._owners()
            for optimizer in _optimizers():
                owned = tuple(owners.get(id(parameter), ()) for parameter in optimizer.parameters)
                if any(owned):
                    self._replace_construct(optimizer, reporting_optimizer_construct(optimizer.construct, owned))

    def _replace_construct(self, cell: nn.Cell, construct: Callable[..., Any]) -> None:
        self._originals.append((cell, vars(cell).get("construct")))
        vars(cell)["construct"] = construct.__get__(cell, type(cell))

    def _owners(self) -> dict[int, Owners]:
        """Return the cells of each parameter, by the id of the parameter."""
        owners: dict[int, Owners] = {}
        for stem, cell in self._cells():
            for name, parameter in own_parameters(cell):
                owners[id(parameter)] = (*owners.get(id(parameter), ()), (stem, name))
        return owners

    def restore(self) -> None:
        """Restore the original `construct` of every cell."""
        while self._originals:
            cell, own = self._originals.pop()
            if own is None:
                del vars(cell)["construct"]
            else:
                vars(cell)["construct"] = own

    @property
    def is_instrumented(self) -> bool:
        """Return whether cells are instrumented now."""
        return bool(self._originals)


def _patched_request(instrumentation: Instrumentation, original: Callable[..., Any]) -> Callable[..., Any]:
    """Patch a request for a graph, which compiles it only if it is not in the cache."""

    @wraps(original)
    def compile(executor: Any, *args: Any, **kwargs: Any) -> Any:
        if instrumentation.root is not _NO_GRAPH:
            return original(executor, *args, **kwargs)
        instrumentation.root = executor.obj if isinstance(executor, api._JitExecutor) else args[0]
        try:
            return original(executor, *args, **kwargs)
        except Exception as cause:
            if not instrumentation.is_instrumented:
                raise
            error = cause
        finally:
            instrumentation.root = _NO_GRAPH
            instrumentation.restore()
        result = original(executor, *args, **kwargs)  # raises again if the error is in the user's code
        instrumentation.compile_errors.append(reason(error))
        what = f"a graph could not be compiled with the debugger's operators ({reason(error)})"
        log_once(what, f"{what}; it was compiled without them and its cells are not recorded")
        return result

    return compile


def _patched_compile(instrumentation: Instrumentation, original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def compile(executor: Any, *args: Any, **kwargs: Any) -> Any:
        if instrumentation.root is not _NO_GRAPH and not instrumentation.is_instrumented:
            instrumentation.instrument()
        return original(executor, *args, **kwargs)

    return compile


def _patched_call(original: Callable[..., Any]) -> Callable[..., Any]:
    """Patch a call of a graph: wait until all its calls are reported, while the enclosing call is still open."""

    @wraps(original)
    def __call__(executor: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(executor, *args, **kwargs)
        synchronize()
        return result

    return __call__


def _optimizers() -> Iterator[nn.Optimizer]:
    """Yield every optimizer in memory: a graph may reach its optimizer through a global name or a closure."""
    for each in gc.get_objects():
        if issubclass(type(each), nn.Optimizer) and hasattr(each, "parameters"):  # not yet set during construction
            yield each


def _is_called(cell: nn.Cell) -> bool:
    """Return whether a cell defines `construct`; lists of cells do not."""
    return type(cell).construct is not nn.Cell.construct and not isinstance(cell, nn.Optimizer)
