"""Collectives: functions that exchange tensors between ranks, at once or behind a handle.

Most of them give nothing and write into their arguments, so what such a call gave are its arguments as they are
afterwards. An asynchronous call gives a handle, and its results are there when the handle's `wait` has returned; only
then are they read. To read them earlier would mean to wait for other ranks at a place where the training does not,
which costs what the asynchrony was for, and may be for ever.
"""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, NamedTuple

from msprobe.base.patches import Patches
from msprobe.store.write import Writer

from .forward import Forward
from .framework import Framework
from .nested import Bare, leaves

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
            results, waits_for = exchanged(shown, named, result), self._framework.handles(result)
            if call is not None and waits_for and leaves(results):
                self._pending.append(Pending(call, results, waits_for))
            else:
                self._end(call, results)

        shown, named = self._framework.messages(args), self._framework.messages(kwargs)
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
    return result if leaves(result) else (*args, *kwargs.values())


def plan(current: Callable[[], Any], patches: Patches, kinds: tuple[type, ...]) -> None:
    """Plan to tell the session of every `wait` for a handle of these kinds."""
    for handle in kinds:
        patches.add(handle, "wait", partial(_told, current))


def _told(current: Callable[[], Any], original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def wait(handle: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(handle, *args, **kwargs)
        session = current()
        if session is not None:
            session.waited(handle)
        return result

    return wait
