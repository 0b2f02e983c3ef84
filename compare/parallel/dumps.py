"""The dumps of one side: its ranks, and the content of one rank's files."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from msprobe.base.errors import DumpError, UsageError
from msprobe.base.log import join_names
from msprobe.compare.core.layouts import Layout
from msprobe.compare.jobs.plan import side
from msprobe.store import layout as files
from msprobe.store.folders import NAMED
from msprobe.store.reader import beside, entries_of, find


class Step(NamedTuple):
    """A step of a tree of dumps; None if the user's path is below it."""

    tree: str | None
    step: int | None

    def folder(self, root: Path) -> Path:
        """Return the folder of the ranks of the step, below a root."""
        below = root / self.tree if self.tree else root
        return below if self.step is None else files.step_folder(below, self.step)


@dataclass(frozen=True)
class RankDump:
    """One rank's dump: `head` has the members of its dump.json other than the entries."""

    where: str
    folder: Path
    head: Mapping[str, Any]
    entries: Mapping[str, Any] = field(repr=False)
    construct: Mapping[str, str | None] = field(repr=False)
    stacks: Mapping[str, tuple[str, ...]] = field(repr=False)


def steps_of(path: Path, layout: Layout, which: str) -> dict[Step, dict[int, Path]]:
    """Return the dumps of a side by step and rank. Raise a UsageError if a step does not have exactly the ranks of the
    layout."""
    found: dict[Step, dict[int, Path]] = {}
    whole = side(path)
    if whole.family != "dump":
        raise UsageError(f"{path}: is {whole.text}; only dumps of calls can be merged by a parallel layout")
    for place, source in whole.places.items():
        if place.what == "dump":
            found.setdefault(Step(place.tree, place.step), {})[place.rank or 0] = source.paths[0]
    if not found:
        raise UsageError(f"{path}: contains no dump of calls; collect with level L0 or mix")
    for step, ranks in found.items():
        if layout.ranks == len(ranks) == 1:  # a single process, with any number
            found[step] = {0: next(iter(ranks.values()))}
            continue
        _check_ranks(step.folder(path), ranks, layout, which)
    return found


def _check_ranks(folder: Path, ranks: Mapping[int, Path], layout: Layout, which: str) -> None:
    wanted = set(range(layout.ranks))
    if lacking := sorted(wanted - ranks.keys()):
        raise UsageError(
            f"{folder}: of the {layout.ranks} ranks of the {which} (--rank-size), {join_names(lacking, NAMED)} "
            f"{('is' if len(lacking) == 1 else 'are')} missing; copy the dumps of all ranks into one folder, or "
            "give the sizes of this run"
        )
    if more := sorted(ranks.keys() - wanted):
        raise UsageError(
            f"{folder}: also contains rank {join_names(more, NAMED)}, beyond the {layout.ranks} ranks of the {which} "
            "(--rank-size); give the total number of ranks of the run"
        )


def read_rank(path: Path) -> RankDump:
    """Return the dump of a rank; raise a DumpError, with settings for collecting again, if it cannot be merged."""
    file = find(path)
    head, entries = entries_of(file)
    construct, frames = beside(file)
    if not construct:
        raise DumpError(
            f"{file}: the modules around its calls are unknown ({files.CONSTRUCT} next to it is empty or "
            "missing), so micro batches and stages cannot be distinguished; collect with level L0 or mix, and with "
            "extra_info"
        )
    return RankDump(str(file), file.parent, head, entries, construct, frames)
