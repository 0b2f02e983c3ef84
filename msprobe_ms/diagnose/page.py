"""A diagnosis as one page of text, and as one JSON object."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from msprobe.base.visible import visible
from msprobe.compare.flow.answer import First
from msprobe.compare.flow.result import FlowResult
from msprobe.compare.flow.stepwise import Stepwise
from msprobe.compare.judge.verdict import GRADES, count
from msprobe.compare.locate.words import full, short
from msprobe.compare.report.json_file import as_object as finding_as_object
from msprobe.compare.report.json_file import causes

from . import words
from .diagnosis import Answered, Diagnosis, Looked, NextCollection, Result, RuledOut, Verdict

_LONGEST = 400  # characters of a line
_SHOWN = 4  # lines of one kind
_MOST = 8  # lines of what was ruled out, and of what was not recorded


def page(diagnosis: Diagnosis, files: Sequence[str] = ()) -> list[str]:
    """The lines: answer, evidence, what was ruled out, next collection; `files` are where that was written."""
    parts = (
        ("Answer", _answer(diagnosis)),
        ("Evidence", _evidence(diagnosis)),
        ("Ruled out", _ruled_out(diagnosis)),
        ("Not recorded", _few(_lacking(diagnosis), _MOST)),
        ("Next collection", _next(diagnosis, files)),
    )
    lines: list[str] = []
    for title, part in parts:
        said = [visible(line if line.startswith(" ") else " ".join(line.split())) for line in part]
        if said:
            lines += [title, *(f"  {_cut(line)}" for line in said), ""]
    return lines[:-1]


def last_line(result: Result) -> str:
    """The line with which `msprobe compare` answers: its last one, or that of a flow's first difference."""
    if isinstance(result, Stepwise):
        first = next((each for each in result.results.values() if each.first is not None), None)
        return first.headline if first is not None else tuple(result.lines())[-1]
    return result.headline if isinstance(result, FlowResult) else tuple(result.lines())[-1]


def _answer(diagnosis: Diagnosis) -> Iterator[str]:
    answered = diagnosis.answered
    if answered is not None and answered.looked.result is not None:
        if answered.border is not None and answered.finding is not None:
            yield f"first wrong call: {full(answered.finding)}"
        else:
            yield last_line(answered.looked.result)
        if where := words.place(answered):
            yield f"in {where}"
        yield from _of_flow(answered)
        return
    if diagnosis.verdict is Verdict.DIFFERS or not diagnosis.looked:
        for name, answer in diagnosis.checkpoints:
            yield from (f"checkpoint {name}: {line}" for line in answer.lines(1))
    if diagnosis.verdict is not Verdict.DIFFERS:
        counting = [each for each in diagnosis.looked if not each.is_overruled]
        found = [(each.meeting.target.name or "itself", last_line(each.result)) for each in counting if each.result]
        yield from _few([line if len(found) == 1 else f"{name}: {line}" for name, line in found], _MOST)


def _of_flow(answered: Answered) -> Iterator[str]:
    if (first := _first_of_flow(answered)) is not None:
        if first.why:
            yield f"why: {first.why}"
        if first.finding:
            yield f"first wrong call: {full(first.finding)}"
        if first.then:
            yield first.then


def _first_of_flow(answered: Answered) -> First | None:
    """The first difference of a flow, with what to do; None for plain dumps."""
    result = answered.looked.result
    if isinstance(result, Stepwise):
        return next((each.first for each in result.results.values() if each.first is not None), None)
    return result.first if isinstance(result, FlowResult) else None


def _evidence(diagnosis: Diagnosis) -> Iterator[str]:
    for each in diagnosis.looked:
        yield from _of_looked(each, diagnosis.answered)
    answered = diagnosis.answered
    if answered is not None and answered.finding is not None:
        if answered.finding.receivers > 0:
            yield f"{answered.finding.receivers} later calls received the difference"
        if answered.border is not None:
            yield words.border(answered.border)
        if answered.is_unconfirmed:
            yield words.unconfirmed()
        yield from _few(_others(answered), _SHOWN)
    if answered is not None and answered.survey is not None:
        seen = answered.survey
        if seen.replayed or seen.not_replayed:
            yield f"{seen.replayed} calls were executed again to tell noise; {seen.not_replayed} could not be"
        for found in seen.precision:
            yield words.precision(found)
        if seen.harmless:
            yield f"{seen.harmless} differences die out and are harmless"
    for name, checkpoint in diagnosis.checkpoints:
        if diagnosis.looked and (answered is not None or diagnosis.verdict is not Verdict.DIFFERS):
            yield from (f"checkpoint {name}: {line}" for line in checkpoint.lines(1))
    said = [f"the sides differ in {words.setting(each)}" for each in diagnosis.environment]
    compared = diagnosis.configurations
    said += [f"the configurations differ in {each.said}" for each in compared.differences if not each.is_of_place]
    yield from _few(said, _SHOWN)
    if compared.problem:
        yield compared.problem


def _of_looked(looked: Looked, answered: Answered | None) -> Iterator[str]:
    what = words.collection(looked.meeting.target)
    if looked.skipped is not None:
        yield f"{what}: {words.skipped(looked)}"
        return
    outcomes = looked.outcomes
    counts = {grade: sum(outcome.counts.get(grade, 0) for outcome in outcomes) for grade in GRADES}
    yield f"{what}: {count(counts)}{words.overruled() if looked.is_overruled else ''}"
    yield from _where(looked, answered)
    yield from (f"  {outcome.label}: not compared: {outcome.failed}" for outcome in outcomes if outcome.failed)


def _where(looked: Looked, answered: Answered | None) -> Iterator[str]:
    """Which steps and ranks differ: the calls of the first step, and the numbers of those behind it."""
    wrong = [outcome for outcome in looked.outcomes if outcome.first is not None]
    is_its = answered is not None and answered.looked is looked
    if not wrong or (is_its and len(looked.outcomes) == 1):
        return
    first = min(outcome.step or 0 for outcome in wrong)
    said = []
    for outcome in wrong:
        if outcome.first is not None and (outcome.step or 0) == first:
            is_it = is_its and answered is not None and outcome.first is answered.finding
            where = f"{outcome.label}: " if outcome.label else ""
            said.append(f"  {where}{short(outcome.first)}{' (the answer)' if is_it else ''}")
    yield from _few(said, _SHOWN, "  ")
    if later := sorted({outcome.step or 0 for outcome in wrong} - {first}):
        yield f"  {words.later_steps(later)}"


def _others(answered: Answered) -> Iterator[str]:
    """Other calls in which a difference begins, of the same step and rank."""
    for outcome in answered.looked.outcomes:
        if answered.finding in outcome.findings:
            others = (each for each in outcome.findings if each not in (answered.finding, answered.border))
            yield from (f"another difference: {short(finding)}" for finding in others)


def _ruled_out(diagnosis: Diagnosis) -> Iterator[str]:
    if diagnosis.configurations.count and not diagnosis.configurations.differences:
        yield f"configurations: {diagnosis.configurations.count} settings, equal"
    for name, answer in diagnosis.checkpoints:
        if answer.is_clean:
            yield f"checkpoint {name}: {len(answer.judged)} parameters, all within the standard of their dtype"
    yield from _few([words.ruled_out(each) for each in diagnosis.ruled_out], _MOST)
    yield from words.blind([each.mode for each in diagnosis.ruled_out if each.mode is not None])


def _lacking(diagnosis: Diagnosis) -> Iterator[str]:
    for each in diagnosis.lacking:
        yield from words.lacking(each)
    for side, held in diagnosis.alone:
        yield words.alone(side, held)


def _next(diagnosis: Diagnosis, files: Sequence[str]) -> Iterator[str]:
    found = diagnosis.next
    if found is None:
        yield from words.nothing_to_collect(diagnosis.answered)
        return
    yield words.purpose(found)
    for side in (found.sides[:1]) if found.is_one else found.sides:
        if not found.is_one:
            yield f"{side}:"
        yield from (f"  {line}" for line in shown(found.of(side)))
    yield from words.what_to_do(found, files)


def shown(configuration: Mapping[str, object]) -> list[str]:
    """A configuration as JSON, a line for each key."""
    inner = [f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in configuration.items()]
    return ["{", *(f"{line}," for line in inner[:-1]), inner[-1], "}"]


def as_object(diagnosis: Diagnosis) -> dict[str, object]:
    """Everything that was found, for programs."""
    answered = diagnosis.answered
    flow = _first_of_flow(answered) if answered is not None else None
    return {
        "target": diagnosis.target,
        "golden": diagnosis.golden,
        "verdict": diagnosis.verdict.value,
        "is_clean": diagnosis.is_clean,
        "answer": next(_answer(diagnosis), None),
        "first_wrong": [finding_as_object(answered.finding, answered.step, answered.rank)]
        if answered is not None and answered.finding is not None
        else [],
        "step": answered.step if answered is not None else None,
        "rank": answered.rank if answered is not None else None,
        "is_unconfirmed": answered.is_unconfirmed if answered is not None else False,
        "stage": (answered.stage or None) if answered is not None else None,
        "collection": answered.looked.meeting.target.name if answered is not None else None,
        "looked": [_looked_as_object(each) for each in diagnosis.looked],
        "only_on_one_side": [{"side": side, "collection": held.name} for side, held in diagnosis.alone],
        "environment": [asdict(each) for each in diagnosis.environment],
        "configurations": [
            {"path": each.path, "target": each.target, "golden": each.golden}
            for each in diagnosis.configurations.differences
        ],
        "checkpoints": [{"name": name, "is_clean": answer.is_clean} for name, answer in diagnosis.checkpoints],
        "ruled_out": [_ruled_out_as_object(each) for each in diagnosis.ruled_out],
        "not_recorded": [{"what": each.lack.value, "names": list(each.names)} for each in diagnosis.lacking],
        "collect": dict(flow.collect) if flow is not None else {},
        "next_collection": _next_as_object(diagnosis.next) if diagnosis.next is not None else None,
    }


def _looked_as_object(looked: Looked) -> dict[str, object]:
    head = looked.meeting.target.head
    return {
        "collection": looked.meeting.target.name,
        "task": head.task,
        "level": head.level,
        "is_overruled": looked.is_overruled,
        "skipped": looked.skipped.value if looked.skipped is not None else None,
        "failed": looked.failed or None,
        "is_clean": looked.result.is_clean if looked.result is not None else None,
        "jobs": [
            {
                "step": outcome.step,
                "rank": outcome.rank,
                "mode": outcome.mode,
                "counts": {grade: outcome.counts.get(grade, 0) for grade in GRADES},
                "unjudged": causes(outcome.unjudged),
                "first_wrong": outcome.first.name if outcome.first is not None else None,
                "failed": outcome.failed or None,
            }
            for outcome in looked.outcomes
        ],
    }


def _ruled_out_as_object(each: RuledOut) -> dict[str, object]:
    return {
        "what": each.what.name.lower(),
        "names": list(each.names),
        "sureness": each.sureness.name.lower(),
        "mode": each.mode,
        "calls": each.calls,
        **asdict(each.tally),
    }


def _next_as_object(found: NextCollection) -> dict[str, object]:
    return {
        "purpose": found.purpose.value,
        "sides": list(found.sides),
        "around": list(found.around),
        "target": found.target,
        "golden": found.golden,
    }


def _few(lines: Iterator[str] | Sequence[str], most: int, before: str = "") -> list[str]:
    found = list(lines)
    more = len(found) - most
    return [*found[:most], f"{before}and {more} more, in the JSON"] if more > 1 else found


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
