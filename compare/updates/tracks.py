"""Read what the judgement of updates needs from dumps of consecutive steps, and judge them.

A parameter is a record of part `parameters` of a cell, or an input whose source is a parameter. Its gradient is that of
`parameters_grad`, the sum of several within a step; without it, the sum of what the backward calls of its users give.
Of a large tensor some elements stand for all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from math import inf, nan, prod, sqrt
from typing import Any

import numpy as np

from msprobe.base.errors import MsprobeError
from msprobe.base.statistic import widen
from msprobe.compare.core.standard import canonical, family
from msprobe.compare.core.tensor import source_of
from msprobe.compare.judge.judged import Comparison
from msprobe.compare.locate.finding import UpdateJudgement
from msprobe.compare.match.pairs import View
from msprobe.compare.noise.summary import Summaries, deviation
from msprobe.mapping.transform import parse
from msprobe.store.npy import open_npy
from msprobe.store.reader import load_file, tensor_path
from msprobe.store.record import INPUT, OUTPUT, PARAMETERS, PARAMETERS_GRAD, TENSOR, Dump, Statistics
from msprobe.store.tensor_file import TensorFile

from .fit import Floats
from .judgement import Parameter, Track, judge
from .statistics import Four, Moments, Summary, judge_summaries

ELEMENTS = 1 << 18
"""So many elements of all parameters of a side are looked at in each step: a fit has a few unknowns for each parameter,
and a thousand elements already tell a learning rate to 1e-6."""

LEAST, MOST = 64, 4096
"""Elements of one parameter."""

_BLOCKS = 16
_DIGITS = {"float32": 23, "float16": 10, "bfloat16": 7, "float64": 52}


@dataclass(frozen=True, slots=True, eq=False)
class ParameterPair:
    """A parameter of the target and the golden's, by the names of their dumps, with the pairs of records that hold it.

    `target_view` and `golden_view` bring their layouts to one; `is_part`: one is a part of the other.
    """

    target: str
    golden: str
    target_view: str = ""
    golden_view: str = ""
    is_part: bool = False
    rows: list[int] = field(default_factory=list)


def parameter_pairs(comparison: Comparison) -> list[ParameterPair]:
    """The parameters of floating dtype that a comparison paired, in execution order."""
    pairs = comparison.pairs
    names_t, names_g = (_Parameters(dump).name_of for dump in (pairs.target, pairs.golden))
    found: dict[tuple[str, str], ParameterPair] = {}
    if not (names_t and names_g):
        return []
    for row, (t, g) in enumerate(zip(pairs.target_rows.tolist(), pairs.golden_rows.tolist(), strict=True)):
        if t not in names_t or g not in names_g:
            continue
        key = names_t[t], names_g[g]
        if key not in found:
            view = pairs.notes.views.get(row, View())
            found[key] = ParameterPair(*key, view.target, view.golden, view.is_part)
        found[key].rows.append(row)
    return list(found.values())


Steps = Sequence[tuple[Dump, Dump]]
"""Target and golden of consecutive steps, without a gap."""


def judge_updates(
    before: Steps, now: tuple[Dump, Dump], after: Steps, pairs: Sequence[ParameterPair]
) -> UpdateJudgement:
    """The updates that led to the parameters of the dumps `now` of target and golden, against each other.

    `before` are the steps before these: states of optimizers are known where they begin with step 0. `after` are those
    behind; they only help to tell causes apart, and only where a step before is known.

    A parameter that a file is missing of is judged by its statistics. Never raises for what dumps lack.
    """
    step, at = now[0].step or 0, len(before)
    steps = [*before, now, *(after if before else ())]
    sides = [[_Parameters(pair[side]) for pair in steps] for side in (0, 1)]
    each = max(LEAST, min(MOST, ELEMENTS // max(len(pairs), 1)))
    tracks: list[Parameter] = []
    summaries: list[Summary] = []
    for pair in pairs:
        if (parameter := _parameter(pair, sides, at, each)) is not None:
            tracks.append(parameter)
        elif (summary := _summary(pair, sides, at)) is not None:
            summaries.append(summary)
    is_whole = steps[0][0].step == 0 == steps[0][1].step
    norms = [tuple(one.gradient_norm for one in side[:-1]) for side in sides]
    found = [judge(tracks, at, step, norms=(norms[0], norms[1]), is_whole=is_whole)] if tracks else []
    if summaries:
        found.append(judge_summaries(summaries, step))
    return UpdateJudgement(
        step, tuple(v for one in found for v in one.verdicts), tuple(d for one in found for d in one.differences)
    )


class _Parameters:
    """The parameters of one dump and their gradients, by name."""

    def __init__(self, dump: Dump) -> None:
        self.dump = dump

    @cached_property
    def name_of(self) -> dict[int, str]:
        """Row -> the name of the parameter that it holds; floats only."""
        columns, found = self.dump.columns, dict[int, str]()
        part = np.frombuffer(columns.part, np.uint8)
        are_candidates = part == PARAMETERS
        if any(columns.source):
            are_candidates |= (part == INPUT) & np.fromiter(map(bool, columns.source), bool, len(columns))
        for row in np.flatnonzero(are_candidates & (np.frombuffer(columns.kind, np.uint8) == TENSOR)).tolist():
            if family(columns.dtype(row)) != "float":
                continue
            if columns.part[row] == PARAMETERS:
                found[row] = self.dump.parameter_name(row)
            elif (source := source_of(columns.source[row])).origin == "parameter":
                found[row] = source.text
        return found

    @cached_property
    def first(self) -> dict[str, int]:
        """Name -> its first row."""
        return {name: row for row, name in reversed(self.name_of.items())}

    @cached_property
    def gradients(self) -> dict[str, list[int]]:
        """Name -> the rows whose sum is its gradient."""
        columns, found = self.dump.columns, dict[str, list[int]]()
        for row, part in enumerate(columns.part):
            if part == PARAMETERS_GRAD and columns.kind[row] == TENSOR:
                found.setdefault(self.dump.parameter_name(row), []).append(row)
        by_users: dict[str, list[int] | None] = {}
        for row, name in self.name_of.items():
            if name not in found and columns.part[row] == INPUT:
                at, known = self._own_gradient(row), by_users.setdefault(name, [])
                by_users[name] = None if at is None or known is None else [*known, at]
        return found | {name: rows for name, rows in by_users.items() if rows}

    def _own_gradient(self, row: int) -> int | None:
        """The row of a backward call that holds a call's own gradient of an input; None where there is none."""
        columns = self.dump.columns
        backward, path = self.dump.counterpart(columns.call_of(row), "backward"), columns.path_of(row)
        if backward < 0 or len(path) != 1 or not path[0].isdigit():
            return None
        outputs = (at for at in columns.tensors(backward, OUTPUT) if not columns.gradient[at])
        return next((at for at in outputs if columns.path_of(at) == path), None)

    @cached_property
    def gradient_norm(self) -> float:
        """The norm of all gradients together, as statistics tell it; NaN where one is the sum of several records."""
        columns, total = self.dump.columns, 0.0
        for rows in self.gradients.values():
            total += columns.norm[rows[0]] ** 2 if len(rows) == 1 else nan
        return sqrt(total) if total < inf else nan

    def statistics(self, name: str) -> Statistics | None:
        row = self.first.get(name)
        return None if row is None else self.dump.columns.statistics(row)

    def shape(self, name: str) -> tuple[int, ...]:
        return self.dump.columns.shape(self.first[name]) or ()

    def ulp(self, name: str) -> float:
        """The spacing at 1 of a parameter's dtype."""
        return 2.0 ** -_DIGITS.get(canonical(self.dump.columns.dtype(self.first[name])), 23)

    def weight(self, name: str, view: str, each: int) -> Floats | None:
        """Some elements of a parameter; None where they are not known."""
        row = self.first.get(name)
        return None if row is None else self._elements(row, view, each)

    def gradient(self, name: str, view: str, each: int) -> Floats | None:
        """The gradient of the same elements; None where it is not known."""
        parts = [self._elements(row, view, each) for row in self.gradients.get(name, ())]
        total: Floats | None = None
        for part in parts:
            if part is None or (total is not None and total.shape != part.shape):
                return None
            total = part if total is None else total + part
        return total

    def _elements(self, row: int, view: str, each: int) -> Floats | None:
        record = self.dump.columns.record(row, self.dump.columns.call_of(row))
        if not record.file:
            return None
        try:
            path = tensor_path(self.dump, record)
            is_plain = path.suffix == ".npy" and bool(self.dump.tensors) and not view
            array: Any = open_npy(path) if is_plain else load_file(path, as_dumped=not self.dump.tensors)
            if view:
                array = parse(view)(array)
            found = _picked(array, each)
        except (MsprobeError, OSError):  # the comparison says what is missing; here it is only not judged
            return None
        return found if np.isfinite(found).all() else None


def _picked(array: Any, each: int) -> Floats:
    """All elements, or blocks of them that are evenly spread, by the size alone: so of equal shapes the same."""
    size = int(array.size)
    if size <= each:
        pieces = [(0, size)]
    else:
        length = max(1, each // _BLOCKS)
        pieces = [(start, start + length) for start in np.linspace(0, size - length, _BLOCKS).astype(int).tolist()]
    if isinstance(array, TensorFile):
        parts = [widen(array.part(start, stop)).astype(np.float64) for start, stop in pieces]
    else:
        flat = widen(np.ascontiguousarray(array)).reshape(-1)
        parts = [flat[start:stop].astype(np.float64) for start, stop in pieces]
    found: Floats = np.concatenate(parts) if parts else np.empty(0)
    return found


def _parameter(pair: ParameterPair, sides: list[list[_Parameters]], at: int, each: int) -> Parameter | None:
    """One pair with its elements in all steps; as many behind `at` as both sides know."""
    tracks = []
    for name, view, steps in zip((pair.target, pair.golden), (pair.target_view, pair.golden_view), sides, strict=True):
        known = takewhile(lambda found: found is not None, (step.weight(name, view, each) for step in steps))
        weights = [found for found in known if found is not None]
        if len(weights) <= at or len({w.shape for w in weights}) != 1 or not weights[0].size:
            return None
        gradients = [step.gradient(name, view, each) for step in steps[: len(weights)]]
        gradients = [g if g is not None and g.shape == weights[0].shape else None for g in gradients]
        tracks.append(Track(tuple(weights), tuple(gradients), steps[at].ulp(name)))
    shapes = sides[0][at].shape(pair.target), sides[1][at].shape(pair.golden)
    is_viewed = bool(pair.target_view or pair.golden_view)
    is_aligned = not pair.is_part and (shapes[0] == shapes[1] or is_viewed)
    return Parameter(pair.target, pair.golden, tracks[0], tracks[1], is_aligned, len(shapes[1]) <= 1)


def _summary(pair: ParameterPair, sides: list[list[_Parameters]], at: int) -> Summary | None:
    moments = []
    for name, steps in zip((pair.target, pair.golden), sides, strict=True):
        now, before = steps[at].statistics(name), steps[at - 1].statistics(name) if at else None
        if pair.is_part or now is None or now.mean is None or now.norm is None:
            return None
        size = prod(steps[at].shape(name))
        moments.append(Moments(Four.of(before) if before else None, Four.of(now), size, steps[at].ulp(name)))
    gradients = _gradients_apart(pair, sides, max(at - 1, 0))
    is_vector = len(sides[1][at].shape(pair.golden)) <= 1
    return Summary(pair.target, pair.golden, moments[0], moments[1], is_vector, gradients)


def _gradients_apart(pair: ParameterPair, sides: list[list[_Parameters]], at: int) -> float:
    """The element error of a parameter's gradient in a step, by statistics; NaN where it is not known."""
    target, golden = (
        [Summaries(steps[at].dump.columns).of(row) for row in steps[at].gradients.get(name, ())]
        for name, steps in zip((pair.target, pair.golden), sides, strict=True)
    )
    if not target or len(target) != len(golden):
        return nan
    found = [deviation(t, g).spread for t, g in zip(target, golden, strict=True) if t and g and t.size == g.size]
    return max(found, default=nan)
