"""A function in whose place one stands that hands its outermost calls to the session that records."""

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
