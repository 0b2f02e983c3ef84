"""The walk of a diagnosis: configurations, checkpoints, then collections, coarsest first; and what is ruled out.

The walk that a person would make: configurations, checkpoints, then the collections, the coarsest first.

Every comparison is that of `msprobe compare`, so its answer is the same. The first collection that differs says in
which step and rank; finer ones are looked at where they hold that step, and sharpen the answer; once a collection can
add nothing to it, the rest is left.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from msprobe.base.errors import MsprobeError, UsageError
from msprobe.base.log import logger
from msprobe.compare.checkpoint.compare import Answer as CheckpointAnswer
from msprobe.compare.checkpoint.compare import compare_checkpoints
from msprobe.compare.dispatch import compare_paths
from msprobe.compare.jobs.outcome import Outcome
from msprobe.compare.jobs.run import run_request as compare_dumps
from msprobe.compare.jobs.summary import Answer
from msprobe.compare.jobs.survey import Subject, Survey, Tally
from msprobe.compare.judge.judged import Mode
from msprobe.compare.request import Request
from msprobe.compare.rl.compare import Stepwise
from msprobe.compare.rl.configurations import compare_configurations
from msprobe.compare.rl.result import FlowResult

from .collected import Held, Meeting, held, meetings
from .diagnosis import (
    About,
    Answered,
    Diagnosis,
    Lack,
    Lacking,
    Looked,
    Result,
    RuledOut,
    Setting,
    Skipped,
    Sureness,
    Verdict,
    is_from_border,
)
from .next_collection import after_agreement, after_answer

_OF_CALLS = (Subject.ARGUMENTS, Subject.FORWARD, Subject.BACKWARD, Subject.GRADIENTS)


def sureness(tally: Tally, mode: Mode | None, *, are_values: bool = False) -> Sureness:
    """How surely a tally rules something out: the weakest of what is in it. `are_values`: no tensors, always exact."""
    if tally.unjudged:
        return Sureness.OPEN
    if are_values:
        return Sureness.BITS
    if tally.tolerance:
        return Sureness.TOLERANCE
    if tally.by_statistics or mode == "statistics":
        return Sureness.STATISTICS
    if tally.noise:
        return Sureness.NOISE
    return Sureness.DIGESTS if mode == "digest" else Sureness.BITS


def ruled_out(looked: Sequence[Looked], answered: Answered | None) -> tuple[RuledOut, ...]:
    """Everything that agrees, from the coarse to the fine: steps, ranks, run inputs, parameters, calls."""
    return tuple(_without_answer(looked) if answered is None else _before(answered, looked))


def _before(answered: Answered, looked: Sequence[Looked]) -> Iterator[RuledOut]:
    """What agrees before the first wrong call; run inputs and parameters by the coarsest that recorded all of them."""
    here = answered.looked
    steps = [o for o in here.outcomes if o.step is not None and answered.step is not None and o.step < answered.step]
    yield from _of_steps(steps)
    same_step = [o for o in here.outcomes if o.step == answered.step and o.rank != answered.rank]
    yield from _of_ranks([o for o in same_step if o.is_clean])
    for subject in (Subject.RUN_INPUTS, Subject.PARAMETERS):
        for outcome, seen in _same_place(answered, looked):
            if (tally := seen.whole.get(subject)) is not None and not tally.differing:
                yield _of_subject(subject, tally, outcome.mode)
                break
    if answered.survey is not None and answered.border is None:
        mode = next((o.mode for o, s in here.surveyed if s is answered.survey), None)
        tally = _sum(tally for subject, tally in answered.survey.before.items() if subject in _OF_CALLS)
        if tally.agreeing:
            yield RuledOut(
                About.CALLS_BEFORE, sureness(tally, mode), tally, calls=answered.survey.calls_before, mode=mode
            )
    for each in looked:
        if each is not here and each.result is not None and each.result.is_clean:
            yield from _of_collection(each)


def _same_place(answered: Answered, looked: Sequence[Looked]) -> Iterator[tuple[Outcome, Survey]]:
    """What was seen of the answer's step and rank by the collections that recorded all of it, the answer's last."""
    others = [each for each in looked if each is not answered.looked and not each.meeting.target.is_filtered]
    for each in (*others, answered.looked):
        if each.meeting.target.is_filtered:
            continue
        for outcome, seen in each.surveyed:
            if outcome.step == answered.step and outcome.rank == answered.rank and outcome.what == "dump":
                yield outcome, seen


def _without_answer(looked: Sequence[Looked]) -> Iterator[RuledOut]:
    """All that was compared; of several collections each as a whole, and the finest in its parts."""
    counting = [each for each in looked if each.result is not None and not each.is_overruled]
    for each in counting[:-1]:
        yield from _of_collection(each)
    for each in counting[-1:]:
        outcomes = [o for o in each.outcomes if not o.failed]
        if len({o.step for o in outcomes}) > 1:
            yield from _of_steps([o for o in outcomes if o.step is not None])
        if len({o.rank for o in outcomes}) > 1:
            yield from _of_ranks(outcomes)
        modes = {o.mode for o, _ in each.surveyed}
        mode = modes.pop() if len(modes) == 1 else None
        for subject in (Subject.RUN_INPUTS, Subject.PARAMETERS):
            tally = _sum(s.whole.get(subject, Tally()) for _, s in each.surveyed)
            if tally.agreeing and not tally.differing:
                yield _of_subject(subject, tally, mode)
        tally = _sum(s.whole.get(subject, Tally()) for _, s in each.surveyed for subject in _OF_CALLS)
        if tally.agreeing and not tally.differing:
            calls = sum(s.calls for _, s in each.surveyed)
            yield RuledOut(About.ALL_CALLS, sureness(tally, mode), tally, calls=calls, mode=mode)


def _of_subject(subject: Subject, tally: Tally, mode: Mode | None) -> RuledOut:
    return RuledOut(subject, sureness(tally, mode), tally, mode=mode)


def _of_steps(outcomes: Sequence[Outcome]) -> Iterator[RuledOut]:
    """The steps of which every rank agrees, together."""
    clean = {o.step for o in outcomes} - {o.step for o in outcomes if o.failed or o.first is not None}
    yield from _together(About.STEPS, [o for o in outcomes if o.step in clean], lambda o: o.step)


def _of_ranks(outcomes: Sequence[Outcome]) -> Iterator[RuledOut]:
    yield from _together(About.RANKS, [o for o in outcomes if not o.failed and o.first is None], lambda o: o.rank)


def _of_collection(looked: Looked) -> Iterator[RuledOut]:
    outcomes = [o for o in looked.outcomes if not o.failed]
    if isinstance(looked.result, FlowResult):
        return
    for found in _together(About.COLLECTION, outcomes, lambda o: 0):
        head, name = looked.meeting.target.head, looked.meeting.target.name
        yield RuledOut(
            found.what, found.sureness, found.tally, (name, head.level, head.task), calls=found.calls, mode=found.mode
        )


def _together(what: About, outcomes: Sequence[Outcome], number: Callable[[Outcome], int | None]) -> Iterator[RuledOut]:
    """One entry for all of them, with their numbers."""
    surveys = [(o, o.survey) for o in outcomes if o.survey is not None]
    if not surveys:
        return
    modes = {o.mode for o, _ in surveys}
    mode = modes.pop() if len(modes) == 1 else None
    tally = _sum(s.total for _, s in surveys)
    numbers = tuple(str(n) for n in sorted({number(o) or 0 for o in outcomes}))
    yield RuledOut(what, sureness(tally, mode), tally, numbers, sum(s.calls for _, s in surveys), mode)


def _sum(tallies: Iterable[Tally]) -> Tally:
    return sum(tallies, Tally())


def lacking(looked: Sequence[Looked], answered: Answered | None) -> tuple[Lacking, ...]:
    """What was not recorded, or has no partner."""
    return tuple(_lacking(looked, answered))


def _lacking(looked: Sequence[Looked], answered: Answered | None) -> Iterator[Lacking]:
    compared = [each for each in looked if each.result is not None]
    missing = [sentence for each in compared for sentence in getattr(each.result, "missing", ())]
    if missing:
        yield Lacking(Lack.ONE_SIDE, tuple(missing))
    dumps = [each for each in compared if each.surveyed and not each.meeting.target.is_flow]
    if not dumps:
        return
    steps = {o.step for each in dumps for o, _ in each.surveyed if o.step is not None}
    if answered is not None and answered.step and steps and min(steps) > 0:
        yield Lacking(Lack.STEPS_BEFORE, (str(min(steps)),))
    if answered is None and steps:
        yield Lacking(Lack.OTHER_STEPS, tuple(map(str, sorted(steps))))
    if answered is not None and answered.looked.meeting.target.is_filtered:
        wider = [each.meeting.target for each in dumps if not each.meeting.target.is_filtered]
        yield Lacking(Lack.FILTERED, tuple(f"{held.name or 'another'} at level {held.head.level}" for held in wider))
    if all(each.meeting.target.head.level == "L0" for each in dumps):
        yield Lacking(Lack.CALLS_IN_CELLS)
    whole = [s for each in dumps if not each.meeting.target.is_filtered for _, s in each.surveyed]
    if whole and not any(s.whole.get(Subject.PARAMETERS) for s in whole):
        yield Lacking(Lack.PARAMETERS)
    if whole and not any(s.whole.get(Subject.BACKWARD) or s.whole.get(Subject.GRADIENTS) for s in whole):
        yield Lacking(Lack.BACKWARD)


@dataclass(frozen=True)
class _Walked:
    """The collections that were looked at, and the answer so far."""

    looked: tuple[Looked, ...] = ()
    answered: Answered | None = None


def diagnose(request: Request) -> Diagnosis:
    """Compare all that both sides of a request hold, as far as it is needed.

    UsageError where a side holds several collections and it is not told which are meant, where the sides have no step
    in common, or where a step or rank is asked for that is not there; DumpError where a side holds nothing that can be
    compared, or nothing could be.
    """
    target, golden = held(request.target), held(request.golden)
    configurations = compare_configurations(target.configurations, golden.configurations)
    checkpoints = tuple(_checkpoints(target, golden))
    pairs, alone = meetings(target, golden)
    if not pairs and not checkpoints:
        raise UsageError(_nothing_in_common(target, golden))
    if pairs and not any(pair.has_common_step for pair in pairs):
        raise UsageError(_no_common_step(pairs[0]))
    walked = _walk(pairs, request)
    is_compared = any(each.result is not None for each in walked.looked)
    if pairs and not is_compared and not checkpoints:
        raise UsageError(f"nothing could be compared: {next(each.failed for each in walked.looked if each.failed)}")
    is_clean = (
        not alone and all(each.is_clean for each in walked.looked) and all(answer.is_clean for _, answer in checkpoints)
    )
    answered = walked.answered
    differs = answered is not None or any(_differs(answer) for _, answer in checkpoints)
    proposed = after_answer(answered) if answered else None
    if not differs:
        proposed = after_agreement(walked.looked)
    return Diagnosis(
        str(request.target),
        str(request.golden),
        Verdict.DIFFERS if differs else Verdict.AGREES if is_clean else Verdict.OPEN,
        answered,
        walked.looked,
        alone,
        configurations,
        tuple(_environment(pairs[0])) if pairs else (),
        checkpoints,
        ruled_out(walked.looked, answered),
        lacking(walked.looked, answered),
        proposed,
    )


def _walk(pairs: Sequence[Meeting], request: Request) -> _Walked:
    walked = _Walked()
    for pair in pairs:
        looked = _look(pair, walked.answered, request, is_only=len(pairs) == 1)
        walked = _with(walked, looked)
    return walked


def _with(walked: _Walked, looked: Looked) -> _Walked:
    """What is known when one more was looked at: it sharpens the answer so far, overrules it, or leaves it."""
    found, before = _answer(looked), walked.answered
    everything = (*walked.looked, looked)
    if before is None or looked.result is None:
        return _Walked(everything, found or before)
    if found is None and _overrules(looked, before):
        return _Walked(
            tuple(replace(each, is_overruled=True) if each is before.looked else each for each in everything), None
        )
    is_narrow = looked.meeting.target.is_filtered
    if found is None:
        return _Walked(everything, replace(before, is_unconfirmed=is_narrow and _holds(looked, before)))
    found = inside(found, before)
    if is_narrow and found.border is None and found.finding is not None and is_from_border(found.finding):
        return _Walked(everything, replace(before, is_unconfirmed=True))
    return _Walked(everything, found)


def _overrules(looked: Looked, before: Answered) -> bool:
    """Whether tensors of whole steps agree wherever statistics or digests differed: then that was rounding."""
    fine, coarse = looked.meeting.target, before.looked.meeting.target
    if fine.is_filtered or fine.head.task != "tensor" or coarse.head.task == "tensor":
        return False
    if fine.head.level not in ("mix", coarse.head.level):
        return False
    agreeing = {(o.step, o.rank) for o in looked.outcomes if o.is_clean}
    return all((o.step, o.rank) in agreeing for o in before.looked.outcomes if not o.is_clean)


def _holds(looked: Looked, before: Answered) -> bool:
    """Whether a collection has the step and rank of an answer."""
    return any((o.step, o.rank) == (before.step, before.rank) for o in looked.outcomes if not o.failed)


def _look(pair: Meeting, answered: Answered | None, request: Request, *, is_only: bool) -> Looked:
    """Compare two collections, unless they cannot add to the answer."""
    if not pair.has_common_step:
        return Looked(pair, skipped=Skipped.NO_COMMON_STEP)
    if answered is not None and after_answer(answered) is None:
        return Looked(pair, skipped=Skipped.ANSWERED)
    if answered is not None and answered.step is not None and pair.steps and min(pair.steps) > answered.step:
        return Looked(pair, skipped=Skipped.NOT_THIS_STEP)
    try:
        return Looked(pair, _compare(pair, request, is_only=is_only))
    except MsprobeError as err:
        if is_only:
            raise
        return Looked(pair, skipped=Skipped.FAILED, failed=" ".join(str(err).split()))


def _compare(pair: Meeting, request: Request, *, is_only: bool) -> Result:
    name = pair.target.name or pair.golden.name
    asked = replace(
        request,
        target=pair.target.path,
        golden=pair.golden.path,
        output=request.output if is_only else request.output / (name or "itself"),
        survey=True,
    )
    if pair.target.is_flow or pair.golden.is_flow:
        return compare_paths(asked)
    logger.info("comparing %s with %s", pair.target.path, pair.golden.path)
    return compare_dumps(asked, logging.DEBUG)


def _answer(looked: Looked) -> Answered | None:
    """The first difference of one comparison, where it has one."""
    result = looked.result
    if isinstance(result, Stepwise):
        step, result = next(((n, r) for n, r in result.results.items() if r.first is not None), (None, None))
        found = _of_flow(looked, result) if result is not None else None
        return replace(found, step=step) if found else None
    if isinstance(result, FlowResult):
        return _of_flow(looked, result)
    if not isinstance(result, Answer) or (first := result.first) is None:
        return None
    return Answered(looked, first.first, first.step, first.rank, first.survey)


def inside(found: Answered, wider: Answered) -> Answered:
    """The answer of a filtered collection that was made because of a wider one: the first finding inside it.

    Between two runs that round differently the inputs of a window are never equal to the bit, and the calls that
    produced them are not there to be judged; the wider collection judged them. A call that does not compute what its
    own inputs say is wrong whatever they are.
    """
    if not found.looked.meeting.target.is_filtered or found.step != wider.step:
        return found
    outcome = next((o for o in found.looked.outcomes if o.first is not None and o.first is found.finding), None)
    if outcome is None or found.finding is None or not is_from_border(found.finding):
        return found
    inner = next((finding for finding in outcome.findings if not is_from_border(finding)), None)
    return found if inner is None else replace(found, finding=inner, border=found.finding)


def _of_flow(looked: Looked, result: FlowResult) -> Answered | None:
    if result.first is None:
        return None
    item = result.first.seen.item
    return Answered(looked, result.first.finding, item.step, item.rank, None, result.first.stage)


def _checkpoints(target: Held, golden: Held) -> Iterator[tuple[str, CheckpointAnswer]]:
    """The checkpoints of equal names, or the only one of each side, compared as by `msprobe config_check`."""
    ours, theirs = target.checkpoints, golden.checkpoints
    pairs = [(name, path, theirs[name]) for name, path in ours.items() if name in theirs]
    if not pairs and len(ours) == len(theirs) == 1:
        name = next(iter(ours))
        pairs = [(name, ours[name], next(iter(theirs.values())))]
    is_alone = len(pairs) == 1 and not target.collections
    for name, one, other in pairs:
        try:
            yield name, compare_checkpoints(one, other)
        except MsprobeError as err:
            if is_alone:
                raise
            logger.warning("%s: the checkpoints could not be compared: %s", name, err)


def _differs(answer: CheckpointAnswer) -> bool:
    return any(one.verdict.grade in ("error", "warning") for one in answer.judged.values())


_OF_ENVIRONMENT = ("framework", "python", "numpy", "tool")
_OF_PLACE = ("dump_path", "step", "rank")


def _environment(pair: Meeting) -> Iterator[Setting]:
    """What differs in how the two were made: versions, and settings of the collection but for places."""
    target, golden = pair.target.head, pair.golden.head
    if not (target.run and golden.run):
        return
    for key in _OF_ENVIRONMENT:
        if target.run.get(key) != golden.run.get(key):
            yield Setting(key, str(target.run.get(key)), str(golden.run.get(key)))
    for key in {**target.settings, **golden.settings}:
        ours, theirs = target.settings.get(key), golden.settings.get(key)
        if key not in _OF_PLACE and ours != theirs and ours is not None and theirs is not None:
            yield Setting(key, str(ours), str(theirs))


def _no_common_step(pair: Meeting) -> str:
    ours, theirs = (", ".join(map(str, each.steps)) for each in (pair.target, pair.golden))
    return (
        f"{pair.target.path} holds step {ours} and {pair.golden.path} step {theirs}: no step is on both sides; collect "
        f'"step": [{pair.target.steps[0]}] on the golden side, or "step": [{pair.golden.steps[0]}] on the target side'
    )


def _nothing_in_common(target: Held, golden: Held) -> str:
    said = "; ".join(
        f"{each.path} holds {', '.join(c.name or 'a dump' for c in each.collections) or 'checkpoints'}"
        for each in (target, golden)
    )
    return f"the sides have nothing in common: {said}; collect the same on both, and call their folders alike"
