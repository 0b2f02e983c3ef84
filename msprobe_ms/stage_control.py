"""How calls reach a debugger: on its class too, one at a time, through the stages that share its steps.

`Service` has the names by which RL frameworks drive msprobe's debugger from stage to stage. The official way is
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
from msprobe.base.log import once


class on_either:
    """A method that may be called on the class too: it then means the debugger that was constructed last."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        update_wrapper(self, method)  # type: ignore[arg-type]  # a descriptor that carries the method's name and docstring

    def __get__(self, instance: Any, owner: Any) -> Callable[..., Any]:
        if instance is None:
            instance = owner._latest
            if instance is None:
                raise UsageError(f"PrecisionDebugger.{self.method.__name__}: construct a PrecisionDebugger first")
        return self.method.__get__(instance, owner)  # type: ignore[no-any-return]  # bound by the function itself


@dataclass
class Clock:
    """The step, the number of ended steps, and the order of the stages in it; shared by a debugger and its stages."""

    step: int = 0
    ended: int = 0
    turns: dict[Any, int] = field(default_factory=dict)
    is_ending: bool = False
    """Whether the end of the step has begun: an interrupt may have ended it before all was finished."""

    def begin(self, step: int) -> None:
        """Another step, in which no stage has begun."""
        self.step, self.turns = step, {}

    def end(self) -> None:
        """The step is over, the next one begins."""
        self.step, self.ended, self.turns, self.is_ending = self.step + 1, self.ended + 1, {}, False

    def turn_of(self, stage: Any) -> int:
        """The position of a stage among those of this step, from 0, by the first call of this method."""
        return self.turns.setdefault(stage, len(self.turns))


class Turns:
    """One call at a time: a call from a signal handler or another thread, while one is running, is done after it."""

    def __init__(self) -> None:
        self._holder: dict[str, object] = {}
        self._waiting: deque[Callable[[], None]] = deque()

    def take(self, work: Callable[[], None]) -> None:
        """Do it now, or after what is being done. What it raises is raised where it is done at once."""
        turn = object()
        if not self._has(turn):
            self._waiting.append(work)
            return
        try:
            work()
        finally:
            self._holder.clear()
            while self._waiting and self._has(turn):
                try:
                    while self._waiting:
                        self._do(self._waiting.popleft())
                finally:
                    self._holder.clear()

    def _has(self, turn: object) -> bool:
        """Take the turn, unless it is another's: one whose call is still running, for an interrupt may have ended it
        without giving its turn back.
        """
        holder = self._holder.setdefault("turn", turn)
        if holder is turn:
            return True
        if any(_takes(frame, holder) for frame in sys._current_frames().values()):
            return False
        self._holder["turn"] = turn
        return True

    def _do(self, work: Callable[[], None]) -> None:
        try:
            work()
        except MsprobeError as cause:  # its caller has gone on
            once(f"in between: {cause}", f"{cause}")


def _takes(frame: FrameType | None, turn: object) -> bool:
    """Return whether a thread, of which `frame` is the innermost call, is inside the call with this turn."""
    while frame is not None:
        if frame.f_code is Turns.take.__code__ and frame.f_locals.get("turn") is turn:
            return True
        frame = frame.f_back
    return False


_TURNS = Turns()


def in_turn(method: Callable[..., None]) -> Callable[..., None]:
    """A method that is never done at the same time as another one of these: `start`, `stop` and `step`."""

    @wraps(method)
    def one_at_a_time(*args: Any, **kwargs: Any) -> None:
        _TURNS.take(partial(method, *args, **kwargs))

    return one_at_a_time


class ServiceConfig:
    """What of a debugger's settings may be changed while it runs: where the next `start` writes."""

    __slots__ = ("_redirect", "_where")

    def __init__(self, where: Callable[[], Path], redirect: Callable[[object], None]) -> None:
        self._where, self._redirect = where, redirect

    @property
    def dump_path(self) -> str:
        """The folder that the next `start` writes to: `{dump_path}/step{n}/rank{r}`. What is started goes on.

        Each place has its own numbers, which go on where the same place is started again in the same step.
        """
        return str(self._where())

    @dump_path.setter
    def dump_path(self, value: "str | PathLike[str]") -> None:
        self._redirect(value)


class Service:
    """The debugger as msprobe names its inside."""

    __slots__ = ("_stop", "config", "first_start")

    def __init__(self, config: ServiceConfig, stop: Callable[[], None]) -> None:
        self.first_start = True
        """Set by callers that start with another model. Here `start(model)` takes in any model, each once."""
        self.config = config
        self._stop = stop

    def reset_status(self) -> None:
        """A stage is over: stop it. The step goes on, and what the stage has written stays."""
        self._stop()
