"""Judge every pair of records along the dataflow: equal, noise, propagated, or a new divergence.

An input that recorded calls produced is not judged by its value if these calls are a pair: it was judged there. An
output is judged by the inputs of its own call: by the residual of the replayed call if there is one, otherwise by the
ratio of its relative error to that of the inputs. Values that cannot have noise (arguments, the first inputs of the
run, parameters before the first update, the dataflow itself) must be equal.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from msprobe.base import names
from msprobe.compare.core.exchanges import word_of
from msprobe.compare.core.limits import BUILT_IN, RUNNING_STATISTICS, Limits
from msprobe.compare.core.noise import (
    DIFFERING,
    OPAQUE,
    ROUNDING,
    VANISHED,
    Constant,
    Evidence,
    KernelPrecision,
    NoConsequence,
    Noise,
    ResidualJudgement,
    Rounding,
    Sign,
    State,
    is_amplified,
)
from msprobe.compare.core.reason import DRIFT, Why
from msprobe.compare.core.standard import canonical
from msprobe.compare.core.tensor import Origin
from msprobe.compare.dataflow.events import Event
from msprobe.compare.judge.judged import EQUAL, Comparison
from msprobe.compare.match.fused import SUM
from msprobe.compare.workers.progress import shown
from msprobe.replay.recorded import NotReplayed, Replayed
from msprobe.store.record import NULL

from .deviations import ACROSS
from .evidence import OutputEvidence
from .exchanges import Exchanges
from .handed_on import change_on_one_side
from .operation import STEEP, operation_of, rounds_inside
from .pairs import ERROR, PASS, UNJUDGED, WARNING, AlignedGraphs, AlignedTensors, is_running_statistic
from .reach import DiedOut, consequences, dying_out
from .rounding import is_open, rounding_left, within_rounding
from .statistics import AlignedStatistics, StatisticsEvidence
from .summary import summary_of
from .unrecorded import AS_NOISY, Unrecorded
from .upstream import Received, Upstream
from .verdicts import entered, with_harmless_structure

DRIFT_OF_RUNNING = 5e-4
"""Limit for parameters after the first update, relative to their root mean square, if their update was not judged."""


def judge_under_noise(
    comparison: Comparison, *, limits: Limits = BUILT_IN, workers: int = 1, is_shown: bool = False
) -> Comparison:
    """Return the comparison with verdicts that allow for noise up to `limits`; unchanged if nothing differs.

    Calls with differences are replayed with torch, in `workers` processes (0: as many as cores), unless the limits are
    exact. If no tensors were saved, only statistics are used.
    """
    has_other_kernels = comparison.relation.has_other_kernels
    if not has_other_kernels and not is_open(comparison, limits):
        return with_harmless_structure(comparison)
    if comparison.mode == "tensor":
        from .kernels import ReplayEvidence  # here: only tensors need the replay of calls

        tensors = AlignedTensors(comparison)
        replays = ReplayEvidence(tensors, workers, "replaying calls" if is_shown else "", limits)
        return _judged(tensors, replays, limits, is_shown=is_shown)
    statistics = AlignedStatistics(comparison)
    if not has_other_kernels and not statistics.has_summaries:
        return with_harmless_structure(comparison)
    return _judged(statistics, StatisticsEvidence(statistics, limits), BUILT_IN, is_shown=is_shown)


def _judged(aligned: AlignedGraphs, outputs: OutputEvidence, limits: Limits, *, is_shown: bool) -> Comparison:
    """Return the comparison by the first error, not by the first bit that differs.

    A difference that is at most the rounding of one call is a divergence only if it grows into an error that nothing
    else explains, and other calls of this kind are bitwise equal. A change by calls of one side that noise hides is a
    divergence only if there is no other.
    """
    judging = _Judging(aligned, outputs, limits)
    found = judging.judged(is_shown=is_shown)
    if not aligned.has_other_kernels and not limits.is_exact and (rounding := within_rounding(aligned, outputs, found)):
        is_reproducible = not outputs.unlike_others.isdisjoint(rounding)
        outputs.tolerate(rounding)
        judging = _Judging(aligned, outputs, limits)
        other = judging.judged(is_shown=False)
        is_rounding = not (other.noise is None or other.noise.diverging().any())
        if is_rounding and is_reproducible and np.isin(found.grades, (WARNING, ERROR)).any():
            return found
        found = other
    if judging.hidden and found.noise is not None and not found.noise.diverging().any():
        return _Judging(aligned, outputs, limits, judging.hidden).judged(is_shown=False)
    return found


class _Judging:
    """The pass over all calls in execution order, with the states so far.

    By row: `_stretches` are the calls of one side that lead to a divergence, `_made_of` the outputs that are the same
    tensor as an input or as the result of a cell. `_leaves` are the parameters, constants and inputs of the run that
    differ. `hidden` are the inputs that agree within noise although calls of one side change a tensor that the other
    side passes on; `begun` are those of them that are divergences. `_received_inside` are the results of the calls
    inside the cells that are visited, once an output needs them.
    """

    def __init__(
        self, aligned: AlignedGraphs, outputs: OutputEvidence, limits: Limits, begun: Collection[int] = ()
    ) -> None:
        comparison = aligned.comparison
        self._aligned, self._outputs, self._limits = aligned, outputs, limits
        self._is_noisy = outputs.are_noisy
        states = np.zeros(len(comparison.equal), np.uint8)
        states[(comparison.grades == UNJUDGED) & ~comparison.is_exempt] = State.UNKNOWN
        self._states = states.data
        self._greatest = {"forward": 0.0, "backward": 0.0, "": 0.0}  # relative errors of noise so far
        self._has_diverged = {"forward": False, "backward": False, "": False}
        self._differing_records = aligned.calls_with(np.asarray(aligned.equal) != EQUAL)
        self._are_judged = bytearray(len(states))  # rows, without those that are equal
        self._with_inputs_judged = bytearray(len(aligned.events))
        self._reordered = set[int]()  # outputs that look equal, although parts were joined in another order
        self._evidence: dict[int, Evidence] = {}
        self._with_other_arguments: dict[int, bool] = {}
        self._stretches: dict[int, tuple[int, ...]] = {}
        self._made_of: dict[int, tuple[int, ...]] = {}
        self._leaves = set[int]()
        self._received_inside: Received | None = None
        self._begun, self.hidden = begun, set[int]()
        graphs = enumerate(aligned.graphs)
        self._with_gradients = [(side, graph) for side, graph in graphs if graph.has_backward]
        self._are_untraced = b"" if self._with_gradients else aligned.untraced()
        self._upstream = Upstream(aligned, self._states, self._leaf_state)
        self._unrecorded = Unrecorded(aligned, self._states, self._judge_inputs)
        self._exchanges = Exchanges(aligned)

    def judged(self, *, is_shown: bool = False) -> Comparison:
        aligned, states = self._aligned, np.asarray(self._states)
        waiting: dict[int, list[Event]] = defaultdict(list)  # by event: the gradients of parameters that it produces
        for event in shown(aligned.events, "judging calls") if is_shown else aligned.events:
            if not event.is_matched:
                self._upstream.carry(event)
            elif event.kind == "parameters_grad" and (made := self._last_maker(event)) > event.at:
                waiting[made].append(event)
            else:
                self._visit(event)
            for late in waiting.pop(event.at, ()) if waiting else ():
                self._visit(late)
        unmatched, died_out, inside = self._upstream.unmatched[0].keys(), DiedOut(), self._is_different_inside
        if self._is_noisy:
            without = self._unrecorded.rows_without_effect
            died_out = dying_out(aligned, self._states, unmatched, self._made_of, inside, self._outputs, without)
        elif not (aligned.has_other_kernels or self._limits.is_exact):
            # The runs are bitwise equal, and so are the results of unrecorded code for these.
            in_order = sorted(self._unrecorded.rows_without_effect)
            died_out = DiedOut(dict.fromkeys(in_order, NoConsequence.AGREES))
            states[list(died_out.harmless)] = State.HARMLESS
        if self._is_noisy and not self._limits.is_exact:
            self._settle(states)
        diverging = (states == State.DIVERGENT).tolist()
        outcomes = [result for side in self._outputs.replays for result in side.values()]
        noise = Noise(
            states,
            self._evidence,
            tuple(self._outputs.classes()),
            not self._is_noisy,
            died_out.harmless,
            {row: places for row, places in self._stretches.items() if diverging[row] and places},
            sum(isinstance(a, Replayed) for a in outcomes),
            Counter(a.cause.value for a in outcomes if isinstance(a, NotReplayed)),
            self._limits,
            self._outputs.unseen(np.flatnonzero(states == State.NOISE).tolist()),
            died_out.unshown,
            *self._of_one_side(),
            consequences(aligned, self._states, unmatched) if self._is_noisy else {},
            rounding_left(aligned, self._outputs, self._states, self._evidence),
        )
        covered = self._upstream.covered
        del self._upstream, self._unrecorded  # break the reference cycle; cyclic GC is disabled here
        return entered(aligned, noise, covered, self._made_of)

    def _settle(self, states: NDArray[np.uint8]) -> None:
        """Accept all differences as noise if all of them are within tolerance and only their size contradicts that.

        These are inputs from code that was not recorded, or from calls of one side. A judged call and a leaf that
        differs are beyond rounding at any size.
        """
        differing = np.flatnonzero(np.isin(states, DIFFERING)).tolist()
        if not any(map(self._is_beyond_rounding, differing)):
            states[differing] = State.NOISE

    def _is_beyond_rounding(self, row: int) -> bool:
        """Return whether a difference is beyond its tolerance, or is a divergence for another reason than its size."""
        if self._aligned.grades[row] != PASS:
            return True
        return self._states[row] == State.DIVERGENT and (row in self._evidence or row in self._leaves)

    def _last_maker(self, event: Event) -> int:
        """Return the last event that produces a value of a record of gradients of parameters; the record may be written
        earlier. -1 for none."""
        aligned = self._aligned
        made = {
            pair for row in aligned.outputs(event) if aligned.are_tensors[row] for pair in aligned.pairs_of_makers(row)
        }
        return max((aligned.event_at[aligned.pairs.call_of.item(pair)].at for pair in made - {-1}), default=-1)

    def _of_one_side(self) -> tuple[Mapping[int, Rounding], Mapping[int, Constant]]:
        """Return the casts and the constants of calls that only one side makes."""
        if not self._aligned.has_other_kernels and not any(self._aligned.unmatched_place):
            return {}, {}
        from .lone_leaves import differing_constants  # here: most runs of one framework make the same calls
        from .precision import one_sided_roundings

        roundings = one_sided_roundings(self._aligned, self._upstream.ancestors)
        return roundings, differing_constants(self._aligned, self._states)

    def _visit(self, event: Event) -> None:
        aligned, differing = self._aligned, self._differing_records
        if not (
            differing[event.place]
            or self._reordered
            or any(differing[place] for place in (*event.owners, *event.forwards))
        ):
            return  # its states do not change
        is_input = aligned.is_input
        received_rows = [row for row in event.rows if is_input[row]]
        if event.owners:
            owned = [r for p in event.owners for r in aligned.pairs.rows(p) if is_input[r]]
            received_rows = owned or received_rows
            for owner in event.owners:
                # The gradients of parameters come before the last backward call of their cell.
                self._judge_inputs(aligned.event_at[owner])
        self._judge_inputs(event)
        for place in event.forwards:
            received_rows += self._upstream.without_hidden(aligned.pairs.rows(place))
        received = self._upstream.received(received_rows)
        self._received_inside = None
        arranging: tuple[int, ...] | None = None  # of all outputs
        for row in event.rows:
            if is_input[row]:
                continue
            state = self._output_state(row, event, received)
            if state == State.DIVERGENT and not (aligned.has_elements or aligned.has_other_kernels):
                arranging = self._arranging(event) if arranging is None else arranging
                self._stretches.setdefault(row, arranging)
            is_unclear = state == State.DIVERGENT and aligned.may_be_of_inner_node(row)
            self._set(row, State.UNKNOWN if is_unclear else state, event)
            t, g = aligned.rows[0][row], aligned.rows[1][row]
            if received.differs and (min(t, g) < 0 or aligned.pairs.notes.views.get(row) == SUM):
                for unmatched, at in zip(self._upstream.unmatched, (t, g), strict=True):
                    if at >= 0:
                        unmatched[at] = received.propagated or math.inf
        self._unrecorded.note(event)

    def _arranging(self, event: Event) -> tuple[int, ...]:
        """Return the places of calls of one side that produced an input of a call, directly or before other calls that
        only rearrange elements: by statistics, an input also agrees if its elements were permuted."""
        aligned, found = self._aligned, set[tuple[int, int]]()
        rows = [row for row in event.rows if aligned.is_input[row] and aligned.are_tensors[row]]
        waiting = [(side, aligned.rows[side][row]) for row in rows for side in (0, 1)]
        seen = set(waiting)
        while waiting:
            side, at = waiting.pop()
            graph = aligned.graphs[side]
            for made in aligned.made_by(side, at):
                call = graph.call_of[made]
                if not graph.only_arranges(call):
                    continue
                if aligned.pair_of[side][made] < 0:
                    found.add((side, call))
                    continue
                before = {(side, taken) for taken in graph.inputs(call)} - seen
                seen |= before
                waiting += before
        return self._upstream.unmatched_places(found)

    def _judge_inputs(self, event: Event) -> None:
        """Judge the inputs of a call, once: the inputs of a cell come before a divergence inside it."""
        if self._with_inputs_judged[event.at]:
            return
        self._with_inputs_judged[event.at] = True
        is_input, equal = self._aligned.is_input, self._aligned.equal
        are_untraced = self._are_untraced if event.direction != "backward" else None
        for row in event.rows:
            if is_input[row] and (equal[row] != EQUAL or self._reordered):
                if are_untraced and are_untraced[row]:
                    state = self._unknown_origin(row, event)
                else:
                    state = self._input_state(row, event)
                is_elsewhere = state == State.DIVERGENT and self._is_of_a_block(row, event)
                self._set(row, State.ELSEWHERE if is_elsewhere else state, event)

    def _set(self, row: int, state: State, event: Event) -> None:
        if self._states[row] == State.UNKNOWN and state != State.DIVERGENT:
            return
        self._states[row] = state
        self._are_judged[row] = True
        if state == State.NOISE:
            if self._greatest[event.direction] < (distance := self._aligned.distance(row)) < math.inf:
                self._greatest[event.direction] = distance
        elif state in DIFFERING:
            self._has_diverged[event.direction] = True

    def _leaf_state(self, row: int, sides: tuple[int, int]) -> State | None:
        """Return the state of an input that no recorded call produced on either side; None for any other."""
        kinds = [graph.origin(at)[0] for graph, at in zip(self._aligned.graphs, sides, strict=True)]
        return None if "call" in kinds else self._uncalled_state(row, sides, kinds)

    def _uncalled_state(self, row: int, sides: tuple[int, int], kinds: Collection[Origin]) -> State | None:
        """Return `_leaf_state` for these kinds of origins, none of which is a call."""
        if "parameter" in kinds:
            self._leaves.add(row)
            return self._parameter_state(row)
        if "leaf" in kinds or self._is_constant_input(sides):
            is_near = self._is_noisy and self._aligned.is_floating(row) and self._is_of_one_value(row)
            if not is_near:
                self._leaves.add(row)
            return State.NOISE if is_near else State.DIVERGENT
        return None

    def _is_of_one_value(self, row: int) -> bool:
        """Return whether two leaves differ by at most rounding; if their dtypes differ, to the coarser one."""
        aligned = self._aligned
        dtypes = {canonical(aligned.dtype_and_shape(side, row)[0]) for side in (0, 1)}
        coarser = max(map(self._outputs.unit_of, dtypes)) if len(dtypes) > 1 else 0.0
        return aligned.distance(row) <= ROUNDING + coarser

    # Inputs.

    def _is_of_a_block(self, row: int, event: Event) -> bool:
        """Return whether an input of a pair of cells of two frameworks is not evidence: the calls inside are judged by
        their own inputs, and one cell may begin a step later than the other, or have other arguments."""
        if not self._aligned.has_other_kernels or event.kind != "cell":
            return False
        if event.direction == "forward" and self._aligned.are_tensors[row]:
            sides = zip(self._aligned.graphs, self._aligned.rows, strict=True)
            if "call" not in [graph.origin(rows[row])[0] for graph, rows in sides]:
                return False
        return self._aligned.is_compared_inside(event)

    def _input_state(self, row: int, event: Event) -> State:
        aligned = self._aligned
        if aligned.equal[row] == EQUAL:
            return State.PROPAGATED if self._reordered and self._is_of_reordered(row) else State.EQUAL
        if not aligned.are_tensors[row]:
            is_wrong = aligned.grades[row] in (WARNING, ERROR)
            return State.DIVERGENT if is_wrong else State.EQUAL
        if aligned.grades[row] == UNJUDGED:
            return State.UNKNOWN
        sides = aligned.rows[0][row], aligned.rows[1][row]
        if event.direction == "backward":
            return self._incoming_state(row, sides, event)
        (mine, t), (theirs, g) = aligned.graphs[0].origin(sides[0]), aligned.graphs[1].origin(sides[1])
        if mine == theirs == "call":
            made = self._aligned.pair_of[0][t], self._aligned.pair_of[1][g]
            if made[0] >= 0 and made[0] == made[1]:
                return self._state_from_producers(row, [made[0]])
            return self._state_via_unmatched(row, [(0, t), (1, g)], is_rewired=min(made) >= 0)
        if "call" in (mine, theirs):
            side, at = (0, t) if mine == "call" else (1, g)
            return self._state_via_unmatched(row, [(side, at)], is_rewired=self._aligned.pair_of[side][at] >= 0)
        return self._uncalled_state(row, sides, (mine, theirs)) or self._unknown_origin(row, event)

    def _is_of_reordered(self, row: int) -> bool:
        """Return whether an input was returned by a call that joins parts in another order."""
        kind, made = self._aligned.graphs[0].origin(self._aligned.rows[0][row])
        return kind == "call" and self._aligned.pair_of[0][made] in self._reordered

    def _is_constant_input(self, sides: tuple[int, int]) -> bool:
        """Return whether no gradient goes back through an input of a call through which others do: a table, a mask."""
        for side, graph in self._with_gradients:
            back = graph.gradient(sides[side])
            if back >= 0 and graph.columns.kind[back] == NULL and graph.has_outputs(graph.call_of[back]):
                return True
        return False

    def _state_from_producers(self, row: int, made: Iterable[int]) -> State:
        """Return the state of an input that pairs of outputs produced."""
        made = self._made_of[row] = tuple(made)
        if propagated := self._upstream.propagated_of(made):
            return self._propagated(row, propagated)
        if any(self._states[at] == State.UNKNOWN for at in made):
            return State.UNKNOWN
        rounding = self._rounding(row)
        return State.NOISE if self._aligned.is_sum(row, made, rounding) else State.DIVERGENT

    def _state_via_unmatched(
        self,
        row: int,
        made: Sequence[tuple[int, int]],
        *,
        is_rewired: bool = False,
        ends: Iterable[tuple[int, int]] = (),
    ) -> State:
        """Return the state of an input that depends on the nearest pairs through calls of one side only.

        `ends`: for a gradient, side and place of the forward calls at which its backward path ends.
        """
        before, between = (set[int](), set[int]()), set(ends)
        for side, at in made:
            pairs, calls = self._upstream.ancestors(side, at)
            before[side].update(pairs)
            between |= {(side, call) for call in calls}
        known = before[0] | before[1]
        self._made_of[row] = tuple(known)
        if is_rewired and not self._aligned.has_other_kernels:
            # the two calls that produced it are not a pair: it is the same tensor only if they are alike
            return self._state_by_size(row)
        sources = {self._upstream.moved_from(side, at) for side, at in made}
        if len(sources) == 1 and -1 not in sources and (propagated := self._upstream.propagated_of(sources)):
            self._made_of[row] = tuple(sources)
            return self._propagated(row, propagated)
        if propagated := max((self._upstream.propagated(side, at) for side, at in made), default=0.0):
            return self._propagated(row, propagated)
        # Calls that only move a constant of one side are not another step: the constant differs.
        informative = between if known else (one for one in between if self._upstream.makes_elements(*one))
        self._stretches[row] = self._upstream.places(informative)
        if not (self._stretches[row] or self._aligned.has_other_kernels):
            self._stretches[row] = self._upstream.unmatched_places(between)
        error = max(map(self._explaining, known), default=0.0)
        # A call of one side may have received results of operations that were not recorded.
        open_calls = () if self._records_apis else between
        unrecorded = max((self._unrecorded.error_at(*one) for one in open_calls), default=0.0)
        rounding = self._rounding_between(row, between) * (self._outputs.calls_unrecorded if unrecorded else 1.0)
        error = max(error, unrecorded)
        most = OPAQUE * self._upstream.composed(between)
        if not self._has_other_dtype(row) and not is_amplified(self._aligned.distance(row), error, rounding, most):
            if self._is_changed_on_one_side(row, before, between):
                self.hidden.add(row)
            return State.DIVERGENT if row in self._begun else State.NOISE
        if any(self._states[at] in DIFFERING for at in known):
            return State.PROPAGATED
        return State.DIVERGENT

    def _is_changed_on_one_side(
        self, row: int, before: tuple[set[int], set[int]], between: Collection[tuple[int, int]]
    ) -> bool:
        """Return whether calls of one side change, by more than rounding, a tensor that the other side passes on
        unchanged. `before` are the nearest pairs from which it was computed, by side, `between` the calls without a
        counterpart."""
        # what a call computes from a gradient follows from the gradient
        is_forward = self._aligned.direction(row) == "forward"
        if not (self._is_noisy and is_forward and between):
            return False
        if (change := change_on_one_side(self._aligned, row, before)) is None:
            return False
        calls = [call for side, call in between if side == change.side]
        columns = self._aligned.graphs[change.side].columns
        dtypes = {columns.dtype(at) for call in calls for at in self._aligned.graphs[change.side].outputs(call)}
        rounding = max(
            self._rounding_between(row, [(change.side, call) for call in calls]),
            *(self._outputs.calls_unrecorded * self._outputs.rounding_of(dtype) for dtype in dtypes),
        )
        if change.size <= rounding:
            return False
        if row in self._begun:
            self._evidence[row] = change.as_evidence(rounding)
            self._stretches[row] = self._upstream.places((change.side, call) for call in calls)
        return True

    def _has_other_dtype(self, row: int) -> bool:
        """Return whether, within one framework, one side's calls cast a tensor."""
        (ours, _), (theirs, _) = (self._aligned.dtype_and_shape(side, row) for side in (0, 1))
        return not self._aligned.has_other_kernels and canonical(ours) != canonical(theirs)

    def _explaining(self, row: int) -> float:
        """Return the distance of a pair of records as far as it explains others: a pair of calls that comes later in
        this order is not judged yet, and explains only noise."""
        distance = self._aligned.distance(row)
        is_judged = self._aligned.is_input[row] or self._are_judged[row]
        return distance if is_judged else min(distance, max(self._greatest.values()))

    def _incoming_state(self, row: int, sides: tuple[int, int], event: Event) -> State:
        """Return the state of an incoming gradient: the sum of the contributions of all users of the tensor."""
        (ours, whole_t), (theirs, whole_g) = (
            graph.contributions(at) for graph, at in zip(self._aligned.graphs, sides, strict=True)
        )
        mine = {self._aligned.pair_of[0][at] for at in ours}
        other = {self._aligned.pair_of[1][at] for at in theirs}
        made = [(0, at) for at in ours] + [(1, at) for at in theirs]
        if not made or not self._aligned.is_whole(row, theirs):
            return self._unknown_origin(row, event, sum_of=mine | other)
        if mine == other and -1 not in mine and whole_t and whole_g:
            return self._state_from_producers(row, mine)
        ends = {
            (side, graph.call_of[user])
            for side, (graph, at) in enumerate(zip(self._aligned.graphs, sides, strict=True))
            for user in graph.takers(at)
            if graph.gradient(user) < 0 and graph.is_floating(graph.call_of[user])
        }
        return self._state_via_unmatched(row, made, ends=ends)

    def _parameter_state(self, row: int) -> State:
        is_later = bool(self._aligned.comparison.target.step)
        # If its update was judged, that decides, however close the weights are.
        kinds = {reason.why for reason in self._aligned.comparison.reasons_at(row)}
        if kinds & DRIFT:
            return State.NOISE
        if Why.UPDATE_DIFFERS in kinds:
            return State.DIVERGENT
        # Running statistics of a normalization are not updates, and are as noisy as the statistics of the batches.
        is_running = is_running_statistic(self._aligned.graphs[0].columns, self._aligned.rows[0][row])
        drift = DRIFT_OF_RUNNING * (self._limits.drift(RUNNING_STATISTICS) if is_running else 1.0)
        most = max(drift, self._rounding(row)) if is_running else drift
        if is_later and self._is_noisy and self._aligned.distance(row) <= most:
            return State.NOISE
        # They may come from two programs; within one framework the first parameters are bitwise equal.
        aligned = self._aligned
        is_rounding = aligned.has_other_kernels and aligned.grades[row] == PASS and self._is_of_one_value(row)
        return State.NOISE if is_rounding else State.DIVERGENT

    def _unknown_origin(self, row: int, event: Event, sum_of: Collection[int] = ()) -> State:
        """Return the state of an input that operations produced which were not recorded.

        Every earlier difference may have reached it; otherwise they are treated as one call of an unknown function.
        `sum_of`: outputs that are among the summands.
        """
        added = [at for at in sum_of if at >= 0] if sum_of else []
        if added and (propagated := self._upstream.propagated_of(added)):
            return self._propagated(row, propagated)
        if self._records_apis:
            has_diverged = self._has_diverged["forward"] or self._has_diverged[event.direction]
        else:
            has_diverged = self._unrecorded.may_have_received(event)
        if has_diverged and not self._is_noisy:
            return self._propagated(row, math.inf)
        distance = self._aligned.distance(row)
        error = max([self._unrecorded.error_around(event), *map(self._aligned.distance, added)])
        approximated = ACROSS if self._aligned.has_other_kernels else 0.0  # each framework has its own functions
        rounding = self._outputs.calls_unrecorded * max(self._rounding_of_unrecorded(row, event), approximated)
        if has_diverged:
            is_near = distance <= max(AS_NOISY * error, rounding / OPAQUE)
            return State.NOISE if is_near else self._propagated(row, math.inf)
        error = max(error, self._unrecorded.error_of_jumps(row, event))
        return State.DIVERGENT if is_amplified(distance, error, rounding) else State.NOISE

    def _state_by_size(self, row: int) -> State:
        """Return the state of an input by its distance alone."""
        is_beyond = is_amplified(self._aligned.distance(row), max(self._greatest.values()), self._rounding(row))
        return State.DIVERGENT if is_beyond else State.NOISE

    def _rounding(self, row: int) -> float:
        """Return the relative rounding error of one call that writes a tensor; 0 if the runs are bitwise equal."""
        return self._outputs.floor(row) if self._is_noisy else 0.0

    def _rounding_between(self, row: int, calls: Iterable[tuple[int, int]]) -> float:
        """Return `_rounding` of an input that calls of one side produced: as coarse as products if one of them may be
        one."""
        rounding, graphs = self._rounding(row), self._aligned.graphs
        if any(rounds_inside(operation_of(graphs[side].names[call])) for side, call in calls):
            return rounding
        dtype, _ = self._aligned.dtype_and_shape(1, row)
        return min(rounding, self._outputs.calls_unrecorded * self._outputs.rounding_of(dtype))

    def _rounding_of_unrecorded(self, row: int, event: Event) -> float:
        """Return `_rounding` of an input whose producer was not recorded. If APIs were recorded, the producer is not a
        product or anything as coarse, but probably a constant."""
        rounding = self._rounding(row)
        if event.direction == "backward" or not self._records_apis:
            return rounding
        return min(rounding, self._outputs.rounding_of(self._aligned.dtype_and_shape(1, row)[0]))

    @cached_property
    def _records_apis(self) -> bool:
        """Return whether both sides recorded the calls of APIs."""
        return all(graph.dump.level in ("L1", "mix") for graph in self._aligned.graphs)

    # Outputs.

    def _output_state(self, row: int, event: Event, received: Received) -> State:
        if self._aligned.equal[row] == EQUAL:
            if not (received.propagated and self._outputs.ignores_order(row)):
                return State.EQUAL
            self._reordered.add(row)
            return State.PROPAGATED
        grade = self._aligned.grades[row]
        if not self._aligned.are_tensors[row]:
            if grade not in (WARNING, ERROR):
                return State.EQUAL
            return State.PROPAGATED if received.differs else State.DIVERGENT
        if grade == UNJUDGED:
            return State.UNKNOWN
        if self._is_composed(event):
            return self._cell_state(row, event, received)
        if self._outputs.is_side_product(row, event):
            return State.HARMLESS
        if not self._aligned.has_other_kernels and self._aligned.has_other_form(row):
            return State.PROPAGATED if received.differs else State.DIVERGENT
        return self._computed_state(row, event, received)

    def _computed_state(self, row: int, event: Event, received: Received) -> State:
        """Return the state of an output of an innermost call, by the evidence about that call."""
        is_exchange = bool(word_of(event.called))  # it depends on inputs of other ranks
        if row in self._outputs.by_bits and not is_exchange:
            self._note(row, event, ResidualJudgement(Sign.BITS, self._outputs.precision(row), 0.0), received.error)
            return State.DIVERGENT
        judgement = None if is_exchange else self._outputs.judgements.get(row)
        is_decisive = (
            judgement is not None and judgement.is_of is not KernelPrecision.OPAQUE and self._is_of_one_function(row)
        )
        if judgement is not None and (judgement.is_wrong or is_decisive):
            self._note(row, event, judgement, received.error)
            if judgement.is_wrong:
                is_received = judgement.sign is Sign.AMPLIFIED and self._may_be_received(event, received)
                return State.PROPAGATED if is_received else State.DIVERGENT
            is_crossed = row in self._outputs.crossed
            if not is_crossed and self._has_effect_of_lone_arguments(row, event, received.error):
                return State.DIVERGENT
            # Compared with the golden's function, other arguments have no effect on this output.
            is_unclear = received.is_unclear and not is_crossed
            return self._propagated(row, received.propagated, is_unclear)
        most = self._most(row, event) * self._upstream.composed_calls(event)
        if is_exchange:
            distance, error = self._exchanges.explained(row, event, received.error, max(self._greatest.values()))
        else:
            distance, error = self._distance_of_sum(row, event), received.error * self._steepness(event)
        is_beyond = (
            not self._has_other_arguments(event)
            and math.isfinite(received.error)
            and is_amplified(distance, error, self._rounding(row), most)
        )
        if is_beyond and self._is_of_diverging_layer(event):
            return State.PROPAGATED
        if is_beyond and self._aligned.has_other_kernels:
            self._stretches[row] = self._upstream.places(self._upstream.upstream_calls(event))
        sign = Sign.AMPLIFIED if is_beyond else Sign.NONE
        self._note(row, event, ResidualJudgement(sign, KernelPrecision.OPAQUE, math.nan), error, most)
        return State.DIVERGENT if is_beyond else self._propagated(row, received.propagated, received.is_unclear)

    def _has_effect_of_lone_arguments(self, row: int, event: Event, error: float) -> bool:
        """Return whether an output differs by more than its inputs explain, whose call has arguments on one side only.

        Each side was executed again with its own arguments, so that its residual is not evidence about them.
        """
        aligned = self._aligned
        arguments = (at for at in aligned.inputs_of(event) if aligned.is_input[at])
        if all(min(aligned.rows[0][at], aligned.rows[1][at]) >= 0 for at in arguments):
            return False
        rounding = max(self._rounding(row), self._outputs.rounding_of(aligned.dtype_and_shape(1, row)[0]))
        most = self._most(row, event)
        if not is_amplified(self._distance_of_sum(row, event), error, rounding, most):
            return False
        self._note(row, event, ResidualJudgement(Sign.AMPLIFIED, KernelPrecision.OPAQUE, math.nan), error, most)
        return True

    def _steepness(self, event: Event) -> float:
        """Return the ratio of the relative error that a call returns to that of its input, if its function converts
        absolute errors to relative ones; 1 for any other."""
        known = operation_of(names.parse(event.called))
        if known is None or known.name not in STEEP or event.direction == "backward":
            return 1.0
        rows = [self._aligned.rows[1][row] for row in event.rows if self._aligned.is_input[row]]
        found = (summary_of(self._aligned.graphs[1].columns, at) for at in rows if at >= 0)
        return max((one.absolute for one in found if one is not None), default=1.0)

    def _is_of_diverging_layer(self, event: Event) -> bool:
        """Return whether, between two frameworks, the inputs of a call were not compared, but the input of the layer
        around it was, and differs."""
        if not self._aligned.has_other_kernels or not self._aligned.has_unmatched_inputs(event):
            return False
        graph = self._aligned.graphs[0]
        layer = next(graph.around(self._aligned.calls[0][event.place]), -1)
        around = self._aligned.event_at.get(self._aligned.place_of[0][layer]) if layer >= 0 else None
        return around is not None and any(
            self._input_state(row, around) == State.DIVERGENT and not self._is_of_a_block(row, around)
            for row in around.rows
            if self._aligned.is_input[row] and self._aligned.are_tensors[row]
        )

    def _may_be_received(self, event: Event, received: Received) -> bool:
        """Return whether the inputs of a call may explain an amplified difference: an argument that is not a tensor;
        between two frameworks by statistics also a tensor, since statistics contain little information about the
        function."""
        return self._has_other_arguments(event) or (self._aligned.has_other_kernels and received.propagated > 0)

    def _is_of_one_function(self, row: int) -> bool:
        """Return whether the outputs of both sides were compared with one function: two frameworks, and two calls that
        are not a pair, have two functions."""
        aligned = self._aligned
        return row in self._outputs.crossed or not (aligned.has_other_kernels or aligned.has_other_function(row))

    def _has_other_arguments(self, event: Event) -> bool:
        """Return whether an argument diverges, or indices or a mask differ, whose effect is unknown. The first result
        is kept."""
        if event.at not in self._with_other_arguments:
            inputs = (row for row in self._aligned.inputs_of(event) if self._aligned.is_input[row])
            self._with_other_arguments[event.at] = any(map(self._is_other_argument, inputs))
        return self._with_other_arguments[event.at]

    def _is_other_argument(self, row: int) -> bool:
        is_whole = self._aligned.are_tensors[row] and not self._aligned.is_floating(row)
        return self._states[row] == State.DIVERGENT or (is_whole and self._states[row] == State.PROPAGATED)

    def _propagated(self, row: int, propagated: float, is_unclear: bool = False) -> State:
        """Return the state of an output that agrees with its inputs, some of which differ by `propagated`.

        `is_unclear`: an argument that is not a tensor differs, and its effect cannot be distinguished from noise.
        """
        if not (is_unclear or (propagated and not (self._is_noisy and self._dies_out(row, propagated)))):
            return State.NOISE
        if propagated and self._aligned.is_masked(row):
            self._upstream.hidden[row] = propagated
        return State.PROPAGATED

    def _dies_out(self, row: int, propagated: float) -> bool:
        """Return whether differences of inputs, of which `propagated` is the largest, have no effect on a tensor: it
        differs only by noise, and by much less than they do. In backward, where terms cancel, one side may round to
        zero."""
        distance = self._aligned.distance(row)
        noise = max(ROUNDING, 3 * self._greatest[self._aligned.direction(row)])
        is_gone = distance <= noise and 10 * distance <= propagated
        is_rounded = distance <= self._aligned.kernel_error and VANISHED * distance <= propagated
        if not (is_gone or is_rounded) or self._outputs.ignores_order(row):
            return False
        return self._aligned.direction(row) == "backward" or self._aligned.has_same_zeros(row)

    def _is_different_inside(self, event: Event) -> bool | None:
        """Return whether a difference is inside a pair of cells; None if no pair of calls is."""
        is_composed = self._is_composed(event)
        if not (is_composed and any(next(self._aligned.calls_inside(side, event), None) for side in (0, 1))):
            return None
        return bool(self._inside(event).propagated)

    def _is_composed(self, event: Event) -> bool:
        """Return whether a pair of calls are cells inside which calls may be recorded, or the gradients of their
        parameters."""
        return event.kind in ("cell", "parameters_grad") and event not in self._aligned.innermost

    def _inside(self, event: Event) -> Received:
        """Return the results of the calls inside a pair of cells."""
        aligned, states, is_input = self._aligned, self._states, self._aligned.is_input
        error, propagated, seen = 0.0, 0.0, set[int]()
        for side, graph in enumerate(aligned.graphs):
            for call, place in aligned.calls_inside(side, event):
                if place in seen or graph.names[call].direction != event.direction:
                    continue
                seen.add(place)
                for row in aligned.pairs.rows(place):
                    if (state := states[row]) == State.EQUAL or is_input[row]:
                        continue
                    if state in DIFFERING:
                        propagated = max(propagated, self._upstream.size(row))
                    elif state == State.NOISE:
                        error = max(error, aligned.distance(row))
        return Received(error, propagated)

    def _cell_state(self, row: int, event: Event, received: Received) -> State:
        """Return the state of the result of a cell, which was computed inside it and is judged there."""
        if (elsewhere := self._aligned.judged_elsewhere(row)) >= 0:
            return self._state_from_producers(row, [elsewhere])
        if not self._aligned.is_judged_itself(row):
            state = self._state_via_unmatched(row, list(enumerate(self._aligned.makers(row))))
            is_elsewhere = state == State.DIVERGENT and self._aligned.has_counterpart_outside(row, event)
            return State.ELSEWHERE if is_elsewhere else state
        if self._received_inside is None:
            self._received_inside = self._inside(event)
        inside = self._received_inside
        propagated = max(inside.propagated, received.propagated)
        judgement = self._outputs.judgements.get(row)
        if judgement is not None and not judgement.is_wrong and self._is_of_one_function(row):
            self._note(row, event, judgement, received.error)
            return self._propagated(row, propagated, received.is_unclear)
        if propagated or received.is_unclear:
            return self._propagated(row, propagated, received.is_unclear)
        explained, most = max(received.error, inside.error), self._most(row, event)
        if event.kind == "parameters_grad":
            most = max(most, self._outputs.most_of_sums)
        if is_amplified(self._distance_of_sum(row, event), explained, self._rounding(row), most):
            self._note(row, event, ResidualJudgement(Sign.AMPLIFIED, KernelPrecision.OPAQUE, math.nan), explained, most)
            if self._aligned.has_other_kernels:
                self._stretches[row] = self._upstream.places(self._aligned.last_calls(row, event))
            else:
                made = zip(self._aligned.graphs, self._aligned.makers(row), strict=True)
                self._stretches[row] = self._upstream.unmatched_places(
                    (side, graph.call_of[at]) for side, (graph, at) in enumerate(made)
                )
            return State.DIVERGENT
        return State.NOISE

    def _distance_of_sum(self, row: int, event: Event) -> float:
        """Return `AlignedGraphs.distance`; for the gradient of a vector relative to the gradients that it sums up.

        The gradient of a bias is the sum of the gradients that its cell receives. It may cancel out (for keys, before a
        softmax), and the remainder has the rounding of the summands. That of a weight is a product.
        """
        aligned, is_of_cells = self._aligned, event.kind == "parameters_grad"
        if not is_of_cells and event.direction != "backward":
            return aligned.distance(row)
        _, shape = aligned.dtype_and_shape(1, row)
        if len(shape or ()) != 1:
            return aligned.distance_of_product(row) if is_of_cells else aligned.distance(row)
        places = event.owners if is_of_cells else (event.place,)
        incoming = [r for place in places for r in aligned.pairs.rows(place) if aligned.is_input[r]]
        size = max((aligned.size(r) for r in incoming if aligned.are_tensors[r]), default=0.0)
        size = max(size, aligned.size(row))
        return aligned.difference(row) / size if size else aligned.distance(row)

    def _most(self, row: int, event: Event) -> float:
        """Return the largest ratio of the relative error of an output to that of its inputs, if there is no reference
        for the call."""
        return self._limits.amplification(self._outputs.kind(row, event), OPAQUE)

    def _note(self, row: int, event: Event, judgement: ResidualJudgement, error: float, most: float = OPAQUE) -> None:
        self._evidence[row] = self._outputs.evidence(row, event, judgement, error, most)
