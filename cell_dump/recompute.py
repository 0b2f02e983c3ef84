"""Recomputation: a second run, in the middle of backward, is marked and takes the place of the first one.

Two kinds are seen: the reentrant one, a function whose backward runs the block again, and the one by hooks on
saved tensors, which may end the second run early by an exception. Both frameworks have them, under inner
names that their `framework.py` knows; where a version lacks them, second runs are recorded as further calls.

`again(session, owner)` is the context of a second run of what `owner` ran first.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial, wraps
from typing import Any

from msprobe.base.patches import Patches

from .wrappers import Current, within

Again = Callable[[Any, Any], AbstractContextManager[None]]


def plan_reentrant(current: Current, guards: Patches, owner: type, first: str, second: str, again: Again) -> None:
    """Plan patches for the reentrant kind: `owner` runs the block by its method `first`, and again by `second`."""
    guards.add(owner, first, partial(_of_the_same_kind, partial(_first_run, current)))
    guards.add(owner, second, partial(_of_the_same_kind, partial(within, again, current)))


def plan_hooks(current: Current, guards: Patches, keeper: type, hook: type, again: Again) -> None:
    """Plan patches for the kind by hooks: `keeper` keeps what a first run was, `hook` is entered for the second."""
    guards.add(keeper, "__init__", partial(_first_run, current))
    guards.add(hook, "__init__", _keep)
    guards.add(hook, "__enter__", partial(_begin, current, again))
    guards.add(hook, "__exit__", _end)


def _of_the_same_kind(wrap: Callable[[Callable[..., Any]], Callable[..., Any]], original: Any) -> Any:
    """Return a static method stays one."""
    return staticmethod(wrap(original.__func__)) if isinstance(original, staticmethod) else wrap(original)


def _first_run(current: Current, original: Callable[..., Any]) -> Callable[..., Any]:
    """Keep the call that encloses the first run; the runs of one object are a stack."""

    @wraps(original)
    def first_run(owner: Any, *args: Any, **kwargs: Any) -> Any:
        session = current()
        if session is not None and session.on:
            session.position.first_run(owner)
        return original(owner, *args, **kwargs)

    return first_run


def _keep(original: Callable[..., Any]) -> Callable[..., Any]:
    """Keep the first run of which a hook is the second."""

    @wraps(original)
    def __init__(hook: Any, keeper: Any, *args: Any, **kwargs: Any) -> None:
        original(hook, keeper, *args, **kwargs)
        hook._msprobe_first_run = keeper

    return __init__


def _begin(current: Current, again: Again, original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def __enter__(hook: Any) -> Any:
        result = original(hook)
        session = current()
        if session is not None:
            hook._msprobe_second_run = second_run = again(session, hook._msprobe_first_run())
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
