"""Cells, or modules: which ones a model has, how they are named, and how their calls are seen.

`__call__` of the cells' classes is replaced while a collection is open. Unlike the framework's cell hooks this sees
cells with their own `bprop`, results of every shape and calls that raise, adds no node to the graph, and leaves
nothing on the cells. The caller's view is recorded: arguments before the user's own pre-hooks, results after the
user's own forward hooks.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any
from weakref import finalize, ref

from msprobe.base.framework import AnyModel, AnyModule, named_cells, roots_of
from msprobe.base.patches import Patches

from .framework import Framework
from .session import Session
from .wrappers import within

NOT_RECORDED = "calls in threads other than the one that called start() are not recorded"

COMPILED = "_orig_mod"
"""The path of a compiled root in the name of its call: the attribute that `torch.compile` keeps the module in."""


@dataclass(frozen=True, slots=True)
class Named:
    """A cell to collect, not kept alive: its stem, and the class whose `__call__` runs when it is called.

    A root has no stem: it is not collected, but its runs are counted. One that is compiled is collected, for nothing
    inside it is; `prefix` is that of its name, "" where cells are not collected. `model` is the number of its root, in
    the order of their first `start`.
    """

    cell: "ref[Any]"
    stem: str
    owner: type
    model: int = 0
    prefix: str = ""


def _backward_of(session: Session, cell: AnyModule) -> AbstractContextManager[None]:
    return session.position.backward_of(cell)


class CellCalls:
    """Sees the calls of the cells of models while its patches are installed."""

    def __init__(self, framework: Framework, current: Callable[[], Session | None]) -> None:
        self._framework, self._current = framework, current
        self._stems: dict[int, Named] = {}
        self._owners: set[type] = set()
        self._backwards: set[type] = set()
        self._hooked: set[int] = set()
        self._handles: list[tuple[Any, Any, Any]] = []
        self._models = 0
        self._passed_by: Session | None = None

    @property
    def any(self) -> bool:
        """Return whether a model is known."""
        return self._models > 0

    def add(self, model: AnyModel, patches: Patches, *, roots_only: bool = False) -> None:
        """Take a model in, or with `roots_only` its roots only; what is known already stays as it is."""
        for prefix, root in roots_of(model, self._framework.kind):
            if id(root) not in self._stems:
                self._take(root, "", self._models, patches, "" if roots_only else prefix)
                self._models += 1
            known = self._stems[id(root)]
            for stem, cell in [] if roots_only else named_cells(prefix, root, self._framework.kind):
                if id(cell) not in self._stems:
                    self._take(cell, stem, known.model, patches)

    def cells(self) -> Iterator[Any]:
        """Return the cells that are collected: roots, and optimizers separately."""
        for named in list(self._stems.values()):
            cell = named.cell()
            if named.stem and not self._framework.is_optimizer(cell):
                yield cell

    def number_of(self, root: Any) -> int:
        """Return the index of a known root, in the order of first use."""
        return self._stems[id(root)].model

    def _take(self, cell: AnyModule, stem: str, model: int, patches: Patches, prefix: str = "") -> None:
        owner = next(c for c in type(cell).__mro__ if "__call__" in vars(c))
        key = id(cell)
        self._stems[key] = Named(ref(cell), stem, owner, model, prefix)
        finalize(cell, self._stems.pop, key, None).atexit = False
        if owner not in self._owners:
            self._owners.add(owner)
            patches.add(owner, "__call__", partial(self._wrap, owner))
        # A backward that the user wrote himself is code that calls, like a forward.
        name = self._framework.own_backward
        writer = next((c for c in type(cell).__mro__ if name and name in vars(c)), None)
        if writer is not None and writer not in self._backwards:
            self._backwards.add(writer)
            patches.add(writer, name, partial(within, _backward_of, self._current))

    def hook_parameters(self, session: Session) -> None:
        """Hook the gradients of every cell's own parameters, once a step; `unhook_parameters` ends the step."""
        for key, named in list(self._stems.items()):
            if key in self._hooked:
                continue
            self._hooked.add(key)
            cell = named.cell()
            if not named.stem or self._framework.is_optimizer(cell):
                continue  # it holds the parameters of others
            for name, parameter in self._framework.own_parameters(cell):
                if parameter.requires_grad:
                    hook = session.hook(session.parameter_gradient, named.stem, name)
                    self._handles.append((parameter, hook, self._framework.hook_parameter(parameter, hook)))

    @property
    def has_hooks(self) -> bool:
        """Return whether parameters are hooked, or a step's hooks are noted."""
        return bool(self._hooked or self._handles or self._passed_by)

    def unhook_parameters(self) -> None:
        """Take the parameters' hooks off."""
        self._hooked.clear()
        self._passed_by = None
        while self._handles:
            self._handles.pop()[-1].remove()

    @contextmanager
    def unhooked(self) -> Iterator[None]:
        """Remove the hooks of parameters for the block."""
        for _, _, handle in self._handles:
            handle.remove()
        try:
            yield
        finally:
            again = self._framework.hook_parameter
            self._handles = [(parameter, hook, again(parameter, hook)) for parameter, hook, _ in self._handles]

    def _wrap(self, owner: type, original: Callable[..., Any]) -> Callable[..., Any]:
        stems, current, compiled_class = self._stems, self._current, self._framework.compiled_class

        @wraps(original)
        def __call__(cell: AnyModule, *args: Any, **kwargs: Any) -> Any:
            named = stems.get(id(cell))
            # a class may call its base's __call__: only the outermost is the call
            if named is None or named.owner is not owner or (session := current()) is None:
                return original(cell, *args, **kwargs)
            if not named.stem:
                with session.run_of(named.model):
                    kind = compiled_class(cell) if named.prefix and session.listens() else ""
                    if kind:
                        return session.call_cell(f"{named.prefix}.{COMPILED}.{kind}", original, cell, args, kwargs)
                    return original(cell, *args, **kwargs)
            if not session.listens():
                if session.is_elsewhere() and self._passed_by is not session:
                    self._passed_by = session  # once a step
                    session.describer.lost("step", "threads", NOT_RECORDED)
                return original(cell, *args, **kwargs)
            return session.call_cell(named.stem, original, cell, args, kwargs)

        return __call__
