"""Reasons why a difference is harmless: results computed from it agree, it is not used, or no such result is
compared."""

from collections.abc import Iterable

from msprobe.compare.core.noise import NoConsequence, State
from msprobe.compare.dataflow.graph import Graph

from .pairs import AlignedGraphs


def ground_of(aligned: AlignedGraphs, states: "memoryview[int]", row: int) -> NoConsequence:
    """Return the reason why the difference of a pair of records is harmless, by the values computed from it."""
    side = 0 if aligned.rows[0][row] >= 0 else 1
    graph, pair_of, at = aligned.graphs[side], aligned.pair_of[side], aligned.rows[side][row]

    def agrees(record: int) -> bool:
        return pair_of[record] >= 0 and states[pair_of[record]] in (State.EQUAL, State.NOISE)

    waiting = [*graph.outputs(graph.call_of[at])] if aligned.is_input[row] else [at]
    if aligned.is_input[row] and any(map(agrees, waiting)):
        return NoConsequence.AGREES
    seen, is_used = set(waiting), aligned.is_input[row]
    while waiting:
        for used in _uses(graph, waiting.pop()):
            is_used = True
            returned = [*graph.outputs(graph.call_of[used])]
            if agrees(used) or any(map(agrees, returned)):
                return NoConsequence.AGREES
            waiting += [one for one in returned if one not in seen]
            seen.update(returned)
    return NoConsequence.UNCOMPARED if is_used else NoConsequence.UNUSED


def _uses(graph: Graph, row: int) -> Iterable[int]:
    """Return the records that take an output: inputs of calls, or the incoming gradients of which it is a part."""
    if graph.names[graph.call_of[row]].direction != "backward":
        return graph.users.get(graph.alias(row), ())
    argument = graph.argument(row)
    kind, made = graph.origin(argument) if argument >= 0 else ("unknown", -1)
    back = graph.dump.counterpart(graph.call_of[made], "backward") if kind == "call" else -1
    return graph.incoming(made, back) if back >= 0 else ()
