"""Collectives: functions that exchange tensors between ranks, at once or behind a handle.

Most of them give nothing and write into their arguments, so what such a call gave are its arguments as they are
afterwards. An asynchronous call gives a handle, and its results are there when the handle's `wait` has returned; only
then are they read. To read them earlier would mean to wait for other ranks at a place where the training does not,
which costs what the asynchrony was for, and may be for ever.
"""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, NamedTuple
from zlib import crc32

from msprobe.base.errors import reason
from msprobe.base.log import once
from msprobe.base.nested import tree_of
from msprobe.base.patches import Patches
from msprobe.store.writer import Writer

from .describer import Bare
from .forward import Forward
from .framework import Framework

NOT_WAITED = "the call is asynchronous, and its handle was not waited for before stop"


class Message(NamedTuple):
    """What a `P2POp` says, as a value that can be described; its group by the CRC-32 of the group's name."""

    class_type: Bare
    tensor: Any
    op: Bare
    peer: Bare
    tag: Bare
    group_id: Bare


class Pending(NamedTuple):
    """A call whose results are not there yet, and the handles to wait for; held, for their ids tell them apart."""

    call: Forward
    results: Any
    handles: list[Any]


class Exchanges:
    """The collectives of a session: complete at once, or when somebody has waited for their handles.

    `run` runs an API and records it; `end` records what it gave.
    """

    def __init__(
        self,
        framework: Framework,
        run: Callable[..., Any],
        end: Callable[[Forward | None, Any], None],
        writer: Writer,
    ) -> None:
        self._framework = framework
        self._run, self._end, self._writer = run, end, writer
        self._pending: list[Pending] = []  # oldest first

    def call(self, stem: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a collective. What it gives or raises is passed on untouched."""

        def run(*_: Any, **__: Any) -> Any:
            return function(*args, **kwargs)

        def end(call: Forward | None, result: Any) -> None:
            results, waits_for, has_tensors = result, [], False
            try:
                results, waits_for = exchanged(shown, named, result), self._framework.handles(result)
                has_tensors = bool(tree_of([results]).tensors)
            except Exception as cause:  # a debugger never stops the training because of itself
                once(f"{stem}: {reason(cause)}", f"{stem}: its handles could not be read: {reason(cause)}")
            if call is not None and waits_for and has_tensors:
                self._pending.append(Pending(call, results, waits_for))
            else:
                self._end(call, results)

        shown, named = args, kwargs
        try:
            shown, named = self._framework.messages(args), self._framework.messages(kwargs)
        except Exception as cause:  # as above; the messages are then recorded as null
            once(f"{stem}: {reason(cause)}", f"{stem}: its messages could not be read: {reason(cause)}")
        return self._run(stem, run, shown, named, end)

    def waited(self, handle: Any) -> None:
        """A handle was waited for; the call that is complete by this, if one is, is recorded.

        Several calls may share a handle, where the framework has nothing to wait for: one wait then is for the oldest.
        """
        for i, (call, results, missing) in enumerate(self._pending):
            for j, each in enumerate(missing):
                if each is handle:
                    del missing[j]
                    if not missing:
                        del self._pending[i]
                        self._end(call, results)
                    return

    def give_up(self) -> None:
        """Write the calls that nobody has waited for without their results: to wait now would change the training."""
        while self._pending:
            call, _, _ = self._pending.pop(0)
            entry = call.entry(',"missing":["output"]')
            if entry is not None:
                self._writer.missing(call.name, "output", NOT_WAITED)
            self._writer.call(call.name, call.parent_name, call.stack, entry)


def exchanged(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
    """What a call gave: its result where that has tensors, else the arguments, into which it wrote."""
    return result if tree_of([result]).tensors else (*args, *kwargs.values())


def handles_in(result: Any, kinds: tuple[type, ...]) -> list[Any]:
    """The handles of these kinds among what a call gave."""
    if isinstance(result, kinds):
        return [result]
    return [each for one in result for each in handles_in(one, kinds)] if isinstance(result, (list, tuple)) else []


def with_messages(value: Any, kinds: tuple[type, ...], said: Callable[[Any], Message]) -> Any:
    """`value` with each message of these kinds, which is no container, replaced by what `said` makes of it."""
    if isinstance(value, kinds):
        return said(value)
    if type(value) in (list, tuple):
        return type(value)([with_messages(each, kinds, said) for each in value])
    return {k: with_messages(v, kinds, said) for k, v in value.items()} if type(value) is dict else value


def group_id(name: object) -> str | None:
    """The CRC-32 of a group's name; None where there is no group."""
    return None if name is None else f"{crc32(str(name).encode()):08x}"


def plan(
    current: Callable[[], Any],
    patches: Patches,
    *,
    handles: tuple[type, ...],
    messages: tuple[type, ...],
    peers: tuple[Callable[..., Any], ...],
) -> None:
    """Plan to tell the session of every `wait` for a handle, and to let messages see the framework's own `isend` and
    `irecv`, the `peers`: they take no others.
    """
    for handle in handles:
        patches.add(handle, "wait", partial(_told, current))
    for message in messages:
        patches.add(message, "__new__", partial(_made_of_plain, peers))
        patches.add(message, "__init__", partial(_of_plain, peers))


def _made_of_plain(peers: tuple[Callable[..., Any], ...], original: Any) -> Any:
    return staticmethod(_of_plain(peers, getattr(original, "__func__", original)))


def _of_plain(peers: tuple[Callable[..., Any], ...], original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def made(self: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
        plain = getattr(op, "__wrapped__", None)
        return original(self, plain if plain in peers else op, *args, **kwargs)

    return made


def _told(current: Callable[[], Any], original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def wait(handle: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(handle, *args, **kwargs)
        session = current()
        if session is not None:
            session.waited(handle)
        return result

    return wait
