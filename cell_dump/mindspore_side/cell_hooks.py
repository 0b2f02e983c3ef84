"""A cell's backward by the framework's own backward hooks, on request (`gradients: "hooks"`), as msprobe sees it.

They insert a node on the cell's inputs and one on its outputs, so the order of accumulation, and with it the last bits
of the training, may change. What they give is the framework's: gradients of the tensors among the positional arguments
and of a tensor, or a tuple's tensors, as the result; nothing for results of another shape; a cell whose inputs need no
gradient reports them as null, at the end of the whole backward.
"""

from collections.abc import Callable, Iterable
from typing import Any

from msprobe.cell_dump.backward import Backward
from msprobe.cell_dump.forward import Forward
from msprobe.cell_dump.nested import leaves
from msprobe.executors import executor


class CellHooks:
    """Places the framework's backward hooks on cells, and brings what they tell to the calls' backwards."""

    def __init__(self, hook: Callable[..., Callable[..., None]]) -> None:
        self._make = hook
        self._handles: list[Any] = []
        self._called: dict[int, list[tuple[Backward, list[str]]]] = {}
        self._begun: dict[int, list[tuple[Backward, list[str]]]] = {}

    def attach(self, cells: Iterable[Any]) -> None:
        """Hook cells; `detach` takes the hooks off again."""
        for cell in cells:
            self._handles.append(cell.register_backward_pre_hook(self._make(self._before)))
            self._handles.append(cell.register_backward_hook(self._make(self._after)))

    def detach(self) -> None:
        """Take every hook off."""
        while self._handles:
            self._handles.pop().remove()

    def expect(self, call: Forward, backward: Backward) -> None:
        """A cell's call has ended: its hooks will fire twice, before and after its backward."""
        if executor.requires_grad():
            places = [place for place, _ in leaves(call.arguments)]
            backward.expect([])
            backward.expect(places)
            self._called.setdefault(id(call.cell), []).append((backward, places))

    def _before(self, cell: Any, grad_output: Any) -> None:
        called = self._called.get(id(cell))
        if not called:
            return
        backward, places = called.pop()  # of several calls of one cell the last comes back first
        self._begun.setdefault(id(cell), []).append((backward, places))
        for place, gradient in leaves(_listed(grad_output)):
            backward.incoming(place, gradient, 0, {}, shared=False)
        backward.arrived()

    def _after(self, cell: Any, grad_input: Any, _: Any) -> None:
        begun = self._begun.get(id(cell))
        if not begun:
            return
        backward, places = begun.pop(0)
        for place, gradient in zip(places, _listed(grad_input), strict=False):
            backward.contribute(place, gradient, 0, {}, shared=False)
        backward.arrived()


def _listed(gradients: Any) -> list[Any]:
    return list(gradients) if isinstance(gradients, (list, tuple)) else [gradients]
