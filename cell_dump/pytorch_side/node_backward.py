"""Nodes of the graph whose backward a user wrote: `torch.autograd.Function`.

Such a function is no recorded call. What its backward calls stands inside the backward of the module's call that made
the node, which the node's sequence number tells: nothing is put around `apply`, and the graph stays as it is.
"""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from torch.autograd.function import BackwardCFunction

from msprobe.base.patches import Patches
from msprobe.cell_dump.recorded import Current

_RUN = ("apply", "apply_boxed")
"""By which the engine runs such a node; newer versions have the second too."""


def plan(current: Current, guards: Patches) -> None:
    """Plan patches by which the session knows whose backward runs; none where nodes do not tell their numbers."""
    for name in _RUN if hasattr(BackwardCFunction, "_sequence_nr") else ():
        if name in vars(BackwardCFunction):
            guards.add(BackwardCFunction, name, partial(_placed, current))


def _placed(current: Current, original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def run(node: Any, *gradients: Any) -> Any:
        session = current()
        if session is None or not session.listens():
            return original(node, *gradients)
        with session.position.backward_of_node(node._sequence_nr()):
            return original(node, *gradients)

    return run
