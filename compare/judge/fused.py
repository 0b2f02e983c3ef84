"""Of two frameworks, by statistics: the parts of a fused parameter are judged together, as their whole."""

from dataclasses import replace

from msprobe.compare.match.shared import groups
from msprobe.compare.reason import Reason, Why

from .across import combined, errors_by_statistics, judge_errors
from .judged import NO_CAUSE, UNKNOWN, Comparison
from .verdict import GRADES


def with_parts_judged(comparison: Comparison) -> Comparison:
    """The comparison in which every part of a fused record has the verdict of the whole, where statistics tell one."""
    pairs = comparison.pairs
    views = pairs.notes.views
    grades, causes, equal = comparison.grades.copy(), comparison.causes.copy(), comparison.equal.copy()
    reasons = dict(comparison.reasons)
    for numbers in groups(views, pairs.target_rows, pairs.golden_rows):
        both = [pairs.pair(n) for n in numbers]
        is_golden_whole = bool(views[numbers[0]].golden)
        whole = both[0].golden if is_golden_whole else both[0].target
        told = combined(r for p in both if (r := p.target if is_golden_whole else p.golden) is not None)
        if whole is None or told is None or whole.statistics is None:
            continue
        sides = (told, whole.statistics) if is_golden_whole else (whole.statistics, told)
        errors = errors_by_statistics(*sides, whole, whole)
        if errors is None:
            continue
        verdict = judge_errors(errors)
        for n in numbers:
            grades[n], causes[n], equal[n] = GRADES.index(verdict.grade), NO_CAUSE, UNKNOWN
            reasons[n] = verdict.reasons or (Reason(Why.ALL_PARTS),)
    return replace(comparison, grades=grades, causes=causes, equal=equal, reasons=reasons)
