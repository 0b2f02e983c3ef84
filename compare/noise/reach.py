"""How far a difference reaches: whether a path along the dataflow leads from it to a result.

A difference is *material* if it reaches a loss, an output of the root, the gradient of a parameter, a saved value, or
if nothing is recorded after it. It is *harmless* if it dies out: no call uses the output, or the calls that use it
agree.

Three rules keep this from being assumed:

- A leaf (an argument, or a tensor that no recorded call produced) dies out only if there is evidence: its effect on the
  call is below the rounding of one operation, or at most a thousandth of it remains downstream.
- If a later call differs and no other difference explains it, the earlier difference is the cause. Code that was not
  recorded may have propagated it: it may have used an output that no recorded call uses.
- A call that receives a harmless difference is not a divergence because of it.
"""

import math
from bisect import bisect
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from msprobe.compare.core.noise import DIFFERING, ROUNDING, VANISHED, Consequence, NoConsequence, State
from msprobe.compare.dataflow.events import Event
from msprobe.compare.dataflow.graph import Graph, traverse
from msprobe.compare.locate.exemptions import trained_on_one_side
from msprobe.store.record import DEBUG, OUTPUT, PARAMETERS_GRAD, TENSOR

from .flow import Flow
from .outputs import is_different_inside
from .pairs import AlignedGraphs

_RETURNED = (OUTPUT, PARAMETERS_GRAD, DEBUG)

_Node = int | tuple[int, int]
"""A row of the target, or a cell (-1: the root) and a position among the calls directly inside it that received results
of unrecorded operations: everything that such operations compute from there on."""


class _Reach:
    """Follows differences over the target's dataflow, to results that may differ because of them."""

    def __init__(self, flow: Flow) -> None:
        self._aligned, self._graph, self._pair_of = flow.aligned, flow.aligned.graphs[0], flow.aligned.pair_of[0]
        self._states, self._unmatched = flow.states, flow.unmatched[0]
        self._onwards: dict[_Node, list[_Node]] = {}
        self._of_users: dict[int, list[int]] = {}

    def differs(self, at: int) -> bool:
        """Return whether a record differs by more than noise; without a counterpart, whether a difference reaches
        it."""
        pairs = self._aligned.pairs_of(0, at)
        return any(self._states[pair] in DIFFERING for pair in pairs) if pairs else at in self._unmatched

    def _agrees(self, at: int) -> bool:
        """Return whether a record has a counterpart and does not differ."""
        return self._pair_of[at] >= 0 and not self.differs(at)

    def live(self, rows: Iterable[int]) -> set[int]:
        """Return those of some outputs, and of all that their differences reach, whose difference reaches a result."""
        known = list(self._nodes_reached(rows))
        before: dict[_Node, list[_Node]] = defaultdict(list)
        for node in known:
            for following in self._onwards[node]:
                before[following].append(node)
        ends = (at for at in known if isinstance(at, int) and not self._onwards[at] and self._is_end(at))
        return _rows(traverse(ends, lambda node: before.get(node, ())))

    def reached(self, rows: Iterable[int]) -> set[int]:
        """Return the outputs that a difference of some outputs reaches, including these."""
        return _rows(self._nodes_reached(rows))

    def _nodes_reached(self, rows: Iterable[int]) -> Iterator[_Node]:
        """Yield `reached`, with the positions in cells through which a difference reaches them."""
        return traverse(rows, self._following)

    def _following(self, node: _Node) -> Sequence[_Node]:
        """Return the nodes that a difference reaches next; they are kept."""
        if node not in self._onwards:
            onward = self._onward(node) if isinstance(node, int) else self._of_unrecorded(*node)
            self._onwards[node] = list(dict.fromkeys(onward))
        return self._onwards[node]

    def consequence(self, begun: Collection[int], alone: Collection[int], others: Collection[int]) -> Consequence:
        """Return the consequence of a difference that begins at the outputs `begun` and alone reaches the outputs
        `alone`, while others reach `others`."""
        graph, place_of = self._graph, self._aligned.place_of[0]
        if any(not self._onwards[at] and self._is_end(at) for at in alone):
            return Consequence.SHOWN
        computes = not all(graph.only_arranges(graph.call_of[at]) for at in alone)
        is_carried = is_joined = False
        for at in alone:
            if graph.names[graph.call_of[at]].direction == "backward":
                continue
            for used in graph.users.get(graph.alias(at), ()):
                call = graph.call_of[used]
                if self._agrees(used):
                    return Consequence.DENIED
                if place_of[call] < 0:
                    continue
                if any(self._made(row) in others for row in graph.inputs(call)):
                    is_joined = True
                    continue
                if not graph.has_outputs(call):
                    continue  # a shape, for example, is not evidence about the elements
                differing = [row for row in graph.outputs(call) if self.differs(row)]
                if not differing:
                    if self._are_constant(call):
                        continue  # zeros times anything are zeros
                    return Consequence.DENIED
                is_carried = is_carried or any(row in others for row in differing)
        # An output that only rearranges elements of a difference is the same difference.
        is_passed_on = any(at not in begun and not graph.only_arranges(graph.call_of[at]) for at in alone)
        is_shown = (is_carried and computes) or (is_joined and is_passed_on)
        return Consequence.SHOWN if is_shown else Consequence.OVERLAID

    def _are_constant(self, call: int) -> bool:
        """Return whether all outputs of a call are constant on the target's side."""
        columns = self._graph.columns
        return all(columns.max[at] == columns.min[at] for at in self._graph.outputs(call))

    def _made(self, row: int) -> int:
        """Return the output that is the same tensor as an input; -1 for none."""
        kind, made = self._graph.origin(row)
        return made if kind == "call" else -1

    def _onward(self, row: int) -> Iterable[_Node]:
        """Yield the outputs that also differ, of the calls that use a tensor, and where unrecorded operations may use
        it."""
        graph = self._graph
        call = graph.call_of[row]
        if graph.names[call].direction == "backward":
            yield from self._onward_of_gradient(row)
            return
        for used in graph.users.get(graph.alias(row), ()):
            if self._agrees(used):
                continue
            yield from self._of_user(graph.call_of[used])
        if self._takers_of_unrecorded or self._made_by_unrecorded:
            for cell in (*self._cells_that_see(row), *self._cells_that_take.get(graph.alias(row), ())):
                yield from self._after(cell, bisect(self._takers_of_unrecorded.get(cell, ()), call))

    def _after(self, cell: int, position: int) -> Iterable[_Node]:
        """Yield the position of the next call directly inside a cell that returns a difference of unrecorded
        operations, or the last position if only the cell itself does; nothing if there is neither."""
        takers = self._takers_of_unrecorded.get(cell, ())
        while position < len(takers) and not self._of_user(takers[position]):
            position += 1
        if position < len(takers) or cell in self._made_by_unrecorded:
            yield cell, position

    def _of_unrecorded(self, cell: int, position: int) -> Iterable[_Node]:
        """Yield the records that differ and that unrecorded operations of a cell (-1: of the root) may have computed
        after a call: such operations have access to the inputs of the cell, and the outputs of calls directly inside
        it. Later ones follow from the next position: if each output had all of them, their number would be
        quadratic."""
        takers = self._takers_of_unrecorded.get(cell, ())
        if position < len(takers):
            yield from self._of_user(takers[position])
            yield from self._after(cell, position + 1)
        else:
            yield from self._made_by_unrecorded.get(cell, ())

    def _cells_that_see(self, row: int) -> Iterator[int]:
        """Yield the cells, -1 for the root, whose own operations may use an output: the cell around its call, and if a
        cell returns it, the cell around that one."""
        graph = self._graph
        alias = graph.alias(row)
        for cell in graph.around(graph.call_of[row]):
            yield cell
            if not any(graph.alias(at) == alias for at in graph.outputs(cell)):
                return
        yield -1

    @cached_property
    def _takers_of_unrecorded(self) -> Mapping[int, Sequence[int]]:
        """Return by cell (-1: the root) the forward calls directly inside it that received a tensor that differs and
        that no recorded call produced."""
        graph, found = self._graph, defaultdict[int, list[int]](list)
        for call, rows in graph.untraced_inputs.items():
            if any(map(self.differs, rows)):
                found[graph.dump.parents[call]].append(call)
        return found

    @cached_property
    def _made_by_unrecorded(self) -> Mapping[int, Sequence[int]]:
        """Return by cell its outputs that differ and that no recorded call inside produced."""
        graph, found = self._graph, dict[int, list[int]]()
        for cell in graph.inside:
            if own := [at for at in graph.outputs(cell) if graph.alias(at) == at and self.differs(at)]:
                found[cell] = own
        return found

    @cached_property
    def _cells_that_take(self) -> Mapping[int, Sequence[int]]:
        """Return by output of a forward call the forward cells that received it and inside which calls are recorded."""
        graph, found = self._graph, defaultdict[int, list[int]](list)
        for cell in graph.inside:
            for row in graph.inputs(cell) if graph.names[cell].direction == "forward" else ():
                kind, made = graph.origin(row)
                if kind == "call":
                    found[made].append(cell)
        return found

    def ends_of(self, rows: Iterable[int]) -> Iterator[tuple[int, float]]:
        """Yield the outputs that agree, of calls which use some outputs or the outputs that these reach, and the
        difference of the greatest input of each call."""
        graph, pair_of, distance = self._graph, self._pair_of, self._aligned.distance
        for row in self.reached(rows):
            pair = pair_of[row]
            received = distance(pair) if pair >= 0 else math.inf
            for used in graph.users.get(graph.alias(row), ()):
                for at in graph.outputs(graph.call_of[used]):
                    if self._agrees(at) and self._aligned.are_tensors[pair_of[at]]:
                        yield at, received

    def leads_to(self, rows: Iterable[int], call: int) -> bool:
        """Return whether a path along the dataflow leads from outputs to a call, even if records on it agree.

        An output that no recorded call uses may lead to every later input that unrecorded code produced, inside the
        cells that see it.
        """
        graph = self._graph

        def users(rows: Iterable[int]) -> Iterator[int]:
            for at in rows:
                used = graph.users.get(graph.alias(at), ())
                yield from map(graph.call_of.__getitem__, used) if used else self._untraced_calls_after(at)

        return call in traverse(users(rows), lambda user: users(graph.outputs(user)))

    def _untraced_calls_after(self, row: int) -> set[int]:
        """Return the calls of `_untraced_calls` that follow an output, inside the cells that see it."""
        cells = (self._untraced_calls.get(cell, ()) for cell in self._cells_that_see(row))
        return {call for calls in cells for call in calls if call > self._graph.call_of[row]}

    @cached_property
    def _untraced_calls(self) -> Mapping[int, Sequence[int]]:
        """Return by cell (-1: the root) the innermost forward calls inside, at any depth, with an input whose origin is
        not recorded."""
        graph, found = self._graph, defaultdict[int, list[int]](list)
        for call in graph.untraced_inputs:
            for cell in (*graph.around(call), -1) if call not in graph.inside else ():
                found[cell].append(call)
        return found

    def _of_user(self, call: int) -> list[int]:
        """Return the results of a call that uses a tensor, and of its backward, that differ; they are kept."""
        if call not in self._of_users:
            returned = (*self._graph.outputs(call), *self.of_backward(call))
            self._of_users[call] = [at for at in returned if self.differs(at)]
        return self._of_users[call]

    def of_backward(self, call: int) -> Iterable[int]:
        """Return the results of the backward of a forward call, which also uses the forward's inputs; empty if a
        difference of its own inputs explains them."""
        back = self._graph.dump.counterpart(call, "backward")
        if back >= 0 and all(map(self._agrees, self._graph.inputs(back))):
            yield from self._graph.outputs(back)

    def _onward_of_gradient(self, row: int) -> Iterable[int]:
        """Return the results that follow from an input gradient: those of the backward of the call that produced the
        input."""
        _, back = self._graph.receiver_of_gradient(row)
        if back >= 0:
            yield from filter(self.differs, self._graph.outputs(back))

    def _is_end(self, row: int) -> bool:
        """Return whether a difference that no recorded call receives is a result where it ends."""
        graph = self._graph
        call = graph.call_of[row]
        name = graph.names[call]
        if name.kind in ("parameters_grad", "debug"):
            return True
        if name.direction == "backward":
            argument = graph.argument(row)
            if argument >= 0 and graph.origin(argument)[0] not in ("parameter", "unknown", "code"):
                return False
            taken = self._gradients_of_parameters.get(row, ())
            return not taken or not all(map(self._agrees, taken))  # the gradient of the parameter itself is compared
        if graph.columns.kind[row] != TENSOR:
            return False  # None: if the golden uses its output, the user determines it
        if graph.users.get(graph.alias(row)):
            return False  # it is used, and its users agree
        return self._is_returned(row, call)

    @cached_property
    def _gradients_of_parameters(self) -> dict[int, list[int]]:
        """Return by output of a backward call the records of gradients of parameters that are the same tensor."""
        graph, found = self._graph, dict[int, list[int]]()
        for call, name in enumerate(graph.names):
            if name.kind == "parameters_grad":
                for row in graph.columns.tensors(call, PARAMETERS_GRAD):
                    if (alias := graph.alias(row)) != row:
                        found.setdefault(alias, []).append(row)
        return found

    def _is_returned(self, row: int, call: int) -> bool:
        """Return whether an output that no recorded call uses leaves every cell around its call, or is the last one. A
        value that is computed from constants alone, such as a mask, is not a result of a run."""
        graph = self._graph
        alias = graph.alias(row)
        if call in graph.constant_calls:
            return False
        for cell in graph.around(call):
            if not any(graph.alias(at) == alias for at in graph.outputs(cell)):
                return False
        if len(list(graph.outputs(call))) == 1 or graph.dump.parents[call] < 0:
            return True
        forward = (at for at in reversed(range(len(graph.names))) if graph.names[at].direction == "forward")
        return call == next(forward, call)


def _rows(nodes: Iterable[_Node]) -> set[int]:
    return {node for node in nodes if isinstance(node, int)}


@dataclass(frozen=True, slots=True)
class _Origin:
    """A pair of calls where differences originate: `own` are its divergent pairs of records, `rows` the target's
    outputs that propagate them."""

    event: Event
    own: tuple[int, ...]
    rows: tuple[int, ...]
    is_live: bool


class DiedOut(NamedTuple):
    """The pairs of records where differences originate that die out: harmless ones, each with its reason, and leaves
    for which it is unknown."""

    harmless: Mapping[int, NoConsequence] = {}
    unshown: tuple[int, ...] = ()


def dying_out(flow: Flow) -> DiedOut:
    """Mark the differences that do not reach a result; return the pairs of records where they originate."""
    aligned, states, without_effect = flow.aligned, flow.states, flow.unrecorded.rows_without_effect
    reach = _Reach(flow)
    graph = aligned.graphs[0]
    known = [at for at in range(len(graph.columns)) if graph.columns.part[at] in _RETURNED and reach.differs(at)]
    alive = reach.live(known)
    origins = list(_origins(flow, reach, alive))
    known_harmless = {one.event for one in origins if all(row in without_effect for row in one.own)}
    origins = [replace(one, is_live=one.is_live and one.event not in known_harmless) for one in origins]
    unshown: set[int] = set()
    for number, origin in enumerate(origins):
        if origin.is_live or not (own := [row for row in origin.own if _is_leaf(aligned, row)]):
            continue
        shown = _is_shown(flow, reach, origin, own)
        if shown is None:
            unshown.update(own)
        elif not shown:
            origins[number] = replace(origin, is_live=True)
    before = bytes(states)
    while True:
        harmless = _mark(flow, reach, origins, known, alive)
        if not harmless:
            return DiedOut()
        _propagate_harmless(flow)
        causes = _causes_of_unexplained(flow, reach, [one for one in origins if one.event not in known_harmless])
        if not causes:
            unshown &= {row for row in unshown if states[row] == State.HARMLESS}
            grounds = {row: _ground_of(flow, row) for row in harmless if row not in unshown}
            return DiedOut(grounds, tuple(sorted(unshown)))
        origins = [replace(one, is_live=one.is_live or one in causes) for one in origins]
        states[:] = memoryview(before)


def _origins(flow: Flow, reach: _Reach, alive: set[int]) -> Iterator[_Origin]:
    """Yield the pairs of calls where differences originate, in execution order, and whether they reach a result."""
    aligned, states, graph = flow.aligned, flow.states, flow.aligned.graphs[0]
    gradients = _differing_gradients(flow)
    for event, own in _divergences(flow):
        wrong = [row for row in own if not aligned.is_input[row]] or [
            row for row in aligned.outputs(event) if states[row] in DIFFERING
        ]
        rows = [aligned.rows[0][row] for row in wrong]
        rows += [at for row in wrong for at in _onward_in_golden(aligned, row) if at < 0 or reach.differs(at)]
        if len(wrong) < len(own) or aligned.is_input[own[0]]:
            rows += [at for at in reach.of_backward(aligned.calls[0][event.place]) if reach.differs(at)]
            rows += gradients.get(event.place, ())
        is_live = any(_is_parameter(aligned, row) or _is_run_input(aligned, row) for row in own) or any(
            at < 0 or at in alive for at in rows
        )
        # A gradient that only one side has because only that side trains the parameter.
        is_of_one_side = event.direction == "backward" and not all(aligned.are_tensors[row] for row in wrong)
        is_live = is_live or (is_of_one_side and bool(trained_on_one_side(aligned.pairs)))
        ends = [at for at in rows if at >= 0]
        # The output of a cell, and that of the call inside.
        yield _Origin(event, tuple(own), (*ends, *map(graph.alias, ends)), is_live)


def _divergences(flow: Flow) -> Iterator[tuple[Event, list[int]]]:
    """Yield the pairs of calls with divergent pairs of records, and these, in execution order."""
    aligned, states = flow.aligned, flow.states
    for event in aligned.events_with(flow.are(State.DIVERGENT)):
        yield event, [row for row in event.rows if states[row] == State.DIVERGENT]


def _differing_gradients(flow: Flow) -> Mapping[int, Sequence[int]]:
    """Return by place of a pair of backward calls the target's gradients of parameters that differ and come from it."""
    aligned, states = flow.aligned, flow.states
    found = defaultdict[int, list[int]](list)
    for event in aligned.events_with(flow.are(*DIFFERING)):
        for owner in event.owners:
            found[owner] += [aligned.rows[0][row] for row in aligned.outputs(event) if states[row] in DIFFERING]
    return found


def _mark(
    flow: Flow, reach: _Reach, origins: Sequence[_Origin], known: Sequence[int], alive: set[int]
) -> tuple[int, ...]:
    """Mark the differences of some origins that die out, and the records that only they reach; return the pairs of
    records of these origins."""
    aligned, states = flow.aligned, flow.states
    live = [at for origin in origins if origin.is_live for at in origin.rows]
    dead = [at for origin in origins if not origin.is_live for at in origin.rows]
    received = reach.reached(live)
    without_origin = {at for at in known if at not in alive}  # explained by the dataflow of one side alone
    harmless = tuple(sorted(row for origin in origins if not origin.is_live for row in origin.own))
    for row in harmless:
        states[row] = State.HARMLESS
    for at in (reach.reached(dead) | without_origin) - received if harmless else ():
        if (pair := aligned.pair_of[0][at]) >= 0 and states[pair] == State.PROPAGATED:
            states[pair] = State.HARMLESS
    return harmless


def _causes_of_unexplained(flow: Flow, reach: _Reach, origins: Sequence[_Origin]) -> list[_Origin]:
    """Return the harmless origins that explain the first remaining difference, if nothing else explains it.

    This applies if there is no live origin before it, at the call itself, or at the inputs of a cell around it, or if
    the call also takes a harmless difference. If none of them leads to it along the dataflow, unrecorded code did:
    after an origin whose results are not compared, if there is one.
    """
    aligned, states = flow.aligned, flow.states
    dead = {origin.event.at: origin for origin in origins if not origin.is_live}
    for event in aligned.events_with(flow.are(*DIFFERING)):
        differing = [row for row in event.rows if states[row] in DIFFERING]
        is_begun = any(states[row] == State.DIVERGENT for row in differing)
        if not is_begun and _begins_around(flow, event):
            return []
        if is_begun and not any(states[row] == State.HARMLESS for row in event.rows if aligned.is_input[row]):
            return []
        before = [origin for at, origin in dead.items() if at < event.at]
        call = aligned.calls[0][event.place]
        leading = [origin for origin in before if reach.leads_to(origin.rows, call)]
        return leading or ([] if is_begun else [one for one in before if not _is_followed(flow, one)] or before)
    return []


def _begins_around(flow: Flow, event: Event) -> bool:
    """Return whether a difference originates at the inputs or parameters of a cell around a call, which is recorded
    after the calls inside."""
    aligned, states = flow.aligned, flow.states
    graph, call = aligned.graphs[0], aligned.calls[0][event.place]
    places = (aligned.place_of[0][cell] for cell in graph.around(call))
    rows = (row for place in places if place >= 0 for row in aligned.pairs.rows(place))
    return any(aligned.is_input[row] and states[row] == State.DIVERGENT for row in rows)


def _is_followed(flow: Flow, origin: _Origin) -> bool:
    """Return whether an output of the call where a difference originates was compared."""
    aligned, states = flow.aligned, flow.states
    outputs = aligned.outputs(origin.event)
    return any(aligned.are_tensors[row] and states[row] != State.UNKNOWN for row in outputs)


def _is_leaf(aligned: AlignedGraphs, row: int) -> bool:
    """Return whether a pair of records is an argument that no recorded call produced on either side."""
    if not aligned.is_input[row]:
        return False
    if not aligned.are_tensors[row]:
        return min(rows[row] for rows in aligned.rows) >= 0
    sides = zip(aligned.graphs, aligned.rows, strict=True)
    return all(graph.origin(rows[row])[0] != "call" for graph, rows in sides)


def _is_shown(flow: Flow, reach: _Reach, origin: _Origin, own: Sequence[int]) -> bool | None:
    """Return whether there is evidence that leaves of a pair of calls that differ have no effect, or that they have
    one; None if there is no evidence.

    They have no effect if the outputs are the same within rounding, or if a thousandth of their difference remains
    downstream.
    """
    aligned = flow.aligned
    outputs = [row for row in aligned.outputs(origin.event) if aligned.are_tensors[row]]
    differing = [aligned.rows[0][row] for row in outputs if reach.differs(aligned.rows[0][row])]
    if not differing:
        return flow.outputs.is_without_effect(origin.event, own)
    for at, received in reach.ends_of(differing):
        left = aligned.distance(aligned.pair_of[0][at])
        if left > ROUNDING and left * VANISHED > received:
            return False
    return True


def _ground_of(flow: Flow, row: int) -> NoConsequence:
    """Return the reason why the difference of a pair of records is harmless, by the values computed from it."""
    aligned, states = flow.aligned, flow.states
    side = 0 if aligned.rows[0][row] >= 0 else 1
    graph, pair_of, at = aligned.graphs[side], aligned.pair_of[side], aligned.rows[side][row]
    is_input = aligned.is_input[row]

    def agrees(record: int) -> bool:
        return pair_of[record] >= 0 and states[pair_of[record]] in (State.EQUAL, State.NOISE)

    def uses(rows: Iterable[int]) -> Iterator[int]:
        return (used for one in rows for used in _uses(graph, one))

    returned = list(graph.outputs(graph.call_of[at])) if is_input else [at]
    if is_input and any(map(agrees, returned)):
        return NoConsequence.AGREES
    is_used = is_input
    for used in traverse(uses(returned), lambda used: uses(graph.outputs(graph.call_of[used]))):
        if agrees(used) or any(map(agrees, graph.outputs(graph.call_of[used]))):
            return NoConsequence.AGREES
        is_used = True
    return NoConsequence.UNCOMPARED if is_used else NoConsequence.UNUSED


def _uses(graph: Graph, row: int) -> Iterable[int]:
    """Return the records that take an output: inputs of calls, or the incoming gradients of which it is a part."""
    if graph.names[graph.call_of[row]].direction != "backward":
        return graph.users.get(graph.alias(row), ())
    made, back = graph.receiver_of_gradient(row)
    return graph.incoming(made, back) if back >= 0 else ()


MAX_WEIGHED = 32
"""Number of differences whose own consequence is determined; each needs a pass over the dataflow."""


def consequences(flow: Flow) -> dict[int, Consequence]:
    """Return by place of a pair of calls the consequence of the divergent tensors that it received, unless it is
    certain.

    This applies only to arguments, and to tensors that different calls of the two sides, or no calls, produced: a call
    that computes something else does so with any consequence, and so does one with another argument, unless its effect
    dies out. A mask in two forms is the cause only if there is no other.
    """
    aligned, states = flow.aligned, flow.states
    reach = _Reach(flow)
    gradients = _differing_gradients(flow)
    seeds: dict[int, list[int]] = {}
    own_of: dict[int, list[int]] = {}
    received: dict[int, set[int]] = {}  # by place of pairs that receive only tensors: the target's that diverge
    weighed: list[int] = []
    for event, own in _divergences(flow):
        own_of[event.place] = own
        outputs = [row for row in aligned.outputs(event) if states[row] in DIFFERING]
        ends = [at for row in outputs if (at := aligned.rows[0][row]) >= 0]
        seeds[event.place] = [*ends, *map(aligned.graphs[0].alias, ends)]
        if any(aligned.is_input[row] for row in own):
            seeds[event.place] += (at for at in gradients.get(event.place, ()) if at >= 0)
        inputs = [row for row in own if aligned.is_input[row]]
        is_received = len(inputs) == len(own) or not any(aligned.are_tensors[row] for row in inputs)
        if (
            inputs
            and is_received
            and not any(_is_parameter(aligned, row) or _is_run_input(aligned, row) for row in own)
        ):
            weighed.append(event.place)
            if all(aligned.is_input[row] and aligned.are_tensors[row] for row in own):
                received[event.place] = {aligned.graphs[0].numbers[aligned.rows[0][row]] for row in own} - {-1}
    found: dict[int, Consequence] = {}
    if len(seeds) < 2:
        return found
    masks = {place for place, rows in own_of.items() if all(map(aligned.is_same_mask, rows))}
    if len(masks) < len(seeds):
        found.update(dict.fromkeys(masks, Consequence.DENIED))
    for place in [place for place in weighed if place not in found][:MAX_WEIGHED]:
        # One tensor at two calls, or at a cell and a call inside, is one difference.
        mine = received.get(place)
        is_same = {other for other, tensors in received.items() if tensors and tensors == mine} | {place}
        others = reach.reached(at for other, rows in seeds.items() if other not in is_same for at in rows)
        alone = reach.reached(seeds[place]) - others
        if place not in received:  # an argument: only if its difference reaches no result
            consequence = Consequence.SHOWN if reach.live(seeds[place]) else Consequence.DENIED
        else:
            consequence = reach.consequence(seeds[place], alone, others)
        if consequence is not Consequence.SHOWN:
            found[place] = consequence
    return found


def _onward_in_golden(aligned: AlignedGraphs, row: int) -> Iterable[int]:
    """Return the results through which a gradient propagates that only the golden returns: those of the target's
    counterpart of that call."""
    graph, at = aligned.graphs[1], aligned.rows[1][row]
    if at < 0 or aligned.are_tensors[row] or graph.names[graph.call_of[at]].direction != "backward":
        return
    target, waiting, seen = aligned.graphs[0], [at], set[int]()
    while waiting:
        argument = graph.argument(waiting.pop())
        kind, made = graph.origin(argument) if argument >= 0 else ("unknown", -1)
        if kind == "parameter":
            yield -1
        elif kind == "call" and made not in seen:
            seen.add(made)
            pair = aligned.pair_of[1][made]
            ours = list(_gradients(target, target.call_of[aligned.rows[0][pair]])) if pair >= 0 else []
            yield from ours
            waiting += [] if ours else _gradients(graph, graph.call_of[made])


def _gradients(graph: Graph, call: int) -> Iterable[int]:
    """Return the results of the backward of a forward call."""
    back = graph.dump.counterpart(call, "backward")
    return graph.outputs(back) if back >= 0 else ()


def _is_parameter(aligned: AlignedGraphs, row: int) -> bool:
    at = aligned.rows[0][row]
    if not aligned.is_input[row] or at < 0 or _is_made(aligned, row):
        return False
    return aligned.graphs[0].origin(at)[0] == "parameter"


def _is_made(aligned: AlignedGraphs, row: int) -> bool:
    """Return whether a call that only one side makes produced an input."""
    for graph, rows, place_of in zip(aligned.graphs, aligned.rows, aligned.place_of, strict=True):
        kind, made = graph.origin(rows[row]) if rows[row] >= 0 else ("unknown", -1)
        if kind == "call" and place_of[graph.call_of[made]] < 0:
            return True
    return False


def _is_run_input(aligned: AlignedGraphs, row: int) -> bool:
    """Return whether no call produced a tensor, and no call with inputs came before. If all elements are equal, on both
    sides, it is a constant of the program, not data."""
    if not aligned.is_input[row] or not aligned.are_tensors[row]:
        return False
    if _is_made(aligned, row) or (aligned.count(row) > 1 and _is_one_number(aligned, row)):
        return False
    return bool(aligned.first_with_tensors == aligned.pairs.call_of[row])


def _is_one_number(aligned: AlignedGraphs, row: int) -> bool:
    """Return whether all elements of a tensor are equal, on each side."""
    sides = zip(aligned.graphs, aligned.rows, strict=True)
    return all(graph.columns.max[rows[row]] == graph.columns.min[rows[row]] for graph, rows in sides)


def _propagate_harmless(flow: Flow) -> None:
    """Mark the inputs and outputs of cells that are the same tensors as harmless outputs."""
    aligned, states = flow.aligned, flow.states
    for event in aligned.events_with(flow.are(State.PROPAGATED)):
        for row in event.rows:
            if states[row] != State.PROPAGATED:
                continue
            made = flow.made_of.get(row)
            is_own = aligned.is_input[row] or (not aligned.has_other_kernels and aligned.is_judged_itself(row))
            cell = None if made or is_own else is_different_inside(flow, event)
            is_live = any(states[at] in DIFFERING for at in made or ())
            if (made and not is_live) or cell is False:
                states[row] = State.HARMLESS
