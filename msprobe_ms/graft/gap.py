"""The gap between a run and the golden run: how far losses, gradients and updates of the collected steps differ.

| measure | elements | formula |
|---|---|---|
| `loss` | the loss of each step and rank | `norm(target - golden) / norm(golden)` |
| `gradients` | the gradients of all parameters of each step, added up over its micro batches | the same |
| `updates` | the difference of each parameter between the starts of two consecutive collected steps | the same |

Norms are Euclidean over all elements together, accumulated in float64. A gradient or an update that one side does not
have counts as zero there. A measure is 0 if both sides are zero, infinite if only the golden side is, or if a
difference is not finite, and None if there is nothing to measure, or if the elements of a tensor were not saved.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from math import inf, isfinite, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.base import names
from msprobe.base.memo import cached_by_identity
from msprobe.checks.invariants.rows import (
    CANCELLED,
    GRADIENT_DRIFT,
    GRADIENT_NOISE,
    ROUNDED,
    UPDATE_NOISE,
    gradient,
    gradient_rows,
    loss_of,
    parameters,
)
from msprobe.compare.core.noise import ROUNDING, KernelPrecision
from msprobe.compare.core.standard import canonical
from msprobe.compare.judge.judged import EQUAL, Comparison
from msprobe.compare.judge.verdict import GRADES
from msprobe.compare.noise.operation import operation_of, rounds_inside
from msprobe.compare.updates.tracks import ParameterPair, parameter_pairs
from msprobe.mapping.transform import parse
from msprobe.store.reader import load_tensor
from msprobe.store.record import Dump

from .runs import Step, Study

Array = NDArray[np.float64]

MEASURES = ("loss", "gradients", "updates")

LOSS = "loss"
"""The key of the loss among the parts of a gap; those of gradients are the names of the parameters."""

Squares = tuple[float, float]
"""The square of a difference, and that of the golden's elements."""


@dataclass(frozen=True, slots=True)
class RunGap:
    """The three relative distances; None for a measure that does not exist.

    parts : of an estimate (`offline`), the squares of the loss and of each gradient that was reached; empty for a
        training, which reaches all of them.
    """

    loss: float | None = None
    gradients: float | None = None
    updates: float | None = None
    parts: Mapping[str, Squares] = field(default_factory=dict, repr=False, compare=False)

    @property
    def measures(self) -> dict[str, float | None]:
        """Return the three distances by name."""
        return {measure: getattr(self, measure) for measure in MEASURES}

    @property
    def largest(self) -> float:
        """Return the maximum of the measures; 0 without any."""
        return max((each for each in self.measures.values() if each is not None), default=0.0)

    def among(self, other: "RunGap") -> "RunGap":
        """Return the gap of what both reached."""
        if not self.parts and not other.parts:
            return self
        return gap_of_parts({key: squares for key, squares in self.parts.items() if key in other.parts})

    def above(self, floor: "Floor") -> "RunGap":
        """Return by how much each measure exceeds the noise floor, at least 0."""
        return _gap(None if each is None else max(0.0, each - least) for each, least in _both(self, floor))

    def is_noise(self, floor: "Floor") -> bool:
        """Return whether no measure exceeds the noise floor."""
        return self.above(floor).largest == 0.0


def _gap(measures: Iterable[float | None]) -> RunGap:
    loss, gradients, updates = measures
    return RunGap(loss, gradients, updates)


def _both(gap: RunGap, floor: "Floor") -> Iterator[tuple[float | None, float]]:
    for measure in MEASURES:
        yield getattr(gap, measure), getattr(floor, measure)


class FloorSource(Enum):
    """The source of a noise floor."""

    BIT_EQUAL = "everything before the first finding is bitwise equal"
    REPEATED = "the gap of a repeated golden run"
    REPLAY = "the gap of replayed calls without a graft"
    MODEL = "the noise that a comparison accepts"
    JUDGED = "the gap of a run in which the comparison finds nothing"


@dataclass(frozen=True, slots=True)
class Floor:
    """The gap up to which two correct runs differ.

    most : how far a run in which the comparison finds nothing may raise it: the noise of the coarsest precision in
        which either side computes. 0: not at all.
    """

    loss: float
    gradients: float
    updates: float
    source: FloorSource
    most: float = 0.0

    def raised(self, gap: RunGap) -> "Floor":
        """Return the floor that the gap of a run shows in which the comparison finds nothing."""
        loss, gradients, updates = (
            max(least, min(self.most, _ARBITRARY * (of_run or 0.0))) for of_run, least in _both(gap, self)
        )
        if (loss, gradients, updates) == (self.loss, self.gradients, self.updates):
            return self
        return Floor(loss, gradients, updates, FloorSource.JUDGED, self.most)


BIT_EQUAL = Floor(ROUNDING, ROUNDING, ROUNDING, FloorSource.BIT_EQUAL)
"""The floor of runs that are bitwise equal but for a cause."""


def closure(before: RunGap, after: RunGap, floor: Floor) -> RunGap:
    """Return the share of each measure that closes: `1 - after / before`, both above the noise floor.

    1 is all of it, 0 nothing; negative if it grows. None for a measure that is noise before. Of estimates only what
    both reached counts.
    """
    before, after = before.among(after), after.among(before)
    shares: list[float | None] = []
    for measure in MEASURES:
        least = getattr(floor, measure)
        shares.append(_closed(getattr(before, measure), getattr(after, measure), least))
    return _gap(shares)


def closure_of_largest(before: RunGap, after: RunGap, floor: Floor) -> float:
    """Return the same share of the maximum of the three measures; 0 if there was no gap."""
    before, after = before.among(after), after.among(before)
    return _closed(before.above(floor).largest, after.above(floor).largest, 0.0) or 0.0


def _closed(before: float | None, after: float | None, least: float) -> float | None:
    if before is None or after is None or before <= least:
        return None
    if not isfinite(before):
        return 0.0 if not isfinite(after) else 1.0
    return 1.0 - max(0.0, after - least) / (before - least) if isfinite(after) else -inf


def gap_of_parts(parts: Mapping[str, Squares]) -> RunGap:
    """Return the gap of the loss and the gradients of one step."""
    loss, gradients = _Distance(), _Distance()
    for key, squares in parts.items():
        (loss if key == LOSS else gradients).add_squares(*squares)
    return RunGap(loss.relative, gradients.relative, None, parts)


# ---- measuring ------------------------------------------------------------------------------------------------------


class _Distance:
    """The squares of differences and of golden elements, added up."""

    def __init__(self) -> None:
        self.difference = self.golden = 0.0
        self.number = 0

    def add(self, target: Array | float | None, golden: Array | float | None) -> None:
        """Add a tensor of both sides; None is zero."""
        mine, theirs = (np.asarray(0.0 if one is None else one, np.float64) for one in (target, golden))
        with np.errstate(over="ignore", invalid="ignore"):
            self.add_squares(float(np.sum(np.square(mine - theirs))), float(np.sum(np.square(theirs))))

    def add_squares(self, difference: float, golden: float) -> None:
        """Add the squares of a tensor."""
        self.difference += difference
        self.golden += golden
        self.number += 1

    @property
    def relative(self) -> float | None:
        """Return the relative distance."""
        if not self.number:
            return None
        if self.difference == 0.0:
            return 0.0
        if not self.golden or not isfinite(self.difference):
            return inf
        return sqrt(self.difference) / sqrt(self.golden)


@dataclass(frozen=True, slots=True)
class _Parameter:
    """A parameter of both sides, with the transforms of their layouts; an empty name for a side without it."""

    target: str = ""
    golden: str = ""
    views: tuple[str, str] = ("", "")


def gap_of(study: Study, replaced: Set[str] = frozenset()) -> RunGap:
    """Return the gap between the two runs of a study; `replaced` parameters have the gradients and updates of the
    golden, and if LOSS is replaced, all losses are those of the golden."""
    losses = _Distance()
    for step in study.steps:
        mine, theirs = (loss_of(dump) for dump in (step.comparison.target, step.comparison.golden))
        if mine is not None and theirs is not None:
            losses.add(theirs if LOSS in replaced else mine, theirs)
    gradients = (each for step in study.steps for each in _gradients(step))
    updates = ((move.parameter, move.arrays) for move in _moves(study))
    return RunGap(losses.relative, _relative(gradients, replaced), _relative(updates, replaced))


def parts_of(step: Step, loss: float | None, gradients: Mapping[str, NDArray[Any]]) -> dict[str, Squares]:
    """Return the squares of the loss, and of the gradients by parameter, between values of the target and the golden.

    A parameter that `gradients` does not have is left out, and one that the target does not have is named by the
    golden.
    """
    golden = step.comparison.golden
    rows = gradient_rows(step.comparison.target), gradient_rows(golden)
    found: dict[str, Squares] = {}
    theirs = loss_of(golden)
    if loss is not None and theirs is not None:
        found[LOSS] = ((loss - theirs) ** 2, theirs**2)
    for one in _parameters(step, rows):
        if one.target in rows[0] and one.target not in gradients:
            continue
        arrays = [gradients.get(one.target), gradient(golden, rows[1][one.golden]) if one.golden in rows[1] else None]
        distance = _Distance()
        if (one.golden not in rows[1] or arrays[1] is not None) and _add(distance, arrays, one):
            found[one.target or one.golden] = distance.difference, distance.golden
    return found


Values = list[Array | None]
"""A gradient or an update, of target and golden; None for a side without it."""


def _relative(values: Iterable[tuple[_Parameter, Values | None]], replaced: Set[str]) -> float | None:
    """Return the relative distance of gradients or updates; None if the elements of one were not saved."""
    found = _Distance()
    for one, arrays in values:
        if arrays is None:
            return None
        if (one.target or one.golden) in replaced:
            found.add(arrays[1], arrays[1])
        elif not _add(found, arrays, one):
            return None
    return found.relative


def _gradients(step: Step) -> Iterator[tuple[_Parameter, Values | None]]:
    """Return the gradients of all parameters of a step; None for one whose elements were not saved."""
    dumps = step.comparison.target, step.comparison.golden
    rows = [gradient_rows(dump) for dump in dumps]
    for one in _parameters(step, rows):
        sides = [(dump, of.get(name)) for dump, of, name in zip(dumps, rows, (one.target, one.golden), strict=True)]
        arrays = [None if of is None else gradient(dump, of) for dump, of in sides]
        is_saved = all(of is None or array is not None for (_, of), array in zip(sides, arrays, strict=True))
        yield one, arrays if is_saved else None


@dataclass(frozen=True, slots=True)
class _Move:
    """The update of a parameter after a step; None if its elements were not saved."""

    step: Step
    parameter: _Parameter
    arrays: Values | None


def _moves(study: Study) -> Iterator[_Move]:
    """Return all updates between collected steps."""
    for rank in dict.fromkeys(step.rank for step in study.steps):
        of_rank = [step for step in study.steps if step.rank == rank]
        for old, new in pairwise(of_rank):
            if new.step != old.step + 1:
                continue
            sides = [
                [(dump, parameters(dump)) for dump in (getattr(old.comparison, side), getattr(new.comparison, side))]
                for side in ("target", "golden")
            ]
            shared = [{name: 0 for name in sides[at][0][1] if name in sides[at][1][1]} for at in (0, 1)]
            for one in _parameters(new, shared):
                arrays = []
                for side, name in zip(sides, (one.target, one.golden), strict=True):
                    arrays.append(_moved(side, name) if name else None)
                is_saved = all(
                    array is not None or not name for array, name in zip(arrays, (one.target, one.golden), strict=True)
                )
                yield _Move(old, one, arrays if is_saved else None)


def rounding_updates(study: Study) -> float:
    """Return the relative distance of the updates in those elements alone whose gradients are rounding on both sides.

    An optimizer that divides by the size of the gradient, such as Adam, moves them in an arbitrary direction. Gradients
    that are exactly 0 are not rounding.
    """
    difference = golden = 0.0
    gradients: dict[int, dict[str, tuple[Array, Array]]] = {}
    for move in _moves(study):
        both = _of_one_shape(move.parameter, move.arrays)
        if both is None:
            continue
        mine, theirs = both
        golden += float(np.sum(np.square(theirs)))
        if id(move.step) not in gradients:
            found = ((one.target, _of_one_shape(one, arrays)) for one, arrays in _gradients(move.step))
            gradients[id(move.step)] = {name: pair for name, pair in found if pair is not None}
        of_step = gradients[id(move.step)]
        pair = of_step.get(move.parameter.target)
        if pair is None or pair[0].shape != theirs.shape:
            continue
        usual = float(np.median([_rms(each[1]) for each in of_step.values()]))
        size = np.maximum(*map(np.abs, pair))
        if max(map(_rms, pair)) >= CANCELLED * usual:
            size = np.where(size <= ROUNDED * _rms(pair[1]), size, 0.0)
        difference += float(np.sum(np.square((mine - theirs)[size > 0])))
    return sqrt(difference / golden) if golden else 0.0


def _of_one_shape(one: _Parameter, arrays: Values | None) -> tuple[Array, Array] | None:
    """Return the values of both sides in the same layout; None if a side has none, or another shape."""
    mine, theirs = (None, None) if arrays is None else _alike(arrays, one)
    return (mine, theirs) if mine is not None and theirs is not None and mine.shape == theirs.shape else None


def _rms(array: Array) -> float:
    return float(np.sqrt(np.mean(np.square(array)))) if array.size else 0.0


def _moved(side: list[tuple[Dump, dict[str, int]]], name: str) -> Array | None:
    before, after = (_elements(dump, rows[name]) for dump, rows in side)
    return None if before is None or after is None else after - before


def _elements(dump: Dump, row: int) -> Array | None:
    columns = dump.columns
    if not columns.file[row]:
        return None
    return np.asarray(load_tensor(dump, columns.record(row, columns.call_of(row))), np.float64)


def _parameters(step: Step, names: Iterable[Mapping[str, Any]]) -> Iterator[_Parameter]:
    """Return the parameters of a step that a side has, with their counterparts: those that the comparison found, or
    else those of the same name, or of the same values."""
    mine, theirs = names
    used: tuple[set[str], set[str]] = set(), set()
    for pair in consistent_pairs(step.comparison)[0]:
        if pair.target in mine and pair.golden in theirs:
            yield _Parameter(pair.target, pair.golden, (pair.target_view, pair.golden_view))
            used[0].add(pair.target)
            used[1].add(pair.golden)
    same_values = _of_the_same_values(step)
    for name in mine:
        if name not in used[0]:
            candidates = _Parameter(name, name), same_values.get(name, _Parameter())
            found = (one for one in candidates if one.golden in theirs and one.golden not in used[1])
            one = next(found, _Parameter(name))
            yield one
            used[1].add(one.golden)
    for name in theirs:
        if name not in used[1]:
            yield _Parameter("", name)


@cached_by_identity
def _of_the_same_values(step: Step) -> dict[str, _Parameter]:
    """Return by parameter of the target the counterparts of those that the comparison has not paired and that have
    other names, but bitwise the same values, up to axes of size 1: both were loaded from one checkpoint. Of several
    with these values, the first ones are paired."""
    dumps = step.comparison.target, step.comparison.golden
    gradients = [gradient_rows(dump) for dump in dumps]  # a parameter that has two names has one of them there
    rows = [
        {name: row for name, row in parameters(dump).items() if name in own}
        for dump, own in zip(dumps, gradients, strict=True)
    ]
    pairs = consistent_pairs(step.comparison)[0]
    paired = {pair.target for pair in pairs}, {pair.golden for pair in pairs}
    left = [
        {name: row for name, row in own.items() if name not in known and name not in other}
        for own, other, known in zip(rows, reversed(rows), paired, strict=True)
    ]
    found: dict[str, _Parameter] = {}
    by_values: dict[object, list[str]] = {}
    for name, row in left[1].items() if left[0] else ():
        by_values.setdefault(_values_of(dumps[1], row), []).append(name)
    for name, row in left[0].items() if by_values else ():
        if alike := by_values.get(_values_of(dumps[0], row)):
            shape = dumps[0].columns.shape(row) or ()
            view = f"reshape({', '.join(map(str, shape))})" if shape else ""
            found[name] = _Parameter(name, alike.pop(0), ("", view))
    return found


def _values_of(dump: Dump, row: int) -> object:
    """Return what two parameters of the same values have in common."""
    array = _elements(dump, row)
    if array is None:
        return id(dump), row
    return tuple(size for size in array.shape if size != 1), array.tobytes()


def consistent_pairs(comparison: Comparison) -> tuple[list[ParameterPair], list[ParameterPair]]:
    """Return the pairs of parameters of a comparison, and those of a parameter that is paired with another one already:
    a call that takes it instead, by mistake. Pairs with the same name on both sides go first."""
    every = parameter_pairs(comparison)
    used: tuple[set[str], set[str]] = set(), set()
    kept = set()
    for pair in sorted(every, key=lambda one: one.target != one.golden):
        if pair.is_part or not (pair.target in used[0] or pair.golden in used[1]):
            kept.add(id(pair))
            used[0].add(pair.target)
            used[1].add(pair.golden)
    return [pair for pair in every if id(pair) in kept], [pair for pair in every if id(pair) not in kept]


def _add(found: _Distance, arrays: Values, one: _Parameter) -> bool:
    """Add a parameter in the layout that both sides have; return whether that is possible."""
    mine, theirs = _alike(arrays, one)
    if mine is not None and theirs is not None and mine.shape != theirs.shape:
        return False
    found.add(mine, theirs)
    return True


def _alike(arrays: list[Any], one: _Parameter) -> list[Array | None]:
    """Return the arrays of target and golden in the layout that both have."""
    return [
        None if array is None else np.asarray(parse(view)(array), np.float64)
        for array, view in zip(arrays, one.views, strict=True)
    ]


# ---- the noise floor ------------------------------------------------------------------------------------------------


def floor_of(study: Study, repeated: Callable[[], RunGap] | None = None) -> Floor:
    """Return the noise floor of a study.

    `repeated` returns the gap between a repeated golden run and the golden run. Without it, the floor is rounding if
    results before the first finding were compared and all are bitwise equal; otherwise it is the error of gradients and
    updates that the judgement of trainings accepts as noise, for the coarsest dtype of the gradients, which grows from
    step to step (`checks.invariants.rows`), and at least twice the gap of the updates that rounding decides. If a side
    computes in a coarser precision inside, such as TF32, a run without findings may raise it (`Floor.raised`).
    """
    if repeated is not None:
        known = repeated()
        return Floor(known.loss or 0.0, known.gradients or 0.0, known.updates or 0.0, FloorSource.REPEATED)
    if is_bit_equal(study):
        return BIT_EQUAL
    number = len({step.step for step in study.steps})
    drift = GRADIENT_DRIFT ** max(0, number - 1)
    least, most = (drift * _noise_of(dtypes) for dtypes in (_dtypes(study), _dtypes_inside(study)))
    rounded = _ARBITRARY * rounding_updates(study)
    floors = least, max(least, _SPREAD * rounded), max(least, UPDATE_NOISE, rounded)
    return Floor(*floors, FloorSource.MODEL, most if most > least else 0.0)


_ARBITRARY = 2.0
"""Noise differs by so much more in another run: a graft may turn half of the updates around that have an arbitrary
direction."""

_SPREAD = 0.1
"""Share of the gap of such updates that reaches the gradients of the next steps. Measured: 0.05, of one
pair without a fault (the encoder of benchmarks/bugs between the frameworks)."""


def _noise_of(dtypes: Iterable[str]) -> float:
    """Return the relative error of gradients that is noise, for the coarsest of these dtypes."""
    return max((GRADIENT_NOISE.get(dtype, 0.0) for dtype in dtypes), default=0.0) or GRADIENT_NOISE["float32"]


_INSIDE = {KernelPrecision.HALF: "float16", KernelPrecision.BRAIN: "bfloat16"}
"""The dtype that kernels of a precision class round to; TF32 has the mantissa of float16."""


def _dtypes_inside(study: Study) -> set[str]:
    """Return the dtypes that kernels of either side round to inside."""
    found = (step.comparison.noise for step in study.steps)
    return {_INSIDE[one.is_of] for noise in found if noise for one in noise.classes if one.is_of in _INSIDE}


def _dtypes(study: Study) -> set[str]:
    found = set()
    for step in study.steps[:1]:
        columns = step.comparison.golden.columns
        for rows in gradient_rows(step.comparison.golden).values():
            found |= {canonical(columns.dtype(row)) for row in rows}
    return found


def is_bit_equal(study: Study, grafted: Set[str] = frozenset()) -> bool:
    """Return whether the results of calls before the first finding are bitwise equal, and there is evidence that the
    runs compute alike: a call whose kernels may round inside, such as a matrix product.

    Other calls, such as a gather, do not show that; nor do `grafted` ones, which have the golden's results.
    """
    compared = 0
    for step in study.steps:
        comparison = step.comparison
        others = [finding.at for finding in step.findings if finding.name not in grafted]
        first = min(others, default=len(step.events))
        for event in step.events[:first]:
            for row in event.rows if event.is_matched and event.called not in grafted else ():
                if comparison.is_input[row] or not comparison.pairs.are_tensors(row):
                    continue
                if comparison.equal[row] == EQUAL:
                    compared += rounds_inside(operation_of(names.parse(event.called)))
                elif GRADES[comparison.grades[row]] != "unjudged":  # such as memory that was never written
                    return False
        if others:
            break
    return compared > 0
