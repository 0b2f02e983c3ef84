"""The report of two RL flows: the units of all stages, tables of keys and settings, and the first difference."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby

from msprobe.base.phrase import Words, phrase
from msprobe.base.version import tool
from msprobe.compare.jobs.answer import advice
from msprobe.compare.jobs.report import add_outcomes, command_of, sides
from msprobe.compare.jobs.summary import ranks_of
from msprobe.compare.judge.verdict import GRADES
from msprobe.compare.key_data.comparator import COLUMNS as OF_KEY
from msprobe.compare.key_data.comparator import rows as rows_of_key
from msprobe.compare.locate.finding import Divergence
from msprobe.compare.request import Request
from msprobe.compare.tables.console import causes_of_unjudged, excused_phrase, left_open
from msprobe.compare.tables.page import put_table
from msprobe.compare.units.assembly import Assembly
from msprobe.findings.finding import Answer, Finding, Place, Suggestion
from msprobe.findings.kinds import BY_NAME
from msprobe.report.document import Head, TableSet
from msprobe.report.file import Report, against, now

from . import wording
from .configurations import COLUMNS as OF_SETTINGS
from .configurations import rows as rows_of_settings
from .origin import First
from .result import OF_KEYS, FlowResult, Stepwise, rows_of_walk

_KEYS = 40
"""Maximum number of keys with separate tables; the table of all keys is complete."""


def report_of_flows(result: FlowResult | Stepwise, request: Request) -> Report:
    """Return the report of one flow, or of the flows of all steps."""
    flows: dict[int | None, FlowResult] = {}
    if isinstance(result, FlowResult):
        flows[None] = result
    else:
        flows.update(result.results.items())
    made = Assembly()
    units: dict[int, int] = {}
    for step, flow in flows.items():
        _add_stages(made, flow, step, units)
    made.finish()
    tables = [table for step, flow in flows.items() for table in _tables(made, flow, step)]
    head = Head(
        "flow",
        against(request.target, request.golden),
        command_of(request),
        now(),
        tool(),
        *sides(made, request),
        _completed(result, request, list(_of_stages(result, made, units)), made.notes),
        {
            grade: sum(o.counts.get(grade, 0) for o in result.outcomes)
            + sum(flow.keys.counts.get(grade, 0) for flow in flows.values())
            for grade in GRADES
        },
        tuple(cause for flow in flows.values() for cause in causes_of_unjudged(flow.unjudged)),
        tuple(made.units),
        made.meetings,
        tables=tuple(tables),
        merged=made.merged(),
        calls=made.calls,
        detailed=made.in_detail,
    )
    return Report(head, made.chunks)


def _add_stages(made: Assembly, flow: FlowResult, step: int | None, units: dict[int, int]) -> None:
    for stage in flow.stages:
        name = stage.name if step is None else f"step {step}, {stage.name}"
        added = add_outcomes(made, stage.outcomes, name)
        units |= added
        if stage.result is not None:
            for outcomes in ranks_of(stage.result).values():
                of_rank = {rank: added[id(o)] for rank, o in outcomes.items() if id(o) in added}
                made.meet(of_rank, {rank: o.rank_summary for rank, o in outcomes.items() if o.rank_summary is not None})
        if stage.problem:
            made.notes.append(phrase("{name}: {cause}", name=name, cause=stage.problem))


def _tables(made: Assembly, flow: FlowResult, step: int | None) -> Iterator[TableSet]:
    where = "" if step is None else phrase(" of step {step}", step=step)
    if flow.keys.rows:
        yield put_table(
            made.chunks, phrase("key data{where}", where=where), OF_KEYS, rows_of_walk(flow.walked), "Verdict"
        )
    if flow.configurations.count:
        rows = rows_of_settings(flow.configurations)
        yield put_table(made.chunks, phrase("settings that differ{where}", where=where), OF_SETTINGS, rows)
    groups = groupby(flow.keys.rows, key=lambda row: row.key.tag)
    for at, (tag, part) in enumerate(groups):
        if at == _KEYS:
            break
        yield put_table(
            made.chunks, phrase("{name}{where}", name=tag, where=where), OF_KEY, rows_of_key(part), "Verdict"
        )


def answer_of_flows(result: FlowResult | Stepwise, request: Request) -> Answer:
    """Return what the comparison of flows found, without positions in a report."""
    found = [outcome for outcome in result.outcomes if outcome.answer is not None]
    firsts = [(o, o.answer.first) for o in found if o.answer is not None and o.answer.first is not None]
    others = [first.placed(step=outcome.step, rank=outcome.rank) for outcome, first in firsts]
    return _completed(result, request, others, ())


def _named(result: FlowResult | Stepwise) -> FlowResult | None:
    """Return the flow whose first difference is the answer."""
    if isinstance(result, FlowResult):
        return result
    return None if result.first is None else result.results[result.first]


def _completed(
    result: FlowResult | Stepwise, request: Request, others: list[Finding], more_notes: Iterable[Words]
) -> Answer:
    named = _named(result)
    notes = [*_notes(result), *more_notes]
    total = sum(outcome.answer.total for outcome in result.outcomes if outcome.answer is not None)
    if named is None or named.first is None:
        flows = [result] if isinstance(result, FlowResult) else list(result.results.values())
        line = flows[-1].answer
        state = "clean" if result.is_clean else "unjudged"
        return Answer(state, line, None, tuple(others), notes=tuple(notes), omitted=max(0, total - len(others)))
    first = _first(named.first, others)
    further = tuple(one for one in others if _position(one) != _position(first))
    return Answer(
        "differs",
        named.answer,
        first,
        further,
        advice=tuple(_advice(named.first, named.first.finding, request)),
        notes=tuple(notes),
        omitted=max(0, total - len(others)),
    )


def _of_stages(result: FlowResult | Stepwise, made: Assembly, units: Mapping[int, int]) -> Iterator[Finding]:
    """Return the first wrong call of every pair of dumps."""
    for outcome in result.outcomes:
        if outcome.unit is not None:
            yield from made.placed(outcome.unit.findings[:1], units[id(outcome)])


def _first(first: First, others: list[Finding]) -> Finding:
    """Return the first difference: a call of the dump of a stage if there is one, else the key or the stage."""
    item = first.item
    finding = first.finding
    if finding is not None:
        at = next(
            (o for o in others if o.place.name == finding.name and (o.place.step, o.place.rank) == item.place), None
        )
        if at is not None:
            found = at.placed(step=item.step, rank=item.rank)
            return replace(found, evidence=(wording.why(first), *at.evidence))
    return finding_of(first)


def finding_of(first: First) -> Finding:
    """Return the first difference of a flow as a finding about its stage or key."""
    item = first.item
    place = Place(item.name, step=item.step, rank=item.rank)
    return Finding(
        BY_NAME[f"{item.kind} differs"],
        place,
        wording.why(first),
        evidence=(wording.text(first),),
        fields={"item": item.kind, "grade": item.grade},
    )


def _position(one: Finding) -> tuple[str, int | None, int | None]:
    return one.place.name, one.place.step, one.place.rank


def _advice(first: First, finding: Divergence | None, request: Request) -> Iterator[Suggestion]:
    if text := wording.then(first):
        yield Suggestion(text)
    if first.hint is not None:
        yield Suggestion(first.hint.line)
    if finding is not None:
        yield from advice(finding, request)


def _notes(result: FlowResult | Stepwise) -> Iterator[Words]:
    for flow in [result] if isinstance(result, FlowResult) else result.results.values():
        yield from wording.configurations(flow.configurations, flow.top)
        yield from left_open(flow.judged, flow.differing, flow.unjudged, (outcome.mode for outcome in flow.outcomes))
        if flow.excused is not None:
            yield excused_phrase(flow.excused, flow.user_limits)
        yield from wording.order_of(flow.stages)
        yield from (phrase("missing: {what}", what=each) for each in flow.missing)
    if isinstance(result, Stepwise):
        yield from (phrase("missing: {what}", what=each) for each in result.missing)
