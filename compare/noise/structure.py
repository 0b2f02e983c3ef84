"""Calls that only one side makes: whether tensors that are computed from them are compared, and agree.

Tensors are paired, not calls. A call without a counterpart between paired tensors is not judged itself: the nearest
paired tensors that are computed from it are compared with the difference that their own nearest paired ancestors
explain. If they agree, the call is another form of the same program. If one of them diverges, the calls that lead to it
are the difference. If no recorded call uses its results, unrecorded operations of the cell around it may: then their
results are compared, that is, the later inputs of calls inside that cell that no recorded call produced, and the cell's
outputs. Outside of all cells there is no evidence that it is without effect: an optimizer may use it.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from enum import IntFlag
from functools import cached_property

import numpy as np

from msprobe.base import names
from msprobe.compare.core.noise import FULL, OPAQUE, ROUNDING, State
from msprobe.compare.core.reason import CAUSES, Cause, Reason, Why
from msprobe.compare.dataflow.events import Event
from msprobe.compare.dataflow.graph import Graph
from msprobe.compare.judge.cross_framework import combined, errors_by_statistics
from msprobe.compare.judge.judged import EQUAL
from msprobe.compare.locate.exemptions import not_collected, trained_on_one_side
from msprobe.replay.operations import Kind
from msprobe.store.record import NULL, TENSOR, Record

from .deviations import ACROSS
from .lone_leaves import distance_of_statistics, statistics_of
from .operation import operation_of
from .pairs import AlignedGraphs

LIMIT_OF_PARTS = 1e-5
"""Relative to their scale, the difference of statistics of parts and of their whole up to which they agree."""


class Consequence(IntFlag):
    """The known consequences of a call that only one side makes; flags, as several tensors may be computed from it."""

    NONE = 0
    """No recorded call uses its results, and the cell around it returns other tensors."""
    COMPARED = 1
    """A tensor that is computed from it was judged."""
    OPEN = 2
    """A tensor that is computed from it could not be judged."""
    DIFFERENT = 4
    """A tensor that is computed from it is not bitwise equal."""
    LAST = 8
    """It may be a result of the run that is not compared: the run ends with it, or it is outside of all cells."""
    WRONG = 16
    """Unrecorded code produced a tensor that diverges, and may have computed it from this call, whose results differ
    from those of the corresponding calls of the other side."""


class Structure:
    """The nearest paired tensors of the calls that only one side makes. `states` are those of all pairs of records."""

    def __init__(self, aligned: AlignedGraphs, states: "memoryview[int]") -> None:
        self._aligned, self._states = aligned, states
        self._made_up: dict[int, bool] = {}
        self._known: tuple[dict[int, Consequence], dict[int, Consequence]] = ({}, {})
        for side, places in enumerate(aligned.unmatched_place):
            # Calls that use a tensor come after the call that produced it.
            for call in sorted(places, reverse=True):
                self._known[side][call] = self._consequence(side, call)

    def of(self, side: int, call: int) -> Consequence:
        """Return the consequence of a call of one side."""
        return self._known[side].get(call, Consequence.NONE)

    @property
    def has_different_results(self) -> bool:
        """Return whether a tensor that is computed from a call of one side is not bitwise equal."""
        return any(found & Consequence.DIFFERENT for known in self._known for found in known.values())

    def _consequence(self, side: int, call: int) -> Consequence:
        graph, found = self._aligned.graphs[side], Consequence.NONE
        is_backward = graph.names[call].direction == "backward"
        following = self._uses_of_gradient if is_backward else self._users
        for row in graph.outputs(call):
            for one in self._returned[side].get(graph.alias(row), ()):
                found |= self._of_pair(one)
            for one in following(side, row):
                found |= one
        if not found and self._has_same_results and call == self._last[side]:
            return Consequence.COMPARED
        if not found and not is_backward:
            found = self._of_unrecorded(side, call)
        if not found and (call in self._ends[side] or self._may_be_used_outside(graph, call)):
            return Consequence.LAST
        return found

    def _of_unrecorded(self, side: int, call: int) -> Consequence:
        """Return the consequence of results that unrecorded operations of the cell around a call may compute from its
        outputs; none if all of them were recorded."""
        graph, pair_of, found = self._aligned.graphs[side], self._aligned.pair_of[side], Consequence.NONE
        cell = graph.dump.parents[call]
        if cell < 0 or not graph.has_outputs(call):
            return found
        if self._aligned.place_of[side][cell] < 0:
            return self._known[side].get(cell, found)
        made = [row for taker, row in self._made_unrecorded[side].get(cell, ()) if taker > call]
        made += [row for row in graph.outputs(cell) if graph.alias(row) == row]
        pairs = [pair for row in made if (pair := pair_of[row]) >= 0 and self._aligned.are_tensors[pair]]
        for pair in pairs:
            found |= self._of_pair(pair)
        is_wrong = any(self._states[pair] == State.DIVERGENT for pair in pairs)
        if is_wrong and not self._make_up_each_other(self._aligned.place_of[side][cell]):
            found |= Consequence.WRONG
        return found

    def _make_up_each_other(self, place: int) -> bool:
        """Return whether the calls that only one side makes directly inside a pair of cells return the same values as
        those of the other side: for example three parts, and the whole that consists of them."""
        if (known := self._made_up.get(place)) is not None:
            return known
        aligned, both, errors = self._aligned, list[Record](), [LIMIT_OF_PARTS]
        for side, graph in enumerate(aligned.graphs):
            below = graph.below(aligned.calls[side][place])
            calls = [call for call in below if graph.names[call].direction == "forward"]
            rows = [row for call in calls if call in aligned.unmatched_place[side] for row in graph.outputs(call)]
            parts = [graph.columns.record(row, graph.call_of[row]) for row in rows]
            size = sum(math.prod(part.shape or ()) for part in parts)
            if (whole := combined(parts)) is not None:
                both.append(replace(parts[0], shape=(size,), statistics=whole))
            errors += (
                OPAQUE * aligned.distance(pair)
                for call in calls
                for row in graph.inputs(call)
                if (pair := aligned.pair_of[side][row]) >= 0 and self._states[pair] == State.NOISE
            )
        found = False
        if len(both) == 2 and both[0].shape == both[1].shape and both[0].statistics and both[1].statistics:
            apart = errors_by_statistics(both[0].statistics, both[1].statistics, both[0], both[1])
            found = apart is not None and not apart.lost and apart.worst <= max(errors)
        self._made_up[place] = found
        return found

    @cached_property
    def _made_unrecorded(self) -> tuple[dict[int, list[tuple[int, int]]], dict[int, list[tuple[int, int]]]]:
        """Return by side and cell the forward calls directly inside it, each with an input that unrecorded code
        produced."""
        found: tuple[dict[int, list[tuple[int, int]]], dict[int, list[tuple[int, int]]]] = (
            defaultdict(list),
            defaultdict(list),
        )
        for known, graph in zip(found, self._aligned.graphs, strict=True):
            for call, rows in graph.untraced_inputs.items():
                known[graph.dump.parents[call]] += ((call, row) for row in rows)
        return found

    def _may_be_used_outside(self, graph: Graph, call: int) -> bool:
        """Return whether code outside of all cells may use the results of a call."""
        is_forward = graph.names[call].direction == "forward"
        return is_forward and graph.dump.parents[call] < 0 and graph.has_outputs(call)

    def _users(self, side: int, row: int) -> Iterator[Consequence]:
        """Yield the consequence of each use of an output of a forward call."""
        graph, pair_of = self._aligned.graphs[side], self._aligned.pair_of[side]
        for used in graph.users.get(graph.alias(row), ()):
            if (pair := pair_of[used]) >= 0:
                yield self._of_pair(pair)
                continue
            call = graph.call_of[used]
            if self._aligned.place_of[side][call] < 0:
                yield self._known[side].get(call, Consequence.NONE)
                continue
            # An argument that only one side's call takes: the results of the call are compared.
            for returned in graph.outputs(call):
                if (pair := pair_of[returned]) >= 0:
                    yield self._of_pair(pair)

    def _uses_of_gradient(self, side: int, row: int) -> Iterator[Consequence]:
        """Yield the consequence of an input gradient of a backward call: that of the gradients to which it is added."""
        graph, pair_of = self._aligned.graphs[side], self._aligned.pair_of[side]
        made, back = graph.receiver_of_gradient(row)
        if back < 0:
            return
        if self._aligned.place_of[side][back] < 0:
            yield self._known[side].get(back, Consequence.NONE)
            return
        for incoming in graph.incoming(made, back):
            if (pair := pair_of[incoming]) >= 0:
                yield self._of_pair(pair)

    def _of_pair(self, row: int) -> Consequence:
        found = Consequence.OPEN if self._states[row] == State.UNKNOWN else Consequence.COMPARED
        return found if self._aligned.equal[row] == EQUAL else found | Consequence.DIFFERENT

    @cached_property
    def _returned(self) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
        """Return by side and innermost output the pairs of outputs of cells, and of gradients of parameters, that are
        the same tensor."""
        aligned = self._aligned
        found: tuple[dict[int, list[int]], dict[int, list[int]]] = (defaultdict(list), defaultdict(list))
        are_outputs = np.asarray(aligned.are_tensors) & ~np.asarray(aligned.is_input)
        for event in aligned.events_with(are_outputs):
            for row in event.rows if event.kind != "api" else ():
                if are_outputs[row]:
                    for side, graph in enumerate(aligned.graphs):
                        if row in aligned.pairs_of(side, at := aligned.rows[side][row]):
                            found[side][graph.alias(at)].append(row)
        return found

    @cached_property
    def _last(self) -> tuple[int, ...]:
        return tuple(map(last_forward, self._aligned.graphs))

    @cached_property
    def _has_same_results(self) -> bool:
        return have_same_results(self._aligned)

    @cached_property
    def _ends(self) -> tuple[set[int], set[int]]:
        """Return by side the calls with which a run ends."""
        ours, theirs = (set(last_calls(graph)) for graph in self._aligned.graphs)
        return ours, theirs


def last_calls(graph: Graph) -> Iterator[int]:
    """Yield the calls whose results no recorded call uses, and may be those of the run.

    If gradients were recorded, these are the calls at which gradients begin; otherwise the last call that computes
    something.
    """
    if graph.has_backward:
        for call, name in enumerate(graph.names):
            if name.direction == "forward" and graph.dump.counterpart(call, "backward") >= 0:
                rows = list(graph.outputs(call))
                if rows and not any(graph.users.get(graph.alias(row)) for row in rows):
                    yield call
        return
    if (last := last_forward(graph)) >= 0:
        yield last


def harmless_structure(
    aligned: AlignedGraphs, states: "memoryview[int]", responsible: Collection[int]
) -> dict[int, Reason]:
    """Return by place why a call of one framework that only one side makes is not a difference.

    `responsible` are the places of those that lead to a tensor that diverges.
    """
    structure = Structure(aligned, states)
    found: dict[int, Reason] = {}
    left = {*responsible, *trained_on_one_side(aligned.pairs), *not_collected(aligned.pairs)}
    gradients: list[Event] = []
    for event in aligned.one_sided:
        if event.place in left or not event.direction:
            continue
        if event.kind == "parameters_grad":
            gradients.append(event)
            continue
        side = 0 if event.side == "target" else 1
        graph, call = aligned.graphs[side], aligned.calls[side][event.place]
        consequence = structure.of(side, call)
        if consequence & (Consequence.OPEN | Consequence.WRONG):
            continue
        if event.direction == "backward":
            forward = graph.dump.counterpart(call, "forward")
            if aligned.unmatched_place[side].get(forward, -1) in found:
                found[event.place] = Reason(Why.OF_FORWARD)
            elif consequence & Consequence.COMPARED:
                found[event.place] = Reason(Why.COMPARED_LATER)
            elif not graph.has_outputs(call):
                found[event.place] = Reason(Why.NOBODY_USES)
        elif graph.names[call].kind == "api" and graph.passes_through(call):
            found[event.place] = Reason(Why.PASSED_THROUGH)
        elif not consequence & Consequence.LAST:
            why = Why.COMPARED_LATER if consequence & Consequence.COMPARED else Why.NOBODY_USES
            found[event.place] = Reason(why)
    for event in gradients:
        if event.owners and all(owner in found for owner in event.owners):
            found[event.place] = Reason(Why.OF_FORWARD)
    return found


def harmless_arguments(aligned: AlignedGraphs, states: "memoryview[int]") -> dict[int, Reason]:
    """Return by row why an argument that only one side's call of a pair has is not a difference: both return the same.

    Noise is evidence for that if the elements are known, as the golden's function was executed on the target's inputs;
    by statistics only if it is the rounding of a kernel in float32.
    """

    def is_same(row: int) -> bool:
        is_small = aligned.has_elements or aligned.distance(row) <= FULL
        return bool(states[row] == State.EQUAL or (states[row] == State.NOISE and is_small))

    are_unmatched = aligned.comparison.causes == CAUSES.index(Cause.UNMATCHED)
    found: dict[int, Reason] = {}
    for place in np.unique(aligned.pairs.call_of[are_unmatched]).tolist():
        event = aligned.event_at[place]
        if not event.is_matched:
            continue
        outputs = [row for row in aligned.outputs(event) if aligned.are_tensors[row]]
        returns_same = bool(outputs) and all(map(is_same, outputs))
        for row in event.rows:
            if are_unmatched[row] and (returns_same if aligned.is_input[row] else _is_no_gradient(aligned, row)):
                found[row] = Reason(Why.NO_EFFECT)
    return found


def _is_no_gradient(aligned: AlignedGraphs, row: int) -> bool:
    """Return whether a record of one side states that an argument has no gradient."""
    side = 0 if aligned.rows[0][row] >= 0 else 1
    is_null = aligned.graphs[side].columns.kind[aligned.rows[side][row]] == NULL
    return is_null and aligned.direction(row) == "backward"


def undecided_states(aligned: AlignedGraphs) -> "memoryview[int]":
    """Return the states of pairs of records if only bitwise equality is evidence."""
    are_equal = np.asarray(aligned.equal) == EQUAL
    return np.where(are_equal, State.EQUAL, State.UNKNOWN).astype(np.uint8).data


def transparent(
    aligned: AlignedGraphs, covered: Collection[tuple[int, int]], responsible: Collection[int]
) -> dict[int, Reason]:
    """Return, by place, why a call that only one side makes is not a difference.

    `covered` are the side and number of the calls whose results lead to a comparison. `responsible` are the places of
    the calls that lead to a divergence, which are not exempt.
    """
    found: dict[int, Reason] = {}
    suspects = {*responsible, *trained_on_one_side(aligned.pairs)}
    last = [last_forward(graph) for graph in aligned.graphs]
    has_same_results = have_same_results(aligned)
    forwards: dict[tuple[str, str], Reason] = {}
    for event in aligned.one_sided:
        reason = aligned.pairs.notes.without.get(event.place)
        if reason is None and event.place in suspects:
            continue
        side = 0 if event.side == "target" else 1
        graph, call = aligned.graphs[side], aligned.calls[side][event.place]
        forward = names.counterpart(event.called, "forward")
        if reason is None and _returns_input(graph, graph.dump.place.get(forward, call)):
            reason = Reason(Why.PASSED_THROUGH)
        elif reason is None and event.direction == "backward" and (event.side, forward) in forwards:
            reason = Reason(Why.OF_FORWARD)
        if reason is None and event.kind != "parameters_grad":
            is_covered = (side, call) in covered or _is_returned(aligned, side, call)
            is_covered = is_covered or (has_same_results and call == last[side])
            if is_covered or (event.kind == "cell" and call in graph.inside):
                reason = Reason(Why.COMPARED_LATER)
            elif event.direction == "backward" or call != last[side]:
                is_used = any(graph.users.get(graph.alias(row)) for row in graph.outputs(call))
                reason = Reason(Why.NOT_COMPARED if is_used else Why.NOBODY_USES)
        if reason is not None:
            found[event.place] = reason
            forwards[event.side, event.called] = reason
    return found


def details(
    aligned: AlignedGraphs, covered: Collection[tuple[int, int]], explained: Mapping[int, Reason]
) -> Iterator[int]:
    """Yield the places of calls whose function the other framework does not have, and need not have: a tensor that is
    computed from them is compared, or they return no tensor. `explained` is the result of `transparent`."""
    for place, reason in explained.items():
        if reason.why is Why.NO_COUNTERPART:
            side = 0 if aligned.calls[0][place] >= 0 else 1
            call = aligned.calls[side][place]
            if (side, call) in covered or not aligned.graphs[side].has_outputs(call):
                yield place


def _returns_input(graph: Graph, call: int) -> bool:
    return graph.names[call].kind == "api" and graph.passes_through(call)


def _is_returned(aligned: AlignedGraphs, side: int, call: int) -> bool:
    """Return whether a call returns the result of a cell around it that has a counterpart."""
    graph = aligned.graphs[side]
    made = {graph.alias(row) for row in graph.outputs(call)}
    returned = (row for cell in graph.around(call) for row in graph.outputs(cell))
    return any(aligned.pair_of[side][row] >= 0 and graph.alias(row) in made for row in returned)


def last_forward(graph: Graph) -> int:
    """Return the last forward call that computes its result from inputs, not a constant: it may be the loss. -1 if
    there is none."""
    for call in range(len(graph.names) - 1, -1, -1):
        name = graph.names[call]
        if name.direction == "forward" and call not in graph.inside:
            known = operation_of(name)
            if known is None or known.kind is not Kind.CREATES:
                return call
    return -1


def have_same_results(aligned: AlignedGraphs) -> bool:
    """Return whether both sides end with unmatched calls that return the same: a loss, written in two ways.

    They agree within the rounding of one call; between two frameworks, within that of a function that they approximate.
    """
    ends = [(graph, last_forward(graph)) for graph in aligned.graphs]
    if any(call < 0 or aligned.place_of[side][call] >= 0 for side, (_, call) in enumerate(ends)):
        return False
    rows = [[row for row in graph.outputs(call) if graph.columns.kind[row] == TENSOR] for graph, call in ends]
    if any(len(found) != 1 for found in rows):
        return False
    (graph, _), (other, _) = ends
    ours, theirs = rows[0][0], rows[1][0]
    lengths = [
        [length for length in one.columns.shape(row) or () if length != 1]
        for one, row in ((graph, ours), (other, theirs))
    ]
    if lengths[0] != lengths[1]:
        return False
    distance = distance_of_statistics(statistics_of(graph.columns, ours), statistics_of(other.columns, theirs))
    return distance <= (ACROSS if aligned.has_other_kernels else ROUNDING)


def one_sided(aligned: AlignedGraphs, states: "memoryview[int]") -> dict[int, Reason]:
    """Return, by row, why a record that only one side's call has is not a difference; not if the call's outputs
    diverge."""
    found: dict[int, Reason] = {}
    are_unmatched = np.minimum(aligned.pairs.target_rows, aligned.pairs.golden_rows) < 0
    for event in aligned.events_with(are_unmatched):
        if any(states[row] == State.DIVERGENT for row in aligned.outputs(event)):
            continue
        for row in event.rows:
            if not are_unmatched[row] or row in aligned.pairs.notes.partnerless:
                continue  # the reason is known
            if aligned.is_input[row] or not _is_used(aligned, row):
                found[row] = Reason(Why.OTHER_WAY if aligned.is_input[row] else Why.NOBODY_USES)
    return found


def _is_used(aligned: AlignedGraphs, row: int) -> bool:
    """Return whether a recorded call uses an output of one side."""
    for rows, graph in zip(aligned.rows, aligned.graphs, strict=True):
        at = rows[row]
        if at >= 0 and graph.columns.kind[at] == TENSOR and graph.users.get(graph.alias(at)):
            return True
    return False
