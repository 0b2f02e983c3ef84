"""The pipeline: match, measure, judge. Compares two dumps."""

from collections.abc import Callable
from pathlib import Path

from msprobe.base.log import logger
from msprobe.store.layout import SAMPLES
from msprobe.store.record import Dump

from .core.limits import BUILT_IN, Limits
from .core.relation import Relation
from .judge.cross_framework import with_parts_judged
from .judge.elements import Elements, refuse_misfits
from .judge.judged import Comparison, Mode
from .judge.pairs import PairJudge, judge_columns
from .match.dumps import match
from .match.user_mapping import NOTHING, UserPairs
from .measure.files import Effort, Outcome
from .workers.progress import MANY, shown


def compare(
    target: Dump,
    golden: Dump,
    *,
    fuzzy: bool = False,
    effort: Effort | None = None,
    by_user: UserPairs = NOTHING,
    is_shown: bool = False,
    settle: Callable[[Comparison], Comparison] | None = None,
    limits: Limits = BUILT_IN,
) -> Comparison:
    """Match the two dumps and judge every pair. A difference is a verdict, never an exception.

    `fuzzy` also pairs the remaining calls by the order of their operations; `effort` configures how tensors are
    measured; `by_user` are the pairs of the user's mapping; a MappingError is raised if a transform in it does not fit
    its record. `is_shown`: the progress of long comparisons is shown on standard error. `settle` receives the verdicts
    of single pairs and may change them (for example, of parameters that have only drifted), before the results computed
    from them are judged along the dataflow. `limits` are those up to which a difference is noise.
    """
    refuse_misfits(target, by_user.rows)
    effort = effort or Effort()
    if is_shown and max(len(target.calls), len(golden.calls)) >= MANY:
        logger.info("matching %d calls with %d", len(target.calls), len(golden.calls))
    pairs = match(target, golden, fuzzy=fuzzy, by_user=by_user)
    mode = mode_of(target, golden)
    judge_one = PairJudge(mode, pairs)
    relation = pairs.relation
    sheet = judge_columns(
        pairs,
        by_digest=mode == "digest" and not relation.has_other_kernels,
        by_statistics=mode != "tensor" and not relation.has_other_kernels,
        by_errors=mode == "statistics" and relation.has_other_kernels,
        same_rounding=judge_one.same_rounding,
    )
    for row in (*pairs.notes.views, *pairs.notes.translated):
        sheet.settled[row], sheet.which[row] = False, -1
        sheet.reasons.pop(row, None)
    reasons = sheet.reasons
    elements = Elements(pairs)
    rows = (~sheet.settled).nonzero()[0].tolist()
    for row in shown(rows, "judging records") if is_shown else rows:
        found = judge_one.of_row(row)
        if found is None:
            elements.add(row, pairs.pair(row))
            continue
        verdict, sheet.equal[row] = found
        sheet.enter(row, verdict)
        if verdict.reasons and (relation.has_other_kernels or verdict.grade == "pass"):
            reasons[row] = verdict.reasons
    measured: dict[int, Outcome] = {}
    for row, by_elements, are_equal, outcome in elements.judged(effort):
        verdict, equal = judge_one.measured(row, by_elements, are_equal)
        sheet.enter(row, verdict)
        sheet.equal[row], measured[row] = equal, outcome
        if verdict.reasons or not verdict:
            reasons[row] = verdict.reasons
    comparison = Comparison(
        pairs,
        mode,
        sheet.grades,
        sheet.causes,
        sheet.equal,
        sheet.excess,
        sheet.which,
        reasons,
        judge_one.explain,
        {row: outcome.measures for row, outcome in measured.items() if outcome.measures is not None},
        {row: outcome.statistics for row, outcome in measured.items() if outcome.statistics is not None},
        judge_one.by_statistics,
    )
    if pairs.notes.views and mode != "tensor":
        comparison = with_parts_judged(comparison)
    if mode == "statistics" and (Path(golden.folder) / SAMPLES).is_file():
        from .judge.samples import with_samples  # here: only golden files have samples

        comparison = with_samples(comparison)
    if settle is not None:
        comparison = settle(comparison)
    from .locate.exemptions import with_exemptions  # here: on the comparison

    comparison = with_exemptions(comparison)
    if relation is Relation.OTHER_KERNELS:
        return comparison
    from .noise.judge import judge_under_noise  # here: it needs the replay of calls

    return judge_under_noise(comparison, limits=limits, workers=effort.workers, is_shown=is_shown)


def mode_of(target: Dump, golden: Dump) -> Mode:
    """Return the data that both sides contain: elements, otherwise digests, otherwise statistics."""
    if target.task == golden.task == "tensor":
        return "tensor"
    return "digest" if any(target.columns.digest) and any(golden.columns.digest) else "statistics"
