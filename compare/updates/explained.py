"""Apply the updates to a comparison: drifted parameters pass, and the finding names the setting that differs.

`Updates.settle` is called before a comparison judges outputs under noise, `Updates.completed` after `locate`. Within
one framework `locate` starts at the first bit that differs, so that a drift leads to a finding, which is dropped.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from msprobe.base.names import is_running_statistic
from msprobe.compare.core.exemptions import Stage, exemptions_of
from msprobe.compare.core.limits import BUILT_IN, RUNNING_STATISTICS, Limits, LimitSource
from msprobe.compare.core.reason import Reason, Why, is_open_drift
from msprobe.compare.dataflow.events import events_by_place
from msprobe.compare.judge.judged import EQUAL, NO_CAUSE, Comparison
from msprobe.compare.judge.verdict import GRADES, Verdict, excused
from msprobe.compare.locate.find import Located, cell_of
from msprobe.compare.locate.finding import (
    Basis,
    Divergence,
    Missing,
    Parameters,
    Status,
    Unclear,
    Updated,
    UpdateJudgement,
    UpdateVerdict,
)
from msprobe.findings.catalogue import comparison as kinds

if TYPE_CHECKING:
    from msprobe.compare.match.pairs import Pairs

    from .tracks import ParameterPair, Steps

_WHY = {
    Basis.SETTINGS: Why.DRIFT_SETTINGS,
    Basis.GRADIENTS: Why.DRIFT_GRADIENTS,
    Basis.UPDATES: Why.DRIFT_UPDATES,
    Basis.STATISTICS: Why.DRIFT_STATISTICS,
    Basis.DRIFT: Why.DRIFT_ONLY,
    Basis.ROUNDING: Why.DRIFT_ROUNDING,
}
"""Why a parameter whose update agrees is not a difference."""

_DRIFT = (Status.AGREES, Status.DRIFTED)
"""The states of parameters that differ by no more than drift."""

_PASS = GRADES.index("pass")


class Updates:
    """The updates before one comparison. `judgement` is None if no parameter differs, or there was no update."""

    def __init__(
        self, before: "Callable[[], Steps]" = tuple, after: "Callable[[], Steps]" = tuple, limits: Limits = BUILT_IN
    ) -> None:
        """`before` reads the steps before that of the comparison without a gap, in order, and `after` the later ones;
        both are called only if parameters differ in a step that is not the first. `limits` are those of the drift of
        parameters; exact limits allow none."""
        self._before, self._after, self._limits = before, after, limits
        self._parameters: tuple[Pairs, list[ParameterPair]] | None = None
        self.judgement: UpdateJudgement | None = None

    def parameters(self, comparison: Comparison) -> "list[ParameterPair]":
        """Return the pairs of parameters of a comparison; they are searched once for all comparisons of the same
        pairs."""
        if self._parameters is None or self._parameters[0] is not comparison.pairs:
            from .tracks import parameter_pairs  # here, as below: the first step follows no update

            self._parameters = comparison.pairs, parameter_pairs(comparison)
        return self._parameters[1]

    def settle(self, comparison: Comparison) -> Comparison:
        """Return the comparison with the verdicts of the updates: a parameter whose difference is drift passes, and one
        whose update differs is an error, however small the difference of the weights is."""
        if not comparison.target.step or not (pairs := _differing(comparison, self.parameters(comparison))):
            return comparison
        from .tracks import judge_updates

        before = self._before()
        after = self._after() if before else ()
        judgement = judge_updates(before, (comparison.target, comparison.golden), after, pairs)
        self.judgement = _within(judgement, self._limits)
        return comparison if self._limits.is_exact else _with_updates(comparison, self.judgement, pairs)

    def completed(self, located: Located, comparison: Comparison) -> Located:
        """Return the result of `locate` with findings by the updates.

        The finding of a difference of parameters names the difference of the update before. A drift has no finding,
        unless results differ and there is no other finding: then one reports the drift.
        """
        judgement = self.judgement
        if judgement is None:
            return located
        rows = set() if self._limits.is_exact else _drifted(comparison, judgement, self.parameters(comparison))
        findings: list[Divergence] = []
        for finding in located.findings:
            is_of_parameters = finding.kind is kinds.PARAMETERS and not _is_running(finding)
            if is_of_parameters and judgement.differing:
                finding = replace(finding, evidence=Updated(judgement))
            elif is_of_parameters and rows and (comparison.is_clean or len(located.findings) > 1):
                continue
            elif is_of_parameters and rows:
                finding = replace(finding, evidence=Updated(judgement, is_drift=True))
            findings.append(finding)
        roles = {row: role for row, role in located.roles.items() if row not in rows}
        return replace(located, findings=tuple(findings), roles=roles)

    def opened(self, comparison: Comparison, located: Located) -> tuple[Comparison, Located]:
        """Return the comparison in which parameters that differ by more than rounding have no verdict if the previous
        step was not compared, with a finding that names them: correct runs drift, and the effect of a fault in an
        earlier step may be as small.

        This is done last: results that were computed from these parameters are judged as if they had only drifted.
        """
        for exemption in exemptions_of(Stage.END, comparison.relation):
            found: dict[int, Reason] = exemption.function(self, comparison)
            if found:
                verdicts = {row: excused(exemption, why) for row, why in found.items()}
                comparison = comparison.with_verdicts(verdicts, keep_equal=True)
                located = replace(located, harmless=(*located.harmless, self._unknown(comparison, list(found))))
        return comparison, located

    def drift_of_earlier_steps(self, comparison: Comparison) -> dict[int, Reason]:
        """Return the rows of parameters that differ by drift, if no earlier step was compared."""
        if not comparison.target.step or self._limits.is_exact or (comparison.equal == EQUAL).all():
            return {}
        rows = [row for row, reasons in comparison.reasons.items() if is_open_drift(reasons)]
        if (
            running := _differing_running(comparison, self.parameters(comparison), self._limits)
        ) and not self._before():
            rows += running
        rows = sorted(row for row in rows if comparison.grades[row] == _PASS)
        return dict.fromkeys(rows, Reason(Why.DRIFT_EARLIER))

    def _unknown(self, comparison: Comparison, rows: Sequence[int]) -> Divergence:
        """Return the finding that names the parameters of these rows, those that differ most first."""
        excess = {v.parameter: v.excess for v in self.judgement.verdicts} if self.judgement is not None else {}
        open_ones = set(rows)
        names = [pair.target for pair in self.parameters(comparison) if not open_ones.isdisjoint(pair.rows)]
        names.sort(key=lambda name: -excess.get(name, 0.0))
        event = events_by_place(comparison.pairs)[int(comparison.pairs.call_of[rows[0]])]
        evidence = Unclear(Missing.EARLIER, tuple(dict.fromkeys(names)))
        return Divergence(event.name, cell_of(event), kinds.UNKNOWN, evidence, "unjudged", at=event.at)


def _differing_running(comparison: Comparison, pairs: "Sequence[ParameterPair]", limits: Limits) -> list[int]:
    """Return the rows of running statistics of normalization layers that differ by more than rounding, unless a
    calibration has shown how far they drift."""
    if limits.drift_shown(RUNNING_STATISTICS) is not None:
        return []
    from .tracks import differ_by_rounding

    return [
        row
        for pair in pairs
        if is_running_statistic(pair.target)
        for row in pair.rows
        if comparison.equal[row] != EQUAL and not differ_by_rounding(comparison, row)
    ]


def _is_running(finding: Divergence) -> bool:
    """Return whether all parameters of a finding are running statistics, which no update changes."""
    evidence = finding.evidence
    return isinstance(evidence, Parameters) and all(map(is_running_statistic, evidence.names))


def _differing(comparison: Comparison, pairs: "Sequence[ParameterPair]") -> "list[ParameterPair]":
    """Return all parameters that an optimizer updates if one of them differs, none if all are equal."""
    updated = [pair for pair in pairs if not is_running_statistic(pair.target)]
    return updated if any((comparison.equal[pair.rows] != EQUAL).any() for pair in updated) else []


def _within(judgement: UpdateJudgement, limits: Limits) -> UpdateJudgement:
    """Return the judgement in which parameters agree whose drift a calibration allows."""
    verdicts = [
        replace(v, status=Status.AGREES, is_calibrated=True) if _is_allowed(v, limits) else v
        for v in judgement.verdicts
    ]
    allowed = {v.parameter for v in verdicts if v.is_calibrated}
    if not allowed:
        return judgement
    left = ((d, tuple(p for p in d.parameters if p not in allowed)) for d in judgement.differences)
    return replace(
        judgement,
        verdicts=tuple(verdicts),
        differences=tuple(replace(d, parameters=parameters) for d, parameters in left if parameters),
    )


def _is_allowed(verdict: UpdateVerdict, limits: Limits) -> bool:
    """Return whether a parameter agrees only by the limits of a calibration."""
    basis = verdict.basis.value
    if verdict.status is Status.DIFFERS:
        return verdict.excess <= limits.drift(basis)
    shown = limits.drift_shown(basis)
    return verdict.status is Status.DRIFTED and shown is not None and verdict.excess <= shown


def _with_updates(comparison: Comparison, judgement: UpdateJudgement, pairs: "Sequence[ParameterPair]") -> Comparison:
    """Enter the verdicts on the updates; a parameter whose update could not be judged keeps its verdict."""
    verdicts = {(v.parameter, v.golden): v for v in judgement.verdicts if v.status is not Status.UNSEEN}
    grades, causes, reasons = comparison.grades.copy(), comparison.causes.copy(), dict(comparison.reasons)
    for pair in pairs:
        if (verdict := verdicts.get((pair.target, pair.golden))) is None:
            continue
        entered = Verdict("error", (Reason(Why.UPDATE_DIFFERS, name=verdict.basis.value, excess=verdict.excess),))
        for exemption in exemptions_of(Stage.UPDATES, comparison.relation):
            if (reason := exemption.function(verdict)) is not None:
                entered = excused(exemption, reason)
                break
        for row in (row for row in pair.rows if comparison.equal[row] != EQUAL):
            grades[row], causes[row], reasons[row] = GRADES.index(entered.grade), NO_CAUSE, entered.reasons
    return replace(comparison, grades=grades, causes=causes, reasons=reasons)


def drift(verdict: UpdateVerdict) -> Reason | None:
    """Return why the update of a parameter agrees, or differs only by drift; None if it differs otherwise."""
    if verdict.status not in _DRIFT:
        return None
    names = (LimitSource.CALIBRATED.value,) if verdict.is_calibrated else ()
    return Reason(_why(verdict), names=names, amount=verdict.hidden)


def _why(verdict: UpdateVerdict) -> Why:
    if verdict.status is Status.DRIFTED:
        return Why.DRIFT_EARLIER
    if verdict.basis is Basis.DRIFT and not verdict.is_calibrated:
        return Why.DRIFT_ROUNDED
    return _WHY[verdict.basis]


def _drifted(comparison: Comparison, judgement: UpdateJudgement, pairs: "Sequence[ParameterPair]") -> set[int]:
    """Return the rows of parameters that have drifted, if no parameter differs otherwise; else none."""
    agreeing = {(v.parameter, v.golden) for v in judgement.verdicts if v.status in _DRIFT}
    rows = {row for pair in pairs if (pair.target, pair.golden) in agreeing for row in pair.rows}
    others = {row for pair in pairs for row in pair.rows} - rows
    return set() if (comparison.equal[np.array(sorted(others), np.int64)] != EQUAL).any() else rows
