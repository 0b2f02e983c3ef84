"""The rules of alerts: their settings, and the judges that apply them to all targets of a step together.

A judge keeps what it remembers of one kind of rows by the number of the row. It receives the numbers of the rows of
this step and their statistics, float64 of shape (rows, operations), and returns where its rule matches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from msprobe.base.checks import Check, nearest, quoted, quoted_list
from msprobe.base.errors import SettingsError
from msprobe.base.setting import checked, setting

from .robust import RobustJudge

Array = np.ndarray[Any, Any]


class Matches(NamedTuple):
    """Where a rule matches, bool, and what a value was held against, float64: both of shape (rows, operations)."""

    where: Array
    against: Array


class Judge(Protocol):
    """Applies one rule to one kind of rows."""

    def __call__(self, rows: Array, values: Array, means: Array) -> Matches: ...


class Rule(Protocol):
    """The settings of a rule."""

    name: ClassVar[str]

    def judge(self, operations: Sequence[str]) -> Judge:
        """Return a judge of rows with these statistics, which has seen nothing yet."""


class UnknownRule(SettingsError, TypeError):
    """Raised for an unknown name of a rule; also a TypeError, which 8.1 raises."""


def _not_negative(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf"):
        return float(value)
    raise SettingsError(f"{quoted(value)} is not a threshold; write a non-negative number")


@dataclass(frozen=True, kw_only=True)
class Turbulence:
    """AnomalyTurbulence: abs(value) > (1 + threshold) x mean, for norm and mean only."""

    name: ClassVar[str] = "AnomalyTurbulence"
    threshold: float = setting(_not_negative)

    def judge(self, operations: Sequence[str]) -> Judge:
        is_judged = np.array([operation in ("norm", "mean") for operation in operations], bool)
        factor = 1 + self.threshold

        def find(rows: Array, values: Array, means: Array) -> Matches:
            return Matches((np.abs(values) > factor * means) & is_judged, means)

        return find


@dataclass(frozen=True, kw_only=True)
class Nan:
    """AnomalyNan: the value is NaN, or abs(value) > threshold where there is one."""

    name: ClassVar[str] = "AnomalyNan"
    threshold: float | None = setting(_not_negative, None)

    def judge(self, operations: Sequence[str]) -> Judge:
        threshold = np.inf if self.threshold is None else self.threshold

        def find(rows: Array, values: Array, means: Array) -> Matches:
            return Matches(np.isnan(values) | (np.abs(values) > threshold), means)

        return find


@dataclass(frozen=True, kw_only=True)
class Robust:
    """AnomalyRobust: a sudden jump, or a value that became NaN or infinite (`robust.py`). It has no settings."""

    name: ClassVar[str] = "AnomalyRobust"

    def judge(self, operations: Sequence[str]) -> Judge:
        judge = RobustJudge(operations)

        def find(rows: Array, values: Array, means: Array) -> Matches:
            return Matches(*judge.find(rows, values))

        return find


RULES: dict[str, type[Rule]] = {rule.name: rule for rule in (Turbulence, Nan, Robust)}


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """One entry of `rules`."""

    rule_name: object = setting(lambda value: value, None)
    args: object = setting(lambda value: value, None)


def _object(value: object) -> Mapping[str, object]:
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return value
    raise SettingsError(f"{quoted(value)} is not an object; write {{...}}")


def rules_of(value: object) -> tuple[Rule, ...]:
    """Return a list of rules: `[{"rule_name": "AnomalyTurbulence", "args": {"threshold": 0.5}}]`."""
    if not isinstance(value, list | tuple):
        raise SettingsError(f'{quoted(value)} is not a list of rules; write [{{"rule_name": "AnomalyRobust"}}]')
    return tuple(_at(f"entry {at}", _rule, each) for at, each in enumerate(value))


def _rule(value: object) -> Rule:
    entry = _Entry(**checked(_Entry, _object(value), str, {}))
    name = entry.rule_name
    if not isinstance(name, str) or name not in RULES:
        near = nearest(name, RULES) if isinstance(name, str) else ""
        hint = f"did you mean {quoted(near)}?" if near else f"choose one of {quoted_list(tuple(RULES))}"
        raise UnknownRule(f"there is no rule {quoted(name)}; {hint}")
    rule, args = RULES[name], {} if entry.args is None else _at("args", _object, entry.args)
    if rule is Turbulence and args.get("threshold") is None:
        raise SettingsError(f'{name}: "threshold" is missing; write "args": {{"threshold": 0.5}}')
    return rule(**checked(rule, args, lambda key: f"{name}: {key}", {}))


def _at(where: str, check: Check, value: object) -> Any:
    try:
        return check(value)
    except SettingsError as err:
        raise type(err)(f"{where}: {err}") from err
