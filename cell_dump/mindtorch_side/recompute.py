"""The layer's recomputation (`torch.utils.checkpoint`, reentrant) beside that of MindSpore.

The kind by hooks on saved tensors runs nothing twice in MSAdapter 0.5.0b1: it is a placeholder there.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from msprobe.base.patches import Patches
from msprobe.cell_dump.recompute import first_run, second_run
from msprobe.cell_dump.recorded import Current

from .namespaces import namespace


def plan(current: Current, guards: Patches) -> None:
    """Plan patches of the layer's recomputation that tell the session when a second run begins and ends."""
    function = getattr(namespace("torch.utils.checkpoint"), "CheckpointFunction", None)
    if function is not None:
        guards.add(function, "forward", partial(_static, partial(first_run, current)))
        guards.add(function, "backward", partial(_static, partial(second_run, current, _again)))


def _again(session: Any, owner: Any) -> AbstractContextManager[None]:
    return session.again_here(owner)  # type: ignore[no-any-return]  # the session's


def _static(wrap: Callable[[Callable[..., Any]], Callable[..., Any]], original: Any) -> Any:
    return staticmethod(wrap(original.__func__))
