"""Limits that the user sets for one comparison: calls and records to ignore, and tolerances of their own.

A name is a pattern of the shell (`*`, `?`, `[...]`) for a call or a record, as tables print them, or for their first
parts: `Functional.dropout` stands for all calls of it, `Functional.dropout.0.forward.output.0` for one record. `*` also
matches dots. The name of a cell stands for the calls inside it too.
"""

import argparse
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache
from shlex import quote
from typing import Any

from msprobe.base.checks import shown
from msprobe.base.errors import UsageError

KEYS = ("ignore", "atol", "rtol")
"""The options, keywords and keys that set limits."""

ANY = "*"
"""The name of a tolerance that is given without one."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The tolerance of one option: what a pair of elements that matches `name` may differ by."""

    name: str
    value: float

    @property
    def option_value(self) -> str:
        """The value as the option takes it: `0.001`, `Mint.matmul=0.001`."""
        return f"{self.value:g}" if self.name == ANY else f"{self.name}={self.value:g}"


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a record may differ by: |target - golden| <= absolute + relative * |golden|; `options` set it."""

    absolute: float
    relative: float
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UserLimits:
    """The names to ignore, and tolerances in the order in which they were given: the last that matches counts."""

    ignore: tuple[str, ...] = ()
    atol: tuple[Tolerance, ...] = ()
    rtol: tuple[Tolerance, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.ignore or self.atol or self.rtol)

    def __add__(self, later: "UserLimits") -> "UserLimits":
        return UserLimits(self.ignore + later.ignore, self.atol + later.atol, self.rtol + later.rtol)

    @property
    def names(self) -> tuple[str, ...]:
        """All names, each once."""
        return tuple(dict.fromkeys((*self.ignore, *(t.name for t in (*self.atol, *self.rtol)))))

    def allowance(self, matches: "frozenset[str] | set[str]") -> Allowance | None:
        """Return the tolerance of a record that matches these names; None without any. What is not given is 0."""
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
        words = [word for name in self.ignore for word in ("--ignore", name)]
        for option, given in (("--atol", self.atol), ("--rtol", self.rtol)):
            words += [word for tolerance in given for word in (option, tolerance.option_value)]
        return words

    def __str__(self) -> str:
        words = self.command()
        return " ".join(word if word.startswith("--") else quote(word) for word in words)


NO_LIMITS = UserLimits()


@dataclass(frozen=True)
class Excused:
    """The pairs of records, by their rows, that the limits of the user took out of a comparison.

    `unused` are the names that match no call and no record.
    """

    limits: UserLimits
    rows: frozenset[int]
    counts: "ExcusedCounts"
    unused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExcusedCounts:
    """How many pairs of records are `ignored`, which differ or could not be judged; how many `tolerated`, which are
    beyond the tolerance of their dtype and within the user's; and how many ignored `calls` one side makes alone."""

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


def add_options(parser: Any) -> None:
    """Declare the options, for a parser or a group of one."""
    repeated: dict[str, Any] = {"action": "append"}
    parser.add_argument(
        "--ignore",
        metavar="NAME",
        **repeated,
        help="ignore differences of a call or record, or of all that a pattern with * matches; may be repeated. What "
        "differs because of it is still judged",
    )
    parser.add_argument(
        "--atol",
        metavar="[NAME=]VALUE",
        **repeated,
        help="accept tensors up to |target - golden| <= atol + rtol*|golden|, of all calls or of those that NAME "
        "matches; may be repeated, the last that matches counts",
    )
    parser.add_argument(
        "--rtol", metavar="[NAME=]VALUE", **repeated, help="the relative part of --atol; 0 where not given"
    )


def limits_of_arguments(args: argparse.Namespace) -> UserLimits:
    """Return the limits of a parsed command line; UsageError for a name or a number that is invalid."""
    return limits_of_options(args.ignore, args.atol, args.rtol)


def limits_of_options(
    ignore: Iterable[str] | None, atol: Iterable[str] | None, rtol: Iterable[str] | None
) -> UserLimits:
    """Return the limits that the values of the options set; UsageError for a name or a number that is invalid."""
    return UserLimits(
        tuple(_name(name, "--ignore") for name in ignore or ()),
        tuple(_tolerance(text, "--atol") for text in atol or ()),
        tuple(_tolerance(text, "--rtol") for text in rtol or ()),
    )


def limits_of_values(contents: Mapping[str, object], where: str) -> UserLimits:
    """Return the limits among the keys of a Python call or a compare.json: `ignore` is a name or a list of names,
    `atol` and `rtol` are a number, or numbers by name. `where` is their place for messages; UsageError for anything
    else."""
    tolerances = (_tolerances(contents.get(key), f"{where}{key}") for key in KEYS[1:])
    return UserLimits(_names(contents.get(KEYS[0]), where), *tolerances)


def _names(value: object, where: str) -> tuple[str, ...]:
    if value is None:
        return ()
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list | tuple) or not all(isinstance(name, str) for name in given):
        raise UsageError(f"{where}ignore must be a name, or a list of names, not {shown(value)}")
    return tuple(_name(name, f"{where}ignore") for name in given)


def _tolerances(value: object, where: str) -> tuple[Tolerance, ...]:
    if value is None:
        return ()
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise UsageError(f"{where} must have names as its keys, not {shown(value)}")
        return tuple(Tolerance(_name(name, where), _number(number, where)) for name, number in value.items())
    return (Tolerance(ANY, _number(value, where)),)


def _tolerance(given: str, option: str) -> Tolerance:
    """A tolerance as an option gives it: `VALUE`, `NAME=VALUE`."""
    name, equals, number = given.rpartition("=")
    try:
        value: object = float(number)
    except ValueError:
        value = number
    return Tolerance(_name(name, option) if equals else ANY, _number(value, option))


def _name(name: str, where: str) -> str:
    if not name.strip(". "):
        raise UsageError(f"{where}: a name is empty; give a call or a record as the tables print it, * for all")
    return name.strip()


def _number(value: object, where: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < 0:  # type: ignore[arg-type, operator]  # it is a number
        raise UsageError(f"{where}: a tolerance must be a number from 0 on, not {shown(value)}")
    return float(value)  # type: ignore[arg-type]  # as above
