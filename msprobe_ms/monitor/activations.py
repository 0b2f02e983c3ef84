"""Activations and their gradients: what modules receive and return, and the gradients that come back.

The gradient of an output is what arrives at the module, that of an input what the module itself contributes, as the
collector defines them (`cell_dump/gradient.py`); nothing is inserted into the graph.
"""

from collections.abc import Callable
from typing import Any

from msprobe.base.framework import AnyModel, AnyModule, AnyTensor
from msprobe.base.nested import tree_of
from msprobe.base.patches import Handle
from msprobe.base.statistic import widen
from msprobe.cell_dump.framework import Gradients

from .backend import Backend, Numbers
from .guard import Guard
from .names import Choice
from .readings import Key, Readings

FORWARD, BACKWARD = "actv", "actv_grad"


Take = Callable[[str, Any, Numbers | None], None]
"""Measures a gradient under a name: the tensor, or, if it arrives in parts, a tensor of its kind and the sum."""


class Gradient:
    """The backward of one call: measures what arrives. Has the methods of `cell_dump.backward.Backward`."""

    __slots__ = (
        *("_array", "_begins", "_expected", "_inputs", "_outputs", "_take", "_to_leaves", "_totals", "_waiting"),
        *("begun", "done", "lowest"),
    )

    def __init__(
        self,
        take: Take,
        begins: "Callable[[Gradient], None]",
        array: Callable[[Any], Numbers],
        inputs: dict[str, str],
        outputs: dict[str, str],
    ) -> None:
        self._take, self._begins, self._array, self._inputs, self._outputs = take, begins, array, inputs, outputs
        self._waiting, self._expected = 0, dict[str, int]()
        self._totals: dict[str, tuple[Numbers, Any]] = {}
        self._to_leaves: set[str] = set()
        self.begun = self.done = False
        self.lowest = -1

    def expect(self, places: list[str], to_leaf: bool = False) -> None:
        """Expect one more arrival, which contributes to the inputs at `places`."""
        self._waiting += 1
        if to_leaf:
            self._to_leaves.update(places)
        for place in places:
            self._expected[place] = self._expected.get(place, 0) + 1

    def incoming(self, place: str, gradient: AnyTensor, *_: Any, **__: Any) -> None:
        """Receive the gradient of an output."""
        if not self.begun:
            self.begun = True
            self._begins(self)
        if gradient is not None and not self.done:
            self._take(self._outputs[place], gradient, None)

    def contribute(self, place: str, gradient: AnyTensor, *_: Any, **__: Any) -> None:
        """Receive a part of the gradient of an input."""
        if gradient is None or self.done:
            return
        if place not in self._totals and self._expected.get(place, 1) == 1:
            self._take(self._inputs[place], gradient, None)
            return
        part = widen(self._array(gradient))
        known = self._totals.get(place)
        self._totals[place] = (part.copy() if known is None else known[0] + part, gradient)
        self._expected[place] -= 1
        if self._expected[place] == 0:
            self._finish(place)

    def _finish(self, place: str) -> None:
        total, like = self._totals.pop(place)
        self._take(self._inputs[place], like, total)

    def arrived(self) -> None:
        """Count an expected arrival as complete."""
        self._waiting -= 1
        if self._waiting == 0:
            self.finish_all()

    def finish_all(self) -> None:
        """Measure the gradients of inputs that are incomplete, because nothing more arrives."""
        for place in list(self._totals):
            if place not in self._to_leaves:
                self._finish(place)
        self._totals.clear()
        self.done = True


def named(base: str, values: list[tuple[str, Any]]) -> dict[str, str]:
    """Return the names of the tensors of one side by their places: `fc.input`, or `fc.input_0`, `fc.input_1`."""
    if len(values) == 1:
        return {values[0][0]: base}
    return {place: f"{base}_{number}" for number, (place, _) in enumerate(values)}


class Activations:
    """Hooks the modules of models while installed."""

    def __init__(self, backend: Backend, readings: Readings, guard: Guard, *, forward: bool, backward: bool) -> None:
        self._backend, self._readings, self._guard = backend, readings, guard
        self._forward, self._backward = forward, backward
        self._handles: list[Handle] = []
        self._gradients: Gradients | None = None
        self._micro: dict[int, int] = {}
        self._calls: dict[Key, int] = {}
        self._begun: list[Gradient] = []
        self._owners: dict[Key, Gradient] = {}
        self._open: dict[int, list[tuple[dict[str, str], Any, int]]] = {}
        self.active = False

    def install(self, models: list[AnyModule], choice: Choice) -> int:
        """Hook the chosen modules; return their number."""
        count = 0
        for vpp_stage, model in enumerate(models):
            self._handles += self._backend.modules.hook(model, self._root(vpp_stage, model), _nothing)
            for name, module in self._backend.modules.inside(model):
                if choice.has_module(vpp_stage, name):
                    count += 1
                    self._hook(vpp_stage, name, module)
        return count

    def _hook(self, vpp_stage: int, name: str, module: AnyModule) -> None:
        where, guard, backend = f"the module {name}", self._guard, self._backend

        def before(args: Any, kwargs: Any) -> None:
            if self.active and not guard.is_busy and backend.modules.is_training(module):
                backend.settle()
                guard.run(where, self._before, vpp_stage, name, module, (args, kwargs))

        def after(args: Any, kwargs: Any, result: Any) -> None:
            if self._open.get(id(module)) and not guard.is_busy:
                backend.settle()
                guard.run(where, self._after, vpp_stage, name, module, result)

        self._handles += backend.modules.hook(module, before, after)

    def _root(self, vpp_stage: int, model: AnyModel) -> Callable[[Any, Any], None]:
        def before(args: Any, kwargs: Any) -> None:
            if self._backend.modules.is_training(model):
                self._micro[vpp_stage] = self._micro.get(vpp_stage, -1) + 1

        return before

    def _before(self, vpp_stage: int, name: str, module: AnyModule, values: Any) -> None:
        key = Key(vpp_stage, name)
        self._calls[key] = self._calls.get(key, -1) + 1
        micro = self._micro.get(vpp_stage, self._calls[key])  # the calls of the module where the model is not called
        tensors = tree_of([values]).tensors
        names = named(f"{name}.input", tensors)
        if self._forward:
            for place, tensor in tensors:
                self._readings.add(FORWARD, Key(vpp_stage, names[place], micro), tensor)
        wanted = None
        if self._backward:
            wanted = self._nodes().inputs(tensors)
        self._open.setdefault(id(module), []).append((names, wanted, micro))

    def _after(self, vpp_stage: int, name: str, module: AnyModule, result: Any) -> None:
        inputs, wanted, micro = self._open[id(module)].pop()
        tensors = tree_of([result]).tensors
        outputs = named(f"{name}.output", tensors)
        if self._forward:
            for place, tensor in tensors:
                self._readings.add(FORWARD, Key(vpp_stage, outputs[place], micro), tensor)
        if wanted is not None:
            places, floor, _ = wanted
            owner = Key(vpp_stage, name, micro)

            def take(target: str, gradient: AnyTensor, total: Numbers | None) -> None:
                # The backward runs the calls of a module from the last to the first; activations are the last one's.
                if self._owners.setdefault(owner, backward) is backward:
                    self._readings.add(BACKWARD, Key(vpp_stage, target, micro), gradient, total)

            backward: Any = Gradient(take, self._begun.append, self._backend.array, inputs, outputs)
            self._nodes().place(backward, name, places, tensors, floor)

    def _nodes(self) -> Gradients:
        if self._gradients is None:
            collecting, guard = self._backend.collecting, self._guard
            settle = self._backend.settle

            def hook(work: Callable[..., Any], *first: Any) -> Callable[..., None]:
                def safely(*args: Any) -> None:
                    if not guard.is_busy and self.active:
                        settle()
                        guard.run("a gradient", work, *first, *args)

                return safely

            self._gradients = collecting.gradients(hook, self._backward_ended, {})
        return self._gradients

    def _backward_ended(self) -> None:
        """Finish open calls: a result that is not used has no gradient, so no more gradients of the inputs arrive."""
        begun, self._begun = self._begun, []
        for gradient in reversed(begun):
            gradient.finish_all()

    def end_step(self) -> None:
        """Discard open calls, which belong to no step, after the optimizer has run."""
        self._micro.clear()
        self._calls.clear()
        self._open.clear()
        self._begun.clear()
        self._owners.clear()
        if self._gradients is not None:
            self._gradients.forget()
            self._gradients = None

    def remove(self) -> None:
        """Remove all hooks."""
        self.end_step()
        while self._handles:
            self._handles.pop().remove()


def _nothing(*_: Any) -> None:
    """Do nothing."""
