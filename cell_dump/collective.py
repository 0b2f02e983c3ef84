"""Collectives: functions that exchange tensors between ranks, at once or behind a handle.

Most of them give nothing and write into their arguments, so what such a call gave are its arguments as they are
afterwards. An asynchronous call gives a handle, and its results are there when the handle's `wait` has returned; only
then are they read. To read them earlier would mean to wait for other ranks at a place where the training does not,
which costs what the asynchrony was for, and may be for ever.
"""

from collections.abc import Callable, Iterator
from functools import partial, wraps
from types import FunctionType
from typing import Any, NamedTuple

from mindspore import Tensor
from mindspore.communication import comm_func
from mindspore.mint import distributed

from .forward import Forward
from .nested import leaves
from .patches import Patches

try:
    from mindspore.ops.function import comm_func as functional
except ImportError:  # before 2.7.1
    functional = comm_func

HANDLES = tuple({comm_func.CommHandle, functional.CommHandle})
"""What asynchronous calls give."""

_MESSAGES = tuple({distributed.P2POp, functional.P2POp, comm_func.P2POp})
_PEERS = (distributed.isend, distributed.irecv, functional.isend, functional.irecv)

NOT_WAITED = "the call is asynchronous, and its handle was not waited for before stop"


class Message(NamedTuple):
    """What a `P2POp` says, as a value that can be described."""

    class_type: str
    tensor: Tensor
    op: str
    peer: int
    tag: int
    group: str | None


class Pending(NamedTuple):
    """A call whose results are not there yet, and the handles to wait for; held, for their ids tell them apart."""

    call: Forward
    results: Any
    handles: list[Any]


class Pendings:
    """The asynchronous calls whose handles nobody has waited for yet, oldest first."""

    def __init__(self) -> None:
        self._all: list[Pending] = []

    def add(self, pending: Pending) -> None:
        """Take in a call."""
        self._all.append(pending)

    def waited(self, handle: Any) -> Pending | None:
        """A handle was waited for: the call that is complete by this, if one is.

        Several calls may share a handle, where the framework has nothing to wait for: one wait then is for the oldest.
        """
        for i, pending in enumerate(self._all):
            for j, each in enumerate(pending.handles):
                if each is handle:
                    del pending.handles[j]
                    return None if pending.handles else self._all.pop(i)
        return None

    def take(self) -> Iterator[Pending]:
        """Everything that is still here, which is not here any more then."""
        while self._all:
            yield self._all.pop(0)


def exchanged(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
    """What a call gave: its result where that has tensors, else the arguments, into which it wrote."""
    return result if leaves(result) else (*args, *kwargs.values())


def handles(result: Any) -> list[Any]:
    """The handles among what a call gave."""
    if isinstance(result, HANDLES):
        return [result]
    return [handle for each in result for handle in handles(each)] if isinstance(result, (list, tuple)) else []


def messages(value: Any) -> Any:
    """`value` with each `P2POp`, which is no container, replaced by what it says."""
    if isinstance(value, _MESSAGES):
        op = value.op.__name__ if isinstance(value.op, FunctionType) else value.op
        kind = f"{type(value).__module__}.{type(value).__name__}"
        return Message(kind, value.tensor, op, value.peer, value.tag, value.group)
    if type(value) in (list, tuple):
        return type(value)([messages(each) for each in value])
    return {k: messages(v) for k, v in value.items()} if type(value) is dict else value


def plan(current: Callable[[], Any], patches: Patches) -> None:
    """Plan to tell the session of every `wait`, and to let `P2POp` see the framework's `isend`: it takes no other."""
    for handle in HANDLES:
        patches.add(handle, "wait", partial(_told, current))
    for message in _MESSAGES:
        patches.add(message, "__new__", _made_of_plain)
        patches.add(message, "__init__", _of_plain)


def recorded(stem: str, current: Callable[[], Any], original: Callable[..., Any]) -> Callable[..., Any]:
    """`original`, whose outermost calls are recorded while a session listens."""

    @wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        session = current()
        if session is None or not session.listens():
            return original(*args, **kwargs)
        return session.call_collective(stem, original, args, kwargs)

    return call


def _told(current: Callable[[], Any], original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def wait(handle: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(handle, *args, **kwargs)
        session = current()
        if session is not None:
            session.waited(handle)
        return result

    return wait


def _made_of_plain(original: Any) -> Any:
    return staticmethod(_of_plain(original.__func__))


def _of_plain(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def made(self: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
        plain = getattr(op, "__wrapped__", None)
        return original(self, plain if plain in _PEERS else op, *args, **kwargs)

    return made
