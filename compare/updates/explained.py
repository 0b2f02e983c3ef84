"""A comparison that knows of updates: parameters that have only drifted pass, and the finding says what differs.

`Updates.settle` stands before a comparison weighs results against what they were computed from, `Updates.told` behind
`locate`. Within one framework `locate` begins with equal bits, so there a drift makes a finding, which is dropped.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from msprobe.compare.judge.judged import EQUAL, NO_CAUSE, Comparison
from msprobe.compare.judge.verdict import GRADES
from msprobe.compare.locate.find import Finding, Located
from msprobe.compare.locate.words import RUNNING
from msprobe.store.record import Dump

from .tracks import ParameterPair, judge_updates, parameter_pairs
from .verdicts import UpdateJudgement
from .wording import drifted, explained, sentence

KIND = "parameters differ"
"""The kind of the findings that updates explain."""

_PASS = GRADES.index("pass")

Steps = Sequence[tuple[Dump, Dump]]
"""Target and golden of consecutive steps."""


class Updates:
    """The updates behind one comparison. `judgement` is None where no parameter differs, or no update was before."""

    def __init__(self, before: Callable[[], Steps] = tuple, after: Callable[[], Steps] = tuple) -> None:
        """`before` reads the steps before the comparison's without a gap, in order, and `after` those behind it; both
        are called only where parameters differ in a step that is not the first."""
        self._before, self._after = before, after
        self.judgement: UpdateJudgement | None = None

    def settle(self, comparison: Comparison) -> Comparison:
        """The comparison in which every parameter passes whose difference is drift, and says so."""
        pairs = _differing(comparison)
        if not comparison.target.step or not pairs:
            return comparison
        steps = self._before()
        last = steps[-1] if steps else (None, None)
        self.judgement = judge_updates(
            last[0],
            comparison.target,
            last[1],
            comparison.golden,
            pairs,
            earlier=steps[:-1],
            later=self._after() if steps else (),
        )
        return _without_drift(comparison, self.judgement, pairs)

    def told(self, located: Located, comparison: Comparison) -> Located:
        """The findings: of a difference of parameters what differs in the update before, of a drift none; but one that
        says so where results differ and nothing else is found, which received it."""
        judgement = self.judgement
        if judgement is None:
            return located
        rows = _drifted(comparison, judgement)
        text = sentence(judgement)
        findings: list[Finding] = []
        for finding in located.findings:
            if finding.kind == KIND and text:
                finding = replace(finding, reason=f"{text}; by the update after step {judgement.step - 1}")
            elif finding.kind == KIND and rows and (comparison.is_clean or len(located.findings) > 1):
                continue
            elif finding.kind == KIND and rows:
                finding = replace(finding, reason=drifted(judgement))
            findings.append(finding)
        return Located(tuple(findings), {row: role for row, role in located.roles.items() if row not in rows})


def _differing(comparison: Comparison) -> list[ParameterPair]:
    """All parameters that an optimizer updates, where one of them differs; none where all are equal."""
    pairs = [pair for pair in parameter_pairs(comparison) if pair.target.rpartition(".")[2] not in RUNNING]
    return pairs if any((comparison.equal[list(pair.rows)] != EQUAL).any() for pair in pairs) else []


def _without_drift(comparison: Comparison, judgement: UpdateJudgement, pairs: Sequence[ParameterPair]) -> Comparison:
    agreeing = set(judgement.agreeing)
    rows = [(row, pair.target) for pair in pairs if pair.target in agreeing for row in pair.rows]
    changed = [(row, name) for row, name in rows if comparison.equal[row] != EQUAL]
    if not changed:
        return comparison
    grades, causes = comparison.grades.copy(), comparison.causes.copy()
    places = [row for row, _ in changed]
    grades[places], causes[places] = _PASS, NO_CAUSE
    reasons = dict(comparison.reasons) | {row: explained(judgement, name) for row, name in changed}
    return replace(comparison, grades=grades, causes=causes, reasons=reasons)


def _drifted(comparison: Comparison, judgement: UpdateJudgement) -> set[int]:
    """The rows of parameters that have drifted, where no parameter differs otherwise; none else."""
    agreeing, pairs = set(judgement.agreeing), parameter_pairs(comparison)
    rows = {row for pair in pairs if pair.target in agreeing for row in pair.rows}
    others = {row for pair in pairs for row in pair.rows} - rows
    return set() if (comparison.equal[np.array(sorted(others), np.int64)] != EQUAL).any() else rows
