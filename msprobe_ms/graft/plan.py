"""The plan of a graft: the counterparts that a comparison found, as values of the golden that a training reads."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import permutations
from math import prod

import numpy as np

from msprobe.base.errors import MappingError
from msprobe.base.memo import cached_by_identity
from msprobe.checks.invariants.rows import parameters
from msprobe.compare.match.pairs import View
from msprobe.compare.updates.tracks import parameter_pairs
from msprobe.mapping.transform import Shape, Transform, parse
from msprobe.store.graft_plan import GoldenValue, GraftedCall, GraftedStep, GraftPlan
from msprobe.store.record import GRADIENTS, INPUT, OUTPUT, PARAMETERS_GRAD, PARTS, Dump

from .runs import Step, Study

INPUTS, OUTPUTS, EVERY = PARTS[INPUT], PARTS[OUTPUT], "*"
"""Places that select all inputs, all outputs, or all values of a call."""

_ACCUMULATED = GRADIENTS.index("accumulated")

_MAX_AXES = 5
"""Tensors with more axes are laid out by a reshape only; all permutations are tried."""


Value = tuple[str, str]
"""The name of a call with direction, and a place in it."""


@dataclass(frozen=True, slots=True)
class Graft:
    """Values of the golden run in place of those of the training.

    values : values of calls; the place `output.0` is one of its outputs, `output` all of them, `*` all values.
    parameters : names of parameters, whose values are written at the start of a step.
    steps : the steps in which it grafts; None for all.
    missing : names of parameters whose gradients the training does not compute, because replaced calls of the golden
        return them, and `gap.LOSS` if they return the loss: a gap counts these gradients, their updates, and the loss
        as replaced.
    is_resizing : whether results are replaced by those of another shape.
    """

    values: frozenset[Value] = frozenset()
    parameters: frozenset[str] = frozenset()
    steps: frozenset[int] | None = None
    missing: frozenset[str] = frozenset()
    is_resizing: bool = False

    def __bool__(self) -> bool:
        return bool(self.values or self.parameters)

    def is_in(self, step: int) -> bool:
        """Return whether it grafts in a step."""
        return self.steps is None or step in self.steps


@dataclass(frozen=True, slots=True)
class Counterparts:
    """The values of one step that can be grafted: by call of the target, and by parameter."""

    calls: dict[str, GraftedCall] = field(default_factory=dict)
    parameters: dict[str, GoldenValue] = field(default_factory=dict)

    def has(self, name: str, place: str, *, is_resizing: bool = False) -> bool:
        """Return whether the golden has a value for a place of a call; with `is_resizing`, also of another shape."""
        call = self.calls.get(name)
        return call is not None and any(
            is_selected(known, {place}) and (is_resizing or not value.is_resized)
            for known, value in call.values.items()
        )

    def has_alike(self, name: str, place: str) -> bool:
        """Return whether that value has the target's shape, or one that differs by a known layout: of another one, the
        elements may be in another order."""
        call = self.calls.get(name)
        found = [value for known, value in call.values.items() if is_selected(known, {place})] if call else []
        return bool(found) and all(
            not value.is_resized and (value.reshape is None or value.permute is not None) for value in found
        )


def plan_of(study: Study, grafts: Iterable[Graft]) -> GraftPlan:
    """Return the plan that applies grafts to the training of the target, with the counterparts of a study.

    The correspondence is that of the first rank; each rank reads its own values.
    """
    rank = study.steps[0].rank
    every = list(grafts)
    steps = {step.step: _selected(step, every) for step in study.steps if step.rank == rank}
    return GraftPlan(str(study.golden.absolute()), {number: step for number, step in steps.items() if step is not None})


def united(plans: Sequence[GraftPlan]) -> GraftPlan:
    """Return the plan with the values of all of these plans, which have the same golden. Of two values for the same
    place, the later one is taken, and of a call with two counterparts the later counterpart."""
    steps: dict[int, GraftedStep] = {}
    for plan in plans:
        for number, more in plan.steps.items():
            known = steps.get(number)
            steps[number] = more if known is None else _both(known, more)
    return GraftPlan(plans[0].golden, dict(sorted(steps.items())))


def _both(known: GraftedStep, more: GraftedStep) -> GraftedStep:
    calls = dict(known.calls)
    for name, call in more.calls.items():
        of_same = calls.get(name)
        values = of_same.values if of_same is not None and of_same.golden == call.golden else {}
        calls[name] = GraftedCall(call.golden, {**values, **call.values})
    return GraftedStep(calls, {**known.parameters, **more.parameters})


def _selected(step: Step, grafts: Iterable[Graft]) -> GraftedStep | None:
    known = counterparts(step)
    wanted: dict[str, set[str]] = {}
    resized: dict[str, set[str]] = {}
    parameters: dict[str, GoldenValue] = {}
    for graft in grafts:
        if not graft.is_in(step.step):
            continue
        for name, place in graft.values:
            wanted.setdefault(name, set()).add(place)
            if graft.is_resizing:
                resized.setdefault(name, set()).add(place)
        parameters |= {name: known.parameters[name] for name in graft.parameters if name in known.parameters}
    calls = {}
    for name, places in wanted.items():
        if (call := known.calls.get(name)) is None:
            continue
        values = {
            place: value
            for place, value in call.values.items()
            if is_selected(place, resized.get(name, set()) if value.is_resized else places)
        }
        if values:
            calls[name] = GraftedCall(call.golden, values)
    return GraftedStep(calls, parameters) if calls or parameters else None


def is_selected(place: str, places: set[str]) -> bool:
    """Return whether a place is one of these, or one of the inputs, outputs or values that these select."""
    return place in places or place.partition(".")[0] in places or EVERY in places


# ---- counterparts ---------------------------------------------------------------------------------------------------


@cached_by_identity
def counterparts(step: Step) -> Counterparts:
    """Return all values of a step that can be grafted: tensors of paired calls whose elements the golden saved."""
    pairs = step.comparison.pairs
    target, golden = pairs.target, pairs.golden
    found = Counterparts()
    for at in range(len(pairs)):
        mine, theirs = int(pairs.target_calls[at]), int(pairs.golden_calls[at])
        if mine < 0 or theirs < 0:
            continue
        values = dict(_values(step, at, theirs))
        if values:
            found.calls.setdefault(target.columns.names[mine], GraftedCall(golden.columns.names[theirs], values))
    first = _first_rows(golden, [pair.golden for pair in parameter_pairs(step.comparison)])
    ours = _first_rows(target, [pair.target for pair in parameter_pairs(step.comparison)])
    for pair in parameter_pairs(step.comparison):
        if pair.is_part or pair.golden not in first or pair.target not in ours:
            continue
        shapes = golden.columns.shape(first[pair.golden]), target.columns.shape(ours[pair.target])
        value = _laid_out(pair.golden, View(pair.target_view, pair.golden_view), shapes)
        if value is not None:
            found.parameters.setdefault(pair.target, value)
    return found


def _values(step: Step, at: int, golden_call: int) -> Iterator[tuple[str, GoldenValue]]:
    """Return the golden's value by the place of the target's, of one pair of calls."""
    pairs = step.comparison.pairs
    ours, theirs = pairs.target.columns, pairs.golden.columns
    is_forward = pairs.golden.names[golden_call].direction == "forward"
    for row in pairs.rows(at):
        t, g = int(pairs.target_rows[row]), int(pairs.golden_rows[row])
        if not pairs.are_tensors(row) or not theirs.file[g] or theirs.call_of(g) != golden_call:
            continue
        if ours.part[t] not in (INPUT, OUTPUT, PARAMETERS_GRAD) or is_sum(pairs.golden, g) or is_sum(pairs.target, t):
            continue
        place, view, shapes = place_of(pairs.golden, g), pairs.notes.views.get(row), (theirs.shape(g), ours.shape(t))
        value = _laid_out(place, view, shapes)
        if value is not None:
            yield place_of(pairs.target, t), value
        elif view is None and None not in shapes and ours.part[t] == OUTPUT and is_forward:
            yield place_of(pairs.target, t), GoldenValue(place, is_resized=True)


def is_sum(dump: Dump, row: int) -> bool:
    """Return whether a record is the gradient of an argument that was recorded as the sum over all users of the tensor,
    which is not the call's own."""
    columns = dump.columns
    return columns.part[row] == OUTPUT and columns.gradient[row] == _ACCUMULATED


def place_of(dump: Dump, row: int) -> str:
    """Return the place of a record in its call, as a plan has it: `output.0`; of a module's own gradient its name."""
    part, path = dump.columns.part[row], dump.columns.path_of(row)
    return ".".join(path if part == PARAMETERS_GRAD else (PARTS[part], *path))


def _first_rows(dump: Dump, names: Iterable[str]) -> dict[str, int]:
    """Return the first record with saved elements of each of these parameters."""
    known = parameters(dump, running=True)
    return {name: known[name] for name in names if name in known and dump.columns.file[known[name]]}


def _laid_out(place: str, view: View | None, shapes: tuple[Shape | None, Shape | None]) -> GoldenValue | None:
    """Return the golden's value in the target's layout; None if that cannot be expressed."""
    theirs, ours = shapes
    if theirs is None or ours is None or (view is not None and view.is_part):
        return None
    layout = _layout(View() if view is None else view, theirs, ours)
    return None if layout is None else GoldenValue(place, *layout)


@lru_cache(maxsize=4096)
def _layout(view: View, theirs: Shape, ours: Shape) -> tuple[Shape | None, Shape | None] | None:
    """Return the permutation and the reshape that convert the golden's layout to the target's; None if there are
    none."""
    if prod(theirs) != prod(ours):
        return None
    if not view.target and not view.golden:
        if theirs == ours:
            return None, None
        are_alike = [n for n in theirs if n != 1] == [n for n in ours if n != 1]
        return (None, ours) if are_alike else None  # another shape is another tensor
    try:
        back = parse(view.target).inverse(ours)
        if back is None:
            return None
        both = Transform((*parse(view.golden).steps, *back.steps))
        index = np.arange(prod(theirs)).reshape(theirs)
        moved = both(index) if both.is_layout else None
    except MappingError:
        return None
    if moved is None or moved.shape != ours:
        return None
    for axes in permutations(range(len(theirs))) if len(theirs) <= _MAX_AXES else [tuple(range(len(theirs)))]:
        permuted = index.transpose(axes)
        if np.array_equal(permuted.ravel(), moved.ravel()):
            permute = axes if axes != tuple(range(len(theirs))) else None
            return permute, (None if permuted.shape == ours else ours)
    return None
