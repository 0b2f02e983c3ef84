"""The rules for outputs. An output is judged by the inputs of its own call, that of a cell by the calls inside it."""

import math
from collections.abc import Callable, Iterable
from functools import cached_property

from msprobe.base import names
from msprobe.compare.core.exchanges import word_of
from msprobe.compare.core.noise import (
    DIFFERING,
    OPAQUE,
    KernelPrecision,
    ResidualJudgement,
    Sign,
    State,
    is_amplified,
)
from msprobe.compare.dataflow.events import Event
from msprobe.compare.dataflow.graph import traverse
from msprobe.compare.judge.judged import EQUAL
from msprobe.compare.match.fused import SUM

from . import upstream
from .exchanges import explained_by_ranks
from .flow import Flow
from .inputs import (
    inherited_state,
    is_of_a_block,
    judge_inputs,
    note_results,
    state_from_producers,
    state_of_input,
    state_via_unmatched,
    unrecorded_code,
)
from .operation import STEEP, operation_of
from .pairs import ERROR, UNJUDGED, WARNING, AlignedGraphs
from .summary import summary_of
from .upstream import Received


class Visit:
    """A pair of calls whose outputs are judged, after its inputs. `received` are the differences in these."""

    def __init__(self, flow: Flow, event: Event) -> None:
        self.flow, self.event = flow, event
        self.received = _received(flow, event)

    @cached_property
    def inside(self) -> Received:
        """Return the results of the calls inside a pair of cells."""
        return results_inside(self.flow, self.event)

    @cached_property
    def has_other_arguments(self) -> bool:
        """Return whether an argument diverges, or indices or a mask differ, whose effect is unknown."""
        aligned, states = self.flow.aligned, self.flow.states

        def is_other(row: int) -> bool:
            is_whole = aligned.are_tensors[row] and not aligned.is_floating(row)
            return states[row] == State.DIVERGENT or (is_whole and states[row] == State.PROPAGATED)

        return any(is_other(row) for row in aligned.inputs_of(self.event) if aligned.is_input[row])

    @cached_property
    def has_lone_arguments(self) -> bool:
        """Return whether an argument is on one side only."""
        aligned = self.flow.aligned
        inputs = (row for row in aligned.inputs_of(self.event) if aligned.is_input[row])
        return any(min(aligned.rows[0][row], aligned.rows[1][row]) < 0 for row in inputs)

    @cached_property
    def steepness(self) -> float:
        """Return the ratio of the relative error that a call returns to that of its input, if its function converts
        absolute errors to relative ones; 1 for any other."""
        known = operation_of(names.parse(self.event.called))
        if known is None or known.name not in STEEP or self.event.direction == "backward":
            return 1.0
        aligned = self.flow.aligned
        rows = [aligned.rows[1][row] for row in self.event.rows if aligned.is_input[row]]
        found = (summary_of(aligned.graphs[1].columns, at) for at in rows if at >= 0)
        return max((one.absolute for one in found if one is not None), default=1.0)

    @cached_property
    def composed_calls(self) -> int:
        """Return the number of calls that together compute the outputs."""
        return upstream.composed_calls(self.flow, self.event)

    @cached_property
    def arranging(self) -> tuple[int, ...]:
        """Return the places of calls of one side that produced an input of the call, directly or before other calls
        that only rearrange elements: by statistics, an input also agrees if its elements were permuted."""
        aligned = self.flow.aligned
        rows = [row for row in self.event.rows if aligned.is_input[row] and aligned.are_tensors[row]]

        def arranged(side: int, rows: Iterable[int]) -> list[tuple[int, int]]:
            graph = aligned.graphs[side]
            made = (one for row in rows for one in aligned.made_by(side, row))
            return [(side, one) for one in made if graph.only_arranges(graph.call_of[one])]

        def before(made: tuple[int, int]) -> list[tuple[int, int]]:
            side, row = made
            graph = aligned.graphs[side]
            return arranged(side, graph.inputs(graph.call_of[row])) if aligned.pair_of[side][row] >= 0 else []

        begin = [one for side in (0, 1) for one in arranged(side, [aligned.rows[side][row] for row in rows])]
        lone = [(side, row) for side, row in traverse(begin, before) if aligned.pair_of[side][row] < 0]
        return upstream.unmatched_places(aligned, ((side, aligned.graphs[side].call_of[row]) for side, row in lone))

    def most(self, row: int) -> float:
        """Return the largest ratio of the relative error of an output to that of its inputs, if there is no reference
        for the call."""
        return self.flow.limits.amplification(self.flow.outputs.kind(row, self.event), OPAQUE)

    def distance(self, row: int) -> float:
        """Return the relative error of an output; for the gradient of a vector relative to the gradients that it sums
        up.

        The gradient of a bias is the sum of the gradients that its cell receives. It may cancel out (for keys, before a
        softmax), and the remainder has the rounding of the summands. That of a weight is a product.
        """
        aligned, event, is_of_cells = self.flow.aligned, self.event, self.event.kind == "parameters_grad"
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

    def note(self, row: int, judgement: ResidualJudgement, error: float, most: float = OPAQUE) -> None:
        """Keep the numbers that decide an output whose inputs differ by `error`."""
        self.flow.evidence[row] = self.flow.outputs.evidence(row, self.event, judgement, error, most)


def judge_call(flow: Flow, event: Event) -> None:
    """Judge a pair of calls: its inputs, then its outputs by the differences in these."""
    aligned, differing = flow.aligned, flow.aligned.with_differing
    if not (
        differing[event.place] or flow.reordered or any(differing[place] for place in (*event.owners, *event.forwards))
    ):
        return  # its states do not change
    visit = Visit(flow, event)
    received, rules = visit.received, CELL_RULES if is_composed(aligned, event) else CALL_RULES
    for row in event.rows:
        if aligned.is_input[row]:
            continue
        state = _state_of_output(rules, visit, row)
        if state == State.DIVERGENT and not (aligned.has_elements or aligned.has_other_kernels):
            flow.stretches.setdefault(row, visit.arranging)
        is_unclear = state == State.DIVERGENT and aligned.may_be_of_inner_node(row)
        flow.enter(row, State.UNKNOWN if is_unclear else state, event)
        sides = aligned.rows[0][row], aligned.rows[1][row]
        if received.differs and (min(sides) < 0 or aligned.pairs.notes.views.get(row) == SUM):
            for unmatched, at in zip(flow.unmatched, sides, strict=True):
                if at >= 0:
                    unmatched[at] = received.propagated or math.inf
    note_results(flow, event)


def _state_of_output(rules: "tuple[Rule, ...]", visit: Visit, row: int) -> State:
    """Return the state of an output by the first rule that applies."""
    for rule in rules:
        if (state := rule(visit, row)) is not None:
            return state
    raise AssertionError("the last rule applies to every output")


def _received(flow: Flow, event: Event) -> Received:
    """Judge the inputs of a pair of calls; return the differences in them, and for a backward call in the records of
    its forward."""
    aligned, is_input = flow.aligned, flow.aligned.is_input
    rows = [row for row in event.rows if is_input[row]]
    if event.owners:
        rows = [row for owner in event.owners for row in aligned.pairs.rows(owner) if is_input[row]] or rows
        for owner in event.owners:
            # The gradients of parameters come before the last backward call of their cell.
            judge_inputs(flow, aligned.event_at[owner])
    judge_inputs(flow, event)
    for place in event.forwards:
        rows += upstream.without_masked(flow, aligned.pairs.rows(place))
    return upstream.received(flow, rows)


def is_composed(aligned: AlignedGraphs, event: Event) -> bool:
    """Return whether a pair of calls are cells inside which calls may be recorded, or the gradients of their
    parameters."""
    return event.kind in ("cell", "parameters_grad") and event not in aligned.innermost


def is_different_inside(flow: Flow, event: Event) -> bool | None:
    """Return whether a difference is inside a pair of cells; None if no pair of calls is."""
    aligned = flow.aligned
    if not (is_composed(aligned, event) and any(next(aligned.calls_inside(side, event), None) for side in (0, 1))):
        return None
    return bool(results_inside(flow, event).propagated)


def results_inside(flow: Flow, event: Event) -> Received:
    """Return the differences in the results of the calls inside a pair of cells."""
    aligned, states, is_input = flow.aligned, flow.states, flow.aligned.is_input
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
                    propagated = max(propagated, upstream.size_of(flow, row))
                elif state == State.NOISE:
                    error = max(error, aligned.distance(row))
    return Received(error, propagated)


# The rules for all outputs.


def equal_output(visit: Visit, row: int) -> State | None:
    """It is bitwise equal; and its inputs are not parts that were joined in another order."""
    flow = visit.flow
    if flow.aligned.equal[row] != EQUAL:
        return None
    if not (visit.received.propagated and flow.outputs.ignores_order(row)):
        return State.EQUAL
    flow.reordered.add(row)
    return State.PROPAGATED


def value(visit: Visit, row: int) -> State | None:
    """It is not a tensor."""
    aligned = visit.flow.aligned
    if aligned.are_tensors[row]:
        return None
    if aligned.grades[row] not in (WARNING, ERROR):
        return State.EQUAL
    return State.PROPAGATED if visit.received.differs else State.DIVERGENT


def output_without_verdict(visit: Visit, row: int) -> State | None:
    """It could not be compared."""
    return State.UNKNOWN if visit.flow.aligned.grades[row] == UNJUDGED else None


# The rules for results of cells, and for gradients of their parameters, which were computed inside them.


def result_of_pair(visit: Visit, row: int) -> State | None:
    """A pair of calls inside returned it, and is judged there."""
    elsewhere = visit.flow.aligned.judged_elsewhere(row)
    return state_from_producers(visit.flow, row, [elsewhere]) if elsewhere >= 0 else None


def gradient_of_idle_cell(visit: Visit, row: int) -> State | None:
    """It is the gradient of a parameter of a cell that was not called: unrecorded code passed the parameter on, such as
    a tied weight that is transposed."""
    if visit.event.kind != "parameters_grad" or visit.event.owners:
        return None
    return unrecorded_code(visit.flow, visit.event, row)


def result_of_other_calls(visit: Visit, row: int) -> State | None:
    """Calls inside returned it that are not a pair, at least one of which has a counterpart."""
    flow, aligned = visit.flow, visit.flow.aligned
    if aligned.is_judged_itself(row):
        return None
    state = state_via_unmatched(flow, row, list(enumerate(aligned.makers(row))))
    is_elsewhere = state == State.DIVERGENT and aligned.has_counterpart_outside(row, visit.event)
    return State.ELSEWHERE if is_elsewhere else state


def layer_by_evidence(visit: Visit, row: int) -> State | None:
    """The evidence about the layer shows that it is noise."""
    judgement = visit.flow.outputs.judgements.get(row)
    if judgement is None or judgement.is_wrong or not _is_of_one_function(visit.flow, row):
        return None
    visit.note(row, judgement, visit.received.error)
    propagated = max(visit.inside.propagated, visit.received.propagated)
    return inherited_state(visit.flow, row, propagated, visit.received.is_unclear)


def inherited_result(visit: Visit, row: int) -> State | None:
    """A difference is inside the cell, or in its inputs."""
    propagated = max(visit.inside.propagated, visit.received.propagated)
    if not (propagated or visit.received.is_unclear):
        return None
    return inherited_state(visit.flow, row, propagated, visit.received.is_unclear)


def result_by_noise_inside(visit: Visit, row: int) -> State:
    """It is noise if the noise inside, and that of the inputs, explains it."""
    flow, aligned, event = visit.flow, visit.flow.aligned, visit.event
    explained, most = max(visit.received.error, visit.inside.error), visit.most(row)
    if event.kind == "parameters_grad":
        most = max(most, flow.outputs.most_of_sums)
    if not is_amplified(visit.distance(row), explained, flow.rounding(row), most):
        return State.NOISE
    visit.note(row, _AMPLIFIED, explained, most)
    if aligned.has_other_kernels:
        flow.stretches[row] = upstream.places(aligned, aligned.last_calls(row, event))
    else:
        made = zip(aligned.graphs, aligned.makers(row), strict=True)
        calls = ((side, graph.call_of[at]) for side, (graph, at) in enumerate(made))
        flow.stretches[row] = upstream.unmatched_places(aligned, calls)
    return State.DIVERGENT


# The rules for outputs of innermost calls, by the evidence about the call.


def side_product(visit: Visit, row: int) -> State | None:
    """The operation does not define it, and no call uses it."""
    return State.HARMLESS if visit.flow.outputs.is_side_product(row, visit.event) else None


def other_form(visit: Visit, row: int) -> State | None:
    """Within one framework, its shape or dtype differs, which rounding cannot cause."""
    aligned = visit.flow.aligned
    if aligned.has_other_kernels or not aligned.has_other_form(row):
        return None
    return State.PROPAGATED if visit.received.differs else State.DIVERGENT


def unlike_its_peers(visit: Visit, row: int) -> State | None:
    """Its inputs are bitwise equal, and most calls of its kind return equal bits for equal inputs."""
    outputs = visit.flow.outputs
    if row not in outputs.by_bits:
        return None
    visit.note(row, ResidualJudgement(Sign.BITS, outputs.precision(row), 0.0), visit.received.error)
    return State.DIVERGENT


def wrong_by_evidence(visit: Visit, row: int) -> State | None:
    """The evidence about the call (residuals, identities, amplification by statistics) shows that it is wrong."""
    flow = visit.flow
    judgement = flow.outputs.judgements.get(row)
    if judgement is None or not judgement.is_wrong:
        return None
    visit.note(row, judgement, visit.received.error)
    # The inputs may explain an amplified difference: an argument that is not a tensor; between two frameworks by
    # statistics also a tensor, since statistics contain little information about the function.
    may_be_received = judgement.sign is Sign.AMPLIFIED and (
        visit.has_other_arguments or (flow.aligned.has_other_kernels and visit.received.propagated > 0)
    )
    return State.PROPAGATED if may_be_received else State.DIVERGENT


def noise_by_evidence(visit: Visit, row: int) -> State | None:
    """The evidence about the call shows that it is noise of a known precision."""
    flow = visit.flow
    judgement = flow.outputs.judgements.get(row)
    if judgement is None or judgement.is_of is KernelPrecision.OPAQUE or not _is_of_one_function(flow, row):
        return None
    visit.note(row, judgement, visit.received.error)
    if row in flow.outputs.crossed:  # compared with the golden's function, other arguments have no effect on it
        return inherited_state(flow, row, visit.received.propagated)
    if visit.has_lone_arguments and _is_beyond_inputs(visit, row):
        # Each side was executed again with its own arguments, so that its residual is not evidence about them.
        return State.DIVERGENT
    return inherited_state(flow, row, visit.received.propagated, visit.received.is_unclear)


def _is_beyond_inputs(visit: Visit, row: int) -> bool:
    """Return whether an output differs by more than its inputs and the rounding of its dtype explain."""
    flow, most = visit.flow, visit.most(row)
    rounding = max(flow.rounding(row), flow.outputs.rounding_of(flow.aligned.dtype_and_shape(1, row)[0]))
    if not is_amplified(visit.distance(row), visit.received.error, rounding, most):
        return False
    visit.note(row, _AMPLIFIED, visit.received.error, most)
    return True


def result_of_exchange(visit: Visit, row: int) -> State | None:
    """It is the result of an exchange between ranks, and also depends on the inputs of other ranks."""
    flow, event = visit.flow, visit.event
    if not word_of(event.called):
        return None
    noise = max(flow.greatest.values())
    return _by_inputs(visit, row, *explained_by_ranks(flow.aligned, event, row, visit.received.error, noise))


def amplification(visit: Visit, row: int) -> State:
    """It is noise if the errors of its inputs explain it, as far as calls amplify errors."""
    return _by_inputs(visit, row, visit.distance(row), visit.received.error * visit.steepness)


def _by_inputs(visit: Visit, row: int, distance: float, error: float) -> State:
    """Return the state of an output with the relative error `distance`, whose inputs have the relative error
    `error`."""
    flow, aligned, received = visit.flow, visit.flow.aligned, visit.received
    most = visit.most(row) * visit.composed_calls
    is_beyond = (
        not visit.has_other_arguments
        and math.isfinite(received.error)
        and is_amplified(distance, error, flow.rounding(row), most)
    )
    if is_beyond and _is_of_diverging_layer(flow, visit.event):
        return State.PROPAGATED
    if is_beyond and aligned.has_other_kernels:
        flow.stretches[row] = upstream.places(aligned, upstream.upstream_calls(flow, visit.event))
    visit.note(row, _AMPLIFIED if is_beyond else _EXPLAINED, error, most)
    return State.DIVERGENT if is_beyond else inherited_state(flow, row, received.propagated, received.is_unclear)


_AMPLIFIED, _EXPLAINED = (
    ResidualJudgement(sign, KernelPrecision.OPAQUE, math.nan) for sign in (Sign.AMPLIFIED, Sign.NONE)
)


def _is_of_one_function(flow: Flow, row: int) -> bool:
    """Return whether the outputs of both sides were compared with one function: two frameworks, and two calls that are
    not a pair, have two functions."""
    aligned = flow.aligned
    return row in flow.outputs.crossed or not (aligned.has_other_kernels or aligned.has_other_function(row))


def _is_of_diverging_layer(flow: Flow, event: Event) -> bool:
    """Return whether, between two frameworks, the inputs of a call were not compared, but the input of the layer around
    it was, and differs."""
    aligned = flow.aligned
    if not aligned.has_other_kernels or not aligned.has_unmatched_inputs(event):
        return False
    layer = aligned.graphs[0].dump.parents[aligned.calls[0][event.place]]
    around = aligned.event_at.get(aligned.place_of[0][layer]) if layer >= 0 else None
    return around is not None and any(
        state_of_input(flow, around, row) == State.DIVERGENT and not is_of_a_block(flow, around, row)
        for row in around.rows
        if aligned.is_input[row] and aligned.are_tensors[row]
    )


Rule = Callable[[Visit, int], State | None]

CALL_RULES: tuple[Rule, ...] = (
    equal_output,
    value,
    output_without_verdict,
    side_product,
    other_form,
    result_of_exchange,
    unlike_its_peers,
    wrong_by_evidence,
    noise_by_evidence,
    amplification,
)
"""For outputs of innermost calls, in the order in which they apply; the last one applies to every output."""

CELL_RULES: tuple[Rule, ...] = (
    equal_output,
    value,
    output_without_verdict,
    result_of_pair,
    gradient_of_idle_cell,
    result_of_other_calls,
    layer_by_evidence,
    inherited_result,
    result_by_noise_inside,
)
"""For results of cells inside which calls may be recorded, and for gradients of their parameters."""
