"""Functions and methods that tell the session that records of their calls."""

from collections.abc import Callable
from functools import wraps
from typing import Any

Stems = frozenset[str] | None
"""The stems that are wanted; None where all are."""

Current = Callable[[], Any]
"""Returns the `Session` that records, or None."""


def recorded(
    stem: str, current: Current, original: Callable[..., Any], *, method: str = "call_api"
) -> Callable[..., Any]:
    """`original`, whose outermost calls go through a session's `method` while one listens."""

    @wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        session = current()
        # what a recorded function calls comes here most often
        if session is None or session.busy or not session.listens():
            return original(*args, **kwargs)
        return getattr(session, method)(stem, original, args, kwargs)

    return call


def within(context: Callable[[Any, Any], Any], current: Current, original: Callable[..., Any]) -> Callable[..., Any]:
    """A method `original` that runs inside of `context(session, owner)` while there is a session."""

    @wraps(original)
    def method(owner: Any, *args: Any, **kwargs: Any) -> Any:
        session = current()
        if session is None:
            return original(owner, *args, **kwargs)
        with context(session, owner):
            return original(owner, *args, **kwargs)

    return method


def quietly(current: Current, original: Callable[..., Any]) -> Callable[..., Any]:
    """`original`, of whose inside nothing is recorded: what a framework does by itself around a backward."""

    @wraps(original)
    def quietly(*args: Any, **kwargs: Any) -> Any:
        session = current()
        if session is None or not session.listens():
            return original(*args, **kwargs)
        session.busy = True
        try:
            return original(*args, **kwargs)
        finally:
            session.busy = False

    return quietly
