"""Control of debuggers: methods on the class, serialized calls, and the steps that stages share.

`Service` has the interface by which RL frameworks control the stages of msprobe's debugger. The documented interface is
`debugger.stage(name)`; see `how-to/collecting/rl-flows.md`.
"""

import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial, update_wrapper, wraps
from os import PathLike
from pathlib import Path
from types import FrameType
from typing import Any

from msprobe.base.errors import MsprobeError, UsageError
from msprobe.base.log import log_once


class class_or_instance_method:
    """Decorator of methods that may be called on the class too, for the debugger that was constructed last."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        update_wrapper(self, method)  # type: ignore[arg-type]  # a descriptor with the name and docstring of the method

    def __get__(self, instance: Any, owner: Any) -> Callable[..., Any]:
        if instance is None:
            instance = owner._latest
            if instance is None:
                raise UsageError(f"PrecisionDebugger.{self.method.__name__}: construct a PrecisionDebugger first")
        return self.method.__get__(instance, owner)  # type: ignore[no-any-return]  # the bound method


@dataclass
class Clock:
    """The current step, the number of ended steps, and the order of stages; shared by a debugger and its stages."""

    step: int = 0
    ended: int = 0
    positions: dict[Any, int] = field(default_factory=dict)
    is_ending: bool = False
    """Whether the end of the step has begun: it may have been interrupted before it was complete."""

    def begin(self, step: int) -> None:
        """Set the step, without stages."""
        self.step, self.positions = step, {}

    def end(self) -> None:
        """End the step, and begin the next one."""
        self.step, self.ended, self.positions, self.is_ending = self.step + 1, self.ended + 1, {}, False

    def position_of(self, stage: Any) -> int:
        """Return the position of a stage in this step, from 0, in the order of first calls of this method."""
        return self.positions.setdefault(stage, len(self.positions))


class SerializedCalls:
    """Runs one call at a time: calls from a signal handler or another thread wait until the running call ends."""

    def __init__(self) -> None:
        self._holder: dict[str, object] = {}
        self._waiting: deque[Callable[[], None]] = deque()

    def run(self, work: Callable[[], None]) -> None:
        """Run `work` now, or after the running call; its exceptions are raised only if it runs now."""
        turn = object()
        if not self._acquire(turn):
            self._waiting.append(work)
            return
        try:
            work()
        finally:
            self._holder.clear()
            while self._waiting and self._acquire(turn):
                try:
                    while self._waiting:
                        self._run_waiting(self._waiting.popleft())
                finally:
                    self._holder.clear()

    def _acquire(self, turn: object) -> bool:
        """Acquire the turn, unless the call that holds it is still running.

        An interrupt may have ended that call without releasing it.
        """
        holder = self._holder.setdefault("turn", turn)
        if holder is turn:
            return True
        if any(_is_running(frame, holder) for frame in sys._current_frames().values()):
            return False
        self._holder["turn"] = turn
        return True

    def _run_waiting(self, work: Callable[[], None]) -> None:
        try:
            work()
        except MsprobeError as cause:  # the caller has already returned
            log_once(f"in between: {cause}", f"{cause}")


def _is_running(frame: FrameType | None, turn: object) -> bool:
    """Return whether a thread with the innermost frame `frame` is running the call with this turn."""
    while frame is not None:
        if frame.f_code is SerializedCalls.run.__code__ and frame.f_locals.get("turn") is turn:
            return True
        frame = frame.f_back
    return False


_CALLS = SerializedCalls()


def serialized(method: Callable[..., None]) -> Callable[..., None]:
    """Decorate a method so that it does not run at the same time as other serialized methods."""

    @wraps(method)
    def serialized_method(*args: Any, **kwargs: Any) -> None:
        _CALLS.run(partial(method, *args, **kwargs))

    return serialized_method


class ServiceConfig:
    """Settings of a debugger that may be changed while it runs: the output folder of the next `start`."""

    __slots__ = ("_redirect", "_where")

    def __init__(self, where: Callable[[], Path], redirect: Callable[[object], None]) -> None:
        self._where, self._redirect = where, redirect

    @property
    def dump_path(self) -> str:
        """The output folder of the next `start`: `{dump_path}/step{n}/rank{r}`. A running collection is not changed.

        Numbers of calls are separate for each folder, and continue if the same folder is used again in the same step.
        """
        return str(self._where())

    @dump_path.setter
    def dump_path(self, value: "str | PathLike[str]") -> None:
        self._redirect(value)


class Service:
    """The internal interface of msprobe's debugger."""

    __slots__ = ("_stop", "config", "first_start")

    def __init__(self, config: ServiceConfig, stop: Callable[[], None]) -> None:
        self.first_start = True
        """Set by callers that start with another model. Has no effect here: `start(model)` accepts any model."""
        self.config = config
        self._stop = stop

    def reset_status(self) -> None:
        """Stop a stage. The step continues, and the data of the stage is kept."""
        self._stop()
