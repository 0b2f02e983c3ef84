"""The answer about two monitors: its sentences, its findings, and the report page with curves and stages."""

import json
import math
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from shlex import quote

import numpy as np

from msprobe.base.log import join_names
from msprobe.base.phrase import Phrase, Words, joined, names_phrase, parts_phrase, phrase
from msprobe.base.version import tool
from msprobe.findings.data import as_data
from msprobe.findings.finding import Answer, Finding, Place, Suggestion
from msprobe.report.document import Curve as PageCurve
from msprobe.report.document import CurveSet, Head, Side, Table, TableSet
from msprobe.report.file import Chunks, Report, against, now

from .band import Basis
from .deviations import OF_UPDATES
from .finding import Array, Cause, Curve, MonitorDivergence, OfStage, Result
from .next_dump import next_dump
from .pairing import Unmatched

TARGETS = 60
"""Number of further targets whose curves a report has."""

_MAX_KINDS = 12
"""Maximum number of kinds of values in a line."""


def lines(result: Result) -> Iterator[str]:
    """Return the lines that the command prints."""
    yield from map(str, about(result))
    finding = result.finding
    if finding is not None:
        yield f"what it means: {meaning(finding)}"
        yield from map(str, _restrictions(finding))
        yield from map(str, stages(result))
    yield str(answer(result))


def stages(result: Result) -> Iterator[Words]:
    """Return the kinds that left the band at the step of a finding, and those that did not."""
    left = [stage for stage in result.stages if stage.left]
    inside = [stage for stage in result.stages if not stage.left]
    yield phrase("left the band at this step: {kinds}", kinds=parts_phrase(map(_of_stage, left), _MAX_KINDS))
    if inside:
        yield phrase("stayed inside: {kinds}", kinds=parts_phrase(map(_of_stage, inside), _MAX_KINDS))


def about(result: Result) -> Iterator[Words]:
    """Return what was compared, and what could not be."""
    yield phrase(
        "steps {first} to {last} ({steps} in common), {number} numbers compared; the band: {basis}",
        first=result.steps[0],
        last=result.steps[-1],
        steps=len(result.steps),
        number=result.compared,
        basis=phrase(result.basis.value),
    )
    if result.basis is Basis.LEARNED and result.judged_from is not None and result.judged_from > result.steps[0]:
        yield phrase(
            "unjudged: steps {first} to {last}, of which the band is learned",
            first=result.steps[0],
            last=result.judged_from - 1,
        )
    if result.passed:
        yield phrase(
            "gradients left the band for one step, as at a kink of an activation: step {steps}",
            steps=names_phrase(result.passed, 8),
        )
    for side, ranks in result.lost_ranks.items():
        if ranks:
            yield phrase("unmatched: rank {ranks} of {side}", ranks=names_phrase(ranks, 8), side=side)
    yield from map(_unmatched, result.unmatched)
    alike: dict[tuple[int, bool, str], list[str]] = {}
    for one_kind in result.uncommon:
        alike.setdefault((one_kind.count, one_kind.is_micro, one_kind.side), []).append(one_kind.kind)
    for (count, is_micro, side), kinds in alike.items():
        steps = phrase(
            ("{number} micro step" if count == 1 else "{number} micro steps")
            if is_micro
            else ("{number} step" if count == 1 else "{number} steps"),
            number=count,
        )
        yield phrase(
            "not compared: {steps} of {kinds}, in {side} alone", steps=steps, kinds=names_phrase(kinds, 12), side=side
        )
    yield from result.notes


def _unmatched(one: Unmatched) -> Phrase:
    what = (
        phrase("{number} of {kind}: {names}", number=len(one.names), kind=one.kind, names=names_phrase(one.names))
        if one.names
        else phrase("statistics of {kind}: {names}", kind=one.kind, names=names_phrase(one.statistics))
        if one.statistics
        else phrase("all of {kind}", kind=one.kind)
    )
    return phrase("unmatched on rank {rank}: {what}, in {side} alone", rank=one.rank, what=what, side=one.side)


def _of_stage(stage: OfStage) -> Phrase:
    if stage.left:
        return phrase("{kind} ({number} of {total})", kind=stage.kind, number=stage.left, total=stage.targets)
    if stage.first_step is None:
        return phrase("{kind} ({total})", kind=stage.kind, total=stage.targets)
    return phrase(
        "{kind} ({total}, leaves at step {step})", kind=stage.kind, total=stage.targets, step=stage.first_step
    )


def meaning(finding: MonitorDivergence) -> Phrase:
    """Return the meaning of the place of the first divergence."""
    text = finding.stage.sentence(finding.cause.value)
    if finding.cause in (Cause.LOSS_SCALE, Cause.LOCAL_REDUCTION, Cause.REDUCTION) and finding.has_common_factor:
        return phrase("{text}; all by a factor of {factor:.5g}", text=text, factor=finding.factor)
    return text


def answer(result: Result) -> Phrase:
    """Return the last line."""
    text = _answer(result)
    return phrase("{text}; not judged: {counts}", text=text, counts=_counts(result)) if result.unjudged else text


def _counts(result: Result) -> Words:
    return joined(
        [phrase(f"{{number}} {each.cause.value}", number=each.count) for each in result.unjudged], "{before}, {after}"
    )


def _answer(result: Result) -> Phrase:
    finding = result.finding
    if finding is None:
        if result.basis is Basis.NOTHING:
            if not result.compared:
                return phrase("unjudged: no number is finite on both sides")
            return phrase("unjudged: too few steps to learn the band from; give --calibrate, or longer runs")
        if result.basis is Basis.EQUAL:
            return phrase("no divergence: all {number} numbers are equal", number=result.compared)
        return phrase("no divergence: all numbers from step {step} on stay within the band", step=result.judged_from)
    others = f" and {finding.left - 1} of {finding.targets - 1} others" if finding.left > 1 else ""
    micro = f", micro step {finding.micro_step}" if finding.micro_step else ""
    of = "rank" if len(finding.ranks) == 1 else "ranks"
    where = f"at step {finding.step}{micro} on {of} {join_names(finding.ranks, 8)}"
    return phrase(
        "first divergence: {what}: {how_far}",
        what=f"{finding.stage.name} of {finding.target}{others} {where}",
        how_far=how_far(finding),
    )


def how_far(finding: MonitorDivergence) -> Phrase:
    """Return the deviation and the width of the band."""
    if not (math.isfinite(finding.a) and math.isfinite(finding.b)):
        return phrase("{statistic} {a:.6g} for {b:.6g}", statistic=finding.statistic, a=finding.a, b=finding.b)
    band: Words
    if finding.basis is Basis.EQUAL:
        band = phrase("equal before")
    elif finding.statistic == "norm" and finding.kind != "update":
        band = phrase("band 1 +- {limit:.2g}", limit=finding.limit)
    else:
        band = phrase(
            "{deviation:.2g} of its scale, band 0 +- {limit:.2g}", deviation=finding.deviation, limit=finding.limit
        )
    is_of_updates = finding.kind in OF_UPDATES
    if finding.factor is not None and finding.statistic == "norm":
        return phrase(
            "change of the norm x{factor:.5g} ({band})" if is_of_updates else "norm x{factor:.5g} ({band})",
            factor=finding.factor,
            band=band,
        )
    return phrase(
        "change of the {statistic} {a:.6g} for {b:.6g} ({band})"
        if is_of_updates
        else "{statistic} {a:.6g} for {b:.6g} ({band})",
        statistic=finding.statistic,
        a=finding.a,
        b=finding.b,
        band=band,
    )


def report_of(result: Result, command: str) -> Report:
    """Return the report of a result."""
    chunks = Chunks()
    head = Head(
        "monitor",
        against(Path(result.target), Path(result.golden)),
        command,
        now(),
        tool(),
        Side(result.target),
        Side(result.golden),
        answer_of(result),
        {"numbers": result.compared},
        curves=tuple(_curve_sets(result, chunks)),
        tables=(_stages(result, chunks),),
    )
    return Report(head, chunks)


def answer_of(result: Result) -> Answer:
    """Return the answer about two monitors."""
    finding = result.finding
    return Answer(
        "differs" if finding is not None else "clean" if result.is_clean else "unjudged",
        answer(result),
        None if finding is None else _finding(finding, result),
        advice=tuple(_advice(finding, result)),
        notes=(*about(result), *(stages(result) if finding is not None else ())),
    )


def _finding(finding: MonitorDivergence, result: Result) -> Finding:
    evidence: list[Words] = [
        phrase("in {finding.kind} {finding.left} of {finding.targets} leave the band at this step", finding=finding)
    ]
    if len(finding.ranks) > 1:
        evidence.append(phrase("on ranks {ranks}", ranks=names_phrase(finding.ranks, 8)))
    evidence += _restrictions(finding)
    place = Place(finding.target, step=finding.step, rank=finding.ranks[0], micro_step=finding.micro_step)
    fields = {**as_data(finding), "basis": finding.basis.name.lower()}
    return Finding(finding.stage, place, meaning(finding), evidence=(how_far(finding), *evidence), fields=fields)


def _restrictions(finding: MonitorDivergence) -> Iterator[Phrase]:
    """Return what restricts where the divergence begins."""
    if finding.agreeing:
        yield phrase("the previous target of the backward pass, {name}, agrees", name=finding.agreeing)
    if finding.is_of_digits:
        yield phrase("all of it is in the last digits of the files: it may have begun unseen in the update before")


def _advice(finding: MonitorDivergence | None, result: Result) -> Iterator[Suggestion]:
    if finding is None:
        return
    configuration = json.dumps(next_dump(finding, result.ranks), ensure_ascii=False, indent=1)
    text = phrase("what to dump next, on both sides: a configuration for PrecisionDebugger")
    yield Suggestion(text, config=configuration)
    yield Suggestion(phrase("then compare the two dumps"), "msprobe compare A_DUMP B_DUMP")


def _curve_sets(result: Result, chunks: Chunks) -> Iterator[CurveSet]:
    """Return the curves of the answer, then those of other targets."""
    stage_of = {stage.kind: stage.stage.name for stage in result.stages}

    def made(target: str, kind: str, curves: Iterable[Curve], is_answer: bool) -> CurveSet:
        held = list(curves)
        shown = [_page_curve(curve) for curve in held]
        stage: Words = kind
        if kind in stage_of:
            stage = phrase("{stage} ({kind})", stage=phrase(stage_of[kind]), kind=kind)
        return CurveSet(target, stage, chunks.add(shown), is_answer, max(map(_excess, held), default=None, key=_or_0))

    if result.curves:
        first = result.curves[0]
        yield made(first.name, first.kind, result.curves, True)
    for (kind, name), curves in groupby(result.further, key=lambda curve: (curve.kind, curve.name)):
        yield made(name, kind, curves, False)


def _page_curve(curve: Curve) -> PageCurve:
    with np.errstate(invalid="ignore"):
        outside = np.flatnonzero(np.abs(curve.value) > curve.limit)
    left = int(outside[0]) if len(outside) else None
    has_band = np.isfinite(curve.limit).any()
    # After it the band is that of two runs of which one is wrong, and would include the divergence.
    until = len(curve.step) if left is None else left + 1
    behind = (None,) * (len(curve.step) - until)
    return PageCurve(
        curve.statistic,
        curve.rank,
        tuple(map(int, curve.step.tolist())),
        _numbers(curve.a),
        _numbers(curve.b),
        (*_numbers(curve.low[:until]), *behind) if has_band else (),
        (*_numbers(curve.high[:until]), *behind) if has_band else (),
        None if left is None else int(curve.step[left]),
    )


def _numbers(values: Array) -> tuple[float | None, ...]:
    """Return numbers with the digits of a file; None for missing ones."""
    return tuple(None if value != value else float(f"{value:.9g}") for value in values.tolist())


def _excess(curve: Curve) -> float | None:
    """Return the maximum deviation of a curve relative to its band; infinite if the band has no width, None without a
    band."""
    if (np.abs(curve.value[curve.limit == 0]) > 0).any():
        return math.inf
    known = np.isfinite(curve.limit) & (curve.limit > 0) & np.isfinite(curve.value)
    if not known.any():
        return None
    return float(f"{float((np.abs(curve.value[known]) / curve.limit[known]).max()):.4g}")


def _or_0(excess: float | None) -> float:
    return -math.inf if excess is None else excess


def _stages(result: Result, chunks: Chunks) -> TableSet:
    titles = ("kind", "stage", "left at the step", "targets", "leaves first at")
    rows = tuple((one.kind, one.stage.name, one.left, one.targets, one.first_step) for one in result.stages)
    letters = "".join("e" if one.left else "p" for one in result.stages)
    return TableSet(phrase("stages, in the order of a step"), chunks.add(Table(titles, rows, letters)), len(rows))


def command_of(target: str, golden: str, calibrate: str = "") -> str:
    """Return the command with the same answer."""
    more = f" --calibrate {quote(calibrate)}" if calibrate else ""
    return f"msprobe monitor compare {quote(target)} {quote(golden)}{more}"
