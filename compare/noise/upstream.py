"""The nearest pairs upstream of a tensor, through calls that only one side makes.

What stands behind a tensor: the nearest pairs of records, through calls that only one side makes, and whether a
difference comes from there. Such a call is transparent; it has no verdict of its own.

Of two frameworks: what only one side has. Two programs are written differently; a call without a counterpart is
transparent, since what is computed from it is compared, and so is an argument that only one side's call takes.
"""

from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from msprobe.base import names
from msprobe.compare.core.noise import State
from msprobe.compare.core.reason import Reason, Why
from msprobe.compare.dataflow.events import Event
from msprobe.compare.dataflow.graph import Graph
from msprobe.compare.judge.judged import EQUAL
from msprobe.compare.judge.verdict import CAUSES, Cause
from msprobe.replay.operations import Kind
from msprobe.store.record import PARTS, TENSOR

from .operation import operation_of
from .pairs import Paired
from .reach import DIFFERING

_RECEIVED = (PARTS.index("input"), PARTS.index("parameters"))

_LEAST = 5e-324
"""For what differs without being apart: another dtype."""


@dataclass(frozen=True, slots=True)
class Received:
    """What a call received: `came` is the greatest relative error of it, `lost` that of what differs by more than noise
    (0: nothing does). `is_unclear`: an argument that is no tensor differs."""

    came: float
    lost: float
    is_unclear: bool = False

    @property
    def differs(self) -> bool:
        """Whether something differs by more than noise."""
        return self.is_unclear or self.lost > 0


class Upstream:
    """Looks backwards from inputs. `states` are those of all pairs of records, which the caller fills as it goes.

    `alone` has, by side, the outputs without a counterpart that a difference reaches, and how great it was where it
    came from. `covered` are the calls without a counterpart behind which something was compared, by side and place.
    """

    def __init__(self, paired: Paired, states: NDArray[np.uint8]) -> None:
        self._paired, self._states = paired, states
        self.alone: tuple[dict[int, float], dict[int, float]] = ({}, {})
        self.covered = set[tuple[int, int]]()
        self._known: tuple[dict[int, float], dict[int, float]] = ({}, {})  # by side and call: `_came`
        # By side: what no call made, by its content -> its pair and state.
        self._leaves: tuple[dict[Hashable, tuple[int, State]], dict[Hashable, tuple[int, State]]] = ({}, {})

    def know_leaves(self, state_of: Callable[[int, tuple[int, ...]], State | None]) -> None:
        """Judge parameters, and what no recorded call made, before the first call, whatever takes them.

        `state_of` gives the state of a pair of inputs by its rows on both sides, None for what a call made.
        """
        for event in self._paired.events:
            if not event.is_matched or event.direction != "forward":
                continue
            for row in event.rows:
                if not self._paired.is_given[row] or not self._paired.pairs.are_tensors(row):
                    continue
                sides = tuple(int(rows[row]) for rows in self._paired.rows)
                state = State.EQUAL if self._paired.equal[row] == EQUAL else state_of(row, sides)
                for known, graph, at in zip(self._leaves, self._paired.graphs, sides, strict=True):
                    mark = graph.mark(at)
                    if state is not None and mark is not None and (mark not in known or known[mark][1] in DIFFERING):
                        known[mark] = row, state

    def carry(self, event: Event) -> None:
        """What only one side computes is transparent: a propagated difference goes through."""
        side = 0 if event.side == "target" else 1
        graph, call = self._paired.graphs[side], int(self._paired.calls[side][event.place])
        behind = self.behind(side, [row for part in _RECEIVED for row in graph.tensors(call, part)])
        if behind.lost:
            self.alone[side].update(dict.fromkeys(graph.outputs(call), behind.lost))

    def lost(self, side: int, row: int) -> float:
        """How far an output is apart if it differs by more than noise, also one without a counterpart; 0 if not."""
        pair = int(self._paired.pair_of[side][row])
        return self.alone[side].get(row, 0.0) if pair < 0 else self.lost_of([pair])

    def lost_of(self, rows: Iterable[int]) -> float:
        """The greatest relative error among the pairs of records that differ by more than noise; 0 if none does."""
        differing = (row for row in rows if int(self._states[row]) in DIFFERING)
        return max((self._paired.distance(row) or _LEAST for row in differing), default=0.0)

    def received(self, rows: Iterable[int]) -> Received:
        """What stands in the records that a pair of calls received."""
        rows = list(rows)
        are_tensors = self._paired.pairs.are_tensors
        tensors, values = [row for row in rows if are_tensors(row)], [row for row in rows if not are_tensors(row)]
        found = [Received(max(map(self._paired.distance, tensors), default=0.0), self.lost_of(tensors))]
        is_unclear = any(int(self._states[row]) in DIFFERING and self._paired.is_given[row] for row in values)
        for row in values:
            sides = [int(rows[row]) for rows in self._paired.rows]
            side = 0 if sides[0] >= 0 else 1
            is_alone = min(sides) < 0 and bool(self._paired.is_given[row])
            if is_alone and self._paired.graphs[side].columns.kind[sides[side]] == TENSOR:
                found.append(self.behind(side, [sides[side]]))
        came, lost = max(one.came for one in found), max(one.lost for one in found)
        return Received(came, lost, is_unclear)

    def behind(self, side: int, rows: Iterable[int]) -> Received:
        """What stands behind inputs of one side's call: in the nearest pairs of records, through what is alone."""
        graph, came, lost = self._paired.graphs[side], 0.0, 0.0
        for row in rows:
            made_by = self.made_by(side, row)
            for made in made_by:
                came, lost = max(came, self._came(side, made)), max(lost, self.lost(side, made))
            if not made_by and (leaf := self._leaves[side].get(graph.mark(row))) is not None:
                apart = self._paired.distance(leaf[0])
                came, lost = max(came, apart), max(lost, (apart or _LEAST) if leaf[1] in DIFFERING else 0.0)
        return Received(came, lost)

    def _came(self, side: int, row: int) -> float:
        """The greatest relative error of the nearest pairs from which a record was computed.

        Known for each call once: what only one side computes may be long, and is asked for again at each of its calls.
        """
        if (pair := self._pair(side, row)) >= 0:
            return self._paired.distance(pair)
        graph, known = self._paired.graphs[side], self._known[side]
        waiting, begun = [graph.call_of(row)], set[int]()
        while waiting:
            call = waiting[-1]
            inputs = [(given, self.made_by(side, given)) for given in graph.inputs(call)]
            before = {graph.call_of(m) for _, made in inputs for m in made if self._pair(side, m) < 0}
            if call not in begun and (missing := before - known.keys() - begun):
                begun.add(call)
                waiting += missing
                continue
            waiting.pop()
            pairs = [pair for _, made in inputs for m in made if (pair := self._pair(side, m)) >= 0]
            marks = (graph.mark(given) for given, made in inputs if not made)
            pairs += [leaf[0] for mark in marks if (leaf := self._leaves[side].get(mark)) is not None]
            known[call] = max(
                (*map(self._paired.distance, pairs), *(known.get(one, 0.0) for one in before)), default=0.0
            )
            self.covered.add((side, call))
        return known[graph.call_of(row)]

    def _pair(self, side: int, row: int) -> int:
        """The pair of tensors that a record stands in; -1 for none."""
        pair = int(self._paired.pair_of[side][row])
        return pair if pair >= 0 and self._paired.pairs.are_tensors(pair) else -1

    def calls_behind(self, event: Event) -> set[tuple[int, int]]:
        """The calls without a counterpart behind what only one side's call of a pair received, by side and place; not
        those of the same layer, which is one call on the other side."""
        found = set[tuple[int, int]]()
        for row in event.rows:
            sides = [int(rows[row]) for rows in self._paired.rows]
            if min(sides) >= 0 or not self._paired.is_given[row]:
                continue
            side = 0 if sides[0] >= 0 else 1
            graph = self._paired.graphs[side]
            layer = next(graph.around(graph.call_of(sides[side])), -1)
            for made in self.made_by(side, sides[side]) if graph.columns.kind[sides[side]] == TENSOR else ():
                calls = self.ancestors(side, made)[1]
                found |= {(side, call) for call in calls if next(graph.around(call), -1) != layer or layer < 0}
        return found

    def made_by(self, side: int, row: int) -> list[int]:
        """The outputs that an input of a call is, or is the sum of."""
        graph = self._paired.graphs[side]
        if graph.names[graph.call_of(row)].direction == "backward":
            return graph.contributions(row)[0]
        kind, made = graph.origin(row)
        return [made] if kind == "call" else []

    def places(self, calls: Iterable[tuple[int, int]]) -> tuple[int, ...]:
        """Where calls that only one side makes stand in the comparison, in order; without those that hand on what they
        are given, or are given no tensor. Those that compute, and of these those that take what both sides have, tell
        more than what only arranges, or is computed besides."""
        known = [(side, call) for side, call in calls if self._changes(side, call)]
        for tells in (self._computes, self._takes_a_pair):
            known = [(side, call) for side, call in known if tells(side, call)] or known
        found = (self._paired.place_alone[side].get(call) for side, call in known)
        return tuple(sorted(place for place in found if place is not None))

    def _takes_a_pair(self, side: int, call: int) -> bool:
        graph, pair_of = self._paired.graphs[side], self._paired.pair_of[side]
        return any(int(pair_of[made]) >= 0 for row in graph.inputs(call) for made in self.made_by(side, row))

    def makes_elements(self, side: int, call: int) -> bool:
        """Whether a call's function gives other elements than those that it is given."""
        name = self._paired.graphs[side].names[call]
        known = operation_of(name.stem, name.kind == "cell")
        return known is None or known.kind is not Kind.MOVES

    def _computes(self, side: int, call: int) -> bool:
        return not self._paired.graphs[side].only_arranges(call)

    def _changes(self, side: int, call: int) -> bool:
        graph = self._paired.graphs[side]
        is_end = graph.names[call].direction == "forward" and graph.backward(call) < 0
        return graph.has_inputs(call) and (is_end or not graph.hands_on(call))

    def ancestors(self, side: int, row: int) -> tuple[set[int], set[int]]:
        """The nearest pairs of records from which a record was computed, and the calls without a partner between."""
        found, waiting, seen, calls = set[int](), [row], {row}, set[int]()
        graph = self._paired.graphs[side]
        while waiting:
            at = waiting.pop()
            if (pair := self._pair(side, at)) >= 0:
                found.add(pair)
                continue
            calls.add(graph.call_of(at))
            self.covered.add((side, graph.call_of(at)))
            for given in graph.inputs(graph.call_of(at)):
                before = self.made_by(side, given)
                waiting += [b for b in before if b not in seen]
                seen.update(before)
                if not before and (leaf := self._leaves[side].get(graph.mark(given))) is not None:
                    found.add(leaf[0])
        return found, calls


def transparent(
    paired: Paired, covered: Collection[tuple[int, int]], responsible: Collection[int]
) -> dict[int, Reason]:
    """By place: why a call that only one side makes is no difference.

    `covered` are the side and place in the dump of the calls behind which something was compared. `responsible` are the
    places of those that lead to what diverges, which are not excused.
    """
    found: dict[int, Reason] = {}
    unexcused = {*responsible, *paired.trained_alone}
    last = _last_forward(paired)
    forwards: dict[tuple[str, str], Reason] = {}
    for event in paired.events:
        reason = paired.pairs.notes.without.get(event.place)
        if event.is_matched or (reason is None and event.place in unexcused):
            continue
        side = 0 if event.side == "target" else 1
        call = int(paired.calls[side][event.place])
        if reason is None and _hands_on(paired, side, call):
            reason = Reason(Why.HANDS_ON)
        elif reason is None and event.direction == "backward":
            forward = names.counterpart(event.called, "forward")
            reason = Reason(Why.OF_FORWARD) if (event.side, forward) in forwards else None
        if reason is None and event.kind != "parameters_grad":
            graph = paired.graphs[side]
            is_covered = (side, call) in covered or _is_returned(paired, side, call)
            if is_covered or (event.kind == "cell" and call in graph.inside):
                reason = Reason(Why.COMPARED_LATER)
            elif event.direction == "backward" or call != last[side]:
                reason = Reason(Why.NOBODY_USES)
        if reason is not None:
            found[event.place] = reason
            forwards[event.side, event.called] = reason
    return found


def _is_returned(paired: Paired, side: int, call: int) -> bool:
    """Whether what a call returns is what a cell around it returns that has a counterpart."""
    graph = paired.graphs[side]
    made = {graph.alias(row) for row in graph.outputs(call)}
    returned = (row for cell in graph.around(call) for row in graph.outputs(cell))
    return any(int(paired.pair_of[side][row]) >= 0 and graph.alias(row) in made for row in returned)


def _hands_on(paired: Paired, side: int, call: int) -> bool:
    """Whether a call, or the forward of a backward call, returns the tensor that it is given."""
    graph = paired.graphs[side]
    forward = graph.number.get(names.counterpart(graph.columns.names[call], "forward"), call)
    return graph.names[forward].kind == "api" and graph.hands_on(forward)


def _last_forward(paired: Paired) -> list[int]:
    """By side: the last forward call that computes something itself; what it returns may be the loss."""
    return [max(filter(partial(_computes, graph), range(len(graph.names))), default=-1) for graph in paired.graphs]


def _computes(graph: Graph, call: int) -> bool:
    """Whether a forward call computes something of its inputs itself, and makes no constant."""
    name = graph.names[call]
    known = operation_of(name.stem, name.kind == "cell")
    is_constant = known is not None and known.kind is Kind.CREATES
    return name.direction == "forward" and call not in graph.inside and not is_constant


def one_sided(paired: Paired, states: NDArray[np.uint8]) -> dict[int, Reason]:
    """By row: why a record that only one side's call has is no difference; not where the call computes otherwise."""
    sums = np.flatnonzero(paired.comparison.causes == CAUSES.index(Cause.OTHER_GRADIENT)).tolist()
    found = dict.fromkeys(sums, Reason(Why.COMPARED_LATER))  # one side's is a part of the other's
    for event in paired.events:
        if not event.is_matched:
            continue
        alone = [row for row in event.rows if min(int(rows[row]) for rows in paired.rows) < 0]
        if not alone or any(states[row] == State.DIVERGENT for row in paired.outputs(event)):
            continue
        for row in alone:
            if row in paired.pairs.notes.alone:
                continue  # why it has none is known
            if paired.is_given[row] or not _is_used(paired, row):
                found[row] = Reason(Why.OTHER_WAY if paired.is_given[row] else Why.NOBODY_USES)
    return found


def _is_used(paired: Paired, row: int) -> bool:
    """Whether a recorded call uses an output of one side."""
    for rows, graph in zip(paired.rows, paired.graphs, strict=True):
        at = int(rows[row])
        if at >= 0 and graph.columns.kind[at] == TENSOR and graph.users.get(graph.alias(at)):
            return True
    return False
