"""A module's backward by the framework's own full backward hooks, on request (`gradients: "hooks"`).

They insert a node on the module's inputs and one on its outputs, so the order of accumulation, and with it the last
bits of the training, may change. What they give is the framework's: gradients of the tensors among the positional
arguments and of a tensor, or a tuple's tensors, as the result.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch

from msprobe.cell_dump.backward import Backward
from msprobe.cell_dump.forward import Forward
from msprobe.cell_dump.nested import leaves


class ModuleHooks:
    """Places the framework's backward hooks on modules, and brings what they tell to the calls' backwards."""

    def __init__(self, hook: Callable[..., Callable[..., None]]) -> None:
        self._make = hook
        self._handles: list[Any] = []
        self._called: dict[int, list[tuple[Backward, list[str]]]] = {}
        self._begun: dict[int, list[tuple[Backward, list[str]]]] = {}

    def attach(self, modules: Iterable[Any]) -> None:
        """Hook modules; `detach` takes the hooks off again."""
        for module in modules:
            self._handles.append(module.register_full_backward_pre_hook(self._make(self._before)))
            self._handles.append(module.register_full_backward_hook(self._make(self._after)))

    def detach(self) -> None:
        """Take every hook off."""
        while self._handles:
            self._handles.pop().remove()

    def expect(self, call: Forward, backward: Backward) -> None:
        """A module's call has ended: its hooks will fire twice, before and after its backward."""
        if torch.is_grad_enabled():
            places = [place for place, _ in leaves(call.arguments)]
            backward.expect([])
            backward.expect(places)
            self._called.setdefault(id(call.cell), []).append((backward, places))

    def _before(self, module: Any, grad_output: Any) -> None:
        called = self._called.get(id(module))
        if not called:
            return
        backward, places = called.pop()  # of several calls of one module the last comes back first
        self._begun.setdefault(id(module), []).append((backward, places))
        for place, gradient in leaves(_listed(grad_output)):
            backward.incoming(place, gradient, 0, {}, shared=False)
        backward.arrived()

    def _after(self, module: Any, grad_input: Any, _: Any) -> None:
        begun = self._begun.get(id(module))
        if not begun:
            return
        backward, places = begun.pop(0)
        for place, gradient in zip(places, _listed(grad_input), strict=False):
            backward.contribute(place, gradient, 0, {}, shared=False)
        backward.arrived()


def _listed(gradients: Any) -> list[Any]:
    return list(gradients) if isinstance(gradients, (list, tuple)) else [gradients]
