"""Functions and methods that tell the session that records of their calls."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol

from .forward import Position
from .unwritten import Memory

Stems = frozenset[str] | None
"""The stems that are wanted; None where all are."""


class Recorder(Protocol):
    """The session that records, as what is put around the framework's functions knows it."""

    on: bool
    """Whether it is between a start and its stop."""
    busy: bool
    """Whether a call is being recorded: what it calls is not."""

    @property
    def position(self) -> Position:
        """Return where in the training it is."""

    def listens(self) -> bool:
        """Return whether a call made now is to be recorded."""

    def call_api(self, stem: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a call and record it; return what it returns."""

    def call_inner(self, stem: str, args: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        """Make an operation and record it inside of the call that runs."""

    def waited(self, handle: Any) -> None:
        """Note that an exchange between ranks has ended."""

    def guard(self, work: Callable[..., None], *args: Any) -> None:
        """Do a piece of collecting that the training must not feel."""

    def unwritten(self, result: Any) -> None:
        """Note uninitialized memory that a function returned that is not recorded."""

    def unwritten_memory(self, memory: Memory, is_held: Callable[[], bool]) -> None:
        """Note uninitialized memory without a tensor."""

    def also_named(self, parameter: Any, other: Any) -> None:
        """Give a parameter's name to another tensor that takes its place for a while."""


Current = Callable[[], Recorder | None]
"""Returns the session that records, or None."""


def recorded(
    stem: str, current: Current, original: Callable[..., Any], *, method: str = "call_api"
) -> Callable[..., Any]:
    """Return `original` with its outermost calls going through a session's `method` while a session is active."""

    @wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        session = current()
        # what a recorded function calls comes here most often
        if session is None or session.busy or not session.listens():
            return original(*args, **kwargs)
        return getattr(session, method)(stem, original, args, kwargs)

    return call


def within(context: Callable[[Any, Any], Any], current: Current, original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method `original` that runs inside of `context(session, owner)` while there is a session."""

    @wraps(original)
    def method(owner: Any, *args: Any, **kwargs: Any) -> Any:
        session = current()
        if session is None:
            return original(owner, *args, **kwargs)
        with context(session, owner):
            return original(owner, *args, **kwargs)

    return method


def quietly(current: Current, original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `original` without recording the calls inside it: what a framework does by itself around a backward."""

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
