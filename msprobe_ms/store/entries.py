"""The entries of a dump.json one after the other, so that the parsed whole never stands in memory.

Only a plain file is read this way. Of anything else, a mistake above all, `document.py` reads the whole and says what
it is; so there is one place that judges files.
"""

import codecs
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from msprobe.base.files import open_input

from .document import may_have_halves, with_whole_characters

_PIECE = 1 << 20  # bytes
_LONGEST = 1 << 30  # characters of one entry; whatever has a longer one is no dump
_SPACE = re.compile(r"[ \t\n\r]*")
# What may stand behind a value or a key. Anything else means that the value goes on, in text that was not read yet.
_ENDS = frozenset(",:}")


class NotPlainError(Exception):
    """The file is broken, odd, or no dump; read it whole."""


def stream(file: Path, take: Callable[[str, Any], None]) -> dict[str, Any]:
    """Hand each member of the file's `data` to `take` in turn, and give the file's other members.

    NotPlainError where anything is odd, whatever was taken until then; a name may be handed over twice.
    """
    try:
        with open_input(file) as opened:
            return _members(_Text(opened), take)
    # RecursionError: nested without end. MemoryError: one entry is too large. ValueError: no UTF-8.
    except (OSError, ValueError, RecursionError, MemoryError) as err:
        raise NotPlainError from err


def _members(text: "_Text", take: Callable[[str, Any], None]) -> dict[str, Any]:
    others: dict[str, Any] = {}
    has_data = False
    text.pass_sign("{")
    for key in text.each_key():
        if key != "data":
            others[key] = text.value()
            continue
        if has_data:
            raise NotPlainError
        has_data = True
        text.pass_sign("{")
        for name in text.each_key():
            take(name, text.value())
    if not has_data or not text.is_at_end():
        raise NotPlainError
    return others


class _Text:
    """A JSON text of which only a window is in memory."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decode = codecs.getincrementaldecoder("utf-8-sig")().decode
        self._scan = json.JSONDecoder().raw_decode
        self._window, self._at = "", 0
        self._has_ended = self._has_halves = False

    def each_key(self) -> Iterator[str]:
        """The keys of an object whose bracket was passed; the value is to be read before the next key."""
        if self._sign() == "}":
            self._at += 1
            return
        while True:
            if self._sign() != '"':
                raise NotPlainError
            key = self.value()
            self.pass_sign(":")
            yield key
            if self._sign() == "}":
                self._at += 1
                return
            self.pass_sign(",")

    def value(self) -> Any:
        """The value that follows, whole."""
        self._sign()
        while True:
            try:
                made, end = self._scan(self._window, self._at)
            except ValueError:  # a mistake, or only cut off where the window ends
                self._read_on()
                continue
            behind = _behind_space(self._window, end)
            if behind < len(self._window) and self._window[behind] in _ENDS:
                break
            self._read_on()
        if self._has_halves and may_have_halves(self._window, self._at, end):
            made = with_whole_characters(made)
        self._at = behind
        return made

    def pass_sign(self, sign: str) -> None:
        """Go behind a sign that must come now."""
        if self._sign() != sign:
            raise NotPlainError
        self._at += 1

    def is_at_end(self) -> bool:
        """Whether nothing but white space follows."""
        try:
            self._sign()
        except NotPlainError:
            return True
        return False

    def _sign(self) -> str:
        """The next character that is no white space; it is not passed."""
        self._at = _behind_space(self._window, self._at)
        while self._at == len(self._window):
            self._read_on()
            self._at = _behind_space(self._window, self._at)
        return self._window[self._at]

    def _read_on(self) -> None:
        """Leave out of the window what was passed, and put the next piece of the file in.

        As much again as is waiting there, at least: so an entry of any size is looked at a few times only.
        """
        if self._has_ended or len(self._window) > _LONGEST:
            raise NotPlainError
        piece = self._file.read(max(_PIECE, len(self._window) - self._at))
        self._has_ended = not piece
        self._window = self._window[self._at :] + self._decode(piece, self._has_ended)
        self._at = 0
        self._has_halves = may_have_halves(self._window)


def _behind_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None  # it may be of no length
    return found.end()
