"""Read the data for judging updates from dumps of consecutive steps, and judge them.

A parameter is a record of part `parameters` of a cell, or an input whose source is a parameter. Its gradient is that of
`parameters_grad`, the sum of several within a step; without it, the sum of the results of its users' backward calls.
Some elements represent a large tensor.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from math import inf, isfinite, nan, prod, sqrt
from typing import Any

import numpy as np

from msprobe.base.errors import DumpError, MsprobeError
from msprobe.base.schema import BY_NAME, merge
from msprobe.base.statistic import widen
from msprobe.compare.core.standard import canonical, family
from msprobe.compare.core.tensor import source_of
from msprobe.compare.judge.judged import Comparison
from msprobe.compare.locate.finding import Status, UpdateJudgement
from msprobe.compare.match.pairs import Pairs, View
from msprobe.compare.noise.summary import Summaries, deviation, summary_of_parts
from msprobe.compare.noise.summary import Summary as TensorSummary
from msprobe.mapping.transform import parse
from msprobe.store.npy import open_npy
from msprobe.store.reader import find, load_file, other_ranks, read, tensor_path
from msprobe.store.record import INPUT, OUTPUT, PARAMETERS, PARAMETERS_GRAD, TENSOR, Dump, Statistics
from msprobe.store.tensor_file import TensorFile

from .fit import Floats
from .judgement import Parameter, Track, judge
from .statistics import Moments, ParameterStatistics, Summary, judge_summaries

ELEMENTS = 1 << 18
"""Number of elements of all parameters of a side that are used in each step: a fit has a few unknowns for each
parameter, and a thousand elements determine a learning rate to 1e-6."""

MIN_ELEMENTS, MAX_ELEMENTS = 64, 4096
"""Minimum and maximum number of elements of one parameter."""

_ROUNDED_AWAY = 16.0
"""Roundings of the other parts' gradients up to which the gradient of a part is the remainder of cancellation: that of
the keys' bias."""

_RANKS = 16
"""Number of other ranks whose gradients are added up."""

_BLOCKS = 16
_DIGITS = {"float32": 23, "float16": 10, "bfloat16": 7, "float64": 52}


@dataclass(frozen=True, slots=True, eq=False)
class ParameterPair:
    """A parameter of the target and the golden's, by the names of their dumps, with the pairs of records that contain
    it.

    `target_view` and `golden_view` convert their layouts to one; `is_part`: one is a part of the other.
    """

    target: str
    golden: str
    target_view: str = ""
    golden_view: str = ""
    is_part: bool = False
    rows: list[int] = field(default_factory=list)

    @property
    def whole(self) -> object:
        """Return the common key of the parts of one parameter; for any other pair its names."""
        if not self.is_part:
            return self.target, self.golden
        return ("golden", self.golden) if self.golden_view else ("target", self.target)


def parameter_pairs(comparison: Comparison) -> list[ParameterPair]:
    """Return the parameters of floating-point dtype that a comparison paired, in execution order."""
    pairs = comparison.pairs
    names_t, names_g = (_Parameters(dump).name_of for dump in (pairs.target, pairs.golden))
    found: dict[tuple[str, str], ParameterPair] = {}
    if not (names_t and names_g):
        return []
    one_sided: list[int] = []
    for row, (t, g) in enumerate(zip(pairs.target_rows.tolist(), pairs.golden_rows.tolist(), strict=True)):
        if t not in names_t or g not in names_g:
            if (t in names_t and g >= 0) or (g in names_g and t >= 0):
                one_sided.append(row)
            continue
        key = names_t[t], names_g[g]
        if key not in found:
            view = pairs.notes.views.get(row, View())
            found[key] = ParameterPair(*key, view.target, view.golden, view.is_part)
        found[key].rows.append(row)
    _add_copies(pairs, found, one_sided, (names_t, names_g))
    return list(found.values())


def _add_copies(
    pairs: Pairs,
    found: Mapping[tuple[str, str], ParameterPair],
    rows: Iterable[int],
    names: tuple[Mapping[int, str], Mapping[int, str]],
) -> None:
    """Add the pairs of inputs of which one side is a parameter, and the other a copy of the parameter that is paired
    with it: a layer may cast its parameters before it uses them."""
    by_name = [{key[side]: pair for key, pair in found.items()} for side in (0, 1)]
    for row in rows:
        at = int(pairs.target_rows[row]), int(pairs.golden_rows[row])
        side = 0 if at[0] in names[0] else 1
        if (pair := by_name[side].get(names[side][at[side]])) is None or pair.is_part or not pair.rows:
            continue
        columns = (pairs.target if side else pairs.golden).columns
        other = int((pairs.target_rows if side else pairs.golden_rows)[pair.rows[0]])
        copy = at[1 - side]
        if columns.kind[copy] == TENSOR and columns.statistics(copy) == columns.statistics(other):
            pair.rows.append(row)


def differ_by_rounding(comparison: Comparison, row: int) -> bool:
    """Return whether a pair of floating-point records differs only by rounding, by its statistics."""
    pairs = comparison.pairs
    found = [
        (known, prod(columns.shape(at) or ()), columns, at)
        for columns, at in (
            (pairs.target.columns, int(pairs.target_rows[row])),
            (pairs.golden.columns, int(pairs.golden_rows[row])),
        )
        if (statistics := columns.statistics(at)) is not None
        and isfinite((known := ParameterStatistics.of(statistics)).norm)
    ]
    if len(found) < 2:
        return False
    target, golden = (Moments(None, known, size, _ulp(columns.dtype(at))) for known, size, columns, at in found)
    return Summary("", "", target, golden).is_rounded


Steps = Sequence[tuple[Dump, Dump]]
"""Target and golden of consecutive steps, without a gap."""


def judge_updates(
    before: Steps, now: tuple[Dump, Dump], after: Steps, pairs: Sequence[ParameterPair]
) -> UpdateJudgement:
    """Judge the updates that led to the parameters of the dumps `now` of target and golden.

    `before` are the previous steps: states of optimizers are known if they begin with step 0. `after` are the next
    steps; they only help to distinguish causes, and only if a previous step is known.

    A parameter with a missing file is judged by its statistics. No exception is raised for data that dumps lack.
    """
    step, at = now[0].step or 0, len(before)
    steps = [*before, now, *(after if before else ())]
    sides = [[_Parameters(pair[side]) for pair in steps] for side in (0, 1)]
    each = max(MIN_ELEMENTS, min(MAX_ELEMENTS, ELEMENTS // max(len(pairs), 1)))
    tracks: list[Parameter] = []
    by_statistics: dict[object, list[ParameterPair]] = {}  # parts of one parameter together
    for pair in pairs:
        if (parameter := _parameter(pair, sides, at, each)) is not None:
            tracks.append(parameter)
        else:
            by_statistics.setdefault(pair.whole, []).append(pair)
    found_by_statistics = ((_summary(parts, sides, at), parts) for parts in by_statistics.values())
    summaries = {summary: parts for summary, parts in found_by_statistics if summary is not None}
    is_whole = steps[0][0].step == 0 == steps[0][1].step
    norms = [tuple(one.gradient_norm for one in side[:-1]) for side in sides]
    found = [judge(tracks, at, step, norms=(norms[0], norms[1]), is_whole=is_whole)] if tracks else []
    if found and found[0].differing:
        together = [[_Replicas(pair[side]) for pair in steps] for side in (0, 1)]
        if all(one.others for side in together for one in side[:at]):
            shared = [parameter for pair in pairs if (parameter := _parameter(pair, together, at, each)) is not None]
            found[0] = _agreeing(found[0], judge(shared, at, step, is_whole=is_whole))
    if summaries:
        found.append(_of_every_part(judge_summaries(list(summaries), step), list(summaries.values())))
    return UpdateJudgement(
        step, tuple(v for one in found for v in one.verdicts), tuple(d for one in found for d in one.differences)
    )


def _of_every_part(judgement: UpdateJudgement, judged: Sequence[Sequence[ParameterPair]]) -> UpdateJudgement:
    """Return the judgement in which all parts have the verdict of the first part."""
    parts = {(several[0].target, several[0].golden): several for several in judged}
    targets = {several[0].target: tuple(dict.fromkeys(one.target for one in several)) for several in judged}
    verdicts = [
        replace(verdict, parameter=part.target, golden=part.golden)
        for verdict in judgement.verdicts
        for part in parts[verdict.parameter, verdict.golden]
    ]
    differences = [
        replace(each, parameters=tuple(target for name in each.parameters for target in targets[name]))
        for each in judgement.differences
    ]
    return replace(judgement, verdicts=tuple(verdicts), differences=tuple(differences))


class _Parameters:
    """The parameters of one dump and their gradients, by name."""

    def __init__(self, dump: Dump) -> None:
        self.dump = dump

    @cached_property
    def name_of(self) -> dict[int, str]:
        """Return by row the name of the parameter that it contains; floating-point ones only."""
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
        """Return the first row of each name."""
        return {name: row for row, name in reversed(self.name_of.items())}

    @cached_property
    def gradients(self) -> dict[str, list[int]]:
        """Return the rows of each name whose sum is its gradient."""
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
        """Return the row of a backward call that contains a call's own gradient of an input; None if there is none."""
        columns = self.dump.columns
        backward, path = self.dump.counterpart(columns.call_of(row), "backward"), columns.path_of(row)
        if backward < 0 or len(path) != 1 or not path[0].isdigit():
            return None
        outputs = (at for at in columns.tensors(backward, OUTPUT) if not columns.gradient[at])
        return next((at for at in outputs if columns.path_of(at) == path), None)

    @cached_property
    def gradient_norm(self) -> float:
        """Return the norm of all gradients together, by statistics; NaN if one is the sum of several records."""
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
        """Return the spacing at 1 of a parameter's dtype."""
        return _ulp(self.dump.columns.dtype(self.first[name]))

    def weight(self, name: str, view: str, each: int) -> Floats | None:
        """Return some elements of a parameter; None if they are unknown."""
        row = self.first.get(name)
        return None if row is None else self._elements(row, view, each)

    def gradient(self, name: str, view: str, each: int) -> Floats | None:
        """Return the gradient of the same elements; None if it is unknown."""
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
        except (MsprobeError, OSError):  # the comparison reports what is missing; here it is only not judged
            return None
        return found if np.isfinite(found).all() else None


class _Replicas(_Parameters):
    """The parameters of the dump of one rank, whose gradients are the sums over all ranks that have an equal parameter,
    as data parallelism adds them."""

    @cached_property
    def others(self) -> list[_Parameters]:
        """Return the other ranks of the step."""
        found: list[_Parameters] = []
        for folder in other_ranks(self.dump):
            if len(found) < _RANKS:
                with suppress(DumpError):  # the comparison of that rank reports it
                    found.append(_Parameters(read(find(folder))))
        return found

    def gradient(self, name: str, view: str, each: int) -> Floats | None:
        """Return the gradient of the same elements, added up over the ranks; None if it is unknown."""
        total, own = super().gradient(name, view, each), self.weight(name, view, each)
        for rank in self.others:
            weight = rank.weight(name, view, each)
            if weight is None or own is None or not np.array_equal(weight, own):
                continue
            part = rank.gradient(name, view, each)
            if total is None or part is None or total.shape != part.shape:
                return None
            total = total + part
        return total


def _agreeing(judgement: UpdateJudgement, other: UpdateJudgement) -> UpdateJudgement:
    """Return the judgement in which parameters agree that agree by another judgement."""
    agreeing = {(one.parameter, one.golden): one for one in other.verdicts if one.status is Status.AGREES}
    verdicts = [
        agreeing.get((one.parameter, one.golden), one) if one.status is Status.DIFFERS else one
        for one in judgement.verdicts
    ]
    still = {one.parameter for one in verdicts if one.status is Status.DIFFERS}
    differences = [
        replace(one, parameters=tuple(name for name in one.parameters if name in still))
        for one in judgement.differences
        if not still.isdisjoint(one.parameters)
    ]
    return replace(judgement, verdicts=tuple(verdicts), differences=tuple(differences))


def _ulp(dtype: str) -> float:
    return 2.0 ** -_DIGITS.get(canonical(dtype), 23)


def _picked(array: Any, each: int) -> Floats:
    """Return all elements, or evenly distributed blocks of them; the selection depends only on the size, so it is equal
    for equal shapes."""
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


def _parameter(pair: ParameterPair, sides: Sequence[Sequence[_Parameters]], at: int, each: int) -> Parameter | None:
    """Return one pair with its elements in all steps, and in the steps after `at` that both sides have."""
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
    is_aligned = shapes[0] == shapes[1] or is_viewed
    return Parameter(pair.target, pair.golden, tracks[0], tracks[1], is_aligned, len(shapes[1]) <= 1)


def _summary(parts: Sequence[ParameterPair], sides: list[list[_Parameters]], at: int) -> Summary | None:
    """Return a pair of parameters by statistics, or all parts of a parameter with the whole."""
    moments = []
    names = _names(parts)
    for own, steps in zip(names, sides, strict=True):
        if (now := _statistics(steps[at], own)) is None:
            return None
        before = _statistics(steps[at - 1], own) if at else None
        size = sum(prod(steps[at].shape(name)) for name in own)
        moments.append(Moments(before, now, size, steps[at].ulp(own[0])))
    gradients = _gradient_error(names, sides, max(at - 1, 0))
    is_vector = len(sides[1][at].shape(parts[0].golden)) <= 1
    return Summary(parts[0].target, parts[0].golden, moments[0], moments[1], is_vector, gradients)


def _names(parts: Sequence[ParameterPair]) -> tuple[list[str], list[str]]:
    """Return the parameters of target and golden that are compared together."""
    return list(dict.fromkeys(one.target for one in parts)), list(dict.fromkeys(one.golden for one in parts))


def _statistics(step: _Parameters, names: Sequence[str]) -> ParameterStatistics | None:
    """Return the statistics of a parameter, or of several that are parts of one; None if they are unknown."""
    found = [step.statistics(name) for name in names]
    known = [
        ParameterStatistics.of(one)
        for one in found
        if one is not None and one.mean is not None and one.norm is not None
    ]
    if len(known) < len(names):
        return None
    if len(known) == 1:
        return known[0]
    sizes = [prod(step.shape(name)) for name in names]
    columns = zip(ParameterStatistics._fields, zip(*known, strict=True), strict=True)
    return ParameterStatistics(*(merge(BY_NAME[name].merge, column, sizes) for name, column in columns))


def _gradient_error(names: tuple[list[str], list[str]], sides: list[list[_Parameters]], at: int) -> float:
    """Return the element error of a parameter's gradient in a step, by statistics; NaN if it is unknown."""
    target, golden = (
        [[Summaries(steps[at].dump.columns).of(row) for row in steps[at].gradients.get(name, ())] for name in own]
        for own, steps in zip(names, sides, strict=True)
    )
    if max(map(len, (target, golden))) > 1:  # parts and their whole, each with one gradient
        made_up = [_made_up(each) for each in (target, golden)]
        if any(one is None for one in made_up):
            return nan
        if any(_is_rounding(each, one) for each, one in zip((target, golden), made_up, strict=True)):
            return 1.0  # the optimizer treats a part that is rounding error differently from other parts
        target, golden = [[made_up[0]]], [[made_up[1]]]
    if not target[0] or len(target[0]) != len(golden[0]):
        return nan
    found = [deviation(t, g).spread for t, g in zip(target[0], golden[0], strict=True) if t and g and t.size == g.size]
    return max(found, default=nan)


def _is_rounding(parts: Sequence[Sequence[TensorSummary | None]], whole: TensorSummary | None) -> bool:
    """Return whether the gradient of one of several parts is only rounding error compared with that of all."""
    least = min((one.rms for each in parts for one in each if one is not None), default=inf)
    return len(parts) > 1 and whole is not None and least <= _ROUNDED_AWAY * whole.unit * whole.rms


def _made_up(parts: Sequence[Sequence[TensorSummary | None]]) -> TensorSummary | None:
    """Return the summary of the whole of some parts, of each of which one record is the gradient; None if it is
    unknown."""
    known = [each[0] for each in parts if len(each) == 1 and each[0] is not None]
    return summary_of_parts(known) if len(known) == len(parts) else None
