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


def standing_at(owner: Any, name: str, make: Callable[[Any], Callable[..., Any]], original: Any) -> Callable[..., Any]:
    """What `make` makes of `original` to stand in a module or class, saying that it stands there.

    What refers to it may be pickled meanwhile: a whole model by `torch.save`, what is sent to another process. Pickle
    takes a function only where it finds that very object by its `__module__` and `__qualname__`; those of the original
    are those of the place it was defined in, `torch._C._nn` for `F.gelu`. In a process without us the place has the
    framework's own function.
    """
    call = make(original)
    if isinstance(owner, type):
        call.__module__, call.__qualname__ = owner.__module__, f"{owner.__qualname__}.{name}"
    else:
        call.__module__, call.__qualname__ = owner.__name__, name
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
