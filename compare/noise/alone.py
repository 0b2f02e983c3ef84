"""Of two frameworks: what only one side has. Two programs are written differently; a call without a counterpart is
transparent, since what is computed from it is compared, and so is an argument that only one side's call takes.
"""

from collections.abc import Collection
from functools import partial

import numpy as np
from numpy.typing import NDArray

from msprobe.base import names
from msprobe.compare.dataflow.graph import Graph
from msprobe.compare.judge.verdict import CAUSES, Cause
from msprobe.compare.reason import Reason, Why
from msprobe.replay.operations import Kind
from msprobe.store.columns import TENSOR

from .called import operation_of
from .paired import Paired
from .report import State


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
