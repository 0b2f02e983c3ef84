"""A diagnosis as one page of text, and as one JSON object."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from msprobe.base.log import visible
from msprobe.compare.core.noise import PrecisionClass
from msprobe.compare.jobs.survey import Subject, Tally
from msprobe.compare.judge.judged import Mode
from msprobe.compare.judge.verdict import GRADES, count
from msprobe.compare.locate.finding import Finding, FindingKind
from msprobe.compare.locate.wording import full, short
from msprobe.compare.rl.answer import First
from msprobe.compare.rl.compare import Stepwise
from msprobe.compare.rl.result import FlowResult
from msprobe.compare.tables.console import BLIND
from msprobe.compare.tables.json_file import as_object as finding_as_object
from msprobe.compare.tables.json_file import causes

from .collected import Collection
from .diagnosis import (
    About,
    Answered,
    Diagnosis,
    Lack,
    Lacking,
    Looked,
    NextCollection,
    Purpose,
    Result,
    RuledOut,
    Setting,
    Skipped,
    Verdict,
)

NAMED = 3  # so many names stand in a sentence, the others are counted

_SUBJECTS = {
    Subject.RUN_INPUTS: "run inputs",
    Subject.PARAMETERS: "parameters",
    Subject.ARGUMENTS: "arguments that are no tensors",
    Subject.FORWARD: "forward",
    Subject.BACKWARD: "backward",
    Subject.GRADIENTS: "gradients of parameters",
}

_EQUAL: dict[Mode | None, str] = {
    "tensor": "equal to the bit",
    "digest": "equal by digest",
    "statistics": "equal in all four statistics",
    None: "equal",
}

_PURPOSES = {
    Purpose.INSIDE_CELL: "level L0 records no call inside a cell; this collects all inside {around}, with tensors",
    Purpose.BETWEEN_CALLS: "level L0 records no call between cells; this collects {around}, with tensors",
    Purpose.UNRECORDED_CODE: "the operation is none of the recorded calls; this collects every operation of {around}",
    Purpose.ELEMENTS: "statistics and digests do not show how it differs; this collects {around} with tensors",
    Purpose.NOISE: "statistics do not tell rounding from a small fault; this collects the whole step with tensors",
    Purpose.WHOLE_STEP: "a narrow collection does not show where it begins; this collects the whole step",
    Purpose.MISSING_RECORDS: "records that are needed are missing; this collects the whole step, with tensors",
    Purpose.STEP_BEFORE: "an update before this step is different; this collects weights and gradients up to this step",
    Purpose.BLIND: "statistics do not see everything; this collects the same steps {how}",
    Purpose.ONE_SIDE: "one side has more than the other; this collects on the {side} side what it lacks",
    Purpose.OUTSIDE_CELLS: "level L0 records no call outside cells, such as the loss; this collects these steps {how}",
    Purpose.OTHER_STEPS: "nothing differs in these steps; this collects later ones, coarsely",
}

_LACKS = {
    Lack.STEPS_BEFORE: "steps before {names}: not compared",
    Lack.CALLS_IN_CELLS: "calls inside cells and between them: not recorded at level L0",
    Lack.BACKWARD: "backward: not recorded",
    Lack.PARAMETERS: "parameters: not recorded",
    Lack.FILTERED: "calls outside `list` and `scope` of this collection: recorded by {names}",
    Lack.OTHER_STEPS: "steps other than {names}: not compared",
}

_SKIPPED = {
    Skipped.NO_COMMON_STEP: "no step is on both sides",
    Skipped.NOT_THIS_STEP: "it does not hold the step of the answer",
    Skipped.ANSWERED: "not needed for the answer",
}


def place(answered: Answered) -> str:
    """`step 3, rank 1`, with stage and collection where there are several; empty where nothing tells it."""
    said = [f"stage {answered.stage}"] if answered.stage else []
    said += [f"step {answered.step}"] if answered.step is not None else []
    said += [f"rank {answered.rank}"] if answered.rank is not None else []
    name = answered.looked.meeting.target.name
    return ", ".join(said) + (f"{'; ' if said else ''}by the collection {name}" if name else "")


def collection(held: Collection) -> str:
    """`mix: statistics of level L0, 3 steps, 2 ranks`."""
    what = "a flow" if held.is_flow else held.head.task or held.family
    said = f"{what} of level {held.head.level}" if held.head.level else what
    for noun, numbers in (("step", held.steps), ("rank", held.ranks)):
        if len(numbers) > 1:
            said += f", {len(numbers)} {noun}s"
    return f"{held.name}: {said}" if held.name else said


def skipped(looked: Looked) -> str:
    """Why two collections were not compared."""
    if looked.skipped is Skipped.FAILED:
        return f"not compared: {looked.failed}"
    return f"not compared: {_SKIPPED[looked.skipped]}" if looked.skipped else ""


def alone(side: str, held: Collection) -> str:
    """A collection of one side."""
    return f"{collection(held)}: only on the {side} side"


def setting(each: Setting) -> str:
    """One difference of the environment."""
    return f"{each.name}: {each.target}, golden {each.golden}"


def ruled_out(each: RuledOut) -> str:
    """`parameters: 12 pairs, equal to the bit`."""
    if each.what is About.COLLECTION:
        name, level, task = each.names
        what = f"collection {name or 'itself'} ({task} of level {level})"
    elif each.what in (About.STEPS, About.RANKS):
        several = len(each.names) != 1
        what = f"{each.what.value if several else each.what.value[:-1]} {few(each.names, 8)}"
    elif each.what is About.CALLS_BEFORE:
        what = f"{_count(each.calls, 'call')} before it"
    elif each.what is About.ALL_CALLS:
        what = f"all {_count(each.calls, 'call')}, forward and backward"
    else:
        what = _SUBJECTS[each.what] if isinstance(each.what, Subject) else each.what.value
    return f"{what}: {how_surely(each.tally, each.mode)}"


def how_surely(tally: Tally, mode: Mode | None) -> str:
    """`40 pairs: 38 equal to the bit, 2 within noise`."""
    parts = [
        (tally.equal, _EQUAL[mode]),
        (tally.noise, "within noise"),
        (tally.tolerance, "within tolerance"),
        (tally.unjudged, "not judged"),
        (tally.exempt, "exempt"),
    ]
    named = [(number, words) for number, words in parts if number]
    total = sum(number for number, _ in named)
    if len(named) == 1:
        return f"{_count(total, 'pair')}, {named[0][1]}"
    said = f"{_count(total, 'pair')}: {', '.join(f'{number} {words}' for number, words in named)}"
    return f"{said}; {tally.by_statistics} of them by statistics" if tally.by_statistics else said


def blind(modes: Sequence[Mode]) -> list[str]:
    """What these modes of comparison do not see."""
    return [f"{mode} cannot see {text}" for mode in dict.fromkeys(modes) if (text := BLIND.get(mode))]


def lacking(each: Lacking) -> list[str]:
    """What was not recorded, or has no partner."""
    if each.lack is Lack.ONE_SIDE:
        return [f"missing: {sentence}" for sentence in each.names]
    return [_LACKS[each.lack].format(names=few(each.names, 8) or "nothing else")]


def purpose(found: NextCollection) -> str:
    """Why this collection is proposed."""
    how = "by digest" if _by_digest(found) else "with tensors"
    return _PURPOSES[found.purpose].format(around=around(found), how=how, side=found.sides[0])


def _by_digest(found: NextCollection) -> bool:
    section = found.target.get(str(found.target.get("task")))
    return isinstance(section, dict) and section.get("summary_mode") == "md5"


def around(found: NextCollection) -> str:
    """The cell, the calls or the step that a collection is narrowed to."""
    if len(found.around) == 2:
        return f"everything from {found.around[0]} to {found.around[1]}"
    return found.around[0].rstrip(".") if found.around else "the whole step"


def what_to_do(found: NextCollection, files: Sequence[str]) -> list[str]:
    """How the configuration is used; `files` are where it was written."""
    which = "both sides" if len(found.sides) == 2 else f"the {found.sides[0]} side"
    file = files[0] if files else "next.json"
    said = f'run {which} with PrecisionDebugger(config_path="{file}", dump_path=...)'
    if len(files) > 1:
        said = f"{said}, the golden with {files[1]}"
    return [f"{said}, into a folder beside the last dump;", "then msprobe diagnose of both again"]


_LOOK = {
    FindingKind.COMPUTES: "at the call and its settings; where the settings agree, at the kernel that runs it",
    FindingKind.ARGUMENT: "at the line that makes the call, and at where this argument comes from",
    FindingKind.CALL: "at the line that makes the call, and at the conditions under which it runs",
    FindingKind.PARAMETERS: "at how weights are made: seeds, optimizer, checkpoints (msprobe config_check --compare)",
    FindingKind.RUN_INPUTS: "at the data, their order and what is done to them before the first call",
    FindingKind.CODE: "at the code between the two calls; values in it can be saved by hand (docs/saving.md)",
    FindingKind.UNKNOWN: "at what was left out of the collection",
}
"""Where a person looks next, by the kind of the finding, when no collection says more."""


def nothing_to_collect(answered: Answered | None) -> list[str]:
    """Where no collection says more: what to look at."""
    if answered is None:
        return ["none: what was compared is not described by a configuration"]
    if answered.finding is None or answered.looked.meeting.target.is_flow:
        return ["none: what to do stands with the answer"]
    return [
        "none needed: these records say all that a collection can say of this call",
        f"look {_LOOK[answered.finding.kind]}",
    ]


def precision(found: PrecisionClass) -> str:
    """Operations of one side that are coarser throughout."""
    return f"{few(found.operations)} of the {found.side}: like {found.is_of.value} throughout; taken as intended"


def later_steps(steps: Sequence[int]) -> str:
    """The steps behind the first one that differs, which its difference reaches by the weights."""
    numbers = few([str(step) for step in steps], 8)
    return f"step{'s' * (len(steps) != 1)} {numbers} behind it differ{'s' * (len(steps) == 1)} too"


def border(found: Finding) -> str:
    """Inputs from outside a filtered collection that differ, and why they are not the answer."""
    return f"inputs from outside this collection differ too, at {found.name}; the wider collection has them agree"


def overruled() -> str:
    """Behind the counts of a collection whose differences are rounding."""
    return "; rounding, as the tensors below show"


def unconfirmed() -> str:
    """Of an answer that a narrower collection does not show."""
    return "a narrower collection does not show where it begins: the answer may be rounding, or begin elsewhere"


def few(names: Sequence[str], most: int = NAMED) -> str:
    """The first names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


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
        if where := place(answered):
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
            yield border(answered.border)
        if answered.is_unconfirmed:
            yield unconfirmed()
        yield from _few(_others(answered), _SHOWN)
    if answered is not None and answered.survey is not None:
        seen = answered.survey
        if seen.replayed or seen.not_replayed:
            yield f"{seen.replayed} calls were executed again to tell noise; {seen.not_replayed} could not be"
        for found in seen.precision:
            yield precision(found)
        if seen.harmless:
            yield f"{seen.harmless} differences die out and are harmless"
    for name, checkpoint in diagnosis.checkpoints:
        if diagnosis.looked and (answered is not None or diagnosis.verdict is not Verdict.DIFFERS):
            yield from (f"checkpoint {name}: {line}" for line in checkpoint.lines(1))
    said = [f"the sides differ in {setting(each)}" for each in diagnosis.environment]
    compared = diagnosis.configurations
    said += [f"the configurations differ in {each.said}" for each in compared.differences if not each.is_of_place]
    yield from _few(said, _SHOWN)
    if compared.problem:
        yield compared.problem


def _of_looked(looked: Looked, answered: Answered | None) -> Iterator[str]:
    what = collection(looked.meeting.target)
    if looked.skipped is not None:
        yield f"{what}: {skipped(looked)}"
        return
    outcomes = looked.outcomes
    counts = {grade: sum(outcome.counts.get(grade, 0) for outcome in outcomes) for grade in GRADES}
    yield f"{what}: {count(counts)}{overruled() if looked.is_overruled else ''}"
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
        yield f"  {later_steps(later)}"


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
    yield from _few([ruled_out(each) for each in diagnosis.ruled_out], _MOST)
    yield from blind([each.mode for each in diagnosis.ruled_out if each.mode is not None])


def _lacking(diagnosis: Diagnosis) -> Iterator[str]:
    for each in diagnosis.lacking:
        yield from lacking(each)
    for side, held in diagnosis.alone:
        yield alone(side, held)


def _next(diagnosis: Diagnosis, files: Sequence[str]) -> Iterator[str]:
    found = diagnosis.next
    if found is None:
        yield from nothing_to_collect(diagnosis.answered)
        return
    yield purpose(found)
    for side in (found.sides[:1]) if found.is_one else found.sides:
        if not found.is_one:
            yield f"{side}:"
        yield from (f"  {line}" for line in shown(found.of(side)))
    yield from what_to_do(found, files)


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
