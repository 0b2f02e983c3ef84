"""One iteration of one rank becomes one dump of ours: kernel by kernel in the order of execution."""

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

from .entry import Measured, Part, entry, full_names, kernel, measure, parts, stems
from .ir_dataflow import Argument, Lines
from .metadata import Metadata

_AHEAD = 64  # executions whose values are measured while those before are written

_SIDES: tuple[IO, ...] = ("input", "output")


@dataclass(frozen=True, slots=True)
class Scene:
    """An execution, where each of its values goes, its arguments as the graph knows them, and the `from` of each."""

    run: Execution
    places: list[Part]
    arguments: tuple[Argument, ...]
    sources: list[str]


class Provenance:
    """Which kernel produced each input: remembers the calls of an iteration, and which parameters have been written."""

    def __init__(self, metadata: Metadata) -> None:
        self._flows = metadata.flows
        # Then the graph's arguments are those of the run, and do not come from another graph.
        self._is_single_graph = len(set(metadata.orders) | set(metadata.flows)) <= 1
        self._calls: dict[tuple[int, str], str] = {}
        self._written: set[str] = set()

    def next(self, run: Execution) -> Scene:
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
        """The text of `from`; empty where it is not known: what a kernel writes is not its input, and what an
        earlier one wrote is no longer the parameter that the iteration began with."""
        origin = argument.origin
        if origin is None or argument.is_written:
            return ""
        if origin.kind == "parameter":
            return f"parameter {origin.text}" if origin.text not in self._written else ""
        if origin.kind == "kernel":
            call = self._calls.get((graph, origin.text), "")
            return f"call {call}.output.{origin.index}" if call else ""
        return "leaf" if origin.kind == "constant" or self._is_single_graph else ""


def absent(runs: Sequence[Execution], metadata: Metadata) -> dict[str, str]:
    """Kernels of graphs that ran of which there is no file although all were to be dumped: full name -> why."""
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


def runs_of_graphs(runs: Sequence[Execution]) -> dict[int, int]:
    """How often each graph ran in an iteration, by its parameters: a graph writes them down once, at its end."""
    times = Counter((run.first.graph, run.name) for run in runs if run.is_parameter)
    return {graph: max(n for (of, _), n in times.items() if of == graph) for graph in sorted({of for of, _ in times})}


@dataclass
class Gathered:
    """What came of one iteration. `ran` are the full names of its kernels; `without_lines` those without lines of
    source, `of_the_framework` those whose lines are all the framework's."""

    folder: Path
    values: int
    graphs: int
    kernels: int = 0
    ran: dict[str, None] = field(default_factory=dict)
    without_lines: dict[str, None] = field(default_factory=dict)
    of_the_framework: dict[str, None] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class RankGatherer:
    """Makes the dumps of one rank. `contents` are all its folders: which file means which kernel is decided over all
    iterations, so that one that is lost in one of them does not shift the others."""

    def __init__(self, contents: Iterable[Content], metadata: Metadata, pool: Executor, with_tensors: bool) -> None:
        self._metadata = metadata
        self._pool = pool
        self._with_tensors = with_tensors
        self._names = _names(contents, metadata)
        self._order = {
            (graph, name): at for graph, kernels in metadata.orders.items() for at, name in enumerate(kernels)
        }

    def gather(self, contents: Sequence[Content], iteration: int, folder: Path, header: Mapping[str, Any]) -> Gathered:
        """Write the dump of one iteration, whose files are `contents`, into `folder`.

        OSError where the disk refuses, UsageError where another process writes there. A dump that is not finished, for
        these or because the user interrupts, keeps its journal and so is known as unfinished.
        """
        values = [value for found in contents for value in found.values]
        runs = executions(values, self._names, self._order)
        with_tensors = self._with_tensors and any(value.path is not None for value in values)
        task = "tensor" if with_tensors else "statistics"
        writer = Writer(folder, {"task": task, "level": "L2", "framework": "mindspore", **header})
        tensors = folder.absolute() / layout.TENSORS if with_tensors else None
        if tensors is not None:
            make_folder(tensors)
        made = Gathered(folder, len(values), len({value.graph for value in values}))
        for scene, measured in _measured(map(Provenance(self._metadata).next, runs), tensors, self._pool):
            self._write(writer, scene, measured, iteration, made)
        for name, cause in absent(runs, self._metadata).items():
            writer.missing(name, "", cause)
            made.lost.append(f"{name}: {cause}")
        writer.close()
        made.notes += _notes(contents, runs_of_graphs(runs), self._metadata.settings.counts_steps)
        return made

    def _write(self, writer: Writer, scene: Scene, measured: list[Measured], iteration: int, made: Gathered) -> None:
        run = scene.run
        wanted = [side for side in _SIDES if self._metadata.settings.wants(side)]
        found = entry(scene.places, measured, scene.arguments, scene.sources, wanted)
        flow = self._metadata.flows.get(run.first.graph)
        lines = flow.lines(run.name) if flow and not run.is_parameter else Lines()
        if not run.is_parameter:
            found.data["kernel"] = kernel(run, iteration, lines.of)
            if flow and flow.is_recompute(run.name):
                found.data["is_recompute"] = True
            made.kernels += 1
            made.ran[run.name] = None
            if not lines.frames:
                made.without_lines[run.name] = None
            elif lines.are_the_frameworks:
                made.of_the_framework[run.name] = None
        stack = writer.stack(lines.frames) if lines.frames else None
        writer.call(run.call, None, stack, json.dumps(found.data))
        for part, cause in found.lost.items():
            writer.missing(run.call, part, cause)
            made.lost.append(f"{run.call} {part}: {cause}")


def _names(contents: Iterable[Content], metadata: Metadata) -> dict[tuple[int, str], str]:
    """The full name for graph and name as files spell it, of kernels and of parameters."""
    kernels: dict[int, set[str]] = {}
    parameters: dict[int, set[str]] = {}
    for content in contents:
        for value in content.values:
            (parameters if value.op_type == PARAMETER else kernels).setdefault(value.graph, set()).add(value.name)
    names: dict[tuple[int, str], str] = {}
    counted: set[str] = set()
    for graph in sorted({*kernels, *metadata.orders, *metadata.flows}):
        known = metadata.known(graph)
        found = full_names(kernels.get(graph, ()), known, counted)
        names.update(((graph, spelled), name) for spelled, name in found.items())
        counted |= stems(known)
    for graph, spelled in parameters.items():
        flow = metadata.flows.get(graph)
        whole = {key(p.name): p.name for p in flow.trace.parameters} if flow else {}
        names.update(((graph, name), whole.get(key(name), name)) for name in spelled)
    return names


def _measured(scenes: Iterator[Scene], tensors: Path | None, pool: Executor) -> Iterator[tuple[Scene, list[Measured]]]:
    """The executions in order, each with its values measured; some of those behind are on their way."""

    def start(scene: Scene) -> tuple[Scene, Future[list[Measured]]]:
        return scene, pool.submit(_measure_all, scene, tensors)

    ahead = deque(map(start, islice(scenes, _AHEAD)))
    while ahead:
        scene, waiting = ahead.popleft()
        ahead.extend(map(start, islice(scenes, 1)))
        yield scene, waiting.result()


def _measure_all(scene: Scene, tensors: Path | None) -> list[Measured]:
    made = []
    for value, part in zip(scene.run.values, scene.places, strict=True):
        name = safe_name(f"{scene.run.call}.{part}.npy")
        is_kept = tensors is not None and part.group != "unread"
        made.append(measure(value, f"{tensors}{os.sep}{name}" if is_kept else None))
    return made


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
