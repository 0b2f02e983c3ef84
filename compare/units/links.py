"""The recorded output that is the same tensor as each input of a unit's calls, by the dataflow graph of the target."""

from collections.abc import Iterator

from msprobe.compare.dataflow.graph import Graph
from msprobe.store.record import PARTS, Columns

from .calls import Side, UnitCalls

Link = tuple[int, str, int, str]
"""Call and place of an input, call and place of the output."""


def links_of(side: Side) -> tuple[Link, ...]:
    """Return the links between displayed calls, by their numbers, in the order of the inputs."""
    graph, number = Graph(side.dump), side.number.tolist()
    names = _Places(graph.columns)
    found: list[Link] = []
    for call, at in enumerate(number):
        if at < 0:
            continue
        for row in graph.inputs(call):
            for made in dict.fromkeys(_made_of(graph, call, row)):
                maker = number[graph.columns.call_of(made)]
                if maker >= 0 and maker != at:
                    found.append((at, names.of(row), maker, names.of(made)))
    return tuple(sorted(found))


def links_of_both(calls: UnitCalls) -> tuple[Link, ...]:
    """Return the target's links, and the golden's for calls that only the golden makes."""
    found = links_of(calls.target)
    alone = calls.target.calls < 0
    if calls.golden is None or not alone.any():
        return found
    theirs = (link for link in links_of(calls.golden) if alone[link[0]] or alone[link[2]])
    return tuple(sorted((*found, *theirs)))


def _made_of(graph: Graph, call: int, row: int) -> Iterator[int]:
    """Yield the rows that an input is: one output, or for an incoming gradient the contributions of the users."""
    if graph.names[call].direction == "backward":
        yield from graph.contributions(row)[0]
        return
    kind, made = graph.origin(row)
    if kind == "call":
        yield made


class _Places:
    """The places of rows in their calls, as texts; rows of many calls share one."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._texts: dict[tuple[int, int], str] = {}

    def of(self, row: int) -> str:
        """Return `output.0`."""
        columns = self._columns
        key = columns.part[row], columns.path[row]
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = ".".join((PARTS[key[0]], *columns.paths[key[1]]))
        return text
