"""PyTorch's autograd graph, also nodes whose backward a user wrote (`torch.autograd.Function`).

Such a function is not a recorded call. Calls of its backward are inside the backward of the module's call that created
the node, which is found by the node's sequence number: `apply` is not wrapped, and the graph is not changed.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from operator import attrgetter
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction

from msprobe.base.patches import Patches
from msprobe.cell_dump.framework import Names
from msprobe.cell_dump.gradient import Graph, Node
from msprobe.cell_dump.wrappers import Current, Recorder, within

next_number: Callable[[], int] = torch._C._autograd._get_sequence_nr
"""The sequence number that the next node of this thread will have."""

_view_as = torch._C.TensorBase.view_as  # not its replacement in `torch.Tensor` while functions are recorded
_Leaf = torch._C._functions.AccumulateGrad  # type: ignore[attr-defined]  # torch's stub leaves it out


def node_of(tensor: torch.Tensor) -> Node | None:
    """Return the node that made a tensor; of a leaf the one that its gradient ends in.

    That one can only be had from a view, which nobody uses, and which becomes no part of the loss's graph. Where no
    graph is made none is needed.
    """
    node = tensor.grad_fn
    if node is not None or not tensor.requires_grad:
        return node
    view = _view_as(tensor, tensor).grad_fn
    return view.next_functions[0][0] if view is not None else None


def graph_of(names: Names) -> Graph:
    """Return the graph, with the names of parameters by their ids: parameters of PyTorch have no names.

    A node's wrapper is the same object as long as anybody holds it, so it is its own identity.
    """
    return Graph(
        tensor=torch.Tensor,
        name_of=lambda tensor: names.get(id(tensor), ""),
        node_of=node_of,
        index_of=attrgetter("output_nr"),
        identity=lambda node: node,
        is_leaf=lambda node: type(node) is _Leaf,
        probe=lambda tensors: next_number() - 1,
        when_backward_ends=when_backward_ends,
    )


def when_backward_ends(call: Callable[[], None]) -> bool:
    """From inside a backward: have `call` called once when it has run as a whole."""
    torch.autograd.Variable._execution_engine.queue_callback(call)
    return True


def hook_of(tensor: torch.Tensor, hook: Callable[[Any], None]) -> tuple[bool, Any]:
    """Hook the gradient of a tensor: whether one can come, and a handle to be removed or None."""
    node = tensor.grad_fn
    if node is not None:
        index = tensor.output_nr
        node.register_prehook(lambda gradients: hook(gradients[index]))
        return True, None
    return (True, tensor.register_hook(hook)) if tensor.requires_grad else (False, None)


RUN_BACKWARD = tuple(name for name in ("apply", "apply_boxed") if name in vars(BackwardCFunction))
"""By which the engine runs such a node; newer versions have the second too."""


def plan_node_backward(current: Current, guards: Patches) -> None:
    """Plan patches that tell the session whose backward runs; none if nodes have no numbers."""
    for name in RUN_BACKWARD if hasattr(BackwardCFunction, "_sequence_nr") else ():
        guards.add(BackwardCFunction, name, partial(within, _backward_of_node, current))


def _backward_of_node(session: Recorder, node: Node) -> AbstractContextManager[None]:
    return session.position.backward_of_node(node._sequence_nr()) if session.listens() else nullcontext()
