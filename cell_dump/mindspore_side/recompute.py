"""Recomputation: a cell's second run, in the middle of backward, is marked and stands where its first run stood.

Both kinds of the framework are seen: the reentrant one (a cell with a `bprop` that runs the block again) and the one by
hooks on saved tensors, which may stop the second run early by an exception of its own.
"""

from collections.abc import Callable
from functools import partial, wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from msprobe.base.patches import Patches
    from msprobe.cell_dump.session import Session

# By its full name: `mindspore.common.recompute` as an attribute is the function.
_framework = import_module("mindspore.common.recompute")

_EarlyStop: type[BaseException] | None = getattr(_framework, "_StopRecomputationError", None)

# What the kind by hooks keeps of a first run: two names in the course of time.
_KEEPERS = ("_RecomputeHandle", "_RecomputeState")

Current = Callable[[], "Session | None"]


def is_early_stop(cause: BaseException) -> bool:
    """Whether an exception is the way in which a recomputation ends when it has what it needs."""
    return _EarlyStop is not None and isinstance(cause, _EarlyStop)


def plan(current: Current, guards: "Patches") -> None:
    """Plan patches of the framework's recomputation that tell the session when a second run begins and ends."""
    guards.add(_framework._RecomputeCell, "construct", partial(_first_run, current))
    guards.add(_framework._RecomputeCell, "bprop", partial(_second_run, current))
    for name in _KEEPERS:
        if hasattr(_framework, name):
            guards.add(getattr(_framework, name), "__init__", partial(_first_run, current))
            guards.add(_framework._RecomputationHook, "__init__", partial(_keep, "_msprobe_first_run"))
            guards.add(_framework._RecomputationHook, "__enter__", partial(_begin, current))
            guards.add(_framework._RecomputationHook, "__exit__", _end)


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
        with session.position.second_run(owner):
            return original(owner, *args)

    return second_run


def _keep(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """Remember of which first run a hook is the second."""

    @wraps(original)
    def __init__(hook: Any, keeper: Any, *args: Any, **kwargs: Any) -> None:
        original(hook, keeper, *args, **kwargs)
        setattr(hook, name, keeper)

    return __init__


def _begin(current: Current, original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def __enter__(hook: Any) -> Any:
        result = original(hook)
        session = current()
        if session is not None:
            hook._msprobe_second_run = second_run = session.position.second_run(hook._msprobe_first_run())
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
