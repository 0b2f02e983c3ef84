"""Recomputation (`torch.utils.checkpoint`): a second run, in the middle of backward, is marked and stands where the
first one stood.

Both kinds are seen: the reentrant one, an autograd function that runs the block again, and the one by hooks on saved
tensors, which may stop the second run early by an exception of its own. The names are the framework's inner ones; where
a version has them no more, second runs are recorded as further calls.
"""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import torch.utils.checkpoint as framework

from msprobe.base.patches import Patches
from msprobe.cell_dump.recorded import Current

_EARLY_STOP: type[BaseException] | None = getattr(framework, "_StopRecomputationError", None)


def is_early_stop(cause: BaseException) -> bool:
    """Whether an exception is the way in which a recomputation ends when it has what it needs."""
    return _EARLY_STOP is not None and isinstance(cause, _EARLY_STOP)


def plan(current: Current, guards: Patches) -> None:
    """Plan patches of the framework's recomputation that tell the session when a second run begins and ends."""
    guards.add(framework.CheckpointFunction, "forward", partial(_static, partial(_first_run, current)))
    guards.add(framework.CheckpointFunction, "backward", partial(_static, partial(_second_run, current)))
    frame, hook = getattr(framework, "_CheckpointFrame", None), getattr(framework, "_recomputation_hook", None)
    if frame is not None and hook is not None:
        guards.add(frame, "__init__", partial(_first_run, current))
        guards.add(hook, "__init__", partial(_keep, "_msprobe_first_run"))
        guards.add(hook, "__enter__", partial(_begin, current))
        guards.add(hook, "__exit__", _end)


def _static(wrap: Callable[[Callable[..., Any]], Callable[..., Any]], original: Any) -> Any:
    return staticmethod(wrap(original.__func__))


def _first_run(current: Current, original: Callable[..., Any]) -> Callable[..., Any]:
    """Remember by which call the first run is enclosed; runs of one object are told apart as a stack."""

    @wraps(original)
    def first_run(owner: Any, *args: Any, **kwargs: Any) -> Any:
        session = current()
        if session is not None and session.on:
            session.position.first_run(owner)
        return original(owner, *args, **kwargs)

    return first_run


def _second_run(current: Current, original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def second_run(owner: Any, *args: Any) -> Any:
        session = current()
        if session is None:
            return original(owner, *args)
        with session.again_here(owner):
            return original(owner, *args)

    return second_run


def _keep(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """Remember of which first run a hook is the second."""

    @wraps(original)
    def __init__(hook: Any, frame: Any, *args: Any, **kwargs: Any) -> None:
        original(hook, frame, *args, **kwargs)
        setattr(hook, name, frame)

    return __init__


def _begin(current: Current, original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def __enter__(hook: Any) -> Any:
        result = original(hook)
        session = current()
        if session is not None:
            hook._msprobe_second_run = second_run = session.again_here(hook._msprobe_first_run())
            second_run.__enter__()
        return result

    return __enter__


def _end(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def __exit__(hook: Any, *exc: Any) -> Any:
        second_run = vars(hook).pop("_msprobe_second_run", None)
        if second_run is not None:
            second_run.__exit__(None, None, None)
        return original(hook, *exc)

    return __exit__
