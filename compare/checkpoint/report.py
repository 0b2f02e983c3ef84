"""The answer about two checkpoints, as findings."""

from collections import Counter

from msprobe.base.phrase import phrase
from msprobe.base.verdicts import Verdicts
from msprobe.compare.judge.verdict import GRADES, SEVERITY, Cause
from msprobe.findings.catalogue.checkpoints import ONE_SIDE, PARAMETER
from msprobe.findings.finding import Answer, Finding, Place

from .compare import CheckpointResult, JudgedParameter, entry_of

_MOST = 200
"""Findings that are listed; the file has every parameter."""


def answer_of(result: CheckpointResult) -> Answer:
    """Return the answer: the worst parameter first, then those that one side alone has."""
    differing = [(name, one) for name, one in result.worst if one.verdict.grade in ("warning", "error")]
    lone = [(name, one) for name, one in result.judged.items() if one.verdict.cause is Cause.UNMATCHED]
    found = [_finding(name, one) for name, one in (*differing, *lone)][:_MOST]
    state = "clean" if result.is_clean else "differs" if differing else "unjudged"
    return Answer(state, result.summary, found[0] if differing else None, tuple(found[1:] if differing else found))


def verdicts_of(result: CheckpointResult) -> Verdicts:
    """Return how many parameters pass, differ, and could not be judged."""
    verdicts = [one.verdict for one in result.judged.values()]
    wrong = sum(verdict.grade in ("warning", "error") for verdict in verdicts)
    gaps = Counter(verdict.cause for verdict in verdicts if verdict.cause is not None)
    return Verdicts(len(verdicts) - wrong - gaps.total(), wrong, gaps)


def counts_of(result: CheckpointResult) -> dict[str, int]:
    """Return the number of parameters of each grade."""
    counts = Counter(one.verdict.grade for one in result.judged.values())
    return {grade: counts[grade] for grade in sorted(GRADES, key=SEVERITY.index, reverse=True)}


def _finding(name: str, one: JudgedParameter) -> Finding:
    kind = ONE_SIDE if one.verdict.cause is Cause.UNMATCHED else PARAMETER
    reason = phrase("{reason}", reason=one.verdict.reason)
    return Finding(kind, Place(name), reason, one.verdict.grade, fields=entry_of(one))
