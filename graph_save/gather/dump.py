"""Converts an iteration of one rank to a dump, with the kernels in the order of execution."""

import json
import os
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from msprobe.base.files import make_folder, safe_name
from msprobe.base.names import PARAMETER
from msprobe.store import layout
from msprobe.store.kernel_dump.executions import Execution, executions
from msprobe.store.kernel_dump.files import Content
from msprobe.store.kernel_dump.values import IO, key
from msprobe.store.writer import Writer

from .entry import Measured, Part, entry_of, full_names, kernel_info, measure, parts_of, stems
from .ir_dataflow import Argument, Lines
from .metadata import Metadata

_MAX_PENDING = 64  # executions whose values are measured while earlier executions are written

_SIDES: tuple[IO, ...] = ("input", "output")


@dataclass(frozen=True, slots=True)
class TracedExecution:
    """An execution with its data from the graph.

    parts : location of each value in the entry.
    arguments : arguments of the kernel in the graph.
    sources : the text of `from` of each argument; empty if unknown.
    """

    run: Execution
    parts: list[Part]
    arguments: tuple[Argument, ...]
    sources: list[str]


class Provenance:
    """Tracker of the producers of inputs, by the calls of an iteration and the parameters that have been written."""

    def __init__(self, metadata: Metadata) -> None:
        self._flows = metadata.flows
        # With a single graph, arguments of the graph do not come from another graph.
        self._is_single_graph = len(set(metadata.orders) | set(metadata.flows)) <= 1
        self._calls: dict[tuple[int, str], str] = {}
        self._written: set[str] = set()

    def next(self, run: Execution) -> TracedExecution:
        """Return the next execution with its data from the graph."""
        graph = run.first.graph
        flow = self._flows.get(graph)
        arguments = flow.arguments(run.name) if flow and not run.is_parameter else ()
        sources = [self._source(graph, argument) for argument in arguments]
        self._written.update(a.origin.text for a in arguments if a.is_written and a.origin)
        if not run.is_parameter:
            self._calls[graph, run.name] = run.call
        unread = flow.unread(run.name) if flow and not run.is_parameter else frozenset[int]()
        return TracedExecution(run, parts_of(run, arguments, unread), arguments, sources)

    def _source(self, graph: int, argument: Argument) -> str:
        """Return the text of `from`; empty if unknown.

        An argument that the kernel writes is not an input, and a parameter that an earlier kernel wrote no longer has
        the value from the start of the iteration.
        """
        origin = argument.origin
        if origin is None or argument.is_written:
            return ""
        if origin.kind == "parameter":
            return f"parameter {origin.text}" if origin.text not in self._written else ""
        if origin.kind == "kernel":
            call = self._calls.get((graph, origin.text), "")
            return f"call {call}.output.{origin.index}" if call else ""
        return "leaf" if origin.kind == "constant" or self._is_single_graph else ""


def missing_kernels(runs: Sequence[Execution], metadata: Metadata) -> dict[str, str]:
    """Return kernels of executed graphs without a file, if all kernels were to be dumped: full name -> reason."""
    if not metadata.settings.all_kernels:
        return {}
    ran: dict[int, set[str]] = {}
    for run in runs:
        if not run.is_parameter:
            ran.setdefault(run.first.graph, set()).add(run.name)
    return {
        name: f"is in the execution order of graph {graph}, but the framework did not write a file for it"
        for graph, names in ran.items()
        for name in metadata.orders.get(graph, [])
        if name not in names
    }


def count_graph_runs(runs: Sequence[Execution]) -> dict[int, int]:
    """Return how often each graph ran in an iteration. A graph dumps its parameters once, at the end of a run."""
    times = Counter((run.first.graph, run.name) for run in runs if run.is_parameter)
    return {graph: max(n for (of, _), n in times.items() if of == graph) for graph in sorted({of for of, _ in times})}


@dataclass
class Gathered:
    """Result of gathering one iteration.

    folder : folder of the dump.
    values, graphs, kernels : numbers of values, graphs and kernels.
    ran : full names of the kernels.
    without_lines : kernels without source lines.
    framework_lines_only : kernels whose source lines are all of the framework.
    lost : messages about missing values.
    notes : messages for the user.
    """

    folder: Path
    values: int
    graphs: int
    kernels: int = 0
    ran: dict[str, None] = field(default_factory=dict)
    without_lines: dict[str, None] = field(default_factory=dict)
    framework_lines_only: dict[str, None] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class RankGatherer:
    """Writer of the dumps of one rank.

    `contents` are all folders of the rank: names in files are resolved to kernels over all iterations, so that a file
    that is missing in one iteration does not shift the others.
    """

    def __init__(self, contents: Iterable[Content], metadata: Metadata, pool: Executor, with_tensors: bool) -> None:
        self._metadata = metadata
        self._pool = pool
        self._with_tensors = with_tensors
        self._names = _names(contents, metadata)
        self._order = {
            (graph, name): at for graph, kernels in metadata.orders.items() for at, name in enumerate(kernels)
        }

    def gather(self, contents: Sequence[Content], iteration: int, folder: Path, header: Mapping[str, Any]) -> Gathered:
        """Write the dump of one iteration, whose files are `contents`, to `folder`.

        OSError if writing fails, UsageError if another process writes to the folder. A dump that is not finished, also
        because of an interrupt, keeps its journal, which marks it as unfinished.
        """
        values = [value for found in contents for value in found.values]
        runs = executions(values, self._names, self._order)
        with_tensors = self._with_tensors and any(value.path is not None for value in values)
        task = "tensor" if with_tensors else "statistics"
        writer = Writer(folder, {"task": task, "level": "L2", "framework": "mindspore", **header})
        tensors = folder.absolute() / layout.TENSORS if with_tensors else None
        if tensors is not None:
            make_folder(tensors)
        gathered = Gathered(folder, len(values), len({value.graph for value in values}))
        for traced, measured in _measure_ahead(map(Provenance(self._metadata).next, runs), tensors, self._pool):
            self._write(writer, traced, measured, iteration, gathered)
        for name, cause in missing_kernels(runs, self._metadata).items():
            writer.missing(name, "", cause)
            gathered.lost.append(f"{name}: {cause}")
        writer.close()
        gathered.notes += _notes(contents, count_graph_runs(runs), self._metadata.settings.counts_steps)
        return gathered

    def _write(
        self, writer: Writer, traced: TracedExecution, measured: list[Measured], iteration: int, gathered: Gathered
    ) -> None:
        run = traced.run
        wanted = [side for side in _SIDES if self._metadata.settings.wants(side)]
        found = entry_of(traced.parts, measured, traced.arguments, traced.sources, wanted)
        flow = self._metadata.flows.get(run.first.graph)
        lines = flow.lines(run.name) if flow and not run.is_parameter else Lines()
        if not run.is_parameter:
            found.data["kernel"] = kernel_info(run, iteration, lines.of)
            if flow and flow.is_recompute(run.name):
                found.data["is_recompute"] = True
            gathered.kernels += 1
            gathered.ran[run.name] = None
            if not lines.frames:
                gathered.without_lines[run.name] = None
            elif lines.are_framework_only:
                gathered.framework_lines_only[run.name] = None
        stack = writer.stack(lines.frames) if lines.frames else None
        writer.call(run.call, None, stack, json.dumps(found.data))
        for part, cause in found.lost.items():
            writer.missing(run.call, part, cause)
            gathered.lost.append(f"{run.call} {part}: {cause}")


def _names(contents: Iterable[Content], metadata: Metadata) -> dict[tuple[int, str], str]:
    """Return the full names of kernels and parameters, by graph and name as spelled in files."""
    kernels: dict[int, set[str]] = {}
    parameters: dict[int, set[str]] = {}
    for content in contents:
        for value in content.values:
            (parameters if value.op_type == PARAMETER else kernels).setdefault(value.graph, set()).add(value.name)
    names: dict[tuple[int, str], str] = {}
    counted: set[str] = set()
    for graph in sorted({*kernels, *metadata.orders, *metadata.flows}):
        kernel_names = metadata.kernel_names(graph)
        found = full_names(kernels.get(graph, ()), kernel_names, counted)
        names.update(((graph, spelled), name) for spelled, name in found.items())
        counted |= stems(kernel_names)
    for graph, spelled in parameters.items():
        flow = metadata.flows.get(graph)
        whole = {key(p.name): p.name for p in flow.trace.parameters} if flow else {}
        names.update(((graph, name), whole.get(key(name), name)) for name in spelled)
    return names


def _measure_ahead(
    traced_executions: Iterator[TracedExecution], tensors: Path | None, pool: Executor
) -> Iterator[tuple[TracedExecution, list[Measured]]]:
    """Yield the executions in order, each with its measured values; later executions are measured in the pool."""

    def start(traced: TracedExecution) -> tuple[TracedExecution, Future[list[Measured]]]:
        return traced, pool.submit(_measure_all, traced, tensors)

    pending = deque(map(start, islice(traced_executions, _MAX_PENDING)))
    while pending:
        traced, future = pending.popleft()
        pending.extend(map(start, islice(traced_executions, 1)))
        yield traced, future.result()


def _measure_all(traced: TracedExecution, tensors: Path | None) -> list[Measured]:
    measured = []
    for value, part in zip(traced.run.values, traced.parts, strict=True):
        name = safe_name(f"{traced.run.call}.{part}.npy")
        is_kept = tensors is not None and part.group != "unread"
        measured.append(measure(value, f"{tensors}{os.sep}{name}" if is_kept else None))
    return measured


def _notes(contents: Sequence[Content], times: Mapping[int, int], counts_steps: bool) -> Iterator[str]:
    foreign = [name for found in contents for name in found.foreign]
    if foreign:
        yield f"{len(foreign)} files do not belong to a kernel dump and were skipped ({', '.join(foreign[:3])})"
    for graph, count in times.items():
        if count == 1:
            continue
        if counts_steps:
            yield (
                f"graph {graph} ran {count} times in this step; its kernels are named round1, ... from the second run "
                "on"
            )
        else:
            yield (
                f"graph {graph} wrote its parameters {count} times in one iteration; if two runs used this "
                "dump_path, their files are mixed: gather each run from a separate folder"
            )
