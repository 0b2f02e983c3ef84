"""The report of a request: the units of its outcomes, and its answer."""

from collections.abc import Sequence
from dataclasses import replace
from shlex import join

from msprobe.base.phrase import phrase
from msprobe.base.version import tool
from msprobe.compare.judge.verdict import GRADES
from msprobe.compare.request import Request, options_of
from msprobe.compare.tables.console import causes_of_unjudged
from msprobe.compare.units.assembly import Assembly, label_of
from msprobe.findings.finding import Answer, Finding
from msprobe.options import declaration as options
from msprobe.report.document import Head, Side, Unit
from msprobe.report.file import Report, against, now

from .answer import completed, in_order
from .outcome import Outcome
from .summary import RequestResult, ranks_of


def report_of(result: RequestResult, request: Request) -> Report:
    """Return the report of a result whose outcomes have units."""
    made = Assembly()
    units = add_outcomes(made, result.outcomes)
    for outcomes in ranks_of(result).values():
        of_rank = {rank: units[id(outcome)] for rank, outcome in outcomes.items() if id(outcome) in units}
        made.meet(of_rank, {rank: o.rank_summary for rank, o in outcomes.items() if o.rank_summary is not None})
    made.finish()
    answer = _answer(result, request, made, units)
    head = Head(
        "compare",
        against(request.target, request.golden),
        command_of(request),
        now(),
        tool(),
        *sides(made, request),
        answer,
        {grade: sum(o.counts.get(grade, 0) for o in result.outcomes) for grade in GRADES},
        tuple(causes_of_unjudged(result.unjudged)),
        tuple(made.units),
        made.meetings,
        merged=made.merged(),
        calls=made.calls,
        detailed=made.in_detail,
    )
    return Report(head, made.chunks)


def command_of(request: Request) -> str:
    """Return the command with the same answer, without mapping files."""
    return join(options.command_of("compare", options_of(request)))


def sides(made: Assembly, request: Request) -> tuple[Side, Side]:
    """Return both sides by the paths of the request; framework and versions are those of the first unit."""
    first = next(iter(made.packed), None)
    target, golden = (Side(""), None) if first is None else (first.target, first.golden)
    return replace(target, path=str(request.target)), replace(golden or Side(""), path=str(request.golden))


def add_outcomes(made: Assembly, outcomes: Sequence[Outcome], stage: str = "") -> dict[int, int]:
    """Add the units of outcomes, and return their numbers by the identity of the outcome."""
    found = {}
    for outcome in outcomes:
        if outcome.unit is None:
            if outcome.failed:
                text = phrase("{what}: not compared: {cause}", what=outcome.label or stage, cause=outcome.failed)
                made.notes.append(text)
            continue
        unit = Unit(
            label_of(", ".join(filter(None, (stage, outcome.label))), outcome.step, outcome.rank),
            0,
            0,
            step=outcome.step,
            rank=outcome.rank,
            stage=stage,
            counts={grade: outcome.counts.get(grade, 0) for grade in GRADES},
            line=outcome.last,
        )
        found[id(outcome)] = made.add(outcome.unit, unit)
    return found


def _answer(result: RequestResult, request: Request, made: Assembly, units: dict[int, int]) -> Answer:
    found: list[Finding] = []
    harmless: list[Finding] = []
    for outcome in in_order(result):
        if outcome.unit is not None:
            unit = units[id(outcome)]
            found += made.placed(outcome.unit.findings, unit)
            harmless += made.placed(outcome.unit.harmless, unit)
    return completed(result, request, found, harmless, made.notes)
