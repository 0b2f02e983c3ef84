"""The talk of the tool: one logger, on standard error, loud as `MSPROBE_LOG_LEVEL` says.

`MSPROBE_LOG_LEVEL`: 0 debug, 1 information (default), 2 warning, 3 error, 4 nothing.
"""

import logging
import os
import sys

from .visible import visible

_LEVELS = {"0": logging.DEBUG, "1": logging.INFO, "2": logging.WARNING, "3": logging.ERROR, "4": logging.CRITICAL + 1}

_said: set[str] = set()


class _ToStandardError(logging.StreamHandler):  # type: ignore[type-arg]  # generic in stubs only
    """Writes to the standard error of the moment, so that a replaced `sys.stderr` is respected."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


class _Harmless(logging.Formatter):
    """Names out of dumps and folders stand in many messages; none of them steers the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(map(visible, super().format(record).split("\n")))


def _make() -> logging.Logger:
    made = logging.getLogger("msprobe")
    handler = _ToStandardError()
    handler.setFormatter(_Harmless("msprobe %(levelname)s: %(message)s"))
    made.addHandler(handler)
    made.propagate = False
    made.setLevel(_LEVELS.get(os.environ.get("MSPROBE_LOG_LEVEL", "1"), logging.INFO))
    return made


logger = _make()


def once(cause: str, message: str, level: int = logging.WARNING) -> bool:
    """Say a thing once per cause and process; tells whether it was said now."""
    if cause in _said:
        return False
    _said.add(cause)
    logger.log(level, message)
    return True
