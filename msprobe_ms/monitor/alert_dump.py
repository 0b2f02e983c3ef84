"""A dump that an alert starts: the steps after the first alert are collected by a PrecisionDebugger."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from msprobe.base.framework import AnyModel
from msprobe.base.log import logger

from .settings import OnAlert

FOLDER = "alert_dump"


class AlertDump:
    """Collects `settings.steps` steps after the first alert of a run; later alerts start no other dump.

    `debugger` is the framework's class. A dump of statistics or tensors is large; one is enough to examine the step.
    """

    def __init__(self, settings: OnAlert, debugger: Callable[..., Any], model: AnyModel, root: Path) -> None:
        self._settings, self._make, self._model = settings, debugger, model
        self._path = Path(settings.dump_path) if settings.dump_path else root / FOLDER
        self._debugger: Any = None
        self._left = -1

    def arm(self, step: int) -> None:
        """Collect from `step` on, which begins now, because of an alert in the previous step."""
        if self._left >= 0:
            return
        self._left = self._settings.steps
        logger.warning(
            "monitor: an alert starts a dump of %d steps from step %d on, in %s", self._left, step, self._path
        )
        self._debugger = self._make(
            task=self._settings.task, level=self._settings.level, dump_path=str(self._path), step=[]
        )
        self._debugger.set_init_step(step)
        self._debugger.start(self._model)

    def next_step(self) -> None:
        """End a step."""
        if self._debugger is None:
            return
        self._debugger.stop()
        self._debugger.step()
        self._left -= 1
        if self._left > 0:
            self._debugger.start(self._model)
        else:
            self._debugger = None

    def stop(self) -> None:
        """End collecting, because the training or the monitor ends."""
        if self._debugger is not None:
            self._left = 1
            self.next_step()
