"""Collectives: functions that exchange tensors between ranks, synchronously or with a handle.

Most of them return nothing and write into their arguments, so the outputs of such a call are its arguments as they are
afterwards. An asynchronous call returns a handle, and its results are there when the handle's `wait` has returned; only
then are they read. Reading them earlier would wait for other ranks where the training does not,
which costs time and may block forever.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, NamedTuple
from zlib import crc32

from msprobe.base.errors import reason
from msprobe.base.framework import AnyTensor
from msprobe.base.interrupts import must_propagate
from msprobe.base.log import log_once
from msprobe.base.nested import tree_of
from msprobe.base.patches import Patches
from msprobe.store.writer import StepWriter

from .describer import Bare
from .forward import Forward
from .wrappers import Current

NOT_WAITED = "the call is asynchronous, and its handle was not waited for before stop()()"


class Message(NamedTuple):
    """The contents of a `P2POp`, as a value that can be described; its group by the CRC-32 of the group's name."""

    class_type: Bare
    tensor: AnyTensor
    op: Bare
    peer: Bare
    tag: Bare
    group_id: Bare


@dataclass(frozen=True)
class Collectives:
    """The classes and functions by which one framework exchanges tensors."""

    message_type: str
    """The class of messages as records name it."""
    handles: tuple[type, ...]
    """What asynchronous calls return."""
    messages: tuple[type, ...]
    """The classes of messages, `P2POp`."""

    def handles_in(self, result: Any) -> list[Any]:
        """Return the handles among what a call returned."""
        if isinstance(result, self.handles):
            return [result]
        return [each for one in result for each in self.handles_in(one)] if isinstance(result, (list, tuple)) else []

    def with_messages(self, value: Any) -> Any:
        """Return `value` with each message, which is not a container, replaced by its contents."""
        if isinstance(value, self.messages):
            return self._contents(value)
        if type(value) in (list, tuple):
            return type(value)([self.with_messages(each) for each in value])
        return {k: self.with_messages(v) for k, v in value.items()} if type(value) is dict else value

    def _contents(self, message: Any) -> Message:
        op = getattr(message.op, "__name__", message.op)  # a function, or its name
        group = message.group if isinstance(message.group, str) else getattr(message.group, "group_name", None)
        plain = self.message_type, op, message.peer, getattr(message, "tag", 0), group_id(group)
        class_type, op, peer, tag, group = map(Bare, plain)
        return Message(class_type, message.tensor, op, peer, tag, group)

    def plan(self, current: Current, patches: Patches) -> None:
        """Plan to notify the session of every `wait` for a handle."""
        for handle in self.handles:
            patches.add(handle, "wait", partial(_notifying, current))


def group_id(name: object) -> str | None:
    """Return the CRC-32 of a group's name; None if there is no group."""
    return None if name is None else f"{crc32(str(name).encode()):08x}"


def _notifying(current: Current, original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def wait(handle: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(handle, *args, **kwargs)
        session = current()
        if session is not None:
            session.waited(handle)
        return result

    return wait


class Pending(NamedTuple):
    """A call whose results are not there yet, and the handles to wait for; held, so that their ids stay theirs."""

    call: Forward
    results: Any
    handles: list[Any]


class Exchanges:
    """The collectives of a session: complete at once, or when somebody has waited for their handles.

    `run` runs an API and records it; `end` records its results.
    """

    def __init__(
        self,
        collectives: Collectives,
        run: Callable[..., Any],
        end: Callable[[Forward | None, Any], None],
        writer: StepWriter,
    ) -> None:
        self._collectives = collectives
        self._run, self._end, self._writer = run, end, writer
        self._pending: list[Pending] = []  # oldest first

    def call(self, stem: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a collective. What it returns or raises is passed on untouched."""

        def run(*_: Any, **__: Any) -> Any:
            return function(*args, **kwargs)

        def end(call: Forward | None, result: Any) -> None:
            results, waits_for, has_tensors = result, [], False
            try:
                waits_for = self._collectives.handles_in(result)
                if not tree_of([result]).tensors:
                    results = *shown, *named.values()  # it wrote into its arguments
                has_tensors = bool(tree_of([results]).tensors)
            except Exception as cause:  # a debugger never stops the training because of itself
                if must_propagate(cause):
                    raise
                log_once(f"{stem}: {reason(cause)}", f"{stem}: its handles could not be read: {reason(cause)}")
            if call is not None and waits_for and has_tensors:
                self._pending.append(Pending(call, results, waits_for))
            else:
                self._end(call, results)

        shown, named = args, kwargs
        try:
            shown, named = self._collectives.with_messages(args), self._collectives.with_messages(kwargs)
        except Exception as cause:  # as above; the messages are then recorded as null
            if must_propagate(cause):
                raise
            log_once(f"{stem}: {reason(cause)}", f"{stem}: its messages could not be read: {reason(cause)}")
        return self._run(stem, run, shown, named, end)

    def waited(self, handle: Any) -> None:
        """Record the call that is completed by waiting for a handle, if any.

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
        """Write the calls that no other code has waited for without their results: to wait now would change the
        training."""
        while self._pending:
            call, _, _ = self._pending.pop(0)
            entry = call.entry(',"missing":["output"]')
            if entry is not None:
                self._writer.missing(call.name, "output", NOT_WAITED)
            self._writer.call(call.name, call.parent_name, call.stack, entry)
