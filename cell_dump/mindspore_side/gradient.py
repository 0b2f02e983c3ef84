"""MindSpore's autograd graph, as far as this version lets it be read."""

from operator import attrgetter, methodcaller
from typing import Any

from mindspore import Parameter, Tensor, _c_expression

from msprobe.base.nested import Leaf
from msprobe.cell_dump.gradient import Graph, Identity
from msprobe.executors import executor

HAS_NODES = hasattr(Tensor, "_grad_node")
"""MindSpore 2.7.1 and later; before that `tensor_gradient.py` serves."""


def _identity(node: Any) -> Identity:
    """Nodes are wrapped anew at each look. MindSpore 2.9 and later tell an identity; before that an operation is known
    by its sequence number, a leaf by its name (leaves of one name count as one tensor, whose parts cannot be told
    apart).
    """
    return node.name() if node.is_leaf() else node._sequence_nr()  # type: ignore[no-any-return]  # no types there


def _probe(tensors: list[Leaf]) -> int:
    """A view that nobody uses gets the next number. It costs no kernel and, being no part of the graph of the loss,
    changes nothing there.
    """
    for _, tensor in tensors:
        if tensor._grad_node is not None:
            view = tensor.unsqueeze(0)._grad_node
            return int(view._sequence_nr()) if view is not None else -1
    return -1


def _name_of(tensor: Any) -> str:
    return tensor.name if isinstance(tensor, Parameter) else ""  # type: ignore[no-any-return]  # as above


def _graph() -> Graph:
    has_identities = HAS_NODES and hasattr(_c_expression.BackwardNodePy, "_unique_id")
    return Graph(
        tensor=Tensor,
        name_of=_name_of,
        node_of=attrgetter("_grad_node"),
        index_of=attrgetter("_output_index"),
        identity=methodcaller("_unique_id") if has_identities else _identity,  # the better way, where there is one
        is_leaf=methodcaller("is_leaf"),
        probe=_probe,
        when_backward_ends=lambda told: executor.queue_backward_final_callback(told),
    )


GRAPH = _graph()
