"""The rules for inputs. An input that recorded calls produced is judged by these calls, any other by itself."""

import math
from collections.abc import Callable, Collection, Iterable, Sequence

from msprobe.base import names
from msprobe.compare.core.noise import DIFFERING, OPAQUE, ROUNDING, VANISHED, State, is_amplified
from msprobe.compare.core.standard import canonical
from msprobe.compare.dataflow.events import Event
from msprobe.compare.judge.judged import EQUAL

from . import upstream
from .deviations import ACROSS
from .flow import Flow
from .handed_on import change_on_one_side
from .leaves import leaf_state
from .operation import operation_of, rounds_inside
from .pairs import ERROR, UNJUDGED, WARNING

AS_NOISY = 3.0
"""After a divergence, an input of unknown origin is noise up to this multiple of the noise of its cell's inputs."""

_SOME = 0.25
"""Expected number of elements from which on one may be where a derivative jumps."""

_JUMPING = 0.3
"""Of elements with relative error e, the share of e that is near a jump causes an error of at most this multiple of
sqrt(e)."""


def judge_inputs(flow: Flow, event: Event) -> None:
    """Judge the inputs of a pair of calls, once: the inputs of a cell are judged before a divergence inside it."""
    if flow.have_judged_inputs[event.at]:
        return
    flow.have_judged_inputs[event.at] = True
    is_input, equal = flow.aligned.is_input, flow.aligned.equal
    are_untraced = flow.aligned.are_untraced if event.direction != "backward" else None
    for row in event.rows:
        if is_input[row] and (equal[row] != EQUAL or flow.reordered):
            if are_untraced and are_untraced[row]:  # no other rule applies
                state = unrecorded_code(flow, event, row)
            else:
                state = state_of_input(flow, event, row)
            is_elsewhere = state == State.DIVERGENT and is_of_a_block(flow, event, row)
            flow.enter(row, State.ELSEWHERE if is_elsewhere else state, event)
    if event.kind == "cell":  # unrecorded operations inside may use its inputs
        _note_noise(flow, flow.aligned.calls[0][event.place], filter(is_input.__getitem__, event.rows))


def state_of_input(flow: Flow, event: Event, row: int) -> State:
    """Return the state of an input by the first rule that applies."""
    for rule in INPUT_RULES:
        if (state := rule(flow, event, row)) is not None:
            return state
    raise AssertionError("the last rule applies to every input")


def is_of_a_block(flow: Flow, event: Event, row: int) -> bool:
    """Return whether an input of a pair of cells of two frameworks is not evidence: the calls inside are judged by
    their own inputs, and one cell may begin a step later than the other, or have other arguments."""
    aligned = flow.aligned
    if not aligned.has_other_kernels or event.kind != "cell":
        return False
    if event.direction == "forward" and aligned.are_tensors[row]:
        sides = zip(aligned.graphs, aligned.rows, strict=True)
        if "call" not in [graph.origin(rows[row])[0] for graph, rows in sides]:
            return False
    return aligned.is_compared_inside(event)


# The rules.


def equal_input(flow: Flow, event: Event, row: int) -> State | None:
    """It is bitwise equal; and not a result of parts that were joined in another order."""
    aligned = flow.aligned
    if aligned.equal[row] != EQUAL:
        return None
    if flow.reordered:
        kind, made = aligned.graphs[0].origin(aligned.rows[0][row])
        if kind == "call" and aligned.pair_of[0][made] in flow.reordered:
            return State.PROPAGATED
    return State.EQUAL


def argument(flow: Flow, event: Event, row: int) -> State | None:
    """It is not a tensor, and must be equal."""
    if flow.aligned.are_tensors[row]:
        return None
    return State.DIVERGENT if flow.aligned.grades[row] in (WARNING, ERROR) else State.EQUAL


def input_without_verdict(flow: Flow, event: Event, row: int) -> State | None:
    """It could not be compared."""
    return State.UNKNOWN if flow.aligned.grades[row] == UNJUDGED else None


def incoming_gradient(flow: Flow, event: Event, row: int) -> State | None:
    """It is the sum of the contributions of all users of a tensor."""
    if event.direction != "backward":
        return None
    aligned = flow.aligned
    sides = aligned.rows[0][row], aligned.rows[1][row]
    (ours, whole_t), (theirs, whole_g) = (
        graph.contributions(at) for graph, at in zip(aligned.graphs, sides, strict=True)
    )
    mine = {aligned.pair_of[0][at] for at in ours}
    other = {aligned.pair_of[1][at] for at in theirs}
    made = [(0, at) for at in ours] + [(1, at) for at in theirs]
    if not made or not aligned.is_whole(row, theirs):
        return unrecorded_code(flow, event, row, sum_of=mine | other)
    if mine == other and -1 not in mine and whole_t and whole_g:
        return state_from_producers(flow, row, mine)
    ends = {
        (side, graph.call_of[user])
        for side, (graph, at) in enumerate(zip(aligned.graphs, sides, strict=True))
        for user in graph.takers(at)
        if graph.gradient(user) < 0 and graph.is_floating(graph.call_of[user])
    }
    return state_via_unmatched(flow, row, made, ends=ends)


def recorded_producer(flow: Flow, event: Event, row: int) -> State | None:
    """A recorded call returned it, on one side at least."""
    aligned = flow.aligned
    (mine, t), (theirs, g) = (graph.origin(rows[row]) for graph, rows in zip(aligned.graphs, aligned.rows, strict=True))
    if mine == theirs == "call":
        made = aligned.pair_of[0][t], aligned.pair_of[1][g]
        if made[0] >= 0 and made[0] == made[1]:
            return state_from_producers(flow, row, [made[0]])
        return state_via_unmatched(flow, row, [(0, t), (1, g)], is_rewired=min(made) >= 0)
    if "call" not in (mine, theirs):
        return None
    side, at = (0, t) if mine == "call" else (1, g)
    return state_via_unmatched(flow, row, [(side, at)], is_rewired=aligned.pair_of[side][at] >= 0)


def parameter_or_constant(flow: Flow, event: Event, row: int) -> State | None:
    """It is a parameter, a constant or an input of the run."""
    return leaf_state(flow, row)


def unrecorded_code(flow: Flow, event: Event, row: int, sum_of: Collection[int] = ()) -> State:
    """Operations produced it that were not recorded.

    Every earlier difference may have reached it; otherwise they are treated as one call of an unknown function.
    `sum_of`: outputs that are among the summands.
    """
    aligned = flow.aligned
    added = [at for at in sum_of if at >= 0] if sum_of else []
    if added and (propagated := upstream.propagated_of(flow, added)):
        return inherited_state(flow, row, propagated)
    if aligned.records_apis:
        has_diverged = "forward" in flow.diverged or event.direction in flow.diverged
    else:
        has_diverged = _may_have_received(flow, event)
    if has_diverged and not flow.is_noisy:
        return inherited_state(flow, row, math.inf)
    distance = aligned.distance(row)
    error = max([_error_around(flow, event), *map(aligned.distance, added)])
    approximated = ACROSS if aligned.has_other_kernels else 0.0  # each framework has its own functions
    rounding = flow.outputs.calls_unrecorded * max(_rounding_of_unrecorded(flow, event, row), approximated)
    if has_diverged:
        is_near = distance <= max(AS_NOISY * error, rounding / OPAQUE)
        return State.NOISE if is_near else inherited_state(flow, row, math.inf)
    error = max(error, _error_of_jumps(flow, event, row))
    return State.DIVERGENT if is_amplified(distance, error, rounding) else State.NOISE


INPUT_RULES: tuple[Callable[[Flow, Event, int], State | None], ...] = (
    equal_input,
    argument,
    input_without_verdict,
    incoming_gradient,
    recorded_producer,
    parameter_or_constant,
    unrecorded_code,
)
"""In the order in which they apply; the last one applies to every input."""


# The calls that produced a tensor; also for the results of cells.


def state_from_producers(flow: Flow, row: int, made: Iterable[int]) -> State:
    """Return the state of a tensor that pairs of outputs produced."""
    made = flow.made_of[row] = tuple(made)
    if propagated := upstream.propagated_of(flow, made):
        return inherited_state(flow, row, propagated)
    if any(flow.states[at] == State.UNKNOWN for at in made):
        return State.UNKNOWN
    return State.NOISE if flow.aligned.is_sum(row, made, flow.rounding(row)) else State.DIVERGENT


def state_via_unmatched(
    flow: Flow,
    row: int,
    made: Sequence[tuple[int, int]],
    *,
    is_rewired: bool = False,
    ends: Iterable[tuple[int, int]] = (),
) -> State:
    """Return the state of a tensor that depends on the nearest pairs through calls of one side only.

    `made` are side and row of its producers. `ends`: for a gradient, side and place of the forward calls at which its
    backward path ends.
    """
    aligned = flow.aligned
    before, between = (set[int](), set[int]()), set(ends)
    for side, at in made:
        pairs, calls = upstream.ancestors(flow, side, at)
        before[side].update(pairs)
        between |= {(side, call) for call in calls}
    known = before[0] | before[1]
    flow.made_of[row] = tuple(known)
    if is_rewired and not aligned.has_other_kernels:
        # The two calls that produced it are not a pair: it is the same tensor only if they are alike.
        is_beyond = is_amplified(aligned.distance(row), max(flow.greatest.values()), flow.rounding(row))
        return State.DIVERGENT if is_beyond else State.NOISE
    sources = {upstream.moved_from(flow, side, at) for side, at in made}
    if len(sources) == 1 and -1 not in sources and (propagated := upstream.propagated_of(flow, sources)):
        flow.made_of[row] = tuple(sources)
        return inherited_state(flow, row, propagated)
    if propagated := max((upstream.propagated_to(flow, side, at) for side, at in made), default=0.0):
        return inherited_state(flow, row, propagated)
    # Calls that only move a constant of one side are not another step: the constant differs.
    informative = between if known else (one for one in between if upstream.makes_elements(aligned, *one))
    flow.stretches[row] = upstream.places(aligned, informative)
    if not (flow.stretches[row] or aligned.has_other_kernels):
        flow.stretches[row] = upstream.unmatched_places(aligned, between)
    error = max((_explained_by(flow, at) for at in known), default=0.0)
    # A call of one side may have received results of operations that were not recorded.
    open_calls = () if aligned.records_apis else between
    unrecorded = max((_error_at(flow, *one) for one in open_calls), default=0.0)
    rounding = _rounding_between(flow, row, between) * (flow.outputs.calls_unrecorded if unrecorded else 1.0)
    error = max(error, unrecorded)
    most = OPAQUE * upstream.composed(aligned, between)
    if not _has_other_dtype(flow, row) and not is_amplified(aligned.distance(row), error, rounding, most):
        if _is_changed_on_one_side(flow, row, before, between):
            flow.changed.add(row)
        return State.DIVERGENT if row in flow.begun else State.NOISE
    return State.PROPAGATED if any(flow.states[at] in DIFFERING for at in known) else State.DIVERGENT


def _is_changed_on_one_side(
    flow: Flow, row: int, before: tuple[set[int], set[int]], between: Collection[tuple[int, int]]
) -> bool:
    """Return whether calls of one side change, by more than rounding, a tensor that the other side passes on unchanged.

    `before` are the nearest pairs from which it was computed, by side, `between` the calls without a counterpart.
    """
    # What a call computes from a gradient follows from the gradient.
    if not (flow.is_noisy and between and flow.aligned.direction(row) == "forward"):
        return False
    if (change := change_on_one_side(flow.aligned, row, before)) is None:
        return False
    calls = [(side, call) for side, call in between if side == change.side]
    graph = flow.aligned.graphs[change.side]
    dtypes = {graph.columns.dtype(at) for _, call in calls for at in graph.outputs(call)}
    coarsest = max(map(flow.outputs.rounding_of, dtypes), default=0.0)
    rounding = max(_rounding_between(flow, row, calls), flow.outputs.calls_unrecorded * coarsest)
    if change.size <= rounding:
        return False
    if row in flow.begun:
        flow.evidence[row] = change.as_evidence(rounding)
        flow.stretches[row] = upstream.places(flow.aligned, calls)
    return True


def _has_other_dtype(flow: Flow, row: int) -> bool:
    """Return whether, within one framework, one side's calls cast a tensor."""
    (ours, _), (theirs, _) = (flow.aligned.dtype_and_shape(side, row) for side in (0, 1))
    return not flow.aligned.has_other_kernels and canonical(ours) != canonical(theirs)


def _explained_by(flow: Flow, row: int) -> float:
    """Return the distance of a pair of records as far as it explains others: a pair of calls that comes later in this
    order is not judged yet, and explains only noise."""
    distance = flow.aligned.distance(row)
    is_judged = flow.aligned.is_input[row] or flow.are_judged[row]
    return distance if is_judged else min(distance, max(flow.greatest.values()))


def _rounding_between(flow: Flow, row: int, calls: Iterable[tuple[int, int]]) -> float:
    """Return the rounding of an input that calls of one side produced: as coarse as products if one of them may be
    one."""
    rounding, graphs = flow.rounding(row), flow.aligned.graphs
    if any(rounds_inside(operation_of(graphs[side].names[call])) for side, call in calls):
        return rounding
    dtype, _ = flow.aligned.dtype_and_shape(1, row)
    return min(rounding, flow.outputs.calls_unrecorded * flow.outputs.rounding_of(dtype))


def inherited_state(flow: Flow, row: int, propagated: float, is_unclear: bool = False) -> State:
    """Return the state of a tensor that agrees with its inputs, some of which differ by `propagated`.

    `is_unclear`: an argument that is not a tensor differs, and its effect cannot be distinguished from noise.
    """
    if not (is_unclear or (propagated and not (flow.is_noisy and _dies_out(flow, row, propagated)))):
        return State.NOISE
    if propagated and flow.aligned.is_masked(row):
        flow.masked[row] = propagated
    return State.PROPAGATED


def _dies_out(flow: Flow, row: int, propagated: float) -> bool:
    """Return whether differences of inputs, of which `propagated` is the largest, have no effect on a tensor: it
    differs only by noise, and by much less than they do. In backward, where terms cancel, one side may round to
    zero."""
    aligned = flow.aligned
    distance, direction = aligned.distance(row), aligned.direction(row)
    noise = max(ROUNDING, 3 * flow.greatest[direction])
    is_gone = distance <= noise and 10 * distance <= propagated
    is_rounded = distance <= aligned.kernel_error and VANISHED * distance <= propagated
    if not (is_gone or is_rounded) or flow.outputs.ignores_order(row):
        return False
    return direction == "backward" or aligned.has_same_zeros(row)


# Operations that were not recorded: their results are judged as those of one call of an unknown function.


def note_results(flow: Flow, event: Event) -> None:
    """Note the results of a pair of calls for the unrecorded operations of the cell around it; a cell comes after the
    calls inside it."""
    aligned, states, known = flow.aligned, flow.states, flow.unrecorded
    cell, outputs = _cell_around(flow, event), aligned.outputs(event)
    has_differing_outputs = any(states[row] in DIFFERING for row in outputs)
    if has_differing_outputs:
        known.differing.add(cell)
    if event.kind == "cell" and (known.without_effect or not has_differing_outputs):
        received = [row for row in event.rows if aligned.is_input[row] and states[row] in DIFFERING]
        found = {row: leaf for row in received if (leaf := _leaf(flow, event, row)) is not None}
        if found and not has_differing_outputs and _has_no_effect(flow, event, found.values()):
            known.without_effect.update(found.values())
        known.rows_without_effect.update(row for row, leaf in found.items() if leaf in known.without_effect)
    _note_noise(flow, cell, outputs)


def _note_noise(flow: Flow, cell: int, rows: Iterable[int]) -> None:
    """Note the relative errors of tensors that unrecorded operations of a cell may use, as far as they are noise."""
    aligned, noise = flow.aligned, flow.unrecorded.noise
    for row in rows:
        if flow.states[row] == State.NOISE and aligned.are_tensors[row]:
            noise[cell] = max(noise.get(cell, 0.0), aligned.distance(row))


def _error_around(flow: Flow, event: Event) -> float:
    """Return the relative error of values that unrecorded operations of the cell around a call may have used: the
    inputs of the cell, and earlier results of calls directly inside it, as far as that is noise. For a backward call,
    those of the forward are included."""
    cell = _cell_around(flow, event)
    found = _noise_around(flow, cell)
    return max(found, _noise_around(flow, _forward_of(flow, cell))) if event.direction == "backward" else found


def _error_at(flow: Flow, side: int, call: int) -> float:
    """Return `_error_around` of a call that only one side makes, if such operations produced some of its inputs; 0 if
    recorded calls produced all."""
    aligned, graph = flow.aligned, flow.aligned.graphs[side]
    if not any(map(graph.is_untraced, graph.inputs(call))):
        return 0.0
    for cell in graph.around(call):
        if (place := aligned.place_of[side][cell]) >= 0:
            ours = aligned.calls[0][place]
            found = _noise_around(flow, ours)
            is_backward = graph.names[call].direction == "backward"
            return max(found, _noise_around(flow, _forward_of(flow, ours))) if is_backward else found
    return _noise_around(flow, -1)


def _may_have_received(flow: Flow, event: Event) -> bool:
    """Return whether values that unrecorded operations of the cell around a call may have used differ by more than
    noise.

    Values that were used without effect in another cell of the class are excluded. A mask in two forms does not explain
    their results.
    """
    cell = _cell_around(flow, event)
    cells = (cell, _forward_of(flow, cell)) if event.direction == "backward" else (cell,)
    return any(_has_differing(flow, one) for one in cells)


def _has_differing(flow: Flow, cell: int) -> bool:
    aligned = flow.aligned
    if cell in flow.unrecorded.differing:
        return True
    if cell < 0 or (place := aligned.place_of[0][cell]) < 0:
        return False
    event = aligned.event_at[place]
    judge_inputs(flow, event)
    received = (row for row in event.rows if aligned.is_input[row] and flow.states[row] in DIFFERING)
    return any(
        _leaf(flow, event, row) not in flow.unrecorded.without_effect and not aligned.is_same_mask(row)
        for row in received
    )


def _leaf(flow: Flow, event: Event, row: int) -> tuple[str, int, int] | None:
    """Return the class of a cell and the identity of a pair of inputs on both sides; None if calls produced it."""
    aligned = flow.aligned
    if not aligned.are_tensors[row]:
        return None
    sides = [(graph, rows[row]) for graph, rows in zip(aligned.graphs, aligned.rows, strict=True)]
    if not all(graph.is_untraced(at) for graph, at in sides):
        return None
    ours, theirs = (graph.numbers[at] for graph, at in sides)
    return None if min(ours, theirs) < 0 else (names.parse(event.name).stem.rpartition(".")[2], ours, theirs)


def _has_no_effect(flow: Flow, event: Event, leaves: Iterable[tuple[str, int, int]]) -> bool:
    """Return whether all results of unrecorded operations of a cell from some leaves agree, as far as calls inside it
    used them; leaves that it only passes on are excluded."""
    aligned, graph = flow.aligned, flow.aligned.graphs[0]
    handed_on = {number for _, number, _ in leaves}
    pairs = [
        pair
        for call in graph.below(aligned.calls[0][event.place])
        for row in graph.inputs(call)
        if graph.is_untraced(row) and graph.numbers[row] not in handed_on and (pair := aligned.pair_of[0][row]) >= 0
    ]
    return bool(pairs) and not any(flow.states[pair] in DIFFERING for pair in pairs)


def _error_of_jumps(flow: Flow, event: Event, row: int) -> float:
    """Return the relative error caused by derivatives that jump near values of the forward: a share of the elements
    equal to their error is completely wrong, if at least one is expected to be."""
    if event.direction != "backward":
        return 0.0
    received = _noise_around(flow, _forward_of(flow, _cell_around(flow, event)))
    return _JUMPING * math.sqrt(received) if received * flow.aligned.count(row) >= _SOME else 0.0


def _noise_around(flow: Flow, cell: int) -> float:
    """Return the greatest relative error of the inputs of a cell of the target (-1: the root), and of results of calls
    in it so far, as far as it is noise."""
    if cell >= 0 and (place := flow.aligned.place_of[0][cell]) >= 0:
        # A cell comes after the calls inside it, and its inputs before them.
        judge_inputs(flow, flow.aligned.event_at[place])
    return flow.unrecorded.noise.get(cell, 0.0)


def _cell_around(flow: Flow, event: Event) -> int:
    return flow.aligned.graphs[0].dump.parents[flow.aligned.calls[0][event.place]]


def _forward_of(flow: Flow, cell: int) -> int:
    return flow.aligned.graphs[0].forwards.item(cell) if cell >= 0 else -1


def _rounding_of_unrecorded(flow: Flow, event: Event, row: int) -> float:
    """Return the rounding of an input whose producer was not recorded. If APIs were recorded, the producer is not a
    product or anything as coarse, but probably a constant."""
    rounding = flow.rounding(row)
    if event.direction == "backward" or not flow.aligned.records_apis:
        return rounding
    return min(rounding, flow.outputs.rounding_of(flow.aligned.dtype_and_shape(1, row)[0]))
