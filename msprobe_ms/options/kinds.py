"""The kinds of values that options have: how each is written on a command line, in Python and in JSON."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from msprobe.base import checks
from msprobe.base.errors import SettingsError
from msprobe.base.files import user_path
from msprobe.base.language import translated
from msprobe.base.scope import parse_number_list, parse_numbers

Words = Callable[[str, Any], list[str]]


def _one_word(flag: str, value: Any) -> list[str]:
    return [flag, str(value)]


class Kind(NamedTuple):
    """How a value is written.

    `read` makes the value of the words of a command line, `check` of a value in Python or in JSON; both raise
    SettingsError for what is invalid. `words` are those of a command line that give a flag and a value. `form` is
    how many words a value has: none, one, at most one, any number, several, a number of them, or one each time that the
    flag is given. `choices` are all values that there are, if they are few.
    """

    metavar: str
    check: checks.Check
    read: Callable[[Any], Any]
    form: Literal["none", "one", "optional", "any", "several", "repeated", "switch", "rest"] | int = "one"
    words: Words = _one_word
    choices: tuple[str, ...] = ()


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise SettingsError(
        translated(
            f"{checks.quoted(value)} is not a string; write it in double quotes",
            f"{checks.quoted(value)} 不是文本；请写在双引号之间",
        )
    )


def _path(value: object) -> Path:
    if isinstance(value, str | os.PathLike) and os.fspath(value):
        return user_path(value)
    raise SettingsError(
        translated(
            f"{checks.quoted(value)} is not a path; pass a string or a pathlib.Path",
            f"{checks.quoted(value)} 不是路径；请给出文本或 pathlib.Path",
        )
    )


def _path_or_true(value: object) -> object:
    if value is False or value == "":
        return None
    if value is True or isinstance(value, str | os.PathLike):
        return value
    raise SettingsError(
        translated(
            f"{checks.quoted(value)} is not a file path; pass a path, or True for the default without a file",
            f"{checks.quoted(value)} 不是文件路径；请给出路径，或用 True 表示没有文件",
        )
    )


def _texts(value: object) -> tuple[str, ...]:
    return checks.strings([value] if isinstance(value, str) else value)


def _numbers(value: object) -> tuple[int, ...]:
    if isinstance(value, list | tuple) and all(type(each) is int and each >= 0 for each in value):
        return parse_numbers(value)
    raise SettingsError(
        translated(
            f"{checks.quoted(value)} is not a list of non-negative integers; write a list such as [0, 1], or [] for "
            "all",
            f"{checks.quoted(value)} 不是非负整数的列表；请写 [0, 1]，或用 [] 表示全部",
        )
    )


FLAG = Kind("", checks.flag, bool, "none", lambda flag, value: [flag] if value else [])
NO_FLAG = Kind("", checks.flag, lambda _: False, "none", lambda flag, value: [] if value else [flag])
"""A flag that turns off what is on without it."""

TEXT = Kind("TEXT", _text, _text)
PATH = Kind("PATH", _path, Path)
NUMBERS = Kind("N,..", _numbers, parse_number_list, words=lambda flag, value: [flag, ",".join(map(str, sorted(value)))])
OPTIONAL_FILE = Kind(
    "FILE",
    _path_or_true,
    lambda word: word,
    "optional",
    lambda flag, value: [flag] if value is True else [flag, str(value)],
)
"""A file, or True where the flag is given without one."""


def several(metavar: str, form: Literal["any", "several"] | int = "several") -> Kind:
    """Several texts after one flag."""
    return Kind(metavar, _texts, tuple, form, lambda flag, value: [flag, *map(str, value)])


def whole(low: int | None = None) -> Kind:
    """A whole number, from `low` where that is given."""

    def check(value: object) -> int:
        if type(value) is int and (low is None or value >= low):
            return value
        raise SettingsError(_not_a_number(value, low))

    def read(word: str) -> int:
        try:
            number = int(word)
        except ValueError:
            raise SettingsError(_not_a_number(word, low)) from None
        return check(number)

    return Kind("N", check, read)


def _not_a_number(value: object, low: int | None) -> str:
    text = value if isinstance(value, str) else checks.quoted(value)
    if low is None:
        return translated(f"{text} is invalid; give an integer", f"{text} 无效；请给出整数")
    return translated(
        f"{text} is invalid; give an integer of at least {low}", f"{text} 无效；请给出不小于 {low} 的整数"
    )


def one_of(*choices: str) -> Kind:
    """One of a few words."""

    def check(value: object) -> str:
        if isinstance(value, str) and value in choices:
            return value
        text = value if isinstance(value, str) else checks.quoted(value)
        near = checks.nearest(value, choices) if isinstance(value, str) else ""
        english = f"did you mean {near}? Choose" if near else "choose"
        chinese = f"是否指 {near}？可选" if near else "可选"
        raise SettingsError(
            translated(
                f"{text} is invalid; {english} one of {', '.join(choices)}",
                f"{text} 无效；{chinese}：{'、'.join(choices)}",
            )
        )

    return Kind(f"{{{','.join(choices)}}}", check, check, choices=choices)


SWITCH = Kind("", checks.flag, bool, "switch", lambda flag, value: [flag if value else flag.replace("--", "--no-", 1)])
"""`--flag` and `--no-flag`."""

REST = Kind("ARGUMENT", _texts, tuple, "rest", lambda flag, value: [*map(str, value)])
"""All words that follow, whatever they begin with."""
