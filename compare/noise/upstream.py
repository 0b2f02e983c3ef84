"""Find the nearest pairs of records from which a tensor was computed, through calls that only one side makes.

Two programs are written differently. A call without a counterpart is transparent: it has no verdict, since the results
computed from it are compared. The same applies to an argument that only one side's call takes.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from msprobe.base.memo import cached_by_identity
from msprobe.compare.core.noise import DIFFERING, State
from msprobe.compare.core.standard import family
from msprobe.compare.dataflow.events import Event
from msprobe.compare.dataflow.graph import traverse
from msprobe.compare.judge.judged import EQUAL
from msprobe.compare.locate.exemptions import not_collected
from msprobe.replay.operations import Kind
from msprobe.store.record import INPUT, PARAMETERS

from .flow import Flow
from .leaves import leaf_state
from .operation import operation_of
from .pairs import AlignedGraphs

_RECEIVED = (INPUT, PARAMETERS)

_LEAST = 5e-324
"""Relative error of tensors that differ although their distance is zero: another dtype."""


class Received(NamedTuple):
    """The differences that a call received: `error` is their greatest relative error, `propagated` that of those above
    noise (0: none is). `is_unclear`: an argument that is not a tensor differs."""

    error: float
    propagated: float
    is_unclear: bool = False

    @property
    def differs(self) -> bool:
        """Return whether an argument differs by more than noise."""
        return self.is_unclear or self.propagated > 0


@cached_by_identity
def _leaves(flow: Flow) -> tuple[dict[int, tuple[int, State]], dict[int, tuple[int, State]]]:
    """Return by side the parameters, and the tensors that no recorded call returned, by content: the pair and its state
    at any call that takes it. Only calls of one side need them."""
    aligned, found = flow.aligned, (dict[int, tuple[int, State]](), dict[int, tuple[int, State]]())
    are_inputs = np.asarray(aligned.is_input) & np.asarray(aligned.are_tensors)
    for event in aligned.events_with(are_inputs):
        for row in event.rows if event.direction == "forward" else ():
            if not are_inputs[row]:
                continue
            sides = aligned.rows[0][row], aligned.rows[1][row]
            state = State.EQUAL if aligned.equal[row] == EQUAL else leaf_state(flow, row)
            for side, (known, graph, at) in enumerate(zip(found, aligned.graphs, sides, strict=True)):
                mark = graph.numbers[at]
                if state is None or mark < 0:
                    continue
                if len(parts := aligned.pairs_of(side, at)) > 1:  # a whole differs as far as one of its parts
                    is_worse = mark not in known or aligned.distance(row) > aligned.distance(known[mark][0])
                    if is_worse or known[mark][0] not in parts:
                        known[mark] = row, state
                elif mark not in known or known[mark][1] in DIFFERING:
                    known[mark] = row, state
    return found


def carry(flow: Flow, event: Event) -> None:
    """Propagate a difference through a call that only one side makes."""
    side = 0 if event.side == "target" else 1
    graph, call = flow.aligned.graphs[side], flow.aligned.calls[side][event.place]
    received = _received(flow, side, [row for part in _RECEIVED for row in graph.columns.tensors(call, part)])
    if received.propagated:
        flow.unmatched[side].update(dict.fromkeys(graph.outputs(call), received.propagated))


def propagated_to(flow: Flow, side: int, row: int) -> float:
    """Return the relative error of an output, also of one without a counterpart; 0 if it is noise."""
    pairs = flow.aligned.pairs_of(side, row)
    return propagated_of(flow, pairs) if pairs else flow.unmatched[side].get(row, 0.0)


def propagated_of(flow: Flow, rows: Iterable[int]) -> float:
    """Return the greatest relative error among the pairs of records that differ by more than noise; 0 if none
    does."""
    differing = (row for row in rows if flow.states[row] in DIFFERING)
    return max((size_of(flow, row) for row in differing), default=0.0)


def size_of(flow: Flow, row: int) -> float:
    """Return the relative error of a pair of records that differs; if a mask hides it, that of its inputs."""
    return max(flow.aligned.distance(row) or _LEAST, flow.masked.get(row, 0.0))


def without_masked(flow: Flow, rows: Iterable[int]) -> list[int]:
    """Return the records of a forward call that may explain the results of its backward call.

    Not the inputs whose differences a mask hides, if the outputs agree, nor non-tensor arguments, if the outputs
    show the size of their effect.
    """
    found, aligned = list(rows), flow.aligned
    outputs = (row for row in found if not aligned.is_input[row] and aligned.are_tensors[row])
    if any(flow.states[row] in DIFFERING for row in outputs):
        return [row for row in found if aligned.are_tensors[row] or flow.states[row] not in DIFFERING]
    return [row for row in found if row not in flow.masked]


def received(flow: Flow, rows: Iterable[int]) -> Received:
    """Return the differences in the records that a pair of calls received."""
    aligned, states, are_tensors = flow.aligned, flow.states, flow.aligned.are_tensors
    error, propagated, is_unclear = 0.0, 0.0, False
    for row in rows:
        if are_tensors[row]:
            if (distance := aligned.distance(row)) > error:
                error = distance
            if states[row] in DIFFERING:
                propagated = max(propagated, distance or _LEAST, flow.masked.get(row, 0.0))
        elif aligned.is_input[row]:
            is_unclear = is_unclear or flow.states[row] in DIFFERING
            if (found := aligned.unmatched_tensor(row)) is not None:
                received = _received(flow, found[0], [found[1]])
                error, propagated = max(error, received.error), max(propagated, received.propagated)
    return Received(error, propagated, is_unclear)


def _received(flow: Flow, side: int, rows: Iterable[int]) -> Received:
    """Return the differences that inputs of one side's call received from the nearest pairs of records, through
    calls of that side."""
    graph, error, propagated = flow.aligned.graphs[side], 0.0, 0.0
    for row in rows:
        made_by = flow.aligned.made_by(side, row)
        for made in made_by:
            if _is_other_constant(flow, side, made):
                continue
            error = max(error, _error(flow, side, made))
            propagated = max(propagated, propagated_to(flow, side, made))
        if not made_by and (leaf := _leaves(flow)[side].get(graph.numbers[row])) is not None:
            distance = flow.aligned.distance(leaf[0])
            error = max(error, distance)
            propagated = max(propagated, (distance or _LEAST) if leaf[1] in DIFFERING else 0.0)
    return Received(error, propagated)


def _is_other_constant(flow: Flow, side: int, made: int) -> bool:
    """Return whether an output is a constant that differs: a mask that is written in another way.

    It does not explain differences of results: each side uses its mask, and the results must agree as if both were
    right. Integers select elements, as positions do, and have only one form.
    """
    graph, pair = flow.aligned.graphs[side], flow.aligned.pair_of[side][made]
    if pair < 0 or flow.states[pair] not in DIFFERING or graph.call_of[made] not in graph.constant_calls:
        return False
    return family(graph.columns.dtype(made)) != "int"


def _pairs(flow: Flow, side: int, row: int) -> set[int]:
    """Return the pairs of tensors that a record is in."""
    return {pair for pair in flow.aligned.pairs_of(side, row) if flow.aligned.are_tensors[pair]}


def _step(flow: Flow, side: int, call: int) -> tuple[set[int], set[int]]:
    """Return one step upstream from a call: the pairs of records that are its inputs, and the unmatched calls that
    returned the other inputs."""
    if (side, call) not in flow.steps:
        flow.steps[side, call] = _one_step(flow, side, call)
    return flow.steps[side, call]


def _one_step(flow: Flow, side: int, call: int) -> tuple[set[int], set[int]]:
    graph, pairs, calls = flow.aligned.graphs[side], set[int](), set[int]()
    for row in graph.inputs(call):
        made_by = flow.aligned.made_by(side, row)
        for made in made_by:
            if _is_other_constant(flow, side, made):
                continue
            if found := _pairs(flow, side, made):
                pairs |= found
            else:
                calls.add(graph.call_of[made])
        if not made_by and (leaf := _leaves(flow)[side].get(graph.numbers[row])) is not None:
            pairs.add(leaf[0])
    return pairs, calls


def ancestors(flow: Flow, side: int, row: int) -> tuple[set[int], set[int]]:
    """Return the nearest pairs of records from which a record was computed, and the unmatched calls between."""
    if pairs := _pairs(flow, side, row):
        return pairs, set()
    last = flow.aligned.graphs[side].call_of[row]
    calls = set(traverse([last], lambda call: _step(flow, side, call)[1]))
    flow.covered.update((side, call) for call in calls)
    return set[int]().union(*(_step(flow, side, call)[0] for call in calls)), calls


def moved_from(flow: Flow, side: int, row: int) -> int:
    """Return the pair of tensors whose elements a record has, through calls of one side that only move elements; -1
    for none."""
    graph = flow.aligned.graphs[side]
    while not (pairs := _pairs(flow, side, row)):
        call = graph.call_of[row]
        made = {one for at in graph.inputs(call) for one in flow.aligned.made_by(side, at)}
        is_moved = graph.only_arranges(call) or not makes_elements(flow.aligned, side, call)
        if not is_moved or len(made) != 1:
            return -1
        (row,) = made
    return min(pairs) if len(pairs) == 1 else -1


def _error(flow: Flow, side: int, row: int) -> float:
    """Return the greatest relative error of the nearest pairs from which a record was computed.

    It is cached for each call: sequences of calls of one side may be long, and each of their calls requests it.
    """
    if found := _pairs(flow, side, row):
        return max(map(flow.aligned.distance, found))
    last = flow.aligned.graphs[side].call_of[row]
    waiting, begun, known = [last], set[int](), flow.errors
    while waiting:
        call = waiting[-1]
        pairs, before = _step(flow, side, call)
        missing = {one for one in before if (side, one) not in known and one not in begun}
        if call not in begun and missing:
            begun.add(call)
            waiting += missing
            continue
        waiting.pop()
        errors = (*map(flow.aligned.distance, pairs), *(known.get((side, one), 0.0) for one in before))
        known[side, call] = max(errors, default=0.0)
        flow.covered.add((side, call))
    return known[side, last]


def upstream_calls(flow: Flow, event: Event) -> set[tuple[int, int]]:
    """Return the calls without a counterpart, by side and number, that computed the arguments of only one side of a
    pair of calls; not those of the same layer, which is one call on the other side."""
    found = set[tuple[int, int]]()
    inputs = (row for row in event.rows if flow.aligned.is_input[row])
    for side, at, calls in _before_lone_tensors(flow, inputs):
        graph = flow.aligned.graphs[side]
        layer = graph.dump.parents[graph.call_of[at]]
        found |= {(side, call) for call in calls if graph.dump.parents[call] != layer or layer < 0}
    return found


def _before_lone_tensors(flow: Flow, rows: Iterable[int]) -> Iterator[tuple[int, int, set[int]]]:
    """Yield side and row of each tensor among some rows that only one side has, and the calls without a counterpart
    that computed it."""
    for row in rows:
        if (one := flow.aligned.unmatched_tensor(row)) is not None:
            side, at = one
            for made in flow.aligned.made_by(side, at):
                yield side, at, ancestors(flow, side, made)[1]


def composed_calls(flow: Flow, event: Event) -> int:
    """Return the number of calls that together compute the outputs of a pair of calls, as in `composed`: itself and
    the calls of one side that computed its inputs."""
    lone = _before_lone_tensors(flow, flow.aligned.inputs_of(event))
    between = {(side, call) for side, _, calls in lone for call in calls}
    if not between:
        return 1
    own = {(side, calls[event.place]) for side, calls in enumerate(flow.aligned.calls)}
    return composed(flow.aligned, between | own)


def composed(aligned: AlignedGraphs, calls: Iterable[tuple[int, int]]) -> int:
    """Return how many of some calls compute elements, on the side with more of them; at least 1. Each of them may
    amplify a difference."""
    sides = Counter(side for side, call in calls if makes_elements(aligned, side, call))
    return max(sides.values(), default=1)


def places(aligned: AlignedGraphs, calls: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    """Return the places of calls that only one side makes, in order; without those that return their input, or
    receive no tensor.

    If some compute from data, only these: not those that create constants or only arrange elements. Of these, if
    some take a tensor that both sides have, only these.
    """
    changing = [(side, call) for side, call in calls if _changes(aligned, side, call)]
    known = [one for one in changing if one[1] not in aligned.graphs[one[0]].constant_calls] or changing
    computing = [one for one in known if not aligned.graphs[one[0]].only_arranges(one[1])] or known
    informative = [one for one in computing if _uses_a_pair(aligned, *one)] or computing
    return unmatched_places(aligned, informative)


def unmatched_places(aligned: AlignedGraphs, calls: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    """Return the places of calls that only one side makes, in order."""
    found = (aligned.unmatched_place[side].get(call) for side, call in calls)
    hidden = frozenset[int]() if aligned.has_other_kernels else not_collected(aligned.pairs)
    return tuple(sorted(place for place in found if place is not None and place not in hidden))


def _changes(aligned: AlignedGraphs, side: int, call: int) -> bool:
    graph = aligned.graphs[side]
    is_end = graph.names[call].direction == "forward" and graph.dump.counterpart(call, "backward") < 0
    return graph.has_inputs(call) and (is_end or not graph.passes_through(call))


def _uses_a_pair(aligned: AlignedGraphs, side: int, call: int) -> bool:
    inputs = aligned.graphs[side].inputs(call)
    return any(aligned.pair_of[side][made] >= 0 for row in inputs for made in aligned.made_by(side, row))


def makes_elements(aligned: AlignedGraphs, side: int, call: int) -> bool:
    """Return whether a call's function returns elements other than those of its inputs."""
    known = operation_of(aligned.graphs[side].names[call])
    return known is None or known.kind is not Kind.MOVES
