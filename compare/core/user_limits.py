"""Limits that the user sets for one comparison: calls and records to ignore, and tolerances.

A name is a shell pattern (`*`, `?`, `[...]`) for a call or a record, as tables print them, or for their first parts:
`Functional.dropout` matches all calls of it, `Functional.dropout.0.forward.output.0` one record. `*` also matches dots.
The name of a cell also matches the calls inside it.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache
from shlex import quote
from typing import ClassVar

from msprobe.base.checks import quoted
from msprobe.base.errors import SettingsError
from msprobe.base.language import translated
from msprobe.options.declaration import OptionGroup, option
from msprobe.options.kinds import Kind

ANY = "*"
"""The name of a tolerance for all records."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The tolerance of one option: the allowed difference of elements of records that match `name`."""

    name: str
    value: float

    @property
    def option_value(self) -> str:
        """Return the value in the notation of the option: `0.001`, `Mint.matmul=0.001`."""
        return f"{self.value:g}" if self.name == ANY else f"{self.name}={self.value:g}"


@dataclass(frozen=True, slots=True)
class Allowance:
    """The allowed difference of a record: |target - golden| <= absolute + relative * |golden|; `options` set it."""

    absolute: float
    relative: float
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UserLimits:
    """The names to ignore, and tolerances in the order of the options: the last that matches applies."""

    ignore: tuple[str, ...] = ()
    atol: tuple[Tolerance, ...] = ()
    rtol: tuple[Tolerance, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.ignore or self.atol or self.rtol)

    def __add__(self, later: "UserLimits") -> "UserLimits":
        return UserLimits(self.ignore + later.ignore, self.atol + later.atol, self.rtol + later.rtol)

    @property
    def names(self) -> tuple[str, ...]:
        """Return all names, each once."""
        return tuple(dict.fromkeys((*self.ignore, *(t.name for t in (*self.atol, *self.rtol)))))

    def allowance(self, matches: "frozenset[str] | set[str]") -> Allowance | None:
        """Return the tolerance of a record that matches these names; None without any. A part that is not given is
        0."""
        found = {
            option: next((t for t in reversed(given) if t.name in matches), None)
            for option, given in (("--atol", self.atol), ("--rtol", self.rtol))
        }
        if not any(found.values()):
            return None
        absolute, relative = (0.0 if t is None else t.value for t in found.values())
        options = tuple(f"{option} {t.option_value}" for option, t in found.items() if t is not None)
        return Allowance(absolute, relative, options)

    def command(self) -> list[str]:
        """Return the options of the command that set these limits."""
        words = _words_of_names("--ignore", self.ignore)
        return words + _words_of_tolerances("--atol", self.atol) + _words_of_tolerances("--rtol", self.rtol)

    def __str__(self) -> str:
        words = self.command()
        return " ".join(word if word.startswith("--") else quote(word) for word in words)


NO_LIMITS = UserLimits()


@dataclass(frozen=True)
class Excused:
    """The pairs of records, by their rows, that the limits of the user removed from a comparison.

    `unused` are the names that match no call and no record.
    """

    limits: UserLimits
    rows: frozenset[int]
    counts: "ExcusedCounts"
    unused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExcusedCounts:
    """Numbers of pairs of records that are `ignored`, which differ or could not be judged, and `tolerated`, which are
    beyond the tolerance of their dtype and within the user's; and of ignored `calls` that only one side makes."""

    ignored: int = 0
    tolerated: int = 0
    calls: int = 0

    def __add__(self, other: "ExcusedCounts") -> "ExcusedCounts":
        return ExcusedCounts(self.ignored + other.ignored, self.tolerated + other.tolerated, self.calls + other.calls)


NOTHING_EXCUSED = ExcusedCounts()


@lru_cache(maxsize=1024)
def pattern_of(name: str) -> re.Pattern[str]:
    """Return the pattern that matches a call's or record's name, whole or up to a dot."""
    whole = translate(name.rstrip(".")).removesuffix(r"\Z").removesuffix(r"\z")
    return re.compile(rf"(?:{whole})(?:\..*)?", re.DOTALL)


def matching(names: Sequence[str], called: str) -> set[str]:
    """Return which of the names match a call's or a record's name."""
    return {name for name in names if name == called or pattern_of(name).fullmatch(called)}


def _checked_names(value: object) -> tuple[str, ...]:
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list | tuple) or not all(isinstance(name, str) for name in given):
        raise SettingsError(
            translated(
                f"{quoted(value)} is invalid; give a name, or a list of names",
                f"{quoted(value)} 无效；请给出名称或名称列表",
            )
        )
    return tuple(map(_name, given))


def _checked_tolerances(value: object) -> tuple[Tolerance, ...]:
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise SettingsError(f"{quoted(value)} is invalid; give names as keys")
        return tuple(Tolerance(_name(name), _number(number)) for name, number in value.items())
    return (Tolerance(ANY, _number(value)),)


def _tolerance(given: str) -> Tolerance:
    """Return a tolerance in the notation of an option: `VALUE`, `NAME=VALUE`."""
    name, equals, number = given.rpartition("=")
    try:
        value: object = float(number)
    except ValueError:
        value = number
    return Tolerance(_name(name) if equals else ANY, _number(value))


def _name(name: str) -> str:
    if not name.strip(". "):
        raise SettingsError(
            translated(
                "a name is empty; give a call or a record as printed in the tables, or * for all",
                "名称为空；请按表中的写法给出调用或记录，* 表示全部",
            )
        )
    return name.strip()


def _number(value: object) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < 0:  # type: ignore[arg-type, operator]  # it is a number
        raise SettingsError(
            translated(
                f"a tolerance must be a non-negative number, not {quoted(value)}",
                f"容差必须是不小于 0 的数，而不是 {quoted(value)}",
            )
        )
    return float(value)  # type: ignore[arg-type]  # as above


def _words_of_names(flag: str, names: tuple[str, ...]) -> list[str]:
    return [word for name in names for word in (flag, name)]


def _words_of_tolerances(flag: str, given: tuple[Tolerance, ...]) -> list[str]:
    return [word for tolerance in given for word in (flag, tolerance.option_value)]


_NAMES = Kind("NAME", _checked_names, lambda words: tuple(map(_name, words)), "repeated", _words_of_names)
_TOLERANCES = Kind(
    "[NAME=]VALUE",
    _checked_tolerances,
    lambda words: tuple(map(_tolerance, words)),
    "repeated",
    _words_of_tolerances,
)


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class UserLimitOptions(OptionGroup):
    """The limits of the user: in Python and in a file, `ignore` is a name or a list of names, `atol` and `rtol` are a
    number, or numbers by name."""

    TITLE: ClassVar[tuple[str, str]] = ("differences that you accept", "可接受的差异")

    ignore: tuple[str, ...] = option(
        _NAMES,
        "--ignore",
        default=(),
        keyword="ignore",
        key="ignore",
        help="ignore differences of a call or record, or of all that match a pattern with *; may be repeated. "
        "Differences that they cause in later calls are still judged",
        zh="忽略某个调用或记录的差异，或带 * 的模式所匹配的全部差异；可重复给出。由其引起的后续差异仍会判定",
    )
    atol: tuple[Tolerance, ...] = option(
        _TOLERANCES,
        "--atol",
        default=(),
        keyword="atol",
        key="atol",
        help="accept tensors with |target - golden| <= atol + rtol*|golden|, for all calls or for those that NAME "
        "matches; may be repeated, the last match applies",
        zh="接受满足 |target - golden| <= atol + rtol*|golden| 的张量，适用于全部调用或 NAME 匹配的调用；"
        "可重复给出，以最后匹配的为准",
    )
    rtol: tuple[Tolerance, ...] = option(
        _TOLERANCES,
        "--rtol",
        default=(),
        keyword="rtol",
        key="rtol",
        help="the relative tolerance in the formula of --atol; default: 0",
        zh="--atol 公式中的相对容差；默认：0",
    )

    @property
    def user_limits(self) -> UserLimits:
        """Return the limits together."""
        return UserLimits(self.ignore, self.atol, self.rtol)
