"""Checks of settings: a check takes the value in the file and returns the value that we keep, or raises SettingsError.

Its message says what is wrong and what to do; `setting.checked` adds where.
"""

import json
import os
import re
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Any

from .errors import SettingsError
from .files import user_path
from .interrupts import passes

Check = Callable[[object], Any]


def shown(value: object) -> str:
    """A value for a message, as JSON writes it, cut where it would fill the screen. Never raises."""
    try:
        text = json.dumps(_part(value), ensure_ascii=False, default=repr)
    except BaseException as cause:  # foreign code
        if passes(cause):
            raise
        text = f"<{type.__dict__['__name__'].__get__(type(value))}>"
    return text if len(text) <= 80 else f"{text[:77]}..."


def _part(value: object) -> object:
    """As much of a container as a message can show; it may be endless."""
    if not issubclass(type(value), (list, tuple, dict)):
        return value
    from .nested import tree_of_one  # here: it imports numpy

    return tree_of_one(value, most=80).values[0]


def listed(words: tuple[str, ...]) -> str:
    """Words for a message: `"a", "b", "c"`."""
    return ", ".join(map(shown, words))


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that was probably meant, empty where none is similar; letter case, `-` and `_` do not count.

    A part that many names share does not make them similar: `overflow_check` is no misspelled `rollout_check`.
    """
    from difflib import get_close_matches  # here: only who made a mistake needs it

    spelled = {_plain(each): each for each in known}
    near = get_close_matches(_plain(word), list(spelled), 3)
    for each in near:
        own, other = (text.split("_") for text in (_plain(word), each))
        shared = set(own) & set(other)
        rest, other_rest = ("_".join(part for part in parts if part not in shared) for parts in (own, other))
        if not rest or not other_rest or get_close_matches(rest, [other_rest], 1):
            return spelled[each]
    return ""


def _plain(word: str) -> str:
    return word.lower().replace("-", "_")


def unread(value: object) -> object:
    """For settings that only other frameworks read: the value, or None for one without a meaning."""
    return None if value in (False, "", [], -1) else value


def flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    bare = ", without quotation marks" if isinstance(value, str) else ""
    raise SettingsError(f"{shown(value)} is not a boolean; write true or false{bare}")


def texts(value: object) -> tuple[str, ...]:
    """A list of texts. An empty text is refused: as a pattern it would match every name."""
    if isinstance(value, str):
        raise SettingsError(f"{shown(value)} is a single string; write a list, [{shown(value)}]")
    if not isinstance(value, list | tuple):
        raise SettingsError(f'{shown(value)} is not a list of strings; write [] or a list such as ["relu"]')
    for element in value:
        if not isinstance(element, str) or not element:
            raise SettingsError(f"{shown(element)} is not a name; the list may contain only non-empty strings")
    return tuple(value)


def one_of(*allowed: str) -> Check:
    """A check for one word out of these."""

    def check(value: object) -> str:
        if isinstance(value, str) and value in allowed:
            return value
        near = nearest(value, allowed) if isinstance(value, str) else ""
        hint = f"did you mean {shown(near)}? It may be" if near else "it may be"
        raise SettingsError(f"{shown(value)} is unknown; {hint} one of {listed(allowed)}")

    return check


def whole(low: int, *, also: tuple[int, ...] = ()) -> Check:
    """A check for a whole number from `low` on, or one of `also`. True and false are no numbers."""

    def check(value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and (value >= low or value in also):
            return value
        more = "".join(f", or {number}" for number in also)
        raise SettingsError(f"{shown(value)} is invalid; write an integer of at least {low}{more}")

    return check


def above(low: float) -> Check:
    """A check for a finite number greater than `low`."""

    def check(value: object) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool) and low < value < float("inf"):
            return float(value)
        raise SettingsError(f"{shown(value)} is invalid; write a number greater than {low:g}")

    return check


def some_of(*allowed: str) -> Check:
    """A check for a list of at least one of these words."""

    def check(value: object) -> tuple[str, ...]:
        words = tuple(dict.fromkeys(map(one_of(*allowed), texts(value))))
        if not words:
            raise SettingsError(f"the list is empty; write at least one of {listed(allowed)}")
        return words

    return check


def ascending(value: object) -> tuple[int | float, ...]:
    """A list of different numbers in rising order, each within the range of int64."""
    if not isinstance(value, list | tuple) or not value:
        raise SettingsError(f"{shown(value)} is not a list of numbers; write a list such as [-1, 0, 1]")
    for number in value:
        if isinstance(number, bool) or not isinstance(number, int | float) or not -(2**63) <= number < 2**63:
            raise SettingsError(f"{shown(number)} is not an int64 number; write numbers such as [-1, 0, 1]")
    if any(right <= left for left, right in pairwise(value)):
        raise SettingsError(f"{shown(value)} is not strictly increasing; sort it and remove duplicates")
    return tuple(value)


def absolute(value: "str | PurePath") -> Path:
    """An absolute path, by the present working directory. SettingsError for a relative one where that was deleted."""
    try:
        return user_path(value).absolute()
    except OSError as err:
        raise SettingsError(
            f"{shown(str(value))} is relative, but the working directory no longer exists; give an absolute path, "
            "or start in an existing folder"
        ) from err


def folder(value: object) -> Path:
    """A folder to write to, as an absolute path; it need not exist yet."""
    if not isinstance(value, str | PurePath):
        raise SettingsError(f"{shown(value)} is not a path; write it in double quotes")
    if not str(value):
        raise SettingsError("the path is empty; give the folder to which the dump is written")
    if "\0" in str(value):
        raise SettingsError(f"{shown(value)} contains a NUL character, which is invalid in paths; remove it")
    path = absolute(value)
    if os.path.exists(path) and not os.path.isdir(path):  # pathlib's own questions raise on a name that is too long
        raise SettingsError(f"{shown(value)} is a file; give a folder, or a path that does not exist yet")
    return path


_UNITS = {f"{prefix}b": 1000**power for power, prefix in enumerate("kmgt", 1)}
_UNITS |= {f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgt", 1)}
_SIZE = re.compile(r"\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*([kmgt]i?b)\s*", re.IGNORECASE)


def size(value: object) -> int:
    """A number of bytes, whole or as a text with a unit: `"20GB"`."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str) and (fits := _SIZE.fullmatch(value)):
        return int(float(fits[1]) * _UNITS[fits[2].lower()])
    raise SettingsError(
        f'{shown(value)} is not a size; write a number of bytes, or a string such as "20GB" or "512MiB"'
    )


def existing(value: object) -> str:
    """An existing path, absolute; an empty text is none."""
    if not isinstance(value, str | PurePath):
        raise SettingsError(f"{shown(value)} is not a path; write it in double quotes")
    if not str(value):
        return ""
    if "\0" in str(value) or not os.path.exists(user_path(value)):
        raise SettingsError(f'{shown(str(value))} does not exist; give a dump, or write ""')
    return str(absolute(value))
