"""Choose the next collection: a narrower configuration than the last one, with the records that the answer lacks.

| the answer | the next collection |
|---|---|
| a divergence of two monitors | the module in which it begins, or the whole step |
| a cell, at level L0 | everything inside that cell, with tensors |
| code between two calls of L0 | everything inside the cell around both, or from one to the other |
| code between two calls of L1 or mix | the same with every dispatched operation, once |
| a call that differs by statistics or digests | its cell with tensors, which show permutations and noise |
| parameters, and the step before was not recorded | weights and gradients of that step and this one |
| a difference within tolerance, by statistics | the whole step with tensors, on which noise is judged call by call |
| a value from outside of a filtered collection, or a divergence that it does not show | the whole step |
| required records are missing | the whole step, with everything that was omitted |
| nothing differs, by statistics alone | the same steps by digest; with tensors where two runs round differently |
| nothing differs, at level L0 | the same steps with the calls outside of cells, such as the loss |
| nothing differs, and something is on one side only | the same on the other side |
| nothing differs in what was compared | later steps, with few records |
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from msprobe.base import names
from msprobe.base.digest import CRC32C, MD5
from msprobe.base.scope import bounds_problem, compact_ranges
from msprobe.compare.jobs.summary import RequestResult
from msprobe.compare.jobs.survey import Side, Survey
from msprobe.compare.locate.finding import (
    Argument,
    ArgumentKind,
    Between,
    Computed,
    Dataflow,
    Divergence,
    Parameters,
    RunInput,
    Unclear,
    Updated,
)
from msprobe.compare.monitor.finding import Result as MonitorResult
from msprobe.compare.monitor.next_dump import next_dump
from msprobe.frameworks.limits import can_dispatch

from .collected import Collection
from .diagnosis import ComparedPair, Located, NextCollection, Purpose, is_from_border

DUMP_PATH = "./next_dump"
"""Output folder of the next collection, relative to the working folder of the training."""

_KEPT: dict[str, list[object]] = {"gradients": ["hooks"], "jit_cells": ["split", "off"], "dispatch": [True]}
"""Settings of the last collection that are kept if they have one of these values, which are not the defaults."""

_LATER = (1, 2, 5, 10, 20, 50, 100)
"""Distances of the proposed steps from the last one, if everything agrees so far."""

_FROM_THE_START = 16
"""Up to this step, all steps from 0 on are collected to judge an update, which depends on earlier ones."""


_WHOLE = (Purpose.STEP_BEFORE, Purpose.WHOLE_STEP, Purpose.MISSING_RECORDS, Purpose.NOISE)
"""Purposes that need all calls of a step."""


@dataclass(frozen=True)
class _Plan:
    """Settings of one side's configuration; `patterns` is `list` in the file, `digests` their kind, if any."""

    task: str
    level: str
    steps: tuple[int, ...] = ()
    ranks: tuple[int, ...] = ()
    scope: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    digests: str = ""
    with_dispatch: bool = False


def after_finding(located: Located) -> NextCollection | None:
    """Return the collection that shows more of the first wrong call; None if its records are complete."""
    pair, found = located.compared.pair, located.finding
    if found is None or located.survey is None or not pair.target.is_of_calls:
        return None
    purpose = _purpose(located, found, located.survey)
    if purpose is None:
        return None
    steps: tuple[int, ...] = () if located.step is None else (located.step,)
    # Calls inside cells are recorded by mix, which needs the model, or by L1 if the last collection had no model
    # either.
    level = "L1" if pair.target.head.level == "L1" else "mix"
    if purpose is Purpose.STEP_BEFORE and located.step:
        steps = tuple(range(0 if located.step <= _FROM_THE_START else located.step - 1, located.step + 1))
        level = "L0" if pair.target.head.level in ("L0", "mix") else "L1"
    plan = _Plan("tensor", level, steps, _ranks(located), with_dispatch=purpose is Purpose.UNRECORDED_CODE)
    after = found.evidence.after if isinstance(found.evidence, Between) else ""
    around = [
        _around(located.survey, purpose, side, after, level) for side in (located.survey.target, located.survey.golden)
    ]
    target, golden = (
        _configuration(replace(plan, scope=scope, patterns=patterns), collection)
        for (scope, patterns), collection in zip(around, (pair.target, pair.golden), strict=True)
    )
    scope, patterns = around[0]
    return NextCollection(purpose, target, golden, around=scope or patterns)


def after_monitor(result: MonitorResult) -> NextCollection | None:
    """Return the collection of the calls of the first divergence of two monitors; None if they do not diverge.

    Both sides have the same settings, whose patterns match the names of both frameworks.
    """
    if result.finding is None:
        return None
    made = next_dump(result.finding, result.ranks)
    is_of_modules = made["task"] == "tensor"
    return NextCollection(Purpose.MONITORED, made, made, around=result.finding.modules[:1] if is_of_modules else ())


def _purpose(located: Located, finding: Divergence, survey: Survey) -> Purpose | None:
    """Return what a collection can add to a finding; None if nothing."""
    evidence, collection = finding.evidence, located.compared.pair.target
    is_coarse = collection.head.level == "L0"
    is_tensor = survey.target.task == survey.golden.task == "tensor"
    if located.is_unconfirmed or (collection.is_filtered and is_from_border(finding)):
        return Purpose.WHOLE_STEP
    if isinstance(evidence, Unclear) or collection.head.level == "debug":
        return Purpose.MISSING_RECORDS
    if isinstance(evidence, Computed):
        return _purpose_of_computed(finding, collection, is_tensor)
    if isinstance(evidence, Parameters | Updated):
        # In a later step whose previous update cannot be judged by the records.
        steps = {outcome.step for outcome in located.compared.outcomes if not outcome.failed}
        is_needed = located.step and (located.step - 1 not in steps or not is_tensor)
        return Purpose.STEP_BEFORE if is_needed else None
    if isinstance(evidence, Between) and not is_coarse:
        is_wiring = evidence.dataflow in (Dataflow.SWAPPED, Dataflow.REWIRED)
        is_missing = collection.head.settings.get("dispatch") is False and _can_dispatch(collection)
        return Purpose.UNRECORDED_CODE if is_missing and not is_wiring else None
    is_computed = isinstance(evidence, Between) or (
        evidence.is_made_unrecorded
        if isinstance(evidence, RunInput)
        else isinstance(evidence, Argument) and evidence.kind is ArgumentKind.TENSOR
    )
    return Purpose.BETWEEN_CALLS if is_computed and is_coarse else None


def _purpose_of_computed(finding: Divergence, collection: Collection, is_tensor: bool) -> Purpose | None:
    """Return what a collection can add to a call that computes differently."""
    if finding.grade == "pass" and not is_tensor:
        return Purpose.NOISE
    if collection.head.level == "L0":
        return Purpose.INSIDE_CELL
    called = names.parse(finding.name)
    if is_tensor and collection.is_filtered and called.kind != "api" and called.direction == "backward":
        return Purpose.WHOLE_STEP  # it begins in no call inside: a gradient depends on every user of a tensor
    return None if is_tensor else Purpose.ELEMENTS


def _can_dispatch(collection: Collection) -> bool:
    """Return whether every operation can be recorded as it is dispatched."""
    made_with = str(collection.head.run.get("framework", ""))
    version = tuple(int(part) for part in made_with.rpartition(" ")[2].split(".")[:2] if part.isdigit())
    return can_dispatch(collection.head.framework, version)


def _ranks(located: Located) -> tuple[int, ...]:
    """Return the rank of the first wrong call; if collectives were not recorded, every rank that differs in this step,
    since the origin is unknown. Empty for a single process."""
    pair, outcomes = located.compared.pair, located.compared.outcomes
    if len({*pair.target.ranks, *pair.golden.ranks}) < 2 or located.rank is None:
        return ()
    if pair.target.head.level != "L0":
        return (located.rank,)
    return tuple(sorted({o.rank or 0 for o in outcomes if o.step == located.step and o.first is not None}))


def _around(
    survey: Survey, purpose: Purpose, side: Side, after: str, level: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return `scope` and `list` around the first wrong call, by the names of one side; both empty for the whole step.

    `after` is the last call that agrees before the code that differs; empty without one.
    """
    if purpose in _WHOLE or not side.name:
        return (), ()
    called = names.parse(side.name)
    if purpose is Purpose.INSIDE_CELL and called.kind in ("cell", "parameters_grad"):
        return (), (f"{called.stem}.",)
    if purpose in (Purpose.BETWEEN_CALLS, Purpose.UNRECORDED_CODE):
        common = _around_both(after, side)
        return ((), (f"{names.parse(common).stem}.",)) if common else (_window(survey, after, side, level), ())
    if side.within:
        return (), (f"{names.parse(side.within[0]).stem}.",)
    return (), (f"{called.stem}.{called.number}.",) if called.kind == "api" else (f"{called.stem}.",)


def _around_both(after: str, side: Side) -> str:
    """Return the innermost cell that contains both the call whose input differs and the last call that agrees: the
    input may have been computed before that call. Empty if only the network itself contains both.

    This follows from the paths of cells. A function call has no path; then the cell around the other call is used.
    """
    path = names.parse(after).path
    if after and not path:
        return side.within[0] if side.within else ""
    return next((cell for cell in side.within if path.startswith(f"{names.parse(cell).path}.")), "")


def _window(survey: Survey, after: str, side: Side, level: str) -> tuple[str, ...]:
    """Return the last call that agrees and the call whose input differs, if both can be bounds; otherwise empty, for
    the whole step: for a backward call, which is judged together with its forward call, and for two frameworks, since
    the name of the first call on the golden side is unknown."""
    bounds = after, side.name
    if survey.target.framework != survey.golden.framework or not all(bounds):
        return ()
    if any(names.parse(bound).direction != "forward" for bound in bounds) or bounds_problem(level, bounds):
        return ()
    return bounds


def after_agreement(compared: Sequence[ComparedPair]) -> NextCollection | None:
    """Return the next collection if nothing differs: missing records, tensors or digests for statistics, or other
    steps."""
    counting = [each for each in compared if each.surveyed and each.pair.target.is_of_calls and not each.is_overruled]
    if not counting:
        return None
    finest = counting[-1]
    pair = finest.pair
    if found := next((lack for each in counting if (lack := _on_one_side(each))), None):
        return found
    collection = pair.target
    level = collection.python_level
    steps, ranks = pair.steps, collection.ranks if len(collection.ranks) > 1 else ()
    is_exact = all(not (s.total.noise or s.total.tolerance) for each in counting for _, s in each.surveyed)
    frameworks = {s.target.framework for _, s in finest.surveyed} | {s.golden.framework for _, s in finest.surveyed}
    can_digest = is_exact and len(frameworks) == 1
    modes = {outcome.mode for outcome, _ in finest.surveyed}
    if not all(each.is_clean for each in counting):
        purpose, can_digest = Purpose.MISSING_RECORDS, False
    elif level == "L0":
        purpose, level = Purpose.OUTSIDE_CELLS, "mix"
    elif "statistics" in modes:
        purpose, can_digest = Purpose.BLIND, can_digest and modes == {"statistics"}
    else:
        purpose = Purpose.OTHER_STEPS
        level = "L1" if level == "L1" else "L0"  # cells are sufficient to find the step that needs a closer look
        last = max((outcome.step or 0 for outcome, _ in finest.surveyed), default=0)
        steps = tuple(last + n for n in (_LATER if can_digest else (1, 2)))
    digests = CRC32C if collection.digests == pair.golden.digests == CRC32C else MD5  # which every tool supports
    plan = _Plan("statistics" if can_digest else "tensor", level, steps, ranks, digests=digests if can_digest else "")
    return NextCollection(purpose, _configuration(plan, collection), _configuration(plan, pair.golden))


def _on_one_side(compared: ComparedPair) -> NextCollection | None:
    """Return the collection of steps and ranks that one side lacks."""
    pair, result = compared.pair, compared.result
    if not isinstance(result, RequestResult) or not result.missing:
        return None
    for side, lacks, has in (("golden", pair.golden, pair.target), ("target", pair.target, pair.golden)):
        steps = tuple(step for step in has.steps if step not in lacks.steps)
        ranks = tuple(rank for rank in has.ranks if rank not in lacks.ranks) if len(has.ranks) > 1 else ()
        if has.head.task in ("statistics", "tensor") and (steps or ranks):
            plan = _Plan(has.head.task, has.python_level, steps or has.steps, ranks, digests=has.digests)
            made = _configuration(plan, has)
            return NextCollection(Purpose.ONE_SIDE, made, made, (side,))
    return None


def _configuration(plan: _Plan, last: Collection) -> Mapping[str, object]:
    """Return a complete configuration for `PrecisionDebugger`.

    All tensors of whole steps have digests: with those of the golden run, a graft reads only the values that differ.
    """
    is_whole = plan.task == "tensor" and not (plan.scope or plan.patterns)
    section = {
        "scope": list(plan.scope),
        "list": list(plan.patterns),
        "data_mode": ["all"],
        "summary_mode": plan.digests or (CRC32C if is_whole else "statistics"),
    }
    settings = last.head.settings
    kept = {key: settings[key] for key, values in _KEPT.items() if settings.get(key) in values}
    if plan.with_dispatch:
        kept["dispatch"] = True
    return {
        "task": plan.task,
        "dump_path": DUMP_PATH,
        "rank": compact_ranges(plan.ranks),
        "step": compact_ranges(plan.steps),
        "level": plan.level,
        **kept,
        plan.task: section,
    }
