"""A diagnosis as one page of text, and as one JSON document."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from shlex import quote

from msprobe.base.digest import KINDS
from msprobe.base.log import MAX_LINE_LENGTH, join_names, terminal_line
from msprobe.compare.checkpoint.compare import answer_of as answer_about_checkpoints
from msprobe.compare.config_check.report import answer as answer_of_packs
from msprobe.compare.config_check.report import answer_of as answer_about_packs
from msprobe.compare.jobs.summary import RequestResult
from msprobe.compare.jobs.survey import Subject
from msprobe.compare.judge.judged import Mode
from msprobe.compare.judge.verdict import GRADES, count
from msprobe.compare.locate.wording import finding_of, full, short, where_to_look
from msprobe.compare.monitor.finding import Result as MonitorResult
from msprobe.compare.monitor.output import details as details_of_monitors
from msprobe.compare.monitor.report import about, meaning, stages
from msprobe.compare.monitor.report import answer as answer_of_monitors
from msprobe.compare.monitor.report import answer_of as answer_about_monitors
from msprobe.compare.rl.report import finding_of as finding_of_flow
from msprobe.compare.rl.wording import setting
from msprobe.compare.tables.console import BLIND, excused_phrase
from msprobe.compare.tables.json_file import causes, counts_of_excused
from msprobe.findings.document import Document, finding_as_object
from msprobe.findings.finding import Answer, Finding, Suggestion
from msprobe.findings.text import one_line

from .collected import Collection
from .diagnosis import (
    About,
    ComparedMonitors,
    ComparedPair,
    Diagnosis,
    GapKind,
    Located,
    NextCollection,
    Purpose,
    Result,
    RuledOut,
    Skipped,
    Verdict,
    flow_of,
)

_MAX_LINE = 400  # characters of a line that is neither the answer nor part of a configuration
_MAX_LISTED = 8  # numbers or names in a line
_MAX_NAMES = 3  # names in a sentence, where the others are counted
_MAX_LINES_OF_KIND = 4  # lines of one kind
_MAX_LINES = 8  # lines of what was ruled out, and of what was not recorded

_SUBJECTS = {
    Subject.RUN_INPUTS: "run inputs",
    Subject.PARAMETERS: "parameters",
    Subject.ARGUMENTS: "non-tensor arguments",
    Subject.FORWARD: "forward",
    Subject.BACKWARD: "backward",
    Subject.GRADIENTS: "gradients of parameters",
}

_EQUAL: dict[Mode | None, str] = {
    "tensor": "bitwise equal",
    "digest": "equal by digest",
    "statistics": "equal in all four statistics",
    None: "equal",
}

_PURPOSES = {
    Purpose.MONITORED: "a monitor does not record calls; this collects {around} of these steps{how}",
    Purpose.INSIDE_CELL: "level L0 does not record calls inside a cell; this collects all of {around}, with tensors",
    Purpose.BETWEEN_CALLS: "level L0 does not record calls between cells; this collects {around}, with tensors",
    Purpose.UNRECORDED_CODE: "the operation was not recorded; this collects every operation of {around}",
    Purpose.ELEMENTS: "statistics and digests do not show how values differ; this collects {around} with tensors",
    Purpose.NOISE: "statistics cannot tell rounding from a small error; this collects the whole step with tensors",
    Purpose.WHOLE_STEP: "a filtered collection does not show where the difference begins; this collects the whole step",
    Purpose.MISSING_RECORDS: "required records are missing; this collects the whole step, with tensors",
    Purpose.STEP_BEFORE: "an earlier update differs; this collects weights and gradients up to this step",
    Purpose.BLIND: "statistics cannot detect all differences; this collects the same steps {how}",
    Purpose.ONE_SIDE: "one side has fewer records; this collects the missing ones on the {side} side",
    Purpose.OUTSIDE_CELLS: "level L0 does not record calls outside cells, such as the loss; this collects them {how}",
    Purpose.OTHER_STEPS: "nothing differs in these steps; this collects later steps with few records",
}

_GAPS = {
    GapKind.STEPS_BEFORE: "steps before {names}: not compared",
    GapKind.CALLS_IN_CELLS: "calls inside cells and between them: not recorded at level L0",
    GapKind.BACKWARD: "backward: not recorded",
    GapKind.PARAMETERS: "parameters: not recorded",
    GapKind.FILTERED: "calls outside `list` and `scope` of this collection: recorded by {names}",
    GapKind.OTHER_STEPS: "steps other than {names}: not compared",
}

_SKIPPED = {
    Skipped.NO_COMMON_STEP: "no step is on both sides",
    Skipped.NOT_THIS_STEP: "it does not contain the step of the answer",
    Skipped.NOT_NEEDED: "not needed for the answer",
}


def page(diagnosis: Diagnosis, files: Sequence[str] = ()) -> list[str]:
    """Return the lines: answer, evidence, what was ruled out, next collection, which is written to `files`."""
    parts = (
        ("Answer", _limited(_summary(diagnosis), MAX_LINE_LENGTH)),
        ("Evidence", _limited(_evidence(diagnosis))),
        ("Ruled out", _limited(_ruled_out(diagnosis))),
        ("Not recorded", _limited(_first_of(_not_recorded(diagnosis), _MAX_LINES))),
        ("Next collection", _next(diagnosis, files)),
    )
    lines: list[str] = []
    for title, part in parts:
        if shown := list(part):
            lines += [title, *(f"  {line}" for line in shown), ""]
    return lines[:-1]


def _limited(lines: Iterable[str], longest: int = _MAX_LINE) -> Iterator[str]:
    """Return each text as one line of at most `longest` characters, with its indentation."""
    for line in lines:
        words = " ".join(line.split())
        yield line[: len(line) - len(line.lstrip(" "))] + terminal_line(words, longest)


def _summary(diagnosis: Diagnosis) -> Iterator[str]:
    yield from _answer(diagnosis)
    if diagnosis.proof is not None:
        yield f"proof by msprobe graft: {diagnosis.proof.answer}"


def _answer(diagnosis: Diagnosis) -> Iterator[str]:
    located = diagnosis.located
    if located is not None and located.compared.result is not None:
        if located.border is not None and located.finding is not None:
            yield f"first wrong call: {full(located.finding)}"
        else:
            yield _last_line(located.compared.result)
        if where := _place(located):
            yield f"in {where}"
        if (flow := flow_of(located.compared.result)) is not None and flow.first is not None:
            yield from islice(flow.sentences(), 1, None)
        if (hint := located.hint) is not None:
            yield str(hint.line)
        return
    if (diverged := diagnosis.diverged) is not None and diverged.result is not None:
        yield str(answer_of_monitors(diverged.result))
        if (finding := diverged.result.finding) is not None:
            yield f"what it means: {meaning(finding)}"
        yield f"by the monitor {diverged.name}" if diverged.name else "by the monitor"
        return
    if diagnosis.verdict is Verdict.DIFFERS or not (diagnosis.compared or diagnosis.monitors):
        for name, result in diagnosis.checkpoints:
            yield from (f"checkpoint {name}: {line}" for line in result.lines(1))
    if diagnosis.verdict is not Verdict.DIFFERS:
        counting = [each for each in diagnosis.compared if not each.is_overruled]
        found = [(each.pair.target.name or "itself", _last_line(each.result)) for each in counting if each.result]
        found += [
            (each.name or "the monitor", str(answer_of_monitors(each.result)))
            for each in diagnosis.monitors
            if each.result is not None
        ]
        yield from _first_of([line if len(found) == 1 else f"{name}: {line}" for name, line in found], _MAX_LINES)
    if not (diagnosis.compared or diagnosis.monitors or diagnosis.checkpoints):
        yield from (
            f"configuration {each.name}: {answer_of_packs(each.result)}" for each in diagnosis.packs if each.result
        )


def _last_line(result: Result) -> str:
    """Return the answer of `msprobe compare`, or the first difference of an RL flow."""
    flow = flow_of(result)
    if flow is not None:
        return flow.headline
    return one_line(result.last) if isinstance(result, RequestResult) else tuple(result.lines())[-1]


def _place(located: Located) -> str:
    """Return `step 3, rank 1`, with stage and collection if there are several; empty if neither is known."""
    numbers = (("stage", located.stage or None), ("step", located.step), ("rank", located.rank))
    where = ", ".join(f"{noun} {number}" for noun, number in numbers if number is not None)
    name = located.compared.pair.target.name
    return where + (f"{'; ' if where else ''}by the collection {name}" if name else "")


def _evidence(diagnosis: Diagnosis) -> Iterator[str]:
    located = diagnosis.located
    for monitors in diagnosis.monitors:
        yield from _of_monitors(monitors, is_answer=monitors is diagnosis.diverged)
    for each in diagnosis.compared:
        yield from _of_collection(each, located)
    if located is not None and located.finding is not None:
        if located.finding.receivers > 0:
            yield f"{located.finding.receivers} later calls received the difference"
        if located.border is not None:
            name = located.border.name
            yield f"inputs from outside this collection also differ, at {name}; in the wider collection they agree"
        if located.is_unconfirmed:
            yield "a filtered collection does not show where it begins: it may be rounding, or begin elsewhere"
        yield from _first_of(_others(located), _MAX_LINES_OF_KIND)
    if located is not None and located.survey is not None:
        seen = located.survey
        if seen.replayed or seen.not_replayed:
            yield f"{seen.replayed} calls were executed again to measure noise; {seen.not_replayed} could not be"
        for found in seen.precision:
            operations = join_names(found.operations, _MAX_NAMES)
            yield f"{operations} of the {found.side}: always like {found.is_of.value}; assumed to be intended"
        if seen.harmless:
            yield f"{seen.harmless} differences have no effect on later results"
    for name, kind, reason in diagnosis.proof.causes if diagnosis.proof is not None else ():
        yield f"{name}: {kind}: {reason}"
    for name, checkpoint in diagnosis.checkpoints:
        is_answer = located is None and diagnosis.diverged is None and diagnosis.verdict is Verdict.DIFFERS
        if (diagnosis.compared or diagnosis.monitors) and not is_answer:
            yield from (f"checkpoint {name}: {line}" for line in checkpoint.lines(1))
    yield from (f"checkpoint {name}: not compared: {reason}" for name, reason in diagnosis.failed)
    has_others = diagnosis.compared or diagnosis.monitors or diagnosis.checkpoints
    for pack in diagnosis.packs if has_others else ():
        what = f"not compared: {pack.failed}" if pack.result is None else answer_of_packs(pack.result)
        yield f"configuration {pack.name}: {what}"
    lines = [f"the sides differ in {each.name}: {each.target}, golden {each.golden}" for each in diagnosis.environment]
    configurations = diagnosis.configurations
    lines += [
        f"the configurations differ in {setting(each)}" for each in configurations.differences if not each.is_of_place
    ]
    yield from _first_of(lines, _MAX_LINES_OF_KIND)
    if configurations.problem:
        yield configurations.problem


def _of_collection(compared: ComparedPair, located: Located | None) -> Iterator[str]:
    """Return the counts of a collection, or why it was not compared; then the steps and ranks that differ."""
    what, outcomes = _described(compared.pair.target), compared.outcomes
    if compared.skipped is not None:
        yield f"{what}: not compared: {_SKIPPED.get(compared.skipped, compared.failed)}"
        return
    counts = {grade: sum(outcome.counts.get(grade, 0) for outcome in outcomes) for grade in GRADES}
    yield f"{what}: {count(counts)}{'; this is rounding, by the tensors below' if compared.is_overruled else ''}"
    if compared.result is not None and compared.result.excused is not None:
        yield f"  {excused_phrase(compared.result.excused, compared.result.user_limits)}"
    wrong = [(outcome, outcome.first) for outcome in outcomes if outcome.first is not None]
    is_located = located is not None and located.compared is compared
    if wrong and not (is_located and len(outcomes) == 1):
        step = min(outcome.step or 0 for outcome, _ in wrong)
        lines = []
        for outcome, first in wrong:
            if (outcome.step or 0) == step:
                is_first = is_located and located is not None and first is located.finding
                where = f"{outcome.label}: " if outcome.label else ""
                lines.append(f"  {where}{short(first)}{' (the answer)' if is_first else ''}")
        yield from _first_of(lines, _MAX_LINES_OF_KIND, "  ")
        if later := sorted({outcome.step or 0 for outcome, _ in wrong} - {step}):
            numbers = join_names(later, _MAX_LISTED)
            yield f"  step{'s' * (len(later) != 1)} {numbers} after it differ{'s' * (len(later) == 1)} too"
    yield from (f"  {outcome.label}: not compared: {outcome.failed}" for outcome in outcomes if outcome.failed)


def _of_monitors(compared: ComparedMonitors, *, is_answer: bool) -> Iterator[str]:
    """Return the answer about two monitors, or why they were not compared; then what could not be judged."""
    name = f"monitor {compared.name}".rstrip()
    if compared.result is None:
        yield f"{name}: not compared: {compared.failed}"
        return
    yield f"{name}: {'the answer' if is_answer else answer_of_monitors(compared.result)}"
    lines = [*about(compared.result), *(stages(compared.result) if compared.result.finding is not None else ())]
    yield from _first_of([f"  {line}" for line in lines], _MAX_LINES, "  ")


def _described(collection: Collection) -> str:
    """Return `mix: statistics of level L0, 3 steps, 2 ranks`."""
    what = "a flow" if collection.is_flow else collection.head.task or collection.family
    described = f"{what} of level {collection.head.level}" if collection.head.level else what
    for noun, numbers in (("step", collection.steps), ("rank", collection.ranks)):
        if len(numbers) > 1:
            described += f", {len(numbers)} {noun}s"
    return f"{collection.name}: {described}" if collection.name else described


def _others(located: Located) -> Iterator[str]:
    """Return the other divergences of the same step and rank."""
    for outcome in located.compared.outcomes:
        if located.finding in outcome.findings:
            others = (each for each in outcome.findings if each not in (located.finding, located.border))
            yield from (f"another difference: {short(finding)}" for finding in others)


def _ruled_out(diagnosis: Diagnosis) -> Iterator[str]:
    if diagnosis.configurations.count and not diagnosis.configurations.differences:
        yield f"configurations: {diagnosis.configurations.count} settings, equal"
    for each in diagnosis.monitors:
        if (text := _inside(each)) is not None:
            yield f"monitor {each.name}: {text}" if each.name else f"monitor: {text}"
    for name, result in diagnosis.checkpoints:
        if result.is_clean:
            yield f"checkpoint {name}: {len(result.judged)} parameters, all within the standard of their dtype"
    yield from _first_of([f"{_subject(one)}: {_agreement(one)}" for one in diagnosis.ruled_out], _MAX_LINES)
    for mode in dict.fromkeys(one.mode for one in diagnosis.ruled_out):
        if mode is not None and mode in BLIND:
            yield f"{mode} cannot detect {BLIND[mode]}"


def _inside(compared: ComparedMonitors) -> str | None:
    """Return the steps before the first divergence of two monitors, which are within the band; None if there are
    none."""
    result = compared.result
    if result is None or result.judged_from is None:
        return None
    last = result.steps[-1] if result.finding is None else result.finding.step - 1
    if last < result.judged_from:
        return None
    numbers = f"step {last}" if last == result.judged_from else f"steps {result.judged_from} to {last}"
    return f"{numbers}, within the band ({result.basis.value})"


def _subject(each: RuledOut) -> str:
    if isinstance(each.what, Subject):
        return _SUBJECTS[each.what]
    if each.what is About.COLLECTION:
        name, level, task = each.names
        return f"collection {name or 'itself'} ({task} of level {level})"
    if each.what in (About.STEPS, About.RANKS):
        several = len(each.names) != 1
        return f"{each.what.value if several else each.what.value[:-1]} {join_names(each.names, _MAX_LISTED)}"
    calls = _count(each.calls, "call")
    return f"{calls} before it" if each.what is About.CALLS_BEFORE else f"all {calls}, forward and backward"


def _agreement(each: RuledOut) -> str:
    """Return `40 pairs: 38 bitwise equal, 2 within noise`."""
    tally = each.tally
    parts = (
        (tally.equal, _EQUAL[each.mode]),
        (tally.noise, "within noise"),
        (tally.tolerance, "within tolerance"),
        (tally.unjudged, "not judged"),
        (tally.exempt, "exempt"),
    )
    named = [(number, words) for number, words in parts if number]
    pairs = _count(sum(number for number, _ in named), "pair")
    if len(named) == 1:
        return f"{pairs}, {named[0][1]}"
    text = f"{pairs}: {', '.join(f'{number} {words}' for number, words in named)}"
    return f"{text}; {tally.by_statistics} of them by statistics" if tally.by_statistics else text


def _not_recorded(diagnosis: Diagnosis) -> Iterator[str]:
    for each in diagnosis.gaps:
        if each.kind is GapKind.ONE_SIDE:
            yield from (f"missing: {sentence}" for sentence in each.names)
        else:
            yield _GAPS[each.kind].format(names=join_names(each.names, _MAX_LISTED) or "nothing else")
    for side, collection in diagnosis.unmatched:
        yield f"{_described(collection)}: only on the {side} side"
    for one in diagnosis.others_unmatched:
        yield f"{one.kind.value} {one.name}".rstrip() + f": only on the {one.side} side"
    for side in ("target", "golden"):
        of_side = [one for held, one in diagnosis.unused if held == side]
        named = [one.name for one in of_side if not one.is_dump]
        yield from (f"{one.name} on the {side} side: not compared: {one.why}" for one in of_side if one.is_dump)
        if named:
            yield f"not used on the {side} side, since their type is unknown: {join_names(named, _MAX_LISTED)}"


def _next(diagnosis: Diagnosis, files: Sequence[str]) -> Iterator[str]:
    found = diagnosis.next
    if found is None:
        yield from _limited(_no_next(diagnosis))
        return
    yield from _limited([_purpose(found)])
    for side in (found.sides[:1]) if found.is_one else found.sides:
        if not found.is_one:
            yield f"{side}:"
        # Not shortened, so that it can be copied.
        yield from (f"  {terminal_line(line, None)}" for line in shown(found.of(side)))
    which = "both sides" if len(found.sides) == 2 else f"the {found.sides[0]} side"
    golden = f", the golden with {files[1]}" if len(files) > 1 else ""
    config = f'config_path="{files[0] if files else "next.json"}", dump_path=...'
    yield terminal_line(
        f"run {which} with PrecisionDebugger({config}){golden}, into a new folder next to the earlier output;"
    )
    yield "then msprobe diagnose of both again"


def _no_next(diagnosis: Diagnosis) -> Iterator[str]:
    """Return why no collection is proposed, and where to look."""
    located = diagnosis.located
    if located is None and diagnosis.monitors and diagnosis.verdict is not Verdict.DIFFERS:
        yield "none: no monitor diverges; collect a suspicious step at level L0 on both sides"
    elif located is None:
        yield "none: the compared files have no configuration of a collection"
    elif located.finding is None or located.compared.pair.target.is_flow:
        yield "none: see the answer for what to do"
    else:
        yield "none needed: these records are complete for this call"
        yield f"look {where_to_look(located.finding)}"
        has_tensors = any(outcome.mode == "tensor" for outcome in located.compared.outcomes)
        if located.finding.certainty != "certain" and has_tensors and diagnosis.proof is None:
            paths = quote(diagnosis.target), quote(diagnosis.golden)
            yield f"to prove that it is the cause, run: msprobe graft {paths[0]} {paths[1]} -- COMMAND"


def _purpose(found: NextCollection) -> str:
    """Return why this collection is proposed."""
    section = found.target.get(str(found.target.get("task")))
    is_by_digest = isinstance(section, dict) and section.get("summary_mode") in KINDS
    around = found.around[0].rstrip(".") if found.around else "the whole step"
    if len(found.around) == 2:
        around = f"everything from {found.around[0]} to {found.around[1]}"
    how = "by digest" if is_by_digest else "with tensors"
    if found.purpose is Purpose.MONITORED:
        around = f"all inside {around}" if found.around else around
        how = ", with tensors" if found.around else ", by statistics"
    return _PURPOSES[found.purpose].format(around=around, how=how, side=found.sides[0])


def shown(configuration: Mapping[str, object]) -> list[str]:
    """Return a configuration as JSON, with a line for each key."""
    inner = [f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in configuration.items()]
    return ["{", *(f"{line}," for line in inner[:-1]), inner[-1], "}"]


def _first_of(lines: Iterable[str], most: int, before: str = "") -> list[str]:
    found = list(lines)
    more = len(found) - most
    return [*found[:most], f"{before}and {more} more, in the JSON"] if more > 1 else found


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def answer_of(diagnosis: Diagnosis) -> Answer:
    """Return the answer of a diagnosis; its line is the first of the page."""
    first, others = _findings(diagnosis)
    states = {Verdict.DIFFERS: "differs", Verdict.AGREES: "clean", Verdict.OPEN: "unjudged"}
    return Answer(
        states[diagnosis.verdict],
        next(_summary(diagnosis), ""),
        first,
        tuple(others),
        advice=tuple(_advice(diagnosis)),
        notes=tuple(_not_recorded(diagnosis)),
    )


def _findings(diagnosis: Diagnosis) -> tuple[Finding | None, list[Finding]]:
    """Return the finding that is the answer, and the other findings that do not follow from it."""
    located, diverged = diagnosis.located, diagnosis.diverged
    first: Finding | None = None
    others: list[Finding] = []
    if located is not None:
        result = located.compared.result
        flow = None if result is None else flow_of(result)
        if located.finding is not None:
            first = finding_of(located.finding, located.step, located.rank)
        elif flow is not None and flow.first is not None:
            first = finding_of_flow(flow.first)
        for outcome in located.compared.outcomes:
            if located.finding in outcome.findings:
                further = (each for each in outcome.findings if each not in (located.finding, located.border))
                others += [finding_of(each, outcome.step, outcome.rank) for each in further]
    elif diverged is not None and diverged.result is not None:
        first = answer_about_monitors(diverged.result).first
    for monitors in diagnosis.monitors:
        if monitors is not diverged and monitors.result is not None:
            others += answer_about_monitors(monitors.result).findings
    for _, checkpoints in diagnosis.checkpoints:
        others += answer_about_checkpoints(checkpoints).findings
    for packs in diagnosis.packs:
        if packs.result is not None:
            others += answer_about_packs(packs.result).findings
    if first is None and diagnosis.verdict is Verdict.DIFFERS and others:
        return others[0], others[1:]
    return first, others


def _advice(diagnosis: Diagnosis) -> Iterator[Suggestion]:
    if diagnosis.located is not None and diagnosis.located.hint is not None:
        yield Suggestion(diagnosis.located.hint.line)
    found = diagnosis.next
    if found is None:
        yield from map(Suggestion, _no_next(diagnosis))
        return
    for side in found.sides[:1] if found.is_one else found.sides:
        text = _purpose(found) if found.is_one else f"{side}: {_purpose(found)}"
        yield Suggestion(text, config="\n".join(shown(found.of(side))))


def document_of(diagnosis: Diagnosis, exit_code: int, files: Sequence[str] = ()) -> Document:
    """Return the document of a diagnosis."""
    answer, written = answer_of(diagnosis), {"configuration": files} if files else {}
    return Document("diagnose", answer, diagnosis.verdicts, exit_code, files=written, details=details(diagnosis))


def details(diagnosis: Diagnosis) -> dict[str, object]:
    """Return all results, for programs."""
    located, following = diagnosis.located, diagnosis.next
    result = located.compared.result if located is not None else None
    flow = flow_of(result) if result is not None else None
    return {
        "target": diagnosis.target,
        "golden": diagnosis.golden,
        **_place_as_object(diagnosis),
        "monitors": [
            {
                "name": each.name,
                "failed": each.failed or None,
                "is_answer": each is diagnosis.diverged,
                **({} if each.result is None else _monitor(each.result)),
            }
            for each in diagnosis.monitors
        ],
        "looked": [_compared_as_object(each) for each in diagnosis.compared],
        "only_on_one_side": [
            *({"side": side, "collection": collection.name} for side, collection in diagnosis.unmatched),
            *({"side": one.side, one.kind.name.lower(): one.name} for one in diagnosis.others_unmatched),
        ],
        "unused": [
            {"side": side, "name": one.name, "reason": one.why, "is_dump": one.is_dump}
            for side, one in diagnosis.unused
        ],
        "environment": [asdict(each) for each in diagnosis.environment],
        "configurations": [
            {"path": each.path, "target": each.target, "golden": each.golden}
            for each in diagnosis.configurations.differences
        ],
        "checkpoints": [
            *({"name": name, "is_clean": result.is_clean, "failed": None} for name, result in diagnosis.checkpoints),
            *({"name": name, "is_clean": None, "failed": reason} for name, reason in diagnosis.failed),
        ],
        "packs": [
            {
                "name": each.name,
                "is_clean": None if each.result is None else each.is_clean,
                "answer": None if each.result is None else str(answer_of_packs(each.result)),
                "failed": each.failed or None,
            }
            for each in diagnosis.packs
        ],
        "ruled_out": [
            {
                "what": each.what.name.lower(),
                "names": list(each.names),
                "sureness": each.sureness.name.lower(),
                "mode": each.mode,
                "calls": each.calls,
                **asdict(each.tally),
            }
            for each in diagnosis.ruled_out
        ],
        "proof": None if diagnosis.proof is None else diagnosis.proof.as_object(),
        "not_recorded": [{"what": each.kind.value, "names": list(each.names)} for each in diagnosis.gaps],
        "collect": flow.first.collect.fields if flow and flow.first and flow.first.collect else {},
        "next_collection": following
        and {
            "purpose": following.purpose.value,
            "sides": list(following.sides),
            "around": list(following.around),
            "target": following.target,
            "golden": following.golden,
        },
    }


def _monitor(result: MonitorResult) -> dict[str, object]:
    """Return the answer about two monitors and its details, without a configuration, which is in the diagnosis."""
    answer = answer_about_monitors(result)
    held = {key: value for key, value in details_of_monitors(result).items() if key != "next_dump"}
    first = None if answer.first is None else finding_as_object(answer.first)
    return {"state": answer.state, "answer": str(answer.line), "finding": first, **held}


def _place_as_object(diagnosis: Diagnosis) -> dict[str, object]:
    """Return step, rank and source of the first wrong call, or of the first divergence of monitors."""
    place: dict[str, object] = {
        "try": None,
        "step": None,
        "rank": None,
        "is_unconfirmed": False,
        "stage": None,
        "collection": None,
        "monitor": None,
    }
    located, diverged = diagnosis.located, diagnosis.diverged
    if located is None:
        if diverged is not None and diverged.result is not None and (found := diverged.result.finding) is not None:
            place |= {"step": found.step, "rank": found.ranks[0], "monitor": diverged.name}
        return place
    return {
        **place,
        "try": located.hint and located.hint.as_object(),
        "step": located.step,
        "rank": located.rank,
        "is_unconfirmed": located.is_unconfirmed,
        "stage": located.stage or None,
        "collection": located.compared.pair.target.name,
    }


def _compared_as_object(compared: ComparedPair) -> dict[str, object]:
    head = compared.pair.target.head
    excused = compared.result.excused if compared.result is not None else None
    return {
        "collection": compared.pair.target.name,
        "task": head.task,
        "level": head.level,
        "is_overruled": compared.is_overruled,
        "skipped": compared.skipped.value if compared.skipped is not None else None,
        "failed": compared.failed or None,
        "is_clean": compared.result.is_clean if compared.result is not None else None,
        **({} if excused is None else {"user_limits": counts_of_excused(excused)}),
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
            for outcome in compared.outcomes
        ],
    }
