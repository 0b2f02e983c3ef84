"""The report of two monitors: the answer, the curves with their band, and the stages."""

import json
import math
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from shlex import quote

import numpy as np

from msprobe.base.phrase import Words, phrase, some
from msprobe.base.version import tool
from msprobe.findings.data import as_data
from msprobe.findings.finding import Answer, Finding, Place, Suggestion
from msprobe.findings.kinds import BY_NAME
from msprobe.report.document import Curve as PageCurve
from msprobe.report.document import CurveSet, Head, Side, Table, TableSet
from msprobe.report.file import Chunks, Report, against, now

from .finding import Array, Curve, MonitorDivergence, Result
from .next_dump import next_dump
from .wording import about, answer, how_far, meaning, stages

TARGETS = 60
"""Targets besides the answer's whose curves a report shows."""


def report_of(result: Result, command: str) -> Report:
    """The report of a result."""
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
        None if finding is None else _beginning(finding, result),
        advice=tuple(_advice(finding, result)),
        notes=(*about(result), *(stages(result) if finding is not None else ())),
    )


def _beginning(finding: MonitorDivergence, result: Result) -> Finding:
    evidence: list[Words] = [
        phrase("in {finding.kind} {finding.left} of {finding.targets} leave the band at this step", finding=finding)
    ]
    if len(finding.ranks) > 1:
        evidence.append(phrase("on ranks {ranks}", ranks=some(finding.ranks, 8)))
    if finding.agreeing:
        evidence.append(phrase("the previous target of the backward pass, {name}, agrees", name=finding.agreeing))
    if finding.is_of_digits:
        evidence.append(
            phrase("all of it is in the last digits of the files: it may have begun unseen in the update before")
        )
    place = Place(finding.target, step=finding.step, rank=finding.ranks[0], micro_step=finding.micro_step)
    kind = BY_NAME[finding.stage.value]
    fields = {**as_data(finding), "cause": finding.cause.name.lower(), "basis": finding.basis.name.lower()}
    return Finding(kind, place, meaning(finding), evidence=(how_far(finding), *evidence), fields=fields)


def _advice(finding: MonitorDivergence | None, result: Result) -> Iterator[Suggestion]:
    if finding is None:
        return
    configuration = json.dumps(next_dump(finding, result.ranks), ensure_ascii=False, indent=1)
    text = phrase("what to dump next, on both sides: a configuration for PrecisionDebugger")
    yield Suggestion(text, config=configuration)
    yield Suggestion(phrase("then compare the two dumps"), "msprobe compare A_DUMP B_DUMP")


def _curve_sets(result: Result, chunks: Chunks) -> Iterator[CurveSet]:
    """The curves of the answer, then those of other targets."""
    stage_of = {stage.kind: stage.stage.value for stage in result.stages}

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
    # Behind it the band is that of two runs of which one is wrong, and would hold what has left it.
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
    """Numbers with the digits of a file; None for what there is not."""
    return tuple(None if value != value else float(f"{value:.9g}") for value in values.tolist())


def _excess(curve: Curve) -> float | None:
    """How many times its band a curve is outside at most; infinite where the band has no width, None where there is
    none."""
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
    rows = tuple((one.kind, one.stage.value, one.left, one.targets, one.first_step) for one in result.stages)
    letters = "".join("e" if one.left else "p" for one in result.stages)
    return TableSet(phrase("stages, in the order of a step"), chunks.add(Table(titles, rows, letters)), len(rows))


def command_of(target: str, golden: str, calibrate: str = "") -> str:
    """The command that gives the same answer."""
    more = f" --calibrate {quote(calibrate)}" if calibrate else ""
    return f"msprobe monitor compare {quote(target)} {quote(golden)}{more}"
