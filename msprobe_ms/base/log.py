"""Logging to standard error, and formatting of messages: escaping for terminals, and truncation of long texts.

`MSPROBE_LOG_LEVEL`: 0 debug, 1 information (default), 2 warning, 3 error, 4 nothing.
"""

import logging
import os
import re
import sys
from collections.abc import Iterable

from .interrupts import must_propagate

_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
# Line and paragraph separators, and characters that change the direction of text.
_ESCAPES |= {code: f"\\u{code:04x}" for code in (0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))}

MAX_WORD_LENGTH = 512
"""Maximum number of characters of a name, shape or path in a message; tables are not truncated."""

MAX_LINE_LENGTH = 4096

_LONG_WORD = re.compile(rf"\S{{{MAX_WORD_LENGTH + 1},}}")

_LONGEST_SOURCE_LINE = 4096 + 16
"""Maximum number of characters of a path (PATH_MAX of Linux) with a line number and brackets."""

_SOURCE_LINE = re.compile(r"\S+:\d+[).,;:]*")


def terminal_line(text: object, longest: int | None = MAX_LINE_LENGTH) -> str:
    """Return a text or a phrase as one line for a terminal.

    Control characters are escaped: ESC becomes the four characters `\x1b`. The middle of words of more than
    `MAX_WORD_LENGTH` characters, and of lines of more than `longest` characters, is omitted, but the last source line
    (`FILE:LINE`) of a long line is kept. `longest` None: the text is not truncated.
    """
    if longest is None:
        return str(text).translate(_ESCAPES)
    # Twice, because escaping makes a text up to six times as long.
    return _shortened(_shortened(str(text), longest).translate(_ESCAPES), longest)


def shortened(text: str, longest: int) -> str:
    """Return a text of at most `longest` characters: the begin and end of a longer text, and its length."""
    if len(text) <= longest:
        return text
    omission = f"...({len(text)} characters)..."
    remaining = max(longest - len(omission), 0)
    return text[: remaining - remaining // 2] + omission + text[len(text) - remaining // 2 :]


def _shortened(text: str, longest: int) -> str:
    if len(text) <= min(MAX_WORD_LENGTH, longest):
        return text
    text = _LONG_WORD.sub(
        lambda word: word[0] if _is_source_line(word[0]) else shortened(word[0], MAX_WORD_LENGTH), text
    )
    if len(text) <= longest:
        return text
    place = next((word for word in reversed(text.split(" ")) if _is_source_line(word)), "")
    before, _, after = text.rpartition(place) if place else (text, "", "")
    after = shortened(after, min(MAX_WORD_LENGTH, longest) // 2)
    room = max(longest - len(place) - len(after), MAX_WORD_LENGTH // 2)
    return f"{shortened(before, room)}{place}{after}"


def _is_source_line(word: str) -> bool:
    return len(word) <= _LONGEST_SOURCE_LINE and _SOURCE_LINE.fullmatch(word) is not None


def join_names(names: Iterable[object], most: int = 3) -> str:
    """Return the first `most` names and the number of others: `a, b, c and 4 more`."""
    every = [str(name) for name in names]
    more = len(every) - most
    return ", ".join(every[:most]) + (f" and {more} more" if more > 0 else "")


_LEVELS = {"0": logging.DEBUG, "1": logging.INFO, "2": logging.WARNING, "3": logging.ERROR, "4": logging.CRITICAL + 1}

_logged: set[str] = set()


class _StderrHandler(logging.StreamHandler):  # type: ignore[type-arg]  # generic in stubs only
    """Handler that writes to the current `sys.stderr`, which may be replaced."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Pass an interrupt on to the training, which `logging` would catch; print other failures."""
        cause = sys.exc_info()[1]
        if cause is not None and must_propagate(cause):
            raise cause
        super().handleError(record)


class _EscapingFormatter(logging.Formatter):
    """Formatter that escapes control characters, which may be in names from dumps and folders."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(map(terminal_line, super().format(record).split("\n")))


def _make_logger() -> logging.Logger:
    made = logging.getLogger("msprobe")
    handler = _StderrHandler()
    handler.setFormatter(_EscapingFormatter("msprobe %(levelname)s: %(message)s"))
    made.addHandler(handler)
    made.propagate = False
    made.setLevel(_LEVELS.get(os.environ.get("MSPROBE_LOG_LEVEL", "1"), logging.INFO))
    return made


logger = _make_logger()


def log_once(cause: str, message: str, level: int = logging.WARNING) -> bool:
    """Log a message once per cause and process; return whether it was logged."""
    if cause in _logged:
        return False
    _logged.add(cause)
    logger.log(level, message)
    return True
