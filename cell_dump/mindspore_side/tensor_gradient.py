"""Gradients where the framework has no autograd nodes (MindSpore 2.7.0): hooks on the tensors themselves.

The incoming gradients are the same as with nodes. For an argument only the sum over all users of the tensor can be
had; it is marked `accumulated`.
"""

from collections.abc import Callable
from typing import Any

from mindspore import Parameter, Tensor

from msprobe.base.nested import Leaf
from msprobe.cell_dump.backward import Backward
from msprobe.cell_dump.describer import Sources
from msprobe.executors import executor


class TensorGradients:
    """Places gradient hooks on the tensors of one step; the same face as `NodeGradients`."""

    running = True
    """Nothing here knows."""

    def __init__(self, hook: Callable[..., Callable[..., None]]) -> None:
        self._make = hook
        self._handles: list[Any] = []

    def inputs(self, tensors: list[Leaf]) -> tuple[list[Leaf], int, Sources]:
        """The tensors among a call's arguments; none outside a differentiated function. A parameter knows its name; who
        produced another tensor is not known here.
        """
        sources = {id(t): f"parameter {t.name}" for _, t in tensors if isinstance(t, Parameter)}
        ours = [leaf for leaf in tensors if isinstance(leaf[1], Tensor)]
        return (ours if executor.requires_grad() else []), -1, sources

    def probe(self, tensors: list[Leaf]) -> int:
        """Without nodes there are no sequence numbers."""
        return -1

    def place(self, backward: Backward, call: str, wanted: list[Leaf], outputs: list[Leaf], floor: int) -> None:
        """Hook the results of a finished forward call and its arguments `wanted`."""
        if not executor.requires_grad():
            return
        for place, tensor in outputs:
            if isinstance(tensor, Tensor):
                self._hook(tensor, self._incoming, backward, place, [])
        for place, tensor in wanted:
            self._hook(tensor, self._accumulated, backward, place, [place])

    def notice(self, outputs: list[Leaf]) -> None:
        """Nothing: `running` is true always."""

    def forget(self) -> None:
        """Take every hook off again: data and parameters live longer than a step."""
        while self._handles:
            self._handles.pop().remove()

    def rest(self) -> None:
        """Nothing here knows of a backward that runs."""

    def _hook(
        self, tensor: Tensor, tell: Callable[..., None], backward: Backward, place: str, expected: list[str]
    ) -> None:
        """Data and parameters outlive the call: a later gradient of theirs belongs to a later call."""
        waiting = [True]

        def first(gradient: Any) -> None:
            if waiting and not backward.done:
                waiting.clear()
                tell(backward, place, gradient)

        try:
            self._handles.append(tensor.register_hook(self._make(first)))
        except RuntimeError:
            return  # "requires grad is false": no gradient will come here
        backward.expect(expected)

    @staticmethod
    def _incoming(backward: Backward, place: str, gradient: Any) -> None:
        backward.incoming(place, gradient, 0, {}, shared=False)
        backward.arrived()

    @staticmethod
    def _accumulated(backward: Backward, place: str, gradient: Any) -> None:
        backward.contribute(place, gradient, 0, {}, shared=True)
        backward.arrived()
