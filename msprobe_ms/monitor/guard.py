"""Failures of the monitor do not stop the training: each is logged once per cause and noted next to the files."""

import csv
import io
import os
from collections import Counter
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from msprobe.base.errors import MsprobeError, reason
from msprobe.base.files import FILE_MODE
from msprobe.base.interrupts import must_propagate
from msprobe.base.log import log_once
from msprobe.cell_dump.session import unrecorded
from msprobe.store.monitor.layout import LOST

MOST = 10
"""Maximum number of causes that are logged for one object: parts that vary, such as addresses, are not new causes."""


class Guard:
    """Runs measurements; `step` is called when one failed."""

    def __init__(self) -> None:
        self.step = 0
        self.is_busy = False
        self._folder: Path | None = None
        self._known: set[str] = set()
        self._said = Counter[str]()
        self._lines: list[str] = []

    def note_in(self, folder: Path) -> None:
        """Note what fails in this folder, and what has failed before there was one."""
        self._folder = folder
        self._write()

    def run(self, what: str, work: Callable[..., Any], *args: Any) -> Any:
        """Do a piece of work; None where it failed. Inside of it `is_busy` is true."""
        was_busy, self.is_busy = self.is_busy, True
        try:
            with unrecorded():
                return work(*args)
        except Exception as cause:  # a failure of the monitor does not stop the training
            if must_propagate(cause):
                raise
            self._failed(what, cause)
            return None
        finally:
            self.is_busy = was_busy

    def hook(self, what: str, work: Callable[..., Any]) -> Callable[..., None]:
        """Return `work` as a hook, which returns None and ignores calls that the monitor itself causes."""

        @wraps(work)
        def hook(*args: Any) -> None:
            if not self.is_busy:
                self.run(what, work, *args)

        return hook

    def _failed(self, what: str, cause: BaseException) -> None:
        text = str(cause) if isinstance(cause, MsprobeError) else reason(cause)
        # The name of a folder that could not be created differs each time.
        key = f"{what}: {cause.errno if isinstance(cause, OSError) else text}"
        if key in self._known or self._said[what] == MOST:
            return
        self._known.add(key)
        self._said[what] += 1
        log_once(
            f"monitor {key}",
            f"monitor: {what} could not be measured at step {self.step}: {text}; the training continues",
        )
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow([self.step, what, text])
        self._lines.append(line.getvalue())
        self._write()

    def _write(self) -> None:
        if self._folder is None or not self._lines:
            return
        lines, self._lines = "".join(self._lines).encode("utf-8", "replace"), []
        try:
            number = os.open(self._folder / LOST, os.O_WRONLY | os.O_CREAT | os.O_APPEND, FILE_MODE)
            try:
                os.write(number, (b"" if os.fstat(number).st_size else b"step,what,reason\n") + lines)
            finally:
                os.close(number)
        except OSError:
            return  # the disk is full, perhaps: the log has the message
