"""Messages: one logger on standard error, text from a dump made safe for a terminal, and long lists made short.

`MSPROBE_LOG_LEVEL`: 0 debug, 1 information (default), 2 warning, 3 error, 4 nothing.
"""

import logging
import os
import re
import sys
from collections.abc import Iterable

from .interrupts import passes

_HARMLESS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
# Line and paragraph separators, and what turns the direction of writing around.
_HARMLESS |= {code: f"\\u{code:04x}" for code in (0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))}

LONGEST_WORD = 512
"""Characters of a name, a shape, a path that are shown; the tables have all of it."""

LONGEST_LINE = 4096

_LONG_WORD = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")

_LONGEST_SOURCE_LINE = 4096 + 16
"""Characters of a path (Linux's PATH_MAX) with a line number and what encloses them."""

_SOURCE_LINE = re.compile(r"\S+:\d+[).,;:]*")


def visible(said: object, longest: int | None = LONGEST_LINE) -> str:
    """Return a text, or a phrase, as one line for a terminal.

    Control characters are spelled out: an escape becomes the four characters `\x1b`. The middle of a word of more than
    `LONGEST_WORD` characters is left out, and so is the middle of a line of more than `longest`, but never of a source
    line, `FILE:LINE`: of a long line the last one is kept whole. With `longest` None nothing is left out.
    """
    if longest is None:
        return str(said).translate(_HARMLESS)
    # Twice, because spelling out makes a text up to six times as long.
    return _shortened(_shortened(str(said), longest).translate(_HARMLESS), longest)


def shortened(text: str, longest: int) -> str:
    """A text of at most so many characters: of a longer one the beginning and the end, and how much is left out."""
    if len(text) <= longest:
        return text
    left_out = f"...({len(text)} characters)..."
    kept = max(longest - len(left_out), 0)
    return text[: kept - kept // 2] + left_out + text[len(text) - kept // 2 :]


def _shortened(text: str, longest: int) -> str:
    if len(text) <= min(LONGEST_WORD, longest):
        return text
    text = _LONG_WORD.sub(lambda word: word[0] if _is_source_line(word[0]) else shortened(word[0], LONGEST_WORD), text)
    if len(text) <= longest:
        return text
    place = next((word for word in reversed(text.split(" ")) if _is_source_line(word)), "")
    before, _, after = text.rpartition(place) if place else (text, "", "")
    after = shortened(after, min(LONGEST_WORD, longest) // 2)
    room = max(longest - len(place) - len(after), LONGEST_WORD // 2)
    return f"{shortened(before, room)}{place}{after}"


def _is_source_line(word: str) -> bool:
    return len(word) <= _LONGEST_SOURCE_LINE and _SOURCE_LINE.fullmatch(word) is not None


def few(names: Iterable[object], most: int = 3) -> str:
    """`a, b, c and 4 more`: the first `most` names, and how many others there are."""
    every = [str(name) for name in names]
    more = len(every) - most
    return ", ".join(every[:most]) + (f" and {more} more" if more > 0 else "")


_LEVELS = {"0": logging.DEBUG, "1": logging.INFO, "2": logging.WARNING, "3": logging.ERROR, "4": logging.CRITICAL + 1}

_logged: set[str] = set()


class _ToStandardError(logging.StreamHandler):  # type: ignore[type-arg]  # generic in stubs only
    """Writes to the standard error of the moment, so that a replaced `sys.stderr` is respected."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Pass an interrupt on to the training, which `logging` would keep from it; print every other failure."""
        cause = sys.exc_info()[1]
        if cause is not None and passes(cause):
            raise cause
        super().handleError(record)


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
    """Log a message once per cause and process; returns whether it was logged now."""
    if cause in _logged:
        return False
    _logged.add(cause)
    logger.log(level, message)
    return True
