"""MindSpore's autograd graph, and hooks on tensors where it cannot be read (MindSpore 2.7.0).

With hooks on tensors the incoming gradients are the same as with nodes. For an argument only the sum over all users of
the tensor can be had; it is marked `accumulated`.
"""

from collections.abc import Callable
from json.encoder import encode_basestring_ascii as quote
from operator import attrgetter, methodcaller
from typing import Protocol

from mindspore import Parameter, Tensor, _c_expression

from msprobe.base.nested import Leaf
from msprobe.base.patches import Handle
from msprobe.cell_dump.backward import Backward
from msprobe.cell_dump.describer import Sources
from msprobe.cell_dump.gradient import Graph, Identity, Node

from .executors import executor

HAS_NODES = hasattr(Tensor, "_grad_node")
"""MindSpore 2.7.1 and later; before that `TensorGradients` serves."""


class MindSporeNode(Node, Protocol):
    """A node of MindSpore's graph."""

    def name(self) -> str: ...

    def is_leaf(self) -> bool: ...


def _identity(node: MindSporeNode) -> Identity:
    """Each access creates a new wrapper of a node. MindSpore 2.9 and later have an identity; before that an operation
    is known by its sequence number, a leaf by its name (leaves of one name count as one tensor, whose parts cannot be
    distinguished).
    """
    return node.name() if node.is_leaf() else node._sequence_nr()


def _probe(tensors: list[Leaf]) -> int:
    """A view that nobody uses gets the next number. It costs no kernel and, being no part of the graph of the loss,
    changes nothing there.
    """
    for _, tensor in tensors:
        if tensor._grad_node is not None:
            view = tensor.unsqueeze(0)._grad_node
            return int(view._sequence_nr()) if view is not None else -1
    return -1


HAS_IDENTITIES = HAS_NODES and hasattr(_c_expression.BackwardNodePy, "_unique_id")

GRAPH = Graph(
    tensor=Tensor,
    name_of=lambda tensor: tensor.name if isinstance(tensor, Parameter) else "",
    node_of=attrgetter("_grad_node"),
    index_of=attrgetter("_output_index"),
    identity=methodcaller("_unique_id") if HAS_IDENTITIES else _identity,  # the better way, where there is one
    is_leaf=methodcaller("is_leaf"),
    probe=_probe,
    when_backward_ends=lambda call: executor.queue_backward_final_callback(call),
)


class TensorGradients:
    """Places gradient hooks on the tensors of one step; has the methods of `NodeGradients`."""

    running = True
    """Whether a backward runs is unknown here."""

    def __init__(self, hook: Callable[..., Callable[..., None]]) -> None:
        self._make = hook
        self._handles: list[Handle] = []

    def inputs(self, tensors: list[Leaf]) -> tuple[list[Leaf], int, Sources]:
        """The tensors among a call's arguments; none outside a differentiated function. A parameter knows its name; who
        produced another tensor is not known here.
        """
        sources = {id(t): quote(f"parameter {t.name}") for _, t in tensors if isinstance(t, Parameter)}
        ours = [leaf for leaf in tensors if isinstance(leaf[1], Tensor)]
        return (ours if executor.requires_grad() else []), -1, sources

    def probe(self, tensors: list[Leaf]) -> int:
        """Return -1: without nodes there are no sequence numbers."""
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
        """Do nothing: whether a backward runs is unknown."""

    def _hook(
        self, tensor: Tensor, arrived: Callable[..., None], backward: Backward, place: str, expected: list[str]
    ) -> None:
        """Data and parameters outlive the call: a later gradient of theirs belongs to a later call."""
        waiting = [True]

        def first(gradient: Tensor) -> None:
            if waiting and not backward.done:
                waiting.clear()
                arrived(backward, place, gradient)

        try:
            self._handles.append(tensor.register_hook(self._make(first)))
        except RuntimeError:
            return  # "requires grad is false": no gradient will come here
        backward.expect(expected)

    @staticmethod
    def _incoming(backward: Backward, place: str, gradient: Tensor) -> None:
        backward.incoming(place, gradient, 0, {}, shared=False)
        backward.arrived()

    @staticmethod
    def _accumulated(backward: Backward, place: str, gradient: Tensor) -> None:
        backward.contribute(place, gradient, 0, {}, shared=True)
        backward.arrived()
