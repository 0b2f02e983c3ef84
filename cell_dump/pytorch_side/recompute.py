"""PyTorch's recomputation (`torch.utils.checkpoint`): where it begins, and how it ends early.

The names are the framework's inner ones; where a version has them no more, second runs are recorded as further calls.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch.utils.checkpoint as framework

from msprobe.base.patches import Patches
from msprobe.cell_dump.recompute import first_run, plan_hooks, second_run
from msprobe.cell_dump.recorded import Current

_EARLY_STOP: type[BaseException] | None = getattr(framework, "_StopRecomputationError", None)


def is_early_stop(cause: BaseException) -> bool:
    """Whether an exception is the way in which a recomputation ends when it has what it needs."""
    return _EARLY_STOP is not None and isinstance(cause, _EARLY_STOP)


def plan(current: Current, guards: Patches) -> None:
    """Plan patches of the framework's recomputation that tell the session when a second run begins and ends."""
    guards.add(framework.CheckpointFunction, "forward", partial(_static, partial(first_run, current)))
    guards.add(framework.CheckpointFunction, "backward", partial(_static, partial(second_run, current, _again)))
    frame, hook = getattr(framework, "_CheckpointFrame", None), getattr(framework, "_recomputation_hook", None)
    if frame is not None and hook is not None:
        plan_hooks(current, guards, frame, hook, _again)


def _again(session: Any, owner: Any) -> AbstractContextManager[None]:
    return session.again_here(owner)  # type: ignore[no-any-return]  # the session's


def _static(wrap: Callable[[Callable[..., Any]], Callable[..., Any]], original: Any) -> Any:
    return staticmethod(wrap(original.__func__))
