"""`debugger.service`: the names by which reinforcement learning drives msprobe's debugger from stage to stage.

The official way is `debugger.stage(name)`; see `docs/rl-flows.md`.
"""

from collections.abc import Callable
from os import PathLike
from pathlib import Path


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
