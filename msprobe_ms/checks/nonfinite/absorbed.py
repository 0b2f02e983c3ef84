"""Whether what a call made of non-finite values ends in finite ones: a mask of -inf ends at the softmax."""

from collections.abc import Callable

import numpy as np

from msprobe.compare.dataflow.graph import Graph
from msprobe.store.record import INPUT

from .values import nonfinite_rows


class Absorption:
    """Follows non-finite outputs along the dataflow. `ends_at` says of a call that what comes out of it is not charged
    to what went in."""

    def __init__(self, graph: Graph, ends_at: Callable[[int], bool]) -> None:
        self._graph, self._ends_at = graph, ends_at
        self._bad = np.zeros(len(graph.columns), bool)
        self._bad[nonfinite_rows(graph.columns)] = True
        self._returned = {
            graph.alias(row)
            for at, name in enumerate(graph.names)
            if name.kind == "cell" and name.direction == "forward" and graph.dump.parents[at] < 0
            for row in graph.outputs(at)
            if self._bad[row]
        }

    def of(self, call: int) -> tuple[bool, bool]:
        """Whether every use of the call's non-finite outputs gives finite values, forward and backward; and whether
        some use is not known."""
        graph = self._graph
        if graph.names[call].direction != "forward":
            return False, False
        seen, waiting = {call}, [call]
        is_absorbed, is_unknown = True, False
        while waiting:
            at = waiting.pop()
            is_absorbed &= not self._fails_backward(at)
            for row in (row for row in graph.outputs(at) if self._bad[row]):
                made = graph.alias(row)
                takers = {graph.columns.call_of(user) for user in graph.users.get(made, [])}
                is_absorbed &= made not in self._returned
                is_unknown |= not takers
                waiting += [taker for taker in takers - seen if not self._ends_at(taker)]
                seen |= takers
        return is_absorbed and not is_unknown, is_unknown

    def _fails_backward(self, call: int) -> bool:
        """Whether the backward of a call gives what is not finite, out of a finite gradient."""
        back = self._graph.dump.counterpart(call, "backward")
        if back < 0:
            return False
        rows = self._graph.columns.rows(back)
        is_bad = {self._graph.columns.part[row] == INPUT for row in rows if self._bad[row]}
        return is_bad == {False}
