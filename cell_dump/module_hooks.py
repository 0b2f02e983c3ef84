"""A module's backward by the framework's own backward hooks, on request (`gradients: "hooks"`), as msprobe sees it.

They insert a node on the module's inputs and one on its outputs, so the order of accumulation, and with it the last
bits of the training, may change. What they give is the framework's: gradients of the tensors among the positional
arguments and of a tensor, or a tuple's tensors, as the result; nothing for results of another shape. With MindSpore a
cell whose inputs need no gradient reports them as null, at the end of the whole backward.
"""

from collections.abc import Callable, Iterable
from typing import Any

from msprobe.base.nested import tree_of

from .backward import Backward
from .forward import Forward


class ModuleHooks:
    """Places the framework's backward hooks on modules, and brings what they tell to the calls' backwards.

    `before` and `after` are the methods of a module that take a hook for before and after its backward; `has_backward`
    tells whether what runs now will have one.
    """

    def __init__(
        self, hook: Callable[..., Callable[..., None]], before: str, after: str, has_backward: Callable[[], bool]
    ) -> None:
        self._make = hook
        self._places = {before: self._before, after: self._after}
        self._has_backward = has_backward
        self._handles: list[Any] = []
        self._called: dict[int, list[tuple[Backward, list[str]]]] = {}
        self._begun: dict[int, list[tuple[Backward, list[str]]]] = {}

    def attach(self, modules: Iterable[Any]) -> None:
        """Hook modules; `detach` takes the hooks off again."""
        for module in modules:
            for place, told in self._places.items():
                self._handles.append(getattr(module, place)(self._make(told)))

    def detach(self) -> None:
        """Take every hook off."""
        while self._handles:
            self._handles.pop().remove()

    def expect(self, call: Forward, backward: Backward) -> None:
        """A module's call has ended: its hooks will fire twice, before and after its backward."""
        if self._has_backward():
            places = [place for place, _ in call.tensors]
            backward.expect([])
            backward.expect(places)
            self._called.setdefault(id(call.cell), []).append((backward, places))

    def _before(self, module: Any, grad_output: Any) -> None:
        called = self._called.get(id(module))
        if not called:
            return
        backward, places = called.pop()  # of several calls of one module the last comes back first
        self._begun.setdefault(id(module), []).append((backward, places))
        for place, gradient in tree_of(_listed(grad_output)).tensors:
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
