"""All ranks and iterations of a kernel dump, one after the other."""

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from msprobe.base.errors import UsageError
from msprobe.base.files import open_input
from msprobe.base.log import few
from msprobe.base.scope import holds
from msprobe.base.version import tool
from msprobe.findings.catalogue.collecting import NOT_DUMPED, NOT_GATHERED
from msprobe.findings.finding import Finding, Place
from msprobe.store import layout
from msprobe.store.kernel_dump.files import content

from .dump import Gathered, RankGatherer
from .metadata import Metadata, Rank, find, lacking, read_metadata

_HEAD = 1 << 18  # bytes; what stands above the data of a dump is small
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
    def is_lacking(self) -> bool:
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

    `with_tensors` None: as the settings of the debugger that made the dump say, and with tensors where there are none.

    UsageError where `raw` is no folder, where nothing of what was asked for is there, or where `output` cannot be
    written; DumpError where `raw` holds no kernel dump.
    """
    report = Report()
    found = [rank for rank in find(raw) if holds(ranks, rank.rank)]
    if not found:
        raise UsageError(f"{raw}: contains none of the ranks of --ranks; omit the option to gather all")
    count = 0
    # Reading, measuring and linking all let other threads run.
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
    """Gather one rank; returns the number of its iterations."""
    metadata = read_metadata(rank.root, raw)
    contents = {place: content(place.path, place.graph) for place in rank.places}
    is_wanted = metadata.settings.wants_tensors if with_tensors is None else with_tensors
    gatherer = RankGatherer(contents.values(), metadata, pool, is_wanted)
    wanted = [iteration for iteration in rank.iterations() if holds(steps, iteration)]
    ran: dict[str, None] = {}
    lines_before = len(report.lines)
    for iteration in wanted:
        own = [found for place, found in contents.items() if place.iteration == iteration]
        folder = layout.rank_folder(output, iteration, rank.rank)
        _refuse_foreign(folder, rank.root)
        made = gatherer.gather(own, iteration, folder, _header(rank, iteration, metadata))
        ran |= made.ran
        report.lines.append(_line(made))
        report.dumps += 1
        report.values += made.values
        place = Place(str(made.folder), step=iteration, rank=rank.rank)
        report.findings += [Finding(NOT_GATHERED, place, lost) for lost in made.lost]
    requested = metadata.settings.named
    if requested and len(wanted) == len(rank.iterations()):
        kernels = [
            name for graph in sorted(set(metadata.orders) | set(metadata.flows)) for name in metadata.known(graph)
        ]
        for sentence in lacking(requested, list(ran), kernels):
            report.lines.append(f"{rank.root}: {sentence}")
            report.findings.append(Finding(NOT_DUMPED, Place(str(rank.root), rank=rank.rank), sentence))
    if not rank.places and len(report.lines) == lines_before:
        text = "contains no kernel files; check `iteration` and `kernels` of the dump settings"
        report.lines.append(f"{rank.root}: {text}")
        report.findings.append(Finding(NOT_DUMPED, Place(str(rank.root), rank=rank.rank), text))
    return len(wanted)


def _refuse_foreign(folder: Path, raw: Path) -> None:
    """UsageError where a folder holds a dump of something else; one that was gathered of the same files is replaced."""
    for name in (*layout.DATA_FILES, layout.JOURNAL):
        try:
            with open_input(folder / name) as file:
                head = file.read(_HEAD).decode("utf-8", "replace")
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


def _line(made: Gathered) -> str:
    graphs = f"{made.graphs} graph{'s' * (made.graphs != 1)}"
    text = f"{made.folder}: {made.kernels} kernels of {graphs}, {made.values} values"
    if made.lost:
        text += f"; LOST: {few(made.lost)}"
    if made.without_lines:
        text += f"; the graph has no source line for {few(made.without_lines)}"
    if made.of_the_framework:
        text += f"; only source lines of the framework for {few(made.of_the_framework)}"
    return "; ".join([text, *(f"note: {note}" for note in made.notes)])
