"""The steps of a diagnosis: configurations, checkpoints, monitors, then dumps, coarsest first; and what is ruled out.

Every comparison is that of `msprobe compare`, so the answer is the same. The first collection that differs gives step
and rank; finer ones are compared if they contain that step, and refine the answer. When a collection cannot add to the
answer, the rest is skipped.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from msprobe.base.errors import MsprobeError, UsageError
from msprobe.base.log import logger
from msprobe.compare.checkpoint.compare import CheckpointResult, compare_checkpoints
from msprobe.compare.config_check.compare import compare_packs
from msprobe.compare.config_check.findings import Level
from msprobe.compare.config_check.findings import Outcome as PackOutcome
from msprobe.compare.dispatch import compare_paths
from msprobe.compare.jobs.outcome import Outcome
from msprobe.compare.jobs.run import run_request as compare_dumps
from msprobe.compare.jobs.summary import RequestResult
from msprobe.compare.jobs.survey import Subject, Survey, Tally
from msprobe.compare.judge.judged import Mode
from msprobe.compare.monitor.compare import compare_outputs
from msprobe.compare.monitor.locate import order_of
from msprobe.compare.monitor.next_dump import steps_around
from msprobe.compare.request import Request
from msprobe.compare.rl.configurations import compare_configurations
from msprobe.compare.rl.result import FlowResult, Stepwise
from msprobe.store.monitor.reader import read_output

from .collected import CollectionPair, Inventory, Kind, inventory, pair_by_name, pair_collections
from .diagnosis import (
    About,
    ComparedMonitors,
    ComparedPacks,
    ComparedPair,
    Diagnosis,
    Gap,
    GapKind,
    Located,
    Result,
    RuledOut,
    Setting,
    Skipped,
    Unmatched,
    Verdict,
    flow_of,
    is_from_border,
)
from .next_collection import after_agreement, after_finding, after_monitor

_OF_CALLS = (Subject.ARGUMENTS, Subject.FORWARD, Subject.BACKWARD, Subject.GRADIENTS)


def _before(located: Located, compared: Sequence[ComparedPair]) -> Iterator[RuledOut]:
    """Return what agrees before the first wrong call; run inputs and parameters by the coarsest complete collection."""
    own = located.compared
    if (step := located.step) is not None:
        yield from _of_steps([o for o in own.outcomes if o.step is not None and o.step < step])
    others = [o for o in own.outcomes if o.step == step and o.rank != located.rank]
    yield from _of_ranks([o for o in others if o.is_clean])
    for subject in (Subject.RUN_INPUTS, Subject.PARAMETERS):
        for outcome, seen in _same_place(located, compared):
            if (tally := seen.whole.get(subject)) is not None and not tally.differing:
                yield RuledOut(subject, tally, mode=outcome.mode)
                break
    if located.survey is not None and located.border is None:
        mode = next((o.mode for o, s in own.surveyed if s is located.survey), None)
        tally = _sum(tally for subject, tally in located.survey.before.items() if subject in _OF_CALLS)
        if tally.agreeing:
            yield RuledOut(About.CALLS_BEFORE, tally, calls=located.survey.calls_before, mode=mode)
    for each in compared:
        if each is not own and each.result is not None and each.result.is_clean:
            yield from _of_collection(each)


def _same_place(located: Located, compared: Sequence[ComparedPair]) -> Iterator[tuple[Outcome, Survey]]:
    """Return the surveys of the answer's step and rank in complete collections, that of the answer last."""
    for each in (*(each for each in compared if each is not located.compared), located.compared):
        for outcome, seen in () if each.pair.target.is_filtered else each.surveyed:
            if (outcome.step, outcome.rank, outcome.what) == (located.step, located.rank, "dump"):
                yield outcome, seen


def _all_that_agrees(compared: Sequence[ComparedPair]) -> Iterator[RuledOut]:
    """Return everything that was compared, if there is no wrong call; several collections as a whole, and the finest
    one by its parts: steps, ranks, run inputs, parameters, calls."""
    counting = [each for each in compared if each.result is not None and not each.is_overruled]
    for each in counting[:-1]:
        yield from _of_collection(each)
    for each in counting[-1:]:
        outcomes = [o for o in each.outcomes if not o.failed]
        if len({o.step for o in outcomes}) > 1:
            yield from _of_steps([o for o in outcomes if o.step is not None])
        if len({o.rank for o in outcomes}) > 1:
            yield from _of_ranks(outcomes)
        surveys = [survey for _, survey in each.surveyed]
        mode, calls = _mode(each.surveyed), sum(survey.calls for survey in surveys)
        subjects: dict[About | Subject, Sequence[Subject]] = {
            Subject.RUN_INPUTS: [Subject.RUN_INPUTS],
            Subject.PARAMETERS: [Subject.PARAMETERS],
            About.ALL_CALLS: _OF_CALLS,
        }
        for what, parts in subjects.items():
            tally = _sum(survey.whole.get(part, Tally()) for survey in surveys for part in parts)
            if tally.agreeing and not tally.differing:
                yield RuledOut(what, tally, calls=calls if what is About.ALL_CALLS else 0, mode=mode)


def _of_steps(outcomes: Sequence[Outcome]) -> Iterator[RuledOut]:
    """Return the steps in which all ranks agree, as one entry."""
    clean = {o.step for o in outcomes} - {o.step for o in outcomes if o.failed or o.first is not None}
    agreeing = [o for o in outcomes if o.step in clean]
    yield from _together(About.STEPS, agreeing, map(str, sorted({o.step or 0 for o in agreeing})))


def _of_ranks(outcomes: Sequence[Outcome]) -> Iterator[RuledOut]:
    agreeing = [o for o in outcomes if not o.failed and o.first is None]
    yield from _together(About.RANKS, agreeing, map(str, sorted({o.rank or 0 for o in agreeing})))


def _of_collection(compared: ComparedPair) -> Iterator[RuledOut]:
    if not isinstance(compared.result, FlowResult):
        target = compared.pair.target
        names = (target.name, target.head.level, target.head.task)
        yield from _together(About.COLLECTION, [o for o in compared.outcomes if not o.failed], names)


def _together(what: About, outcomes: Sequence[Outcome], names: Iterable[str]) -> Iterator[RuledOut]:
    """Return one entry for all of them."""
    surveyed = [(o, o.survey) for o in outcomes if o.survey is not None]
    if surveyed:
        tally, calls = _sum(s.total for _, s in surveyed), sum(s.calls for _, s in surveyed)
        yield RuledOut(what, tally, tuple(names), calls, _mode(surveyed))


def _mode(surveyed: Iterable[tuple[Outcome, Survey]]) -> Mode | None:
    """Return the mode of all of them; None if there are several."""
    modes = {outcome.mode for outcome, _ in surveyed}
    return modes.pop() if len(modes) == 1 else None


def _sum(tallies: Iterable[Tally]) -> Tally:
    return sum(tallies, Tally())


def _gaps(compared: Sequence[ComparedPair], located: Located | None) -> Iterator[Gap]:
    """Return what was not recorded, or has no counterpart."""
    counting = [each for each in compared if each.result is not None]
    missing = [sentence for each in counting for sentence in getattr(each.result, "missing", ())]
    if missing:
        yield Gap(GapKind.ONE_SIDE, tuple(map(str, missing)))
    dumps = [each for each in counting if each.surveyed and not each.pair.target.is_flow]
    if not dumps:
        return
    steps = {o.step for each in dumps for o, _ in each.surveyed if o.step is not None}
    if located is not None and located.step and steps and min(steps) > 0:
        yield Gap(GapKind.STEPS_BEFORE, (str(min(steps)),))
    if located is None and steps:
        yield Gap(GapKind.OTHER_STEPS, tuple(map(str, sorted(steps))))
    if located is not None and located.compared.pair.target.is_filtered:
        wider = [each.pair.target for each in dumps if not each.pair.target.is_filtered]
        yield Gap(
            GapKind.FILTERED,
            tuple(f"{collection.name or 'another'} at level {collection.head.level}" for collection in wider),
        )
    if all(each.pair.target.head.level == "L0" for each in dumps):
        yield Gap(GapKind.CALLS_IN_CELLS)
    whole = [s for each in dumps if not each.pair.target.is_filtered for _, s in each.surveyed]
    if whole and not any(s.whole.get(Subject.PARAMETERS) for s in whole):
        yield Gap(GapKind.PARAMETERS)
    if whole and not any(s.whole.get(Subject.BACKWARD) or s.whole.get(Subject.GRADIENTS) for s in whole):
        yield Gap(GapKind.BACKWARD)


def diagnose(request: Request) -> Diagnosis:
    """Compare the contents of both sides of a request, as far as needed.

    UsageError if the sides have nothing in common, if their dumps have no common step and there is nothing else, or if
    a selected step or rank does not exist; DumpError if a side has nothing that can be compared, or nothing could be.
    """
    target, golden = inventory(request.target), inventory(request.golden)
    pairs, unmatched = pair_collections(target, golden)
    of_kind = {kind: pair_by_name(kind, target, golden) for kind in Kind}
    others = [pair for found, _, _ in of_kind.values() for pair in found]
    if not pairs and not others:
        raise UsageError(_nothing_in_common(target, golden))
    is_only = len(pairs) + len(others) == 1
    if not others and not any(pair.has_common_step for pair in pairs):
        raise UsageError(_no_common_step(pairs[0]))
    configurations = compare_configurations(target.configurations, golden.configurations)
    checkpoints, failed = _checkpoints(target, golden, of_kind[Kind.CHECKPOINT][0], is_only=is_only)
    packs = tuple(_packs(target, golden, of_kind[Kind.PACK][0], request, is_only=is_only))
    monitors = tuple(_monitors(target, golden, of_kind[Kind.MONITOR][0], is_only=is_only))
    diverged = _first_diverged(monitors)
    compared, located = _dumps(pairs, request, diverged, is_only=is_only)
    if located is not None and not _is_by_dumps(located, diverged):
        located = None
    elif located is not None:
        diverged = None
    attempts: list[ComparedPair | ComparedMonitors | ComparedPacks] = [*compared, *monitors, *packs]
    if not checkpoints and all(attempt.result is None for attempt in attempts):
        why = [attempt.failed for attempt in attempts if attempt.failed] + [text for _, text in failed]
        raise UsageError(f"nothing could be compared: {why[0] if why else _no_common_step(pairs[0])}")
    others_unmatched = tuple(
        Unmatched(side, kind, name)
        for kind, (_, ours, theirs) in of_kind.items()
        for side, names in (("target", ours), ("golden", theirs))
        for name in names
    )
    unused = tuple((side, one) for side, held in (("target", target), ("golden", golden)) for one in held.unused)
    differs = (
        located is not None
        or diverged is not None
        or any(one.verdict.grade in ("error", "warning") for _, r in checkpoints for one in r.judged.values())
    )
    if not (compared or monitors or checkpoints):
        differs = any(o.counts[level] for each in packs for o in _outcomes(each) for level in _DIFFERING)
    is_clean = (
        not (unmatched or failed or any(one.kind is not Kind.PACK for one in others_unmatched))
        and not any(one.is_dump for _, one in unused)
        and all(each.is_clean for each in compared)
        and all(each.is_clean for each in monitors)
        and all(result.is_clean for _, result in checkpoints)
        and not any(each.failed for each in packs)
        and (bool(compared or monitors or checkpoints) or all(each.is_clean for each in packs))
    )
    if located is not None:
        proposed = after_finding(located)
    elif diverged is not None:
        proposed = diverged.next
    else:
        proposed = None if differs else after_agreement(compared)
    return Diagnosis(
        str(request.target),
        str(request.golden),
        Verdict.DIFFERS if differs else Verdict.AGREES if is_clean else Verdict.OPEN,
        located,
        tuple(compared),
        unmatched,
        configurations,
        tuple(_environment(pairs[0])) if pairs else (),
        checkpoints,
        tuple(_all_that_agrees(compared) if located is None else _before(located, compared)),
        tuple(_gaps(compared, located)),
        proposed,
        diverged,
        monitors,
        packs,
        failed,
        others_unmatched,
        unused,
    )


_DIFFERING = (Level.ERROR, Level.WARNING)


def _outcomes(packs: ComparedPacks) -> Sequence[PackOutcome]:
    return packs.result.outcomes if packs.result is not None else ()


def _nothing_in_common(target: Inventory, golden: Inventory) -> str:
    both = f"{target.text}; {golden.text}"
    if target.collections and golden.collections:
        return f"it is unknown which collections correspond: {both}; give their folders equal names"
    return f"the sides have nothing in common: {both}; collect the same data on both sides, in folders with equal names"


def _dumps(
    pairs: Sequence[CollectionPair], request: Request, diverged: ComparedMonitors | None, *, is_only: bool
) -> tuple[list[ComparedPair], Located | None]:
    """Compare the collections that can add to the answer; return them with the first wrong call."""
    last = _last_step(diverged)
    compared: list[ComparedPair] = []
    located: Located | None = None
    for pair in pairs:
        if last is not None and pair.steps and min(pair.steps) > last:
            compared.append(ComparedPair(pair, skipped=Skipped.NOT_THIS_STEP))
            continue
        compared.append(_compared(pair, located, request, is_only=is_only))
        if located is not None and _overrules(compared[-1], located):
            compared = [replace(each, is_overruled=True) if each is located.compared else each for each in compared]
            located = None
        else:
            located = _sharpened(compared[-1], located)
    return compared, located


def _monitors(
    target: Inventory, golden: Inventory, pairs: Sequence[tuple[str, str]], *, is_only: bool
) -> Iterator[ComparedMonitors]:
    """Compare corresponding monitors like `msprobe monitor compare`."""
    for ours, theirs in pairs:
        logger.info("comparing %s with %s", target.monitors[ours], golden.monitors[theirs])
        try:
            a, b = read_output(target.monitors[ours]), read_output(golden.monitors[theirs])
            result = compare_outputs(a, b)
        except MsprobeError as err:
            if is_only:
                raise
            yield ComparedMonitors(ours, theirs, failed=" ".join(str(err).split()))
        else:
            yield ComparedMonitors(ours, theirs, result, next=after_monitor(result))


def _first_diverged(monitors: Sequence[ComparedMonitors]) -> ComparedMonitors | None:
    """Return the monitors that diverge in the earliest step, and stage of the step; None if none diverges."""
    found = [
        ((each.result.finding.step, order_of(each.result.finding.stage)), each)
        for each in monitors
        if each.result is not None and each.result.finding is not None
    ]
    return min(found, key=lambda one: one[0])[1] if found else None


def _last_step(diverged: ComparedMonitors | None) -> int | None:
    """Return the last step whose dumps show the divergence of two monitors."""
    if diverged is None or diverged.result is None or diverged.result.finding is None:
        return None
    return steps_around(diverged.result.finding)[-1]


def _is_by_dumps(located: Located, diverged: ComparedMonitors | None) -> bool:
    """Return whether dumps give the answer: no monitor diverges in an earlier step."""
    last = _last_step(diverged)
    return last is None or located.step is None or located.step <= last


def _packs(
    target: Inventory, golden: Inventory, pairs: Sequence[tuple[str, str]], request: Request, *, is_only: bool
) -> Iterator[ComparedPacks]:
    """Compare corresponding packs like `msprobe config-check -c`."""
    for ours, theirs in pairs:
        try:
            result = compare_packs(golden.packs[theirs], target.packs[ours], request.output / Path(ours).stem)
        except MsprobeError as err:
            if is_only:
                raise
            yield ComparedPacks(ours, theirs, failed=" ".join(str(err).split()))
        else:
            yield ComparedPacks(ours, theirs, result)


def _sharpened(compared: ComparedPair, before: Located | None) -> Located | None:
    """Return the answer after one more comparison: refined, unconfirmed, or unchanged."""
    found = _located(compared)
    if before is None or compared.result is None:
        return found or before
    is_narrow = compared.pair.target.is_filtered
    if found is None:
        has_place = any((o.step, o.rank) == (before.step, before.rank) for o in compared.outcomes if not o.failed)
        return replace(before, is_unconfirmed=is_narrow and has_place)
    found = inside(found, before)
    if is_narrow and found.border is None and found.finding is not None and is_from_border(found.finding):
        return replace(before, is_unconfirmed=True)
    return found


def _overrules(compared: ComparedPair, before: Located) -> bool:
    """Return whether tensors of whole steps agree where statistics or digests differed, so that this was rounding."""
    fine, coarse = compared.pair.target, before.compared.pair.target
    if compared.result is None or _located(compared) is not None:
        return False
    if fine.is_filtered or fine.head.task != "tensor" or coarse.head.task == "tensor":
        return False
    if fine.head.level not in ("mix", coarse.head.level):
        return False
    agreeing = {(o.step, o.rank) for o in compared.outcomes if o.is_clean}
    return all((o.step, o.rank) in agreeing for o in before.compared.outcomes if not o.is_clean)


def _compared(pair: CollectionPair, located: Located | None, request: Request, *, is_only: bool) -> ComparedPair:
    """Compare two collections, unless they cannot add to the answer."""
    if not pair.has_common_step:
        return ComparedPair(pair, skipped=Skipped.NO_COMMON_STEP)
    if located is not None and after_finding(located) is None:
        return ComparedPair(pair, skipped=Skipped.NOT_NEEDED)
    if located is not None and located.step is not None and pair.steps and min(pair.steps) > located.step:
        return ComparedPair(pair, skipped=Skipped.NOT_THIS_STEP)
    try:
        return ComparedPair(pair, _compare(pair, request, is_only=is_only))
    except MsprobeError as err:
        if is_only:
            raise
        return ComparedPair(pair, skipped=Skipped.FAILED, failed=" ".join(str(err).split()))


def _compare(pair: CollectionPair, request: Request, *, is_only: bool) -> Result:
    name = pair.target.name or pair.golden.name
    limited = replace(
        request,
        target=pair.target.path,
        golden=pair.golden.path,
        output=request.output if is_only else request.output / (name or "itself"),
        survey=True,
    )
    if pair.target.is_flow or pair.golden.is_flow:
        return compare_paths(limited)
    logger.info("comparing %s with %s", pair.target.path, pair.golden.path)
    return compare_dumps(limited, logging.DEBUG)


def _located(compared: ComparedPair) -> Located | None:
    """Return the first difference of one comparison, if there is one."""
    result = compared.result
    if isinstance(result, RequestResult):
        first = result.first
        return None if first is None else Located(compared, first.first, first.step, first.rank, first.survey)
    flow = None if result is None else flow_of(result)
    if flow is None or flow.first is None:
        return None
    step = result.first if isinstance(result, Stepwise) else flow.first.item.step
    return Located(compared, flow.first.finding, step, flow.first.item.rank, None, flow.first.stage)


def inside(found: Located, wider: Located) -> Located:
    """Return the answer of a filtered collection that follows a wider one: the first divergence inside.

    If two runs round differently, the inputs of the window are never bitwise equal, and the calls that produced them
    are not recorded; the wider collection judged them. A call whose outputs do not follow from its inputs is wrong in
    any case."""
    if not found.compared.pair.target.is_filtered or found.step != wider.step:
        return found
    outcome = next((o for o in found.compared.outcomes if o.first is not None and o.first is found.finding), None)
    if outcome is None or found.finding is None or not is_from_border(found.finding):
        return found
    inner = next((finding for finding in outcome.findings if not is_from_border(finding)), None)
    return found if inner is None else replace(found, finding=inner, border=found.finding)


def _checkpoints(
    target: Inventory, golden: Inventory, pairs: Sequence[tuple[str, str]], *, is_only: bool
) -> tuple[tuple[tuple[str, CheckpointResult], ...], tuple[tuple[str, str], ...]]:
    """Compare corresponding checkpoints like `msprobe config-check`; also return why some could not be compared."""
    compared: list[tuple[str, CheckpointResult]] = []
    failed: list[tuple[str, str]] = []
    for ours, theirs in pairs:
        try:
            compared.append((ours, compare_checkpoints(target.checkpoints[ours], golden.checkpoints[theirs])))
        except MsprobeError as err:
            if is_only:
                raise
            failed.append((ours, " ".join(str(err).split())))
    return tuple(compared), tuple(failed)


_OF_ENVIRONMENT = ("framework", "python", "numpy", "tool")
_OF_PLACE = ("dump_path", "step", "rank")


def _environment(pair: CollectionPair) -> Iterator[Setting]:
    """Return differing versions and settings of the two collections, except for places."""
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


def _no_common_step(pair: CollectionPair) -> str:
    ours, theirs = (", ".join(map(str, each.steps)) for each in (pair.target, pair.golden))
    return (
        f"{pair.target.path} has step {ours} and {pair.golden.path} has step {theirs}: no step is on both sides; "
        f'collect "step": [{pair.target.steps[0]}] on the golden side, or '
        f'"step": [{pair.golden.steps[0]}] on the target side'
    )
