"""How calls reach a debugger: on its class too, one at a time, through the stages that share its steps.

`Service` has the names by which RL frameworks drive msprobe's debugger from stage to stage. The official way is
`debugger.stage(name)`; see `how-to/collecting/rl-flows.md`.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial, update_wrapper, wraps
from os import PathLike
from pathlib import Path
from threading import Lock
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

    def begin(self, step: int) -> None:
        """Another step, in which no stage has begun."""
        self.step, self.turns = step, {}

    def end(self) -> None:
        """The step is over, the next one begins."""
        self.ended += 1
        self.begin(self.step + 1)

    def turn_of(self, stage: Any) -> int:
        """The position of a stage among those of this step, from 0, by the first call of this method."""
        return self.turns.setdefault(stage, len(self.turns))


class Turns:
    """One call at a time: a call from a signal handler or another thread, while one is running, is done after it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: deque[Callable[[], None]] = deque()

    def take(self, work: Callable[[], None]) -> None:
        """Do it now, or after what is being done. What it raises is raised where it is done at once."""
        if not self._lock.acquire(blocking=False):
            self._waiting.append(work)
            return
        try:
            work()
        finally:
            self._lock.release()
            while self._waiting and self._lock.acquire(blocking=False):
                try:
                    while self._waiting:
                        self._do(self._waiting.popleft())
                finally:
                    self._lock.release()

    def _do(self, work: Callable[[], None]) -> None:
        try:
            work()
        except MsprobeError as cause:  # its caller has gone on
            once(f"in between: {cause}", f"{cause}")


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
