"""The report of a request: the units of its outcomes, and the answer as `summary` prints it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from shlex import join, quote

from msprobe.base.names import parse
from msprobe.base.phrase import Words, phrase
from msprobe.base.version import tool
from msprobe.compare.judge.verdict import GRADES
from msprobe.compare.locate.finding import Divergence
from msprobe.compare.locate.wording import where_to_look
from msprobe.compare.ranks.collectives import word_of
from msprobe.compare.request import Request, options_of
from msprobe.compare.tables.console import causes_of_unjudged, excused_said, left_open
from msprobe.compare.units.assembly import Assembly, label_of
from msprobe.findings.catalogue import comparison as kinds
from msprobe.findings.finding import Answer, Finding, Suggestion
from msprobe.options import declaration as options
from msprobe.report.document import Head, Side, Unit
from msprobe.report.file import Report, against, now

from .outcome import Outcome
from .summary import RequestResult, ranks_of

_MOST = 200
"""Next beginnings, and harmless differences, of all units together."""


def report_of(result: RequestResult, request: Request) -> Report:
    """The report of a result whose request asked for units."""
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
    """The command that gives the same answer, but for mapping files."""
    return join(options.command_of("compare", options_of(request)))


def sides(made: Assembly, request: Request) -> tuple[Side, Side]:
    """Both sides as they were asked for; what they were made with is the first unit's."""
    first = next(iter(made.packed), None)
    target, golden = (Side(""), None) if first is None else (first.target, first.golden)
    return replace(target, path=str(request.target)), replace(golden or Side(""), path=str(request.golden))


def add_outcomes(made: Assembly, outcomes: Sequence[Outcome], stage: str = "") -> dict[int, int]:
    """Add the units of outcomes; gives their numbers by the identity of the outcome."""
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
    named = result.first
    ordered = sorted(result.outcomes, key=lambda outcome: outcome is not named)
    found: list[Finding] = []
    harmless: list[Finding] = []
    for outcome in ordered:
        if outcome.unit is not None:
            unit = units[id(outcome)]
            found += made.placed(outcome.unit.beginnings, unit)
            harmless += made.placed(outcome.unit.harmless, unit)
    state = "differs" if named is not None else "clean" if result.is_clean else "unjudged"
    return Answer(
        state,
        result.last,
        found[0] if named is not None and found else None,
        tuple(found[1:_MOST] if named is not None else found[:_MOST]),
        tuple(harmless[:_MOST]),
        tuple(advice(named.findings[0], request, named) if named is not None else ()),
        (*_notes(result), *made.notes),
    )


def _notes(result: RequestResult) -> Iterator[Words]:
    """What the console says besides findings."""
    yield from result.merging
    if len(result.outcomes) == 1 and not result.missing:
        yield from result.outcomes[0].notes
        return
    yield from left_open(
        result.judged, result.differing, result.unjudged, (outcome.mode for outcome in result.outcomes)
    )
    yield from result.limits
    if result.excused is not None:
        yield excused_said(result.excused, result.user_limits)
    yield from (phrase("missing: {what}", what=sentence) for sentence in result.missing)


_LOOK_AT_EXCHANGE = "at the group and the operation of the collective, and at what the other ranks put in"


def advice(finding: Divergence, request: Request, outcome: Outcome | None = None) -> Iterator[Suggestion]:
    """Where to look, and the commands that tell more; `outcome` is that of the finding."""
    is_exchange = finding.kind is kinds.COMPUTES and word_of(finding.name)
    if outcome is not None and outcome.hint is not None:
        yield Suggestion(outcome.hint.line)
    where = phrase(_LOOK_AT_EXCHANGE) if is_exchange else where_to_look(finding)
    yield Suggestion(phrase("look {where}", where=where))
    target, golden = quote(str(request.target)), quote(str(request.golden))
    yield Suggestion(
        phrase("what to collect next, as a configuration for both runs"),
        " ".join(
            filter(None, (f"msprobe diagnose {target} {golden}", str(request.user_limits), "--write-config next.json"))
        ),
    )
    is_call = finding.kind is kinds.COMPUTES and parse(finding.name).kind == "api"
    if is_call and outcome is not None and outcome.unit is not None and outcome.mode == "tensor":
        path = quote(outcome.unit.target.path)
        text = phrase(
            "a script that runs this call alone, on its recorded inputs, and says whether the kernel is wrong"
        )
        yield Suggestion(text, f"msprobe repro {quote(finding.name)} --dump {path}")
