"""Functions in whose place one stands: their outermost calls go to the session that records, or are kept from it."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from .session import Session

Stems = frozenset[str] | None
"""The stems that are wanted; None where all are."""

Current = Callable[[], Session | None]
"""Gives the session that records."""


def recorded(
    stem: str, current: Current, original: Callable[..., Any], *, door: str = "call_api"
) -> Callable[..., Any]:
    """`original`, whose outermost calls go through a session's method `door` while one listens."""

    @wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        session = current()
        if session is None or not session.listens():
            return original(*args, **kwargs)
        return getattr(session, door)(stem, original, args, kwargs)

    return call


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
