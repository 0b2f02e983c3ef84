"""Which kernel produced each input, kernel by kernel in execution order."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from msprobe.store.kernel_dump.executions import Execution

from .entry import Part, parts
from .ir_dataflow import Argument
from .metadata import Beside


@dataclass(frozen=True, slots=True)
class Scene:
    """An execution, where each of its values goes, its arguments as the graph knows them, and the `from` of each."""

    run: Execution
    places: list[Part]
    arguments: tuple[Argument, ...]
    sources: list[str]


class Story:
    """Remembers which call of an iteration gave what, and which parameters have been written."""

    def __init__(self, beside: Beside) -> None:
        self._flows = beside.flows
        # Then what is given to the graph is given to the run, and does not come from another graph.
        self._is_alone = len(set(beside.orders) | set(beside.flows)) <= 1
        self._calls: dict[tuple[int, str], str] = {}
        self._written: set[str] = set()

    def tell(self, run: Execution) -> Scene:
        """The next execution."""
        graph = run.first.graph
        flow = self._flows.get(graph)
        arguments = flow.arguments(run.name) if flow and not run.is_parameter else ()
        sources = [self._source(graph, argument) for argument in arguments]
        self._written.update(a.origin.text for a in arguments if a.is_written and a.origin)
        if not run.is_parameter:
            self._calls[graph, run.name] = run.call
        unread = flow.unread(run.name) if flow and not run.is_parameter else frozenset[int]()
        return Scene(run, parts(run, arguments, unread), arguments, sources)

    def _source(self, graph: int, argument: Argument) -> str:
        """The text of `from`; empty where it is not known: what a kernel writes is not what it was given, and what an
        earlier one wrote is no longer the parameter that the iteration began with."""
        origin = argument.origin
        if origin is None or argument.is_written:
            return ""
        if origin.kind == "parameter":
            return f"parameter {origin.text}" if origin.text not in self._written else ""
        if origin.kind == "kernel":
            call = self._calls.get((graph, origin.text), "")
            return f"call {call}.output.{origin.index}" if call else ""
        return "leaf" if origin.kind == "constant" or self._is_alone else ""


def absent(runs: Sequence[Execution], beside: Beside) -> dict[str, str]:
    """Kernels of graphs that ran of which there is no file although all were to be dumped: full name -> why."""
    if not beside.told.all_kernels:
        return {}
    ran: dict[int, set[str]] = {}
    for run in runs:
        if not run.is_parameter:
            ran.setdefault(run.first.graph, set()).add(run.name)
    return {
        name: f"stands in the execution order of graph {graph}, and the framework wrote no file of it"
        for graph, names in ran.items()
        for name in beside.orders.get(graph, [])
        if name not in names
    }


def runs_of_graphs(runs: Sequence[Execution]) -> dict[int, int]:
    """How often each graph ran in an iteration, as its parameters tell: a graph writes them down once, at its end."""
    times = Counter((run.first.graph, run.name) for run in runs if run.is_parameter)
    return {graph: max(n for (of, _), n in times.items() if of == graph) for graph in sorted({of for of, _ in times})}
