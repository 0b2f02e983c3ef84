"""Checks of settings. A check takes a value from a file and returns the value of the setting, or raises SettingsError.

The message states the problem and the solution; `setting.checked` adds the location.
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
from .interrupts import must_propagate

Check = Callable[[object], Any]


def quoted(value: object) -> str:
    """Return a value as JSON for a message, with at most 80 characters. Never raises."""
    try:
        text = json.dumps(_truncated(value), ensure_ascii=False, default=repr)
    except BaseException as cause:  # foreign code
        if must_propagate(cause):
            raise
        text = f"<{type.__dict__['__name__'].__get__(type(value))}>"
    return text if len(text) <= 80 else f"{text[:77]}..."


def _truncated(value: object) -> object:
    """Return the first 80 members of a container, which may be infinite."""
    if not issubclass(type(value), (list, tuple, dict)):
        return value
    from .nested import tree_of_value  # lazy: imports NumPy

    return tree_of_value(value, most=80).values[0]


def quoted_list(words: tuple[str, ...]) -> str:
    """Return words for a message: `"a", "b", "c"`."""
    return ", ".join(map(quoted, words))


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the most similar known word, or an empty string; letter case, `-` and `_` are ignored.

    Common parts of names are not compared: `overflow_check` is not similar to `rollout_check`.
    """
    from difflib import get_close_matches  # lazy: only needed for errors

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


def other_framework_value(value: object) -> object:
    """Return the value of a setting that only other frameworks read; None for an empty value."""
    return None if value in (False, "", [], -1) else value


def flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    bare = ", without quotation marks" if isinstance(value, str) else ""
    raise SettingsError(f"{quoted(value)} is not a boolean; write true or false{bare}")


def strings(value: object) -> tuple[str, ...]:
    """Check a list of strings. Empty strings are rejected, because as patterns they would match every name."""
    if isinstance(value, str):
        raise SettingsError(f"{quoted(value)} is a single string; write a list, [{quoted(value)}]")
    if not isinstance(value, list | tuple):
        raise SettingsError(f'{quoted(value)} is not a list of strings; write [] or a list such as ["relu"]')
    for element in value:
        if not isinstance(element, str) or not element:
            raise SettingsError(f"{quoted(element)} is not a name; the list may contain only non-empty strings")
    return tuple(value)


def one_of(*allowed: str) -> Check:
    """Return a check for one of these words."""

    def check(value: object) -> str:
        if isinstance(value, str) and value in allowed:
            return value
        near = nearest(value, allowed) if isinstance(value, str) else ""
        hint = f"did you mean {quoted(near)}? It may be" if near else "it may be"
        raise SettingsError(f"{quoted(value)} is unknown; {hint} one of {quoted_list(allowed)}")

    return check


def integer_at_least(low: int, *, also: tuple[int, ...] = ()) -> Check:
    """Return a check for an integer >= `low`, or one of `also`. Booleans are rejected."""

    def check(value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and (value >= low or value in also):
            return value
        more = "".join(f", or {number}" for number in also)
        raise SettingsError(f"{quoted(value)} is invalid; write an integer of at least {low}{more}")

    return check


def number_above(low: float) -> Check:
    """Return a check for a finite number > `low`."""

    def check(value: object) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool) and low < value < float("inf"):
            return float(value)
        raise SettingsError(f"{quoted(value)} is invalid; write a number greater than {low:g}")

    return check


def words_of(*allowed: str) -> Check:
    """Return a check for a list of one or more of these words."""

    def check(value: object) -> tuple[str, ...]:
        words = tuple(dict.fromkeys(map(one_of(*allowed), strings(value))))
        if not words:
            raise SettingsError(f"the list is empty; write at least one of {quoted_list(allowed)}")
        return words

    return check


def increasing_numbers(value: object) -> tuple[int | float, ...]:
    """Check a list of strictly increasing numbers in the range of int64."""
    if not isinstance(value, list | tuple) or not value:
        raise SettingsError(f"{quoted(value)} is not a list of numbers; write a list such as [-1, 0, 1]")
    for number in value:
        if isinstance(number, bool) or not isinstance(number, int | float) or not -(2**63) <= number < 2**63:
            raise SettingsError(f"{quoted(number)} is not an int64 number; write numbers such as [-1, 0, 1]")
    if any(right <= left for left, right in pairwise(value)):
        raise SettingsError(f"{quoted(value)} is not strictly increasing; sort it and remove duplicates")
    return tuple(value)


def absolute_path(value: "str | PurePath") -> Path:
    """Return the absolute path. SettingsError if the path is relative and the working directory was deleted."""
    try:
        return user_path(value).absolute()
    except OSError as err:
        raise SettingsError(
            f"{quoted(str(value))} is relative, but the working directory no longer exists; give an absolute path, "
            "or start in an existing folder"
        ) from err


def output_folder(value: object) -> Path:
    """Check an output folder, which may not exist yet; return the absolute path."""
    if not isinstance(value, str | PurePath):
        raise SettingsError(f"{quoted(value)} is not a path; write it in double quotes")
    if not str(value):
        raise SettingsError("the path is empty; give the folder to which the dump is written")
    if "\0" in str(value):
        raise SettingsError(f"{quoted(value)} contains a NUL character, which is invalid in paths; remove it")
    path = absolute_path(value)
    if os.path.exists(path) and not os.path.isdir(path):  # methods of Path raise for a name that is too long
        raise SettingsError(f"{quoted(value)} is a file; give a folder, or a path that does not exist yet")
    return path


_UNITS = {f"{prefix}b": 1000**power for power, prefix in enumerate("kmgt", 1)}
_UNITS |= {f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgt", 1)}
_SIZE = re.compile(r"\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*([kmgt]i?b)\s*", re.IGNORECASE)


def byte_size(value: object) -> int:
    """Check a number of bytes, an integer or a string with a unit such as `"20GB"`; return the number."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str) and (fits := _SIZE.fullmatch(value)):
        return int(float(fits[1]) * _UNITS[fits[2].lower()])
    raise SettingsError(
        f'{quoted(value)} is not a size; write a number of bytes, or a string such as "20GB" or "512MiB"'
    )


def existing_path(value: object) -> str:
    """Check an existing path; return the absolute path, or an empty string for an empty string."""
    if not isinstance(value, str | PurePath):
        raise SettingsError(f"{quoted(value)} is not a path; write it in double quotes")
    if not str(value):
        return ""
    if "\0" in str(value) or not os.path.exists(user_path(value)):
        raise SettingsError(f'{quoted(str(value))} does not exist; give a dump, or write ""')
    return str(absolute_path(value))
