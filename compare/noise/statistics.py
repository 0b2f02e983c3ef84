"""Judge under noise if only statistics were collected: by identities of each call, and by amplification.

No tensor is read and no call is replayed.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.base import names
from msprobe.compare.core.limits import BUILT_IN, Kind, Limits
from msprobe.compare.core.noise import (
    DRIFT,
    FULL,
    Evidence,
    KernelPrecision,
    ResidualJudgement,
    Sign,
    Unseen,
    class_of,
    median,
)
from msprobe.compare.core.reason import is_open_drift
from msprobe.compare.core.standard import canonical, family
from msprobe.compare.dataflow.events import Event
from msprobe.compare.judge.judged import DIFFERENT, EQUAL, Comparison
from msprobe.compare.match.fused import groups
from msprobe.compare.match.pairs import Ints
from msprobe.replay.operations import Operation
from msprobe.store.record import INPUT, OUTPUT

from .deviations import (
    ACROSS,
    COARSE,
    MAX_AMPLIFICATION,
    NOTHING_UNCHANGED,
    SUMS,
    WHOLE,
    Amplification,
    LawJudgement,
    OutputChanges,
    OutputIdentities,
    Unchanged,
    amplifications,
    begins,
    breaks_law,
    is_counting,
    judge_laws,
)
from .evidence import OutputEvidence, stem_of
from .identities import JOINS, Law, has_law, identities, identities_of_many, is_same, sum_identities
from .operation import (
    JUMPING,
    STEEP,
    CallSummaries,
    Forms,
    ManySummaries,
    is_exact,
    operation_of,
    rounds_inside,
    shares_errors,
)
from .pairs import PASS, UNJUDGED, AlignedGraphs
from .summary import MASKED, Deviation, DeviationColumns, Summaries, Summary, deviation, deviations, summary_of_parts

_MIN_SHARE = 0.3
"""An output has at least this share of its inputs' element error: its statistics may agree by chance."""

_ADDED_UP = 1e-6
"""Largest difference of sums in float32 of the same elements, relative to the norm."""

_REORDERED = 1e-12
"""The same in float64, as dumps of this tool have them."""

_ROUNDING = 5e-6
"""Largest element error of a kernel that computes in float32."""

_SEVERAL = 3
"""Number of calls of one form from which on laws are computed by columns."""

_SPREAD = 5.0
"""Factor by which the greatest of four statistics may overestimate the error of a kernel's elements."""


_EXCHANGED = 1e-3
"""Largest deviation of the statistics of one operand on both sides: rounding of earlier calls."""

_MATRIX_PRODUCTS = frozenset(("matmul", "bmm", "mm", "einsum"))

_Outputs = dict[tuple[int, int], list[int]]
"""Outputs of calls of one form, by their positions among the records of their calls on both sides."""


_Likeness = tuple[Hashable, tuple[tuple[Law, str], ...], Hashable, bool]
"""Kind, laws, and sizes and units of outputs whose identities are judged together, and whether each is the only
one."""


class AlignedStatistics(AlignedGraphs):
    """Aligned graphs of dumps without tensors: the distance of two tensors is the element error that explains the
    differences of their statistics.

    `are_known` are the pairs with statistics on both sides, `moments` those of their deviations, 0 without one,
    `are_evidence` the floating-point tensors that were judged, `are_masked` the pairs whose golden has so large
    elements that its statistics contain no information about the others. `spread` are the element errors of the
    deviations, infinity without one.
    """

    moments: Sequence[float]
    spread: Sequence[float]

    def __init__(self, comparison: Comparison) -> None:
        super().__init__(comparison)
        self.sides = Summaries(self.graphs[0].columns), Summaries(self.graphs[1].columns)
        self._compare_summaries()
        equal = comparison.equal.copy()
        parts = dict(self._compare_parts())
        for row, found in parts.items():
            equal[row] = EQUAL if found.spread <= _REORDERED else DIFFERENT
        if self.has_other_kernels:
            equal[[row for row in np.flatnonzero(equal == DIFFERENT).tolist() if self._may_be_equal(row)]] = EQUAL
        self.equal = equal.data
        if self.has_other_kernels:  # the greatest of four statistics limits the precision for single elements
            self.kernel_error = _SPREAD * ACROSS
        is_judged = np.asarray(self.are_tensors) & (comparison.grades != UNJUDGED)
        self.are_evidence = (is_judged & self._are_floating()).data
        # Distances of all pairs that differ.
        apart = np.where(is_judged & (equal != EQUAL), np.asarray(self.spread), 0.0)
        for row in np.flatnonzero(np.isinf(apart) & (comparison.grades == PASS)).tolist():
            apart[row] = self._finite_distance(row)
        moments = np.array(self.moments)
        for row, found in parts.items():
            apart[row], moments[row] = found.spread if equal[row] != EQUAL else 0.0, found.moments
        if self.has_other_kernels:  # statistics hardly show the distance of drifted parameters
            drifted = [row for row, reasons in comparison.reasons.items() if is_open_drift(reasons)]
            apart[drifted] = np.maximum(apart[drifted], DRIFT)
        self._apart, self.moments = apart.data, moments.data

    def _compare_parts(self) -> Iterator[tuple[int, Deviation]]:
        """Yield the pairs of parts of a fused record, each with the deviation of all of them from the whole."""
        for numbers in groups(self.pairs.notes.views, self.pairs.target_rows, self.pairs.golden_rows):
            is_golden_whole = bool(self.pairs.notes.views[numbers[0]].golden)
            side = 1 if is_golden_whole else 0
            whole = self.sides[side].of(self.rows[side][numbers[0]])
            parts = [self.sides[1 - side].of(self.rows[1 - side][row]) for row in numbers]
            if whole is None or None in parts:
                continue
            made_up = summary_of_parts([part for part in parts if part is not None])
            found = deviation(made_up, whole) if is_golden_whole else deviation(whole, made_up)
            yield from ((row, found) for row in numbers)

    def _compare_summaries(self) -> None:
        """Compute the deviations of the statistics of all pairs that have them on both sides: with equal dtype and
        shape, or as views of the other layout, which have the same number of elements."""
        known = np.asarray(self.are_tensors).copy()
        rows = self.pairs.target_rows[known], self.pairs.golden_rows[known]
        is_viewed = np.isin(np.flatnonzero(known), list(self.pairs.notes.views))
        forms: tuple[dict[object, int], dict[object, int]] = {}, {}  # dtypes and shapes
        (ours, own), (theirs, other) = (self._forms(side, of, forms) for side, of in enumerate(rows))
        sizes = [side.sizes(of) for side, of in zip(self.sides, rows, strict=True)]
        are_alike = (ours == theirs) & np.where(is_viewed, sizes[0] == sizes[1], own == other)
        for side, of in zip(self.sides, rows, strict=True):
            are_alike &= side.are_known[of]
        known[known] = are_alike
        t, g = rows[0][are_alike], rows[1][are_alike]
        norm, mean, high, low = deviations(*self.sides, t, g)
        if self.comparison.samples:  # the error of single elements, as the extremes show it
            high = np.maximum(high, self._sampled[known])
        found = norm, mean, high, low
        moments, size = np.maximum(norm, mean), np.maximum(self._independent(g, sizes[1][are_alike]), 1)
        spread = np.maximum(moments * np.sqrt(size.astype(np.float64)), np.maximum(high, low))
        top, bottom, _, _ = self.sides[1].statistics(g)
        self.are_known, self._deviations = known.data, tuple(_entered(known, column, 0.0).data for column in found)
        self._sizes, self.spread = _entered(known, size, 1).data, _entered(known, spread, math.inf).data
        self.moments = _entered(known, moments, 0.0).data
        self.are_masked = _entered(known, np.maximum(np.abs(top), np.abs(bottom)) > MASKED, False).data

    def _independent(self, rows: Ints, sizes: Ints) -> Ints:
        """Return the numbers of independent errors of tensors of the golden: of elements, or of channels that share
        one."""
        graph = self.graphs[1]
        calls = [
            call
            for call, name in enumerate(graph.names)
            if name.direction == "forward" and shares_errors(operation_of(name))
        ]
        if not calls:
            return sizes
        columns, found = graph.columns, sizes.copy()
        are_shared = np.isin(np.asarray(graph.call_of)[rows], calls) & (np.asarray(columns.part)[rows] == OUTPUT)
        for at in np.flatnonzero(are_shared).tolist():
            _, _, shape = columns.looks[columns.look[rows[at]]]
            found[at] = shape[1] if shape and len(shape) > 1 else sizes[at]
        return found

    @cached_property
    def _sampled(self) -> NDArray[np.float64]:
        """Return the relative error of the sampled elements by row, 0 without a sample."""
        found, samples = np.zeros(len(self.comparison.equal)), self.comparison.samples
        found[list(samples)] = list(samples.values())
        return found

    def sampled(self, row: int) -> float:
        """Return the relative error of the sampled elements of a pair of tensors, 0 without a sample."""
        return self.comparison.samples.get(row, 0.0)

    def _finite_distance(self, row: int) -> float:
        """Return the distance of two tensors with the same infinities, such as masked ones: of their greatest and least
        elements, if these are finite, relative to the golden's greater one; infinity if none is."""
        columns = [(graph.columns, rows[row]) for graph, rows in zip(self.graphs, self.rows, strict=True)]
        (high, low), (golden_high, golden_low) = ((c.max[at], c.min[at]) for c, at in columns)
        pairs = [(t, g) for t, g in ((high, golden_high), (low, golden_low)) if math.isfinite(t) and math.isfinite(g)]
        scale = max((abs(g) for _, g in pairs), default=0.0)
        return max(abs(t - g) for t, g in pairs) / scale if scale else math.inf

    def _forms(self, side: int, rows: Ints, known: tuple[dict[object, int], dict[object, int]]) -> Ints:
        """Return numbers for the dtypes and shapes of one side's rows; `known` has those already assigned."""
        columns, (dtypes, shapes) = self.graphs[side].columns, known
        numbers = [
            (dtypes.setdefault(canonical(dtype), len(dtypes)), shapes.setdefault(shape or (), len(shapes)))
            for _, dtype, shape in columns.looks
        ]
        found: Ints = np.array(numbers or [(0, 0)], np.int64)[np.frombuffer(columns.look, np.int32)[rows]].T
        return found

    def _are_floating(self) -> NDArray[np.bool_]:
        """Return `is_floating` of every pair that has a target."""
        columns, rows = self.graphs[0].columns, self.pairs.target_rows
        table = np.array([family(dtype) in ("float", "complex") for _, dtype, _ in columns.looks] or [False])
        found = rows >= 0
        found[found] = table[np.frombuffer(columns.look, np.int32)[rows[found]]]
        return found

    def _may_be_equal(self, row: int) -> bool:
        """Return whether two tensors of two frameworks may be bitwise equal: norm and mean were accumulated in another
        order, or by another tool."""
        if not self.are_tensors[row] or not self.is_floating(row):
            return False
        is_by_another = 0 in (self.pairs.target.format_version, self.pairs.golden.format_version)
        if self.are_known[row]:
            found = self.deviation(row)
            return found.extremes == 0 and found.moments <= (_ADDED_UP if is_by_another else _REORDERED)
        if not is_by_another:  # dumps of this tool count the infinities
            return False
        places = zip(self.graphs, self.rows, strict=True)
        target, golden = (graph.columns.numbers[rows[row]].tolist() for graph, rows in places)
        return bool(target == golden)

    def summaries(self, row: int) -> tuple[Summary, Summary] | None:
        """Return the statistics of a pair of tensors of one shape and dtype; None if one side has none. A view of the
        other layout has the same number of elements."""
        if not self.are_known[row]:
            return None
        t, g = (side.of(rows[row]) for side, rows in zip(self.sides, self.rows, strict=True))
        return None if t is None or g is None else (t, g)

    def deviation(self, row: int) -> Deviation:
        """Return the deviation of the statistics of a pair of tensors that `are_known`."""
        norm, mean, high, low = (column[row] for column in self._deviations)
        return Deviation(norm, mean, high, low, self._sizes[row])

    def deviations(self, rows: Ints, others: Mapping[int, Deviation]) -> DeviationColumns:
        """Return `deviation` of rows; `others` are those of some of them, by position in `rows`."""
        columns = [np.asarray(column)[rows] for column in (*self._deviations, self._sizes)]
        for at, other in others.items():
            for column, value in zip(columns, other, strict=True):
                column[at] = value
        return DeviationColumns(*columns)

    @property
    def has_summaries(self) -> bool:
        """Return whether some pair that differs has statistics on both sides, or any pair if one side makes other
        calls; digests are not evidence about noise."""
        are_known = np.asarray(self.are_known)
        are_differing = np.asarray(self.equal) == DIFFERENT
        return bool((are_known & are_differing).any() or (any(self.unmatched_place) and are_known.any()))

    def difference(self, row: int) -> float:
        return self.distance(row) * self.size(row)

    def distance(self, row: int) -> float:
        return self._apart[row]

    def distance_of_product(self, row: int) -> float:
        """Return `distance` of a product. Errors of its elements are not independent: if inputs have a mean, an error
        of one of their elements is in all elements of a row."""
        _, shape = self.dtype_and_shape(1, row)
        if not self.are_known[row] or not shape or not math.isfinite(self.distance(row)):
            return self.distance(row)
        found, rows = self.deviation(row), shape[0]
        independent = min(rows, math.prod(shape[1:]))
        return min(self.distance(row), max(found.moments * math.sqrt(independent), found.extremes))

    def is_masked(self, row: int) -> bool:
        return bool(self.are_masked[row])

    def is_sum(self, row: int, made: Sequence[int], rounding: float) -> bool:
        """Return whether the sum agrees as well as on the golden side."""
        whole, parts = self.summaries(row), [self.summaries(at) for at in made]
        if whole is None or None in parts:
            return True
        if len(parts) == 1 and parts[0] is not None and is_same(whole[0], parts[0][0]):
            return True
        target, golden = (sum_identities(whole[side], [part[side] for part in parts if part]) for side in (0, 1))
        return not any(breaks_law(mine, one, *whole) for mine, one in zip(target, golden, strict=False))

    def share(self, row: int) -> float:
        return self.moments[row]

    def has_same_zeros(self, row: int) -> bool:
        """Return whether the least and the greatest element are zero on both sides; False if a mask hides the
        others."""
        found = self.summaries(row)
        if found is None:
            return True
        t, g = found
        if g.greatest > MASKED:
            return False
        return (t.min == 0) == (g.min == 0) and (t.max == 0) == (g.max == 0)


def _is_alike(target: Summary, golden: Summary) -> bool:
    """Return whether two tensors, of any shapes with one number of elements, may have the same elements."""
    found = deviation(target, golden)
    return target.size == golden.size and max(found.moments, found.extremes) <= _EXCHANGED


def _entered(rows: NDArray[np.bool_], values: NDArray[Any], other: float) -> NDArray[Any]:
    """Return a column with values in some rows, and another value in all others."""
    found = np.full(len(rows), other, values.dtype)
    found[rows] = values
    return found


@dataclass(slots=True)
class _Changes:
    """Outputs of one kind, as `OutputChanges`, while they are collected; `added` are deviations that are relative to
    summands, by position."""

    operation: Operation | None
    rows: list[int] = field(default_factory=list)
    inputs: list[float] = field(default_factory=list)
    spread: list[float] = field(default_factory=list)
    added: dict[int, Deviation] = field(default_factory=dict)

    def add(self, row: int, inputs: float, spread: float, added: Deviation | None) -> None:
        if added is not None:
            self.added[len(self.rows)] = added
        self.rows.append(row)
        self.inputs.append(inputs)
        self.spread.append(spread)


class StatisticsEvidence(OutputEvidence):
    """Evidence by statistics. `_laws` has the identity that decides an output, `_amplified` its amplification,
    `_spread` its element error, or a share of that of the inputs."""

    _aligned: AlignedStatistics

    calls_unrecorded = _SPREAD

    def __init__(self, aligned: AlignedStatistics, limits: Limits = BUILT_IN) -> None:
        self._limits = limits
        self._laws: Mapping[int, LawJudgement] = {}
        self._amplified: Mapping[int, Amplification] = {}
        self._spread: dict[int, float] = {}
        self._begins_coarse = False
        super().__init__(aligned)

    def _judge(self) -> Mapping[int, ResidualJudgement]:
        aligned = self._aligned
        changes: dict[tuple[str, bool, tuple[str, ...]], _Changes] = {}
        by_form: dict[Hashable, _Outputs] = defaultdict(lambda: defaultdict(list))
        unchanged: dict[Hashable, Unchanged] = {}
        forms = [Forms(graph.columns, of) for graph, of in zip(aligned.graphs, aligned.sides, strict=True)]
        are_evidence, moments_of = aligned.are_evidence, aligned.moments
        are_judged = (np.asarray(aligned.are_known) & np.asarray(are_evidence) & ~np.asarray(aligned.is_input)).data
        for event in self._with_differing_kind():
            if aligned.has_other_kernels and aligned.has_unmatched_inputs(event):
                continue  # another form of the call: the inputs of the calls before decide
            call = CallSummaries(aligned, aligned.sides, event)
            outputs: _Outputs | None = None
            is_quiet = self._is_quiet(event)
            spread = moments = 0.0
            if not is_quiet:
                inputs = [row for row in call.inputs if are_evidence[row]]
                spread = self._incoming_error(inputs, call)
                if not math.isfinite(spread):
                    continue
                for row in inputs:
                    if (moment := moments_of[row]) > moments:
                        moments = moment
            for row in event.rows:
                if not are_judged[row]:
                    continue
                kind = call.function, call.is_backward, aligned.path(0, row)[:1]
                if is_quiet and kind in unchanged:
                    unchanged[kind] = self._one_more(unchanged[kind], row)
                    continue
                if is_quiet:  # one of a kind is judged by itself
                    unchanged[kind] = NOTHING_UNCHANGED
                if kind not in changes:
                    changes[kind] = _Changes(call.operation)
                least, rounding = call.added(row)
                added = self._added_deviation(row, call, spread, least)
                changes[kind].add(row, moments, math.hypot(spread, rounding), added)
                if aligned.equal[row] == DIFFERENT and has_law(call.function, call.is_backward):
                    outputs = by_form[call.form(forms)] if outputs is None else outputs
                    outputs[call.offsets(row)].append(row)
        kinds: dict[Hashable, OutputChanges] = {kind: self._columns_of(kind, made) for kind, made in changes.items()}
        are_products_equal = not any(one.is_product for one in kinds.values()) and self._are_products_equal()
        self._begins_coarse = any(not one.is_backward and begins(one).any() for one in kinds.values())
        self._amplified = amplifications(
            kinds, unchanged, has_other_kernels=aligned.has_other_kernels, are_products_equal=are_products_equal
        )
        if self._limits.are_of_statistics:
            self._amplified = {row: self._calibrated(row, one) for row, one in self._amplified.items()}
        decided = judge_laws(self._identities(by_form.values()), has_other_kernels=aligned.has_other_kernels)
        self._laws = {row: law for row, law in decided.items() if law.is_broken or not self._is_contradicted(row, law)}
        judgements = {row: self._judgement(row) for row in self._amplified if aligned.equal[row] == DIFFERENT}
        # If both sides have equal arguments, both are judged in the same way: one law, or one amplification.
        others = (event for event in self._innermost if aligned.has_other_values(event))
        self.crossed = set(judgements).difference(*(event.rows for event in others))
        return judgements

    def _kind_of(self, row: int) -> Kind:
        return self.kind(row, self._aligned.event_at[self._aligned.pairs.call_of.item(row)])

    def _calibrated(self, row: int, one: Amplification) -> Amplification:
        """Return an amplification with the limit of its kind, if a calibration has shown a larger one."""
        return one._replace(limit=self._limits.amplification(self._kind_of(row), one.limit))

    def _is_contradicted(self, row: int, law: LawJudgement) -> bool:
        """Return whether elements differ grossly although a law holds: a law of their sum, or one of all statistics,
        which permuted elements satisfy too, if sampled elements differ."""
        is_gross = self._amplified[row].ratio > MAX_AMPLIFICATION
        return is_gross and (law.target.law in SUMS or (law.target.law in WHOLE and self._aligned.sampled(row) > 0))

    def _with_differing_kind(self) -> Iterator[Event]:
        """Return the innermost pairs of calls of those functions of which any output differs."""
        differs = self._with_differing
        stems = [(stem_of(event), event.direction) for event in self._innermost]
        wanted = {stem for stem, event in zip(stems, self._innermost, strict=True) if differs[event.place]}
        return (event for stem, event in zip(stems, self._innermost, strict=True) if stem in wanted)

    def _incoming_error(self, rows: Iterable[int], call: CallSummaries) -> float:
        """Return the greatest element error of inputs, as it passes through the call.

        It is that of their statistics, or of the statistics of the records from which they were computed. A function
        in `STEEP` converts an absolute error to an equal relative error; if a derivative jumps, elements near the jump
        change completely.
        """
        aligned, is_steep, greatest = self._aligned, call.function in STEEP, 0.0
        is_jumping = call.is_backward and call.function in JUMPING
        for row in rows:
            found = max(aligned.distance(row), self._earlier_error(row, call.is_backward))
            if is_steep and math.isfinite(found) and (sides := aligned.summaries(row)):
                found *= sides[1].absolute
            elif is_jumping and aligned.pairs.call_of[row] != call.place:  # of the forward
                found = math.sqrt(found)
            greatest = max(greatest, found)
        return greatest

    @cached_property
    def _are_untraced(self) -> bytes:
        """Return by row of the target whether it is an input of a forward call whose producer is unknown."""
        graph = self._aligned.graphs[0]
        return graph.are_of_unknown_origin(np.arange(len(graph.columns))).tobytes()

    def _earlier_error(self, row: int, is_backward: bool) -> float:
        """Return the element error that earlier calls are known to have left in an input; `is_backward`: of a backward
        call, which may be that of its forward."""
        aligned = self._aligned
        at = aligned.rows[0][row]
        if not is_backward and self._are_untraced[at]:
            return 0.0
        if aligned.graphs[0].columns.part[at] != INPUT:
            return self._spread.get(row, 0.0)
        found = 0.0
        for one in aligned.made_by(0, at):
            found = max(found, self._spread.get(aligned.pair_of[0][one], 0.0))
        return found

    def _is_quiet(self, event: Event) -> bool:
        """Return whether all inputs and outputs of a pair of calls are bitwise equal, and no earlier call has left an
        error."""
        if self._spread:
            return False
        is_touched = self._with_touched
        return not any(is_touched[place] for place in (event.place, *event.forwards))

    @cached_property
    def _with_touched(self) -> bytes:
        """Return by pair of calls whether a record is not bitwise equal, or its statistics differ nevertheless."""
        aligned = self._aligned
        return aligned.calls_with((np.asarray(aligned.equal) != EQUAL) | (np.asarray(aligned.moments) > 0))

    def _one_more(self, known: Unchanged, row: int) -> Unchanged:
        size, unit, is_constant = self._aligned.sides[1].form(self._aligned.rows[1][row])
        return Unchanged(known.outputs + 1, known.counting + is_counting(size, is_constant), max(known.unit, unit))

    def _added_deviation(self, row: int, call: CallSummaries, spread: float, least: float) -> Deviation | None:
        """Note the element error of an output that has statistics on both sides, whose inputs have the element error
        `spread`. Return its deviation if that is relative to summands that cancelled out, whose sum has the root mean
        square `least`; None for any other."""
        aligned, own = self._aligned, None
        error = aligned.spread[row]
        if least and (both := aligned.summaries(row)) is not None:
            own = deviation(*both, least=least)
            if sampled := aligned.sampled(row):
                own = own._replace(max=max(own.max, sampled * both[1].rms / max(both[1].rms, least)))
            error = own.spread
        if found := max(error, spread if aligned.are_masked[row] else self._kept(row, call, spread)):
            self._spread[row] = found
        return own

    def _columns_of(self, kind: tuple[str, bool, tuple[str, ...]], made: "_Changes") -> OutputChanges:
        """Return the changes of the outputs of a kind as columns."""
        function, is_backward, _ = kind
        golden, rows = self._aligned.sides[1], np.array(made.rows)
        at, may_round = np.asarray(self._aligned.rows[1])[rows], rounds_inside(made.operation)
        return OutputChanges(
            made.rows,
            self._aligned.deviations(rows, made.added),
            np.array(made.inputs),
            np.array(made.spread),
            golden.units(at),
            golden.are_constant(at),
            may_round,
            is_exact(made.operation),
            function,
            is_backward,
            made.operation is not None and may_round and not is_backward,
            self._place_of,
        )

    def _kept(self, row: int, call: CallSummaries, spread: float) -> float:
        """Return the element error of its inputs that an output has at least; calls that join tensors keep all of
        it."""
        aligned, operation = self._aligned, call.operation
        if call.is_backward or operation is None or operation.name not in JOINS:
            return _MIN_SHARE * spread
        rows = [one for one in call.inputs if aligned.are_evidence[one]]
        if sum(map(aligned.count, rows)) != aligned.count(row):
            return _MIN_SHARE * spread
        errors = (self._incoming_error([one], call) * aligned.size(one) for one in rows)
        return min(spread, max(_MIN_SHARE * spread, math.hypot(*errors) / (aligned.size(row) or 1.0)))

    def _place_of(self, row: int) -> str:
        """Return the position in its layer of the pair of calls of an output; empty outside of all cells."""
        event = self._aligned.event_at[self._aligned.pairs.call_of.item(row)]
        return self.places[event.at] if event.keys else ""

    def _identities(self, alike: Iterable[_Outputs]) -> list[OutputIdentities]:
        """Return the identities of outputs that are passed in together because their calls have one form."""
        aligned, found, others = self._aligned, list[OutputIdentities](), list[int]()
        for outputs in alike:
            places = np.unique(aligned.pairs.call_of[[row for rows in outputs.values() for row in rows]])
            if len(places) < _SEVERAL:
                others += (row for rows in outputs.values() for row in rows)
            else:
                of_many, one_by_one = self._identities_of_many(places, outputs)
                found += of_many
                others += one_by_one
        return found + self._identities_of(sorted(others))

    def _identities_of(self, rows: Sequence[int]) -> list[OutputIdentities]:
        """Return the identities of outputs that are examined individually."""
        aligned, call = self._aligned, None
        alike: dict[_Likeness, tuple[list[int], list[list[float]], list[list[float]]]] = {}
        for row in rows:
            event = aligned.event_at[aligned.pairs.call_of.item(row)]
            if call is None or call.place != event.place:
                call = CallSummaries(aligned, aligned.sides, event)
            at, both = call.position(aligned.rows[0][row]), aligned.summaries(row)
            if at < 0 or both is None:
                continue
            target, golden = (identities(side, at) for side in call.sides)
            pairs = [(mine, one) for mine in target for one in golden if mine[:2] == one[:2]]
            if pairs:
                kind, laws = (call.function, call.is_backward), tuple([mine[:2] for mine, _ in pairs])
                looks = tuple([(one.size, one.unit) for one in both])
                known = alike.setdefault((kind, laws, looks, call.has_one_output), ([], [], []))
                known[0].append(row)
                known[1].append([mine.off for mine, _ in pairs])
                known[2].append([one.off for _, one in pairs])
        return [
            OutputIdentities(kind, rows, laws, np.array(ours).T, np.array(theirs).T, *self._both(rows[0]), is_only)
            for (kind, laws, _, is_only), (rows, ours, theirs) in alike.items()
        ]

    def _identities_of_many(self, places: Ints, outputs: _Outputs) -> tuple[list[OutputIdentities], list[int]]:
        """Return `_identities_of` outputs of many calls of one form, and those that have to be examined
        individually."""
        aligned = self._aligned
        sides = []
        for graph, of, calls in zip(aligned.graphs, aligned.sides, aligned.calls, strict=True):
            own = np.asarray(calls)[places]
            sides.append(ManySummaries(of, graph, (own, graph.forwards[own])))
        call = CallSummaries(aligned, sides, aligned.event_at[places.item(0)])
        first = aligned.graphs[0].columns.starts[aligned.calls[0][call.place]]
        kind, found, one_by_one = (call.function, call.is_backward), list[OutputIdentities](), list[int]()
        for (offset, _), rows in outputs.items():
            if (at := call.position(first + offset)) < 0:
                continue
            target, golden = (identities_of_many(side, at, len(places)) for side in call.sides)
            if target is None or golden is None:
                one_by_one += rows
                continue
            alike = [(mine, one) for mine in target for one in golden if mine[:2] == one[:2]]
            if alike:
                of_rows = np.searchsorted(places, aligned.pairs.call_of[rows])
                ours, theirs = (np.array([pair[side].off for pair in alike])[:, of_rows] for side in (0, 1))
                laws = [mine[:2] for mine, _ in alike]
                both = self._both(rows[0])
                found.append(OutputIdentities(kind, rows, laws, ours, theirs, *both, call.has_one_output))
        return found, one_by_one

    def _both(self, row: int) -> tuple[Summary, Summary]:
        """Return the summaries of an output that is known to have them."""
        both = self._aligned.summaries(row)
        assert both is not None
        return both

    def _judgement(self, row: int) -> ResidualJudgement:
        if (law := self._laws.get(row)) is not None:
            is_of = KernelPrecision.OPAQUE if law.is_broken else KernelPrecision.FULL
            return ResidualJudgement(Sign.LAW if law.is_broken else Sign.NONE, is_of, law.bound)
        one = self._amplified[row]
        return ResidualJudgement(Sign.AMPLIFIED if one.is_wrong else Sign.NONE, class_of(one.own), math.nan)

    def _is_noise_seen(self) -> bool:
        """Return whether noise is known; also if parameters have drifted, and so have all results computed from
        them."""
        return super()._is_noise_seen() or self._have_drifted

    def ignores_order(self, row: int) -> bool:
        name = self._aligned.name(row)
        known = operation_of(name)
        if name.direction != "forward" or known is None:
            return False
        return known.name in JOINS or (known.name in _MATRIX_PRODUCTS and self._has_exchanged_operands(row))

    def _has_exchanged_operands(self, row: int) -> bool:
        """Return whether a product of the target has the golden's operands in the other order: the results of `q @ k.T`
        and `k @ q.T` have the same statistics."""
        aligned = self._aligned
        event = aligned.event_at[aligned.pairs.call_of.item(row)]
        rows = [r for r in event.rows if aligned.is_input[r] and aligned.are_tensors[r]]
        sides = [[side.of(at[r]) for r in rows] for side, at in zip(aligned.sides, aligned.rows, strict=True)]
        ours, theirs = ([one for one in side if one is not None] for side in sides)
        if not len(ours) == len(theirs) == len(rows) == 2:
            return False
        pairs = list(zip(ours, reversed(theirs), strict=True))
        return not _is_alike(ours[0], theirs[0]) and all(_is_alike(*pair) for pair in pairs)

    def _is_coarse(self, row: int) -> bool:
        """Return whether an output differs as others of its kind do, none of which is equal."""
        one = self._amplified.get(row)
        return one is not None and one.own > FULL and not self.judgements[row].is_wrong

    def _tiny_faults(self, reproducible: int) -> Iterable[int]:
        for row in self.origins:
            judgement = self.judgements.get(row)
            is_fault = judgement is None or judgement.is_wrong or is_exact(operation_of(self._aligned.name(row)))
            if is_fault or (self._aligned.distance(row) > _ROUNDING and self._are_products_equal()):
                yield row

    def _are_products_equal(self) -> bool:
        """Return whether all calls that may round inside give bitwise equal results for bitwise equal inputs."""
        aligned = self._aligned
        for event in self._innermost:
            if rounds_inside(operation_of(names.parse(event.called))) and self._has_equal_inputs(event):
                rows = [row for row in aligned.outputs(event) if aligned.are_evidence[row]]
                is_equal = all(aligned.equal[row] == EQUAL for row in rows)
                if rows and is_equal and self._shows_rounding(event):
                    return True
        return False

    def _are_apart(self) -> NDArray[np.bool_]:
        """Return the rows that differ, including those that are masked."""
        found: NDArray[np.bool_] = super()._are_apart() | np.asarray(self._aligned.are_masked)
        return found

    def evidence(self, row: int, event: Event, judgement: ResidualJudgement, error: float, most: float) -> Evidence:
        law, one = self._laws.get(row), self._amplified.get(row)
        return Evidence(
            judgement.sign,
            judgement.is_of,
            math.nan if law is None else law.target.off,
            math.nan if law is None else law.golden.off,
            judgement.bound,
            self._aligned.distance(row) if one is None else one.deviation,
            most * error if one is None else one.limit * one.explained,
            law="" if law is None else law.target.law.value,
            statistic="" if law is None else law.target.statistic,
            is_by_statistics=True,
            kind=self.kind(row, event),
            amplification=math.nan if one is None else one.ratio,
        )

    @property
    def most_of_sums(self) -> float:
        return MAX_AMPLIFICATION if self._coarsest["backward"] > FULL else 0.0

    def hidden(self, row: int, evidence: Evidence) -> float:
        return evidence.bound if evidence.law else evidence.explained

    def floor(self, row: int) -> float:
        is_backward = self._aligned.direction(row) == "backward"
        coarsest = self._coarsest["backward" if is_backward else "forward"]
        return max(self.rounding_of(self._aligned.dtype_and_shape(1, row)[0]), coarsest)

    @cached_property
    def _coarsest(self) -> Mapping[str, float]:
        """Return by direction the greatest error of a kernel.

        Errors of forward kernels are included in backward; errors that calls add in backward are not included in
        forward, if an error of the forward is in all of them. An error that no call with nearly equal inputs shows is
        excluded: an error at the beginning is in all calls after it.
        """
        found = {"forward": 0.0, "backward": 0.0}
        most = math.inf if self._begins_coarse or self._have_drifted else COARSE
        for row, one in self._amplified.items():
            is_backward = self._aligned.direction(row) == "backward"
            if not is_backward and one.own > most:
                continue
            for direction in ("backward",) if is_backward else found:
                found[direction] = max(found[direction], _SPREAD * one.own)
        return found

    def unseen(self, noise: Sequence[int]) -> Unseen | None:
        hidden = [
            one.limit * one.explained for row in noise if row not in self._laws and (one := self._amplified.get(row))
        ]
        return Unseen(median(hidden) if hidden else math.nan, len(hidden), sum(row in self._laws for row in noise))
