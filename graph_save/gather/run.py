"""Gathers all ranks and iterations of a kernel dump."""

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from msprobe.base.errors import UsageError
from msprobe.base.files import open_input
from msprobe.base.log import join_names
from msprobe.base.scope import contains
from msprobe.base.version import tool
from msprobe.findings.catalogue.collecting import NOT_DUMPED, NOT_GATHERED
from msprobe.findings.finding import Finding, Place
from msprobe.store import layout
from msprobe.store.kernel_dump.files import content

from .dump import Gathered, RankGatherer
from .metadata import Metadata, Rank, find, missing_kernel_messages, read_metadata

_HEAD_BYTES = 1 << 18  # the header of a dump is smaller
_RAW = re.compile(r'"raw"\s*:\s*("(?:[^"\\]|\\.)*")')


@dataclass
class Report:
    """Result of gathering.

    lines : printed at the end, one for each dump.
    findings : what was requested and is missing.
    dumps, values : numbers of what was gathered.
    """

    lines: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    dumps: int = 0
    values: int = 0

    @property
    def has_missing(self) -> bool:
        """Return whether something that was requested is missing."""
        return bool(self.findings)


def gather_all(
    raw: Path,
    output: Path,
    *,
    steps: tuple[int, ...] = (),
    ranks: tuple[int, ...] = (),
    with_tensors: bool | None = None,
    workers: int | None = None,
) -> Report:
    """Gather every rank and iteration of `raw` into `output`; empty `steps` and `ranks` mean all.

    `with_tensors` None: by the settings of the debugger that made the dump; True without such settings.

    UsageError if `raw` is not a folder, if it contains none of the ranks or iterations, or if `output` cannot be
    written; DumpError if `raw` contains no kernel dump.
    """
    report = Report()
    found = [rank for rank in find(raw) if contains(ranks, rank.rank)]
    if not found:
        raise UsageError(f"{raw}: contains none of the ranks of --ranks; omit the option to gather all")
    count = 0
    # Reading, measuring and linking release the GIL.
    pool = ThreadPoolExecutor(workers or len(os.sched_getaffinity(0)), "msprobe gather")
    try:
        for rank in found:
            count += _gather_rank(rank, raw, output, steps, with_tensors, pool, report)
    except OSError as err:
        raise UsageError(
            f"{err.filename or output}: {err.strerror or err}; finished steps are kept: fix the cause and gather again"
        ) from err
    finally:
        pool.shutdown(cancel_futures=True)
    if not count and not report.lines:
        raise UsageError(f"{raw}: contains none of the iterations of --steps; omit the option to gather all")
    return report


def _gather_rank(
    rank: Rank,
    raw: Path,
    output: Path,
    steps: tuple[int, ...],
    with_tensors: bool | None,
    pool: ThreadPoolExecutor,
    report: Report,
) -> int:
    """Gather one rank, and return the number of its iterations."""
    metadata = read_metadata(rank.root, raw)
    contents = {place: content(place.path, place.graph) for place in rank.places}
    is_wanted = metadata.settings.wants_tensors if with_tensors is None else with_tensors
    gatherer = RankGatherer(contents.values(), metadata, pool, is_wanted)
    wanted = [iteration for iteration in rank.iterations() if contains(steps, iteration)]
    ran: dict[str, None] = {}
    lines_before = len(report.lines)
    for iteration in wanted:
        iteration_contents = [found for place, found in contents.items() if place.iteration == iteration]
        folder = layout.rank_folder(output, iteration, rank.rank)
        _check_replaceable(folder, rank.root)
        gathered = gatherer.gather(iteration_contents, iteration, folder, _header(rank, iteration, metadata))
        ran |= gathered.ran
        report.lines.append(_line(gathered))
        report.dumps += 1
        report.values += gathered.values
        place = Place(str(gathered.folder), step=iteration, rank=rank.rank)
        report.findings += [Finding(NOT_GATHERED, place, lost) for lost in gathered.lost]
    requested = metadata.settings.requested
    if requested and len(wanted) == len(rank.iterations()):
        kernels = [
            name
            for graph in sorted(set(metadata.orders) | set(metadata.flows))
            for name in metadata.kernel_names(graph)
        ]
        for message in missing_kernel_messages(requested, list(ran), kernels):
            report.lines.append(f"{rank.root}: {message}")
            report.findings.append(Finding(NOT_DUMPED, Place(str(rank.root), rank=rank.rank), message))
    if not rank.places and len(report.lines) == lines_before:
        text = "contains no kernel files; check `iteration` and `kernels` of the dump settings"
        report.lines.append(f"{rank.root}: {text}")
        report.findings.append(Finding(NOT_DUMPED, Place(str(rank.root), rank=rank.rank), text))
    return len(wanted)


def _check_replaceable(folder: Path, raw: Path) -> None:
    """Raise UsageError if a folder contains a dump that was not gathered from `raw`."""
    for name in (*layout.DATA_FILES, layout.JOURNAL):
        try:
            with open_input(folder / name) as file:
                head = file.read(_HEAD_BYTES).decode("utf-8", "replace")
        except FileNotFoundError:
            continue
        except OSError:
            head = "?"
        found = _RAW.search(head)
        if head and (found is None or found[1] != json.dumps(str(raw))):
            raise UsageError(
                f"{folder}: contains a dump that was not gathered from {raw}; give another folder with -o, or remove it"
            )


def _header(rank: Rank, iteration: int, metadata: Metadata) -> dict[str, object]:
    return {
        "run": {
            "tool": tool(),
            **({"framework": metadata.framework} if metadata.framework else {}),
            "numpy": np.__version__,
            "step": iteration,
            "rank": rank.rank,
            "iteration": iteration,
            "raw": str(rank.root),
            "settings": dict(metadata.settings.common),
        }
    }


def _line(gathered: Gathered) -> str:
    graphs = f"{gathered.graphs} graph{'s' * (gathered.graphs != 1)}"
    text = f"{gathered.folder}: {gathered.kernels} kernels of {graphs}, {gathered.values} values"
    if gathered.lost:
        text += f"; LOST: {join_names(gathered.lost)}"
    if gathered.without_lines:
        text += f"; the graph has no source line for {join_names(gathered.without_lines)}"
    if gathered.framework_lines_only:
        text += f"; only source lines of the framework for {join_names(gathered.framework_lines_only)}"
    return "; ".join([text, *(f"note: {note}" for note in gathered.notes)])
