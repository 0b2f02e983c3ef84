"""The dynamic switch: a monitor that is turned on by its configuration file while the training runs.

With `DYNAMIC_MONITOR=True` in the environment nothing is hooked at first. When the file has changed after a step and
contains `dynamic_on: true`, collecting begins with the next step; when all steps are collected, false is written.
"""

import json
import os
from pathlib import Path

from msprobe.base.errors import MsprobeError
from msprobe.base.files import replace_atomically
from msprobe.base.log import logger

from .settings import MonitorSettings, load, read_object

VARIABLE = "DYNAMIC_MONITOR"


def is_dynamic() -> bool:
    """Return whether the environment enables it."""
    return os.environ.get(VARIABLE, "") in ("True", "true", "1")


class Switch:
    """Looks at a configuration file between steps."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = self._changed()

    def _changed(self) -> tuple[int, int]:
        try:
            state = os.stat(self._path)
        except OSError:
            return 0, 0
        return state.st_mtime_ns, state.st_size

    def enabling_settings(self) -> MonitorSettings | None:
        """Return the settings if the file has changed and turns the monitor on. An invalid file is logged."""
        now = self._changed()
        if now == self._seen:
            return None
        self._seen = now
        try:
            settings = load(self._path)
        except MsprobeError as err:
            logger.error("monitor: %s; the settings remain unchanged", err)
            return None
        return settings if settings.dynamic_on else None

    def turn_off(self) -> None:
        """Write to the file that the monitor is off; a failure is logged."""
        try:
            contents, _ = read_object(self._path)
            contents["dynamic_on"] = False
            with replace_atomically(self._path) as file:
                file.write(json.dumps(contents, indent=2, ensure_ascii=False).encode())
        except (MsprobeError, OSError) as err:
            logger.error("monitor: %s: dynamic_on could not be set to false: %s", self._path, err)
        self._seen = self._changed()
