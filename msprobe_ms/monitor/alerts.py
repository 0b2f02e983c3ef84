"""Alerts while training: each statistic of a step is compared with its earlier values, and outliers are reported.

`Alerts` keeps, for each series (a target and a statistic), the mean of magnitudes that the rules of msprobe 8.1 need:
it begins with the first, then mean = 0.99 mean + 0.01 abs(value). A value is compared before it enters the mean.
Values that are not finite do not enter it: after a NaN it would be NaN for ever.
"""

import logging
import sys
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TextIO

import numpy as np

from msprobe.base.checks import flag, quoted
from msprobe.base.errors import SettingsError
from msprobe.base.log import logger, terminal_line
from msprobe.base.setting import checked, setting
from msprobe.store.monitor.layout import tag

from .rules import Judge, Matches, Robust, Rule, rules_of

Array = np.ndarray[Any, Any]

KEPT, ADDED = 0.99, 0.01
"""The weights of the mean and of a new magnitude."""

MOST_LINES = 10
"""Messages of one step that are printed; the others are counted."""


@dataclass(frozen=True, kw_only=True)
class AlertSettings:
    """`alert` of the configuration; `dump` writes anomaly.json."""

    rules: tuple[Rule, ...] = setting(rules_of, ())
    dump: bool = setting(flag, False)


def alert_settings(value: object) -> AlertSettings:
    """Return the check of the setting `alert`. SettingsError; an unknown rule is a TypeError as well."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise SettingsError(f'{quoted(value)} is not an object; write {{"rules": [{{"rule_name": "AnomalyRobust"}}]}}')
    return AlertSettings(**checked(AlertSettings, value, str, {}))


class Target(Hashable, Protocol):
    """The target of a row; `micro_step` is None if the kind has no micro steps."""

    @property
    def vpp_stage(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def micro_step(self) -> int | None: ...


@dataclass(frozen=True)
class Anomaly:
    """One value that a rule matches.

    `mean` is the value that it was compared with, `call_id` the place of its target among those of the step.
    """

    rule: str
    tag: str
    operation: str
    step: int
    micro_step: int
    value: float
    mean: float
    rank: int
    vpp_stage: int
    pp_stage: int
    call_id: int
    group_mates: tuple[int, ...]


class Alerts:
    """Applies rules to the statistics of each step; the first rule that matches a value is the one that is reported."""

    def __init__(self, rules: Sequence[Rule], *, pp_stage: int = 0, group_mates: Sequence[int] = ()) -> None:
        self._rules = tuple(rules)
        self._pp_stage, self._group_mates = pp_stage, tuple(group_mates)
        self._series: dict[tuple[str, tuple[str, ...]], _Series] = {}
        self._step, self._calls = -1, 0

    def check(
        self, kind: str, targets: Sequence[Target], values: Array, operations: Sequence[str], step: int, rank: int
    ) -> list[Anomaly]:
        """Return the anomalies among `values`, of shape (targets, operations), in their order.

        Each target occurs once in a call. Omit rows of empty tensors, whose statistics are NaN.
        `call_id` counts the targets of all calls with one step.
        """
        if not self._rules or not len(targets):
            return []
        if step != self._step:
            self._step, self._calls = step, 0
        first, self._calls = self._calls, self._calls + len(targets)
        operations = tuple(operations)
        key = (kind, operations)
        if key not in self._series:
            self._series[key] = _Series(self._rules, operations)
        values = np.asarray(values, np.float64)
        found = self._series[key].find(targets, values)
        mates = self._group_mates or (rank,)
        made = []
        for row, column, rule, against in sorted(found):
            of = targets[row]
            made.append(
                Anomaly(
                    rule=self._rules[rule].name,
                    tag=tag(of.vpp_stage, of.name, rank, kind, of.micro_step),
                    operation=operations[column],
                    step=step,
                    micro_step=of.micro_step or 0,
                    value=float(values[row, column]),
                    mean=against,
                    rank=rank,
                    vpp_stage=of.vpp_stage,
                    pp_stage=self._pp_stage,
                    call_id=first + row,
                    group_mates=mates,
                )
            )
        return made


class _Series:
    """All series of one kind with the same statistics."""

    def __init__(self, rules: Sequence[Rule], operations: tuple[str, ...]) -> None:
        self._judges: list[Judge] = [rule.judge(operations) for rule in rules]
        self._numbers: dict[Target, int] = {}
        self._last: list[Target] = []
        self._rows = np.zeros(0, int)
        self._means = np.zeros((0, len(operations)))

    def find(self, targets: Sequence[Target], values: Array) -> list[tuple[int, int, int, float]]:
        """Return (row, column, number of the rule, the value it was compared with) of each match."""
        rows = self._rows_of(targets)
        with np.errstate(all="ignore"):
            means = self._update(rows, np.abs(values))
            matches = [judge(rows, values, means) for judge in self._judges]
        return _first_of(matches)

    def _rows_of(self, targets: Sequence[Target]) -> Array:
        """Return the number of each target, a new one for a new target. Most steps have the targets of the last one."""
        targets = list(targets)
        if targets != self._last:
            numbers = self._numbers
            self._rows = np.array([numbers.setdefault(each, len(numbers)) for each in targets], int)
            self._last = targets
            if len(numbers) > len(self._means):
                more = max(len(numbers), 2 * len(self._means)) - len(self._means)
                self._means = np.concatenate([self._means, np.full((more, self._means.shape[1]), np.nan)])
        return self._rows

    def _update(self, rows: Array, magnitudes: Array) -> Array:
        """Return the means before this step, and update them with the finite magnitudes."""
        means = self._means[rows]
        is_finite = np.isfinite(magnitudes)
        means = np.where(np.isnan(means) & is_finite, magnitudes, means)
        self._means[rows] = np.where(is_finite, KEPT * means + ADDED * magnitudes, means)
        return means


def _first_of(matches: Sequence[Matches]) -> list[tuple[int, int, int, float]]:
    found = []
    taken: Array | None = None
    for number, (where, against) in enumerate(matches):
        if not where.any():
            continue
        new = where if taken is None else where & ~taken
        taken = where if taken is None else where | taken
        rows, columns = np.nonzero(new)
        found += [
            (row, column, number, float(against[row, column]))
            for row, column in zip(rows.tolist(), columns.tolist(), strict=True)
        ]
    return found


def message(anomaly: Anomaly) -> str:
    """Return the sentence of one anomaly, as in msprobe 8.1."""
    kind = "median" if anomaly.rule == Robust.name else "mean"
    where = f"('{anomaly.tag}', '{anomaly.operation}') at step {anomaly.step}"
    values = f"current value {anomaly.value}, history {kind} {anomaly.mean}."
    return f"Rule {anomaly.rule} reports anomaly signal in {where}, {values}"


def announce(anomalies: Sequence[Anomaly], stream: TextIO | None = None) -> None:
    """Print the messages of a step on standard error, yellow on a terminal; of many the first and how many more.

    Nothing where `MSPROBE_LOG_LEVEL` hides warnings.
    """
    if not anomalies or not logger.isEnabledFor(logging.WARNING):
        return
    stream = sys.stderr if stream is None else stream
    lines = [terminal_line(message(each)) for each in anomalies[:MOST_LINES]]
    if (more := len(anomalies) - MOST_LINES) > 0:
        lines.append(f"... and {more} more anomalies at step {anomalies[0].step}")
    begin, end = ("\033[93m", "\033[0m") if stream.isatty() else ("", "")
    stream.write("".join(f"{begin}{line}{end}\n" for line in lines))
    stream.flush()
