"""Regions that are replaced as a whole: calls of one run only, calls in another order, code that was not recorded.

Replaced are the values that calls of both runs take from the region, the gradients that arrive at calls of both runs
before it, and those of parameters that calls of both runs in it take.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import groupby

from msprobe.base import names
from msprobe.base.memo import cached_by_identity
from msprobe.checks.invariants.rows import gradient_rows, loss_rows
from msprobe.compare.core.standard import canonical
from msprobe.compare.dataflow.events import Event
from msprobe.compare.dataflow.graph import Graph
from msprobe.compare.judge.judged import EQUAL
from msprobe.compare.locate.finding import Between
from msprobe.store.record import PARAMETERS

from .calls import called, differs, differs_at, function_of, incoming, inputs_where, key_of_call, line_of
from .gap import LOSS, consistent_pairs
from .plan import INPUTS, Graft, Value, counterparts, place_of
from .runs import Step


@dataclass(frozen=True, slots=True)
class Proposal:
    """A graft, the calls that have the same difference, if there are several, and those of a replaced region, by
    `key_of_call`."""

    graft: Graft
    calls: tuple[str, ...] = ()
    covers: tuple[str, ...] = ()


NOTHING = Proposal(Graft())


def region_of(step: Step, block: Sequence[Event], calls: tuple[str, ...] = ()) -> Proposal:
    """Return the graft around calls of one run only, or calls that have another order."""
    graphs, sides = step.graphs, step.comparison.sides
    block = with_producers(step, block)
    inside: dict[str, set[int]] = {"target": set(), "golden": set()}
    backward: dict[str, set[int]] = {"target": set(), "golden": set()}
    for event in block:
        for side, (dump, of_side, _) in sides.items():
            if (call := int(of_side[event.place])) >= 0:
                (backward if event.direction == "backward" else inside)[side].add(dump.forward(call))
    values: set[Value] = set()
    taken: dict[str, list[int]] = {"target": [], "golden": []}
    computed: set[str] = set()
    counterpart = _counterparts_of_parameters(step)

    def comes_from_region(row: int, target: int, golden: int) -> bool:
        at = {"target": target, "golden": golden}
        origins = {side: graphs[side].origin(row) for side, row in at.items()}
        if any(kind == "call" and graphs[side].call_of[made] in inside[side] for side, (kind, made) in origins.items()):
            for side, row in at.items():
                taken[side].append(row)
            if origins["golden"][0] == "parameter":
                own = graphs["golden"].source(golden).text
                computed.add(counterpart.get(own, own))
            return True
        return False

    own = {called(step, event) for event in block}
    values |= {value for value in inputs_where(step, comes_from_region) if value[0] not in own}
    for side in sides:
        for call in inside[side] | backward[side]:
            for row in graphs[side].inputs(call) if returns_floats(graphs[side], call) else ():
                kind, made = graphs[side].origin(row)
                if kind == "call" and (producer := graphs[side].call_of[made]) not in inside[side]:
                    values |= set(incoming(step, side, producer))
    values |= _gradients_inside(step, own - {""}, values)
    values |= _gradients_of_shared_parameters(step, inside["golden"] | backward["golden"])
    missing, still = _parameters_of_region(step, inside["golden"], backward["golden"])
    still |= computed  # their gradients pass the region
    if any(dump.columns.call_of(row) in inside[side] for side, (dump, *_) in sides.items() for row in loss_rows(dump)):
        missing |= {LOSS}
    covered = {event.at for event in block} | _on_the_way(step, taken) | _cells_on_the_lines(step, block)
    covers = tuple(dict.fromkeys(key_of_call(step.events[at]) for at in sorted(covered)))
    return Proposal(Graft(frozenset(values), still, missing=missing | still), calls, covers)


def with_producers(step: Step, block: Sequence[Event]) -> list[Event]:
    """Return a block and the calls whose results it takes, if one run computes a gradient there that cannot be grafted,
    because the other one does not: such as a layer whose result the target does not use."""
    found, known, events = list(block), counterparts(step), _forward_events(step)
    places = {event.at for event in block}
    for event in found:
        for side, (dump, of_side, _) in step.comparison.sides.items():
            graph, call = step.graphs[side], int(of_side[event.place])
            if event.direction != "forward" or call < 0 or not returns_floats(graph, call):
                continue
            for row in graph.inputs(call):
                kind, made = graph.origin(row)
                producer = graph.call_of[made] if kind == "call" else -1
                if producer < 0 or dump.counterpart(producer, "backward") < 0:
                    continue
                own = events[side].get(producer)
                if own is None or own.at in places or len(found) - len(block) > _MAX_REWIRED * len(block):
                    continue
                if not any(known.has(*value) for value in incoming(step, side, producer)):
                    found.append(own)
                    places.add(own.at)
    return found


@cached_by_identity
def _forward_events(step: Step) -> dict[str, dict[int, Event]]:
    """Return the forward calls of each side as events, by call."""
    found: dict[str, dict[int, Event]] = {}
    for side, (_, calls, _) in step.comparison.sides.items():
        by_call = ((int(calls[event.place]), event) for event in step.events if event.direction == "forward")
        found[side] = {call: event for call, event in by_call if call >= 0}
    return found


def _gradients_inside(step: Step, own: Set[str], replaced: Set[Value]) -> set[Value]:
    """Return the gradients that calls of both runs inside a region return, such as those of parameters. Left out are
    those that arrive at calls where they are `replaced`, and between two calls inside: in the golden, they may be those
    of another operand."""
    graph, known = step.graphs["target"], counterparts(step)
    inside = {graph.dump.place[name] for name in own}
    found = set()
    for call in inside:
        for row in graph.inputs(call):
            kind, made = graph.origin(row)
            if (gradient := graph.gradient(row)) < 0:
                continue
            if kind == "call":
                producer = graph.call_of[made]
                arriving = replaced & set(incoming(step, "target", producer))
                if producer in inside or any(known.has(*value) for value in arriving):
                    continue
            backward = graph.dump.columns.names[graph.call_of[gradient]]
            found.add((backward, place_of(graph.dump, gradient)))
    return found


def blocks_of_one_run(step: Step, event: Event) -> list[list[Event]]:
    """Return calls that one run alone makes, around an event, as candidates: those up to the next calls of both runs,
    together with all other places where the same calls are made, as in each layer of a model, if there are any; those
    alone; those with all places where the event's function is called; all calls of one run. Calls of both runs that
    take their results belong to them if these cannot be grafted there."""
    around, function, blocks = _block_around(step, event), function_of(event.called), _blocks(step)
    made = _functions(around)
    alike = [block for block in blocks if _functions(block) == made]
    calling = [block for block in blocks if any(function_of(each.called) == function for each in block)]
    found = [around]
    for others in (alike, calling, blocks):
        every = {each.at: each for block in (around, *others) for each in block}
        united = [every[at] for at in sorted(every)]
        if united not in found:
            found.append(united)
    if len(alike) > 1:
        found[:2] = found[1], around
    return [_until(step, block, counterparts(step).has) for block in found]


def _block_around(step: Step, event: Event) -> list[Event]:
    """Return the calls of one run only around an event, up to the next calls of both runs."""
    first = last = event.at
    while first > 0 and not step.events[first - 1].is_matched:
        first -= 1
    while last + 1 < len(step.events) and not step.events[last + 1].is_matched:
        last += 1
    return step.events[first : last + 1]


@cached_by_identity
def _blocks(step: Step) -> list[list[Event]]:
    """Return all calls of one run only, as sequences without a call of both runs between them."""
    return [list(block) for is_matched, block in groupby(step.events, lambda each: each.is_matched) if not is_matched]


def _functions(block: Sequence[Event]) -> list[tuple[str, str, str]]:
    """Return the calls of a block by side, direction and function, in alphabetical order."""
    return sorted((each.side, each.direction, function_of(each.called)) for each in block)


def until_alike(step: Step, event: Event) -> list[Event]:
    """Return a call whose results cannot be grafted, for example because they have another shape, and the calls that
    take them, until all that later calls take from these can be, in the same shape."""
    return _until(step, [event], counterparts(step).has_alike)


def _until(step: Step, block: Sequence[Event], is_graftable: Callable[[str, str], bool]) -> list[Event]:
    """Return a block and the calls that take its results, until all that later calls of both runs take from these can
    be grafted. A call that compares its tensors, and returns no floating-point numbers, belongs to it: of the target's
    and the golden's values together, rounding would decide. Some calls are added at most."""
    found, places = list(block), {each.at for each in block}
    graph, calls = step.graphs["target"], step.comparison.pairs.target_calls
    by_call = _forward_events(step)["target"]
    for each in found:
        call = int(calls[each.place]) if each.direction == "forward" else -1
        for output in graph.outputs(call) if call >= 0 else ():
            for row in graph.users.get(graph.alias(output), ()):
                user = by_call.get(graph.call_of[row])
                if user is None or user.at in places or len(found) - len(block) > _MAX_REWIRED * len(block):
                    continue
                is_border = user.is_matched and is_graftable(user.called, place_of(graph.dump, row))
                if not is_border or not returns_floats(graph, graph.call_of[row]):
                    found.append(user)
                    places.add(user.at)
    return found


def rewired_calls(step: Step, event: Event) -> list[Event]:
    """Return a call with the calls of both runs around it that are connected in another way: those that return what the
    golden's call takes, and differ, because the target makes them in another order; and those that take its result with
    another operand than the golden's, because operands are exchanged."""
    comparison, pairs = step.comparison, step.comparison.pairs
    graph, by_call = step.graphs["golden"], _forward_events(step)["golden"]
    found = {event.at: event}
    waiting = [event]
    while waiting and len(found) <= _MAX_REWIRED:
        each = waiting.pop()
        for row in each.rows:
            golden = int(pairs.golden_rows[row])
            if not pairs.are_tensors(row) or not comparison.is_input[row] or comparison.equal[row] == EQUAL:
                continue
            kind, made = graph.origin(golden)
            producer = by_call.get(graph.call_of[made]) if kind == "call" else None
            if producer is None or not producer.is_matched or producer.at in found or not differs(step, producer):
                continue
            found[producer.at] = producer
            waiting.append(producer)
        for user in _users_with_another_operand(step, each) if each.is_matched else ():
            if user.at not in found:
                found[user.at] = user
                waiting.append(user)
    return list(found.values()) if len(found) <= _MAX_REWIRED else [event]


def _users_with_another_operand(step: Step, event: Event) -> Iterator[Event]:
    """Return the calls of both runs that take a result of a call in both runs, and of which another input is that of
    calls that are not paired with each other: operands are exchanged."""
    pairs, graph, partner = step.comparison.pairs, step.graphs["target"], _partners(step)
    call = int(pairs.target_calls[event.place])
    by_call = _forward_events(step)["target"]
    takers = [row for output in graph.outputs(call) for row in graph.users.get(graph.alias(output), ())]
    users = {user.at: user for row in takers if (user := by_call.get(graph.call_of[row])) and user.is_matched}
    for user in users.values():
        both = [made for row in user.rows if (made := _producers(step, row)) is not None]
        is_exchanged = any(partner.get(mine, theirs) != theirs for mine, theirs in both)
        if (call, partner[call]) in both and is_exchanged:
            yield user


def _producers(step: Step, row: int) -> tuple[int, int] | None:
    """Return the calls that return the input of a pair of records, of the target and of the golden; None if it is none,
    or one was returned by no call."""
    pairs = step.comparison.pairs
    if not pairs.are_tensors(row) or not step.comparison.is_input[row]:
        return None
    found = []
    for side, rows in (("target", pairs.target_rows), ("golden", pairs.golden_rows)):
        kind, made = step.graphs[side].origin(int(rows[row]))
        if kind != "call":
            return None
        found.append(step.graphs[side].call_of[made])
    return found[0], found[1]


@cached_by_identity
def _partners(step: Step) -> dict[int, int]:
    """Return the golden's call by the target's, of the calls of both runs."""
    pairs = step.comparison.pairs
    both = zip(pairs.target_calls.tolist(), pairs.golden_calls.tolist(), strict=True)
    return {target: golden for target, golden in both if target >= 0 and golden >= 0}


@cached_by_identity
def _targets(step: Step) -> dict[int, int]:
    """Return the target's call by the golden's."""
    return {golden: target for target, golden in _partners(step).items()}


_MAX_REWIRED = 8
"""Calls whose order may differ for one hypothesis, or by which a region is extended."""


def of_the_same_lines(step: Step, block: Sequence[Event], *, is_whole: bool) -> list[Event]:
    """Return the forward calls of both runs that the lines of code of a block make and that differ: a block of layers
    runs the same lines several times. With `is_whole`, all functions that a line calls, unless these are many."""
    lines = {line for each in block if (line := line_of(step, each)) is not None}
    functions = {function_of(each.called) for each in block}
    matched = (each for each in step.events if each.is_matched and each.direction == "forward")
    found = [each for each in matched if each in block or (line_of(step, each) in lines and differs(step, each))]
    if is_whole and len({function_of(each.called) for each in found}) <= _MAX_REWIRED:
        return found
    return [each for each in found if function_of(each.called) in functions]


def code_between_modules(step: Step, event: Event, evidence: Between) -> Proposal | None:
    """Return the graft of code between modules, which level L0 does not record: of the input that it returns, and of
    the gradient that arrives at the call before it, wherever the line of the call is executed. None if a recorded call
    returned the input."""
    place, graph, pairs = evidence.difference.place, step.graphs["target"], step.comparison.pairs
    rows = [int(pairs.target_rows[row]) for row in event.rows if pairs.are_tensors(row)]
    if any(graph.origin(row)[0] == "call" for row in rows if row >= 0 and place_of(graph.dump, row) == place):
        return None
    values: set[tuple[str, str]] = set()
    calls = []
    for each in of_the_same_lines(step, [event], is_whole=False):
        if each is not event and not differs_at(step, each, place):
            continue
        calls.append(each.called)
        values.add((each.called, place))
        before = next((other for other in reversed(step.events[: each.at]) if _is_before(other, each)), None)
        if before is not None:
            values.add((names.counterpart(before.called, "backward"), INPUTS))
    return Proposal(Graft(frozenset(values)), tuple(calls) if len(calls) > 1 else ())


def _is_before(event: Event, later: Event) -> bool:
    """Return whether a forward call of both runs ended before another one began."""
    return event.is_matched and event.direction == "forward" and event.key not in later.keys


def cutting_calls(step: Step) -> list[Event]:
    """Return the forward calls of the target through which no gradient flows, although one flows through a call that
    returns what they take, or another one that takes the same parameter, and in the golden through them: such as
    `stop_gradient`, or a layer before it."""
    dump, calls, _ = step.comparison.sides["target"]
    graph, golden, partner = step.graphs["target"], step.comparison.golden, _partners(step)

    def is_cut(event: Event) -> bool:
        call = int(calls[event.place])
        is_alone = event.direction == "forward" and call >= 0 and dump.counterpart(call, "backward") < 0
        if not is_alone or event.kind == "cell" or not returns_floats(graph, call):
            return False
        return not event.is_matched or golden.counterpart(partner[call], "backward") >= 0

    cut = {int(calls[event.place]): event for event in step.events if is_cut(event)}
    found: dict[int, Event] = {}
    for call, event in cut.items():
        for row in graph.inputs(call):
            kind, made = graph.origin(row)
            producer = graph.call_of[made] if kind == "call" else -1
            is_shared = kind == "parameter" and graph.source(row).text in _with_gradient(step)
            if is_shared or producer in found or (producer >= 0 and dump.counterpart(producer, "backward") >= 0):
                found[call] = event
    return list(found.values())


def makers_of_parameters(step: Step, event: Event) -> list[Event]:
    """Return the calls of the target that return what a call takes as a parameter in the golden, such as a rearranged
    one."""
    pairs, graphs, found = step.comparison.pairs, step.graphs, dict[int, Event]()
    for row in event.rows:
        if not pairs.are_tensors(row) or not step.comparison.is_input[row] or step.comparison.equal[row] == EQUAL:
            continue
        kind, made = graphs["target"].origin(int(pairs.target_rows[row]))
        if kind == "call" and graphs["golden"].origin(int(pairs.golden_rows[row]))[0] == "parameter":
            maker = _forward_events(step)["target"].get(graphs["target"].call_of[made])
            found |= {maker.at: maker} if maker is not None else {}
    return list(found.values())


def returns_floats(graph: Graph, call: int) -> bool:
    """Return whether a result of a forward call is a floating-point tensor, through which a gradient may flow."""
    return any("float" in canonical(graph.columns.dtype(row)) for row in graph.outputs(call))


def _parameters_of_region(step: Step, inside: Set[int], backward: Set[int]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the parameters that of the golden only the calls `inside` take, and of the target none; and those that get
    their gradients only from these calls and from the backward of the calls `backward`, by the names of the target."""
    dump = step.comparison.golden
    paired = _counterparts_of_parameters(step)
    still = set()
    for name, calls in _users_of_parameters(step).golden.items():
        differentiated = {call for call in calls if dump.counterpart(call, "backward") >= 0}
        if name not in paired or not differentiated:
            continue
        has_gradient = paired[name] in _with_gradient(step)
        is_before = not has_gradient and all(_flows_only_into(step, call, inside) for call in differentiated)
        if is_before or (differentiated <= backward | inside and differentiated & backward):
            still.add(paired[name])
    return unused_parameters(step, inside), frozenset(still)


def _gradients_of_shared_parameters(step: Step, inside: Set[int]) -> set[Value]:
    """Return the gradients of parameters that some of the calls `inside` take of which the golden alone computes the
    backward, and other calls, too: such as those of a layer that runs several times. A summand of them is not computed
    in the target."""
    (target, *_), (golden, *_) = step.comparison.sides["target"], step.comparison.sides["golden"]
    partner = _targets(step)
    of_both = {call for call in inside if call in partner and target.counterpart(partner[call], "backward") >= 0}
    alone = {call for call in inside - of_both if golden.counterpart(call, "backward") >= 0}
    paired = _counterparts_of_parameters(step)
    users = _users_of_parameters(step).golden
    shared = (name for name, calls in users.items() if calls & alone and not calls <= alone)
    return _gradients_of(step, [paired[name] for name in shared if name in paired])


def _gradients_of(step: Step, parameters: Iterable[str]) -> set[Value]:
    """Return the gradients of parameters of the target."""
    dump = step.comparison.target
    rows = gradient_rows(dump)
    every = (row for name in parameters for row in rows.get(name, ()))
    return {(dump.columns.names[dump.columns.call_of(row)], place_of(dump, row)) for row in every}


def gradients_of_untied_parameters(step: Step, event: Event) -> set[Value]:
    """Return the gradients of the parameters that a call takes, and of the one that it should take: if the golden's
    call takes one that other calls of the golden take, too, and the target's call does not. A weight is tied in the
    golden alone, so that a summand of its gradient is missing in the target."""
    pairs, graphs, users = step.comparison.pairs, step.graphs, _users_of_parameters(step)
    calls = {"target": int(pairs.target_calls[event.place]), "golden": int(pairs.golden_calls[event.place])}
    if min(calls.values()) < 0:
        return set()
    inside = {side: set(_innermost(graphs[side], call)) for side, call in calls.items()}
    paired = _counterparts_of_parameters(step)
    untied = {
        paired[name]
        for name, takers in users.golden.items()
        if name in paired and takers & inside["golden"] and takers - inside["golden"]
        if users.target.get(paired[name]) and not users.target[paired[name]] & inside["target"]
    }
    own = {name for name, takers in users.target.items() if takers & inside["target"]}
    return _gradients_of(step, untied | own) if untied else set()


@cached_by_identity
def _counterparts_of_parameters(step: Step) -> dict[str, str]:
    """Return the target's parameter by the golden's."""
    return {pair.golden: pair.target for pair in consistent_pairs(step.comparison)[0]}


@cached_by_identity
def _with_gradient(step: Step) -> frozenset[str]:
    """Return the parameters of which the target computes a gradient that is not zero."""
    columns = step.comparison.target.columns
    every = gradient_rows(step.comparison.target)
    return frozenset(
        name for name, rows in every.items() if not all(columns.max[row] == columns.min[row] == 0.0 for row in rows)
    )


def _flows_only_into(step: Step, call: int, inside: Set[int]) -> bool:
    """Return whether gradients of the golden arrive at one of its calls only through the calls `inside`: the target has
    a backward for no other call on the way from it."""
    graph, dump, paired = step.graphs["golden"], step.comparison.target, _targets(step)
    waiting, seen, is_reached = [call], {call}, call in inside
    for each in waiting:
        for output in graph.outputs(each) if each not in inside else ():
            for row in graph.users.get(graph.alias(output), ()):
                user = graph.call_of[row]
                is_reached |= user in inside
                if user in paired and user not in inside and dump.counterpart(paired[user], "backward") >= 0:
                    return False
                if user not in seen:
                    seen.add(user)
                    waiting.append(user)
    return is_reached


def unused_parameters(step: Step, inside: Set[int]) -> frozenset[str]:
    """Return the parameters that of the golden only the calls `inside` take, and that no recorded call of the target
    takes, which computes no gradient of them, or zero; by the names of the target, if it has them."""
    users = _users_of_parameters(step)
    paired = _counterparts_of_parameters(step)
    names_inside = {paired.get(name, name) for name, calls in users.golden.items() if calls <= inside}
    return frozenset(names_inside - users.taken - _with_gradient(step))


def calls_of_golden(step: Step, calls: Iterable[str]) -> set[int]:
    """Return the golden's calls that are paired with calls of the target, with those inside of cells."""
    partner, graph, place = _partners(step), step.graphs["golden"], step.comparison.target.place
    found = [partner[at] for name in calls if (at := place.get(name, -1)) in partner]
    for call in found:
        found += graph.below(call)
    return set(found)


def without_gradient(step: Step, name: str) -> frozenset[str]:
    """Return the parameters whose gradient only the golden computes, such as frozen ones, by the names of the target;
    none if the forward of a backward call `name` takes none of them."""
    rows = gradient_rows(step.comparison.target), gradient_rows(step.comparison.golden)
    pairs = consistent_pairs(step.comparison)[0]
    found = frozenset(pair.target for pair in pairs if pair.golden in rows[1] and pair.target not in rows[0])
    target = _users_of_parameters(step).target
    forward = step.comparison.target.place.get(names.counterpart(name, "forward"), -1)
    return found if any(forward in target.get(each, ()) for each in found) else frozenset()


@dataclass(frozen=True, slots=True)
class _Users:
    """By parameter the innermost forward calls that take it, of both sides; if none was recorded, those inside the
    cells that have it. `taken` are the parameters of the target that a recorded call takes."""

    golden: dict[str, set[int]]
    target: dict[str, set[int]]
    taken: frozenset[str]


@cached_by_identity
def _users_of_parameters(step: Step) -> _Users:
    """Return the users of the parameters of both sides."""
    of_sides = {side: _users(step, side) for side in ("golden", "target")}
    golden, target = (inside | taken for taken, inside in of_sides.values())
    return _Users(golden, target, frozenset(of_sides["target"][0]))


def _users(step: Step, side: str) -> tuple[dict[str, set[int]], dict[str, set[int]]]:
    """Return by parameter the calls of a side that take it, and those inside the cells that have it."""
    dump, graph = step.comparison.sides[side].dump, step.graphs[side]
    taken: dict[str, set[int]] = {}
    inside: dict[str, set[int]] = {}
    for call, name in enumerate(dump.names):
        if name.direction != "forward":
            continue
        for row in dump.columns.tensors(call, PARAMETERS):
            inside.setdefault(dump.parameter_name(row), set()).update(_innermost(graph, call))
        for row in graph.inputs(call):
            if graph.origin(row)[0] == "parameter":
                taken.setdefault(graph.source(row).text, set()).add(call)
    return taken, inside


def _innermost(graph: Graph, call: int) -> Iterator[int]:
    """Return the innermost calls inside a cell; without any, the cell itself."""
    below = list(graph.below(call))
    for each in below:
        yield from _innermost(graph, each)
    if not below:
        yield call


def _on_the_way(step: Step, taken: Mapping[str, Sequence[int]]) -> set[int]:
    """Return the positions of the calls of one run only that return these inputs, and of those before them."""
    found: set[int] = set()
    for side, (_, calls, _) in step.comparison.sides.items():
        graph = step.graphs[side]
        alone = {int(calls[each.place]): each.at for each in step.events if not each.is_matched and each.side == side}
        waiting = list(taken[side])
        while waiting:
            kind, made = graph.origin(waiting.pop())
            call = graph.call_of[made] if kind == "call" else -1
            if (at := alone.get(call, -1)) >= 0 and at not in found:
                found.add(at)
                waiting += graph.inputs(call)
    return found


def _cells_on_the_lines(step: Step, block: Sequence[Event]) -> set[int]:
    """Return the positions of the cells that the lines of code of a block call: what is found inside of them is found
    again at their results."""
    lines = {line for each in block if (line := line_of(step, each)) is not None}
    return {each.at for each in step.events if each.kind == "cell" and line_of(step, each) in lines}
