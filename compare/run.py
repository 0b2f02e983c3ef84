"""The pipeline: match, measure, judge. Two dumps in, judged pairs out."""

from msprobe.store.record import Dump, Statistics

from .judge.columns import judge_columns
from .judge.elements import Elements
from .judge.judged import Comparison, Mode
from .judge.one_by_one import OneByOne
from .judge.verdict import GRADES
from .match.dumps import match
from .measure.files import Effort
from .measure.measures import Measures


def compare(target: Dump, golden: Dump, *, fuzzy: bool = False, effort: Effort | None = None) -> Comparison:
    """Match the two dumps and judge every pair. A difference is a verdict, never an exception.

    `fuzzy` also pairs what is left over by the order of its operations; `effort` says how tensors are measured.
    """
    pairs = match(target, golden, fuzzy=fuzzy)
    mode = mode_of(target, golden)
    judge_one = OneByOne(target, golden, mode)
    sheet = judge_columns(
        pairs,
        by_digest=mode == "digest",
        by_statistics=mode != "tensor",
        across=judge_one.across,
        same_rounding=judge_one.same_rounding,
    )
    reasons: dict[int, str] = {}
    elements = Elements(pairs, judge_one.across)
    for row in (~sheet.settled).nonzero()[0].tolist():
        pair = pairs.pair(row)
        found = judge_one(pair, pairs.name(int(pairs.call_of[row])))
        if found is None:
            elements.add(row, pair)
            continue
        verdict, sheet.equal[row] = found
        sheet.grades[row] = GRADES.index(verdict.grade)
    measures: dict[int, Measures] = {}
    described: dict[int, tuple[Statistics, Statistics]] = {}
    for row, verdict, equal, outcome in elements.judged(effort or Effort()):
        sheet.grades[row], sheet.equal[row] = GRADES.index(verdict.grade), equal
        if outcome.measures is not None:
            measures[row] = outcome.measures
        if outcome.statistics is not None:
            described[row] = outcome.statistics
        if verdict.reason or not verdict:
            reasons[row] = verdict.reason
    return Comparison(
        pairs,
        mode,
        sheet.grades,
        sheet.equal,
        sheet.excess,
        sheet.which,
        reasons,
        judge_one.explain,
        measures,
        described,
        elements.unreadable,
    )


def mode_of(target: Dump, golden: Dump) -> Mode:
    """What both sides hold: elements, else digests, else statistics."""
    if target.task == golden.task == "tensor":
        return "tensor"
    return "digest" if any(target.columns.digest) and any(golden.columns.digest) else "statistics"
