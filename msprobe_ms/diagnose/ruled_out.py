"""What a difference does not come from, and how surely; and what was not recorded, so that nobody knows."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from msprobe.compare.flow.result import FlowResult
from msprobe.compare.jobs.outcome import Outcome
from msprobe.compare.jobs.survey import Subject, Survey, Tally
from msprobe.compare.judge.judged import Mode

from .diagnosis import About, Answered, Lack, Lacking, Looked, RuledOut, Sureness

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
