"""How far a difference reaches: whether a path along the dataflow leads from it to something that counts.

A difference is *material* if it reaches a loss, an output of the root, the gradient of a parameter, a saved value, or
if nothing is recorded behind it. It is *harmless* if it dies out: nobody uses the output, or what uses it agrees.
"""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from msprobe.base import names
from msprobe.compare.dataflow.graph import Graph
from msprobe.compare.locate.events import Event
from msprobe.store.columns import TENSOR

from .paired import Paired
from .report import State

DIFFERING = (State.PROPAGATED, State.DIVERGENT)


class Reach:
    """Follows differences over the target's dataflow. `differs` says of a row of the target whether it differs by more
    than noise; rows without a partner differ where a difference reaches them."""

    def __init__(self, graph: Graph, differs: Callable[[int], bool]) -> None:
        self._graph, self._differs = graph, differs
        self._live: dict[int, bool] = {}

    def is_live(self, row: int) -> bool:
        """Whether the difference of an output reaches something that counts."""
        waiting = [row]
        while waiting:
            at = waiting[-1]
            if at in self._live:
                waiting.pop()
                continue
            behind = list(self._behind(at))
            unknown = [b for b in behind if b not in self._live and b not in waiting]
            if unknown and not any(self._live.get(b) for b in behind):
                waiting += unknown
                continue
            self._live[at] = any(self._live.get(b) for b in behind) or (not behind and self._is_end(at))
            waiting.pop()
        return self._live[row]

    def reached(self, rows: Iterable[int]) -> set[int]:
        """The outputs that a difference of some outputs reaches, themselves included."""
        waiting = list(rows)
        seen = set(waiting)
        while waiting:
            for at in self._behind(waiting.pop()):
                if at not in seen:
                    seen.add(at)
                    waiting.append(at)
        return seen

    def _behind(self, row: int) -> Iterable[int]:
        """The outputs, of the calls that use a tensor, that differ as well."""
        graph = self._graph
        call = graph.call_of(row)
        if graph.names[call].direction == "backward":
            yield from self._behind_gradient(row, call)
            return
        for used in graph.users.get(graph.alias(row), ()):
            user = graph.call_of(used)
            yield from (at for at in graph.outputs(user) if self._differs(at))
            back = graph.number.get(names.counterpart(graph.columns.names[user], "backward"), -1)
            if back >= 0 and back != user:
                yield from (at for at in graph.outputs(back) if self._differs(at))

    def _behind_gradient(self, row: int, call: int) -> Iterable[int]:
        """What follows from an input gradient: the backward of the call that made the input."""
        graph = self._graph
        argument = graph.argument(row)
        if argument < 0:
            return
        kind, made = graph.origin(argument)
        if kind != "call":
            return
        forward = graph.columns.names[graph.call_of(made)]
        back = graph.number.get(names.counterpart(forward, "backward"), -1)
        if back >= 0:
            yield from (at for at in graph.outputs(back) if self._differs(at))

    def _is_end(self, row: int) -> bool:
        """Whether a difference that nothing recorded receives counts where it ends."""
        graph = self._graph
        call = graph.call_of(row)
        name = graph.names[call]
        if name.kind in ("parameters_grad", "debug"):
            return True
        if name.direction == "backward":
            argument = graph.argument(row)
            return argument < 0 or graph.origin(argument)[0] in ("parameter", "unknown", "code")
        if graph.users.get(graph.alias(row)):
            return False  # it is used, and what uses it agrees
        return self._is_returned(row, call)

    def _is_returned(self, row: int, call: int) -> bool:
        """Whether an output that no recorded call uses leaves every cell around its call, or is the last one."""
        graph = self._graph
        alias = graph.alias(row)
        for cell in graph.around(call):
            if not any(graph.alias(at) == alias for at in graph.outputs(cell)):
                return False
        last = max((at for at, n in enumerate(graph.names) if n.direction == "forward"), default=call)
        is_alone = sum(graph.columns.kind[at] == TENSOR for at in graph.outputs(call)) == 1
        return is_alone or call == last or not any(True for _ in graph.around(call))


def dying_out(
    paired: Paired,
    states: NDArray[np.uint8],
    alone: set[int],
    made_of: Mapping[int, tuple[int, ...]],
    inside: Callable[[Event], "tuple[bool, float] | None"],
) -> tuple[int, ...]:
    """Mark the differences that reach nothing that counts; gives the pairs of records where they originate.

    `alone` are outputs, of calls that only the target makes, which a difference reaches. `made_of` says which outputs
    an input is, `inside` whether a difference is left inside a pair of cells.
    """
    graph, pair_of = paired.graphs[0], paired.pair_of[0]

    def differs(at: int) -> bool:
        pair = int(pair_of[at])
        return int(states[pair]) in DIFFERING if pair >= 0 else at in alone

    reach = Reach(graph, differs)
    dead: list[int] = []
    live: list[int] = []
    for event in paired.events:
        if not event.is_matched:
            if event.side == "target":
                live += graph.outputs(int(paired.calls[0][event.place]))
            continue
        own = [row for row in event.rows if states[row] == State.DIVERGENT]
        if not own:
            continue
        wrong = [row for row in own if not paired.is_given[row]] or [
            row for row in paired.outputs(event) if int(states[row]) in DIFFERING
        ]
        rows = [int(paired.rows[0][row]) for row in wrong]
        if any(paired.is_given[row] for row in own):
            rows += _gradients(graph, int(paired.calls[0][event.place]), differs)
        is_live = any(_is_parameter(paired, row) for row in own) or any(at < 0 or reach.is_live(at) for at in rows)
        (live if is_live else dead).extend(at for at in rows if at >= 0)
        if not is_live:
            states[own] = State.HARMLESS
    if not (states == State.HARMLESS).any():
        return ()
    origins = tuple(np.flatnonzero(states == State.HARMLESS).tolist())
    for at in reach.reached(dead) - reach.reached(live):
        if (pair := int(pair_of[at])) >= 0 and states[pair] == State.PROPAGATED:
            states[pair] = State.HARMLESS
    _spare_the_same(paired, states, made_of, inside)
    return origins


def _gradients(graph: Graph, call: int, differs: Callable[[int], bool]) -> list[int]:
    """The gradients that differ of a forward call: what it was told goes into them as well."""
    back = graph.number.get(names.counterpart(graph.columns.names[call], "backward"), call)
    return [at for at in graph.outputs(back) if differs(at)] if back != call else []


def _is_parameter(paired: Paired, row: int) -> bool:
    at = int(paired.rows[0][row])
    return bool(paired.is_given[row]) and at >= 0 and paired.graphs[0].origin(at)[0] == "parameter"


def _spare_the_same(
    paired: Paired,
    states: NDArray[np.uint8],
    made_of: Mapping[int, tuple[int, ...]],
    inside: Callable[[Event], "tuple[bool, float] | None"],
) -> None:
    """Mark the inputs and the outputs of cells that are nothing but harmless outputs."""
    for event in paired.events:
        for row in event.rows if event.is_matched else ():
            if states[row] != State.PROPAGATED:
                continue
            made = made_of.get(row)
            cell = None if made or paired.is_given[row] else inside(event)
            is_live = any(int(states[at]) in DIFFERING for at in made or ())
            if (made and not is_live) or (cell is not None and not cell[0]):
                states[row] = State.HARMLESS
