"""The walk that a person would make: configurations, checkpoints, then the collections, the coarsest first.

Every comparison is that of `msprobe compare`, so its answer is the same. The first collection that differs says in
which step and rank; finer ones are looked at where they hold that step, and sharpen the answer; once a collection can
add nothing to it, the rest is left.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from msprobe.base.errors import MsprobeError, UsageError
from msprobe.base.log import logger
from msprobe.compare.checkpoint.compare import compare_checkpoints
from msprobe.compare.checkpoint.report import Answer as CheckpointAnswer
from msprobe.compare.flow.configurations import compare_configurations
from msprobe.compare.flow.result import FlowResult
from msprobe.compare.flow.stepwise import Stepwise
from msprobe.compare.jobs.answer import Answer
from msprobe.compare.jobs.carry_out import carry_out as compare_dumps
from msprobe.compare.request import Request
from msprobe.compare.which import carry_out as compare_any

from .collected import Held, Meeting, held, meetings
from .diagnosis import Answered, Diagnosis, Looked, Result, Setting, Skipped, Verdict, is_from_border
from .next_collection import after_agreement, after_answer
from .ruled_out import lacking, ruled_out


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
        return compare_any(asked)
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
