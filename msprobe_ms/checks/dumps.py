"""The dumps of one run, by step and rank."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from msprobe.base.errors import DumpError, UsageError
from msprobe.base.log import logger
from msprobe.compare.jobs.plan import side
from msprobe.store import layout
from msprobe.store.reader import find, read_head


@dataclass(frozen=True, slots=True)
class DumpFile:
    """One step of one rank; `step` is None where neither a folder nor the dump says it."""

    step: int | None
    rank: int
    path: Path
    is_empty: bool = False
    """Whether this is the folder of a step or rank that has no dump."""


def dumps_of(
    path: Path,
    *,
    steps: Iterable[int] | None = None,
    ranks: Iterable[int] | None = None,
    with_empty: bool = False,
) -> list[DumpFile]:
    """The dumps below a path, sorted by step and rank; only those of the steps and ranks that are asked for.

    `with_empty`: also the folders of steps and ranks that have no dump, if any has one.
    DumpError where the path holds no dump; UsageError where it holds two trees of runs, or nothing that was asked for.
    """
    found = side(path)
    if found.family != "dump":
        raise DumpError(f"{path}: is {found.text}, and no dump; `msprobe gather` makes a dump of a kernel dump")
    for sentence in found.skipped:
        logger.warning(sentence)
    trees = {place.tree for place in found.places}
    if len(trees) > 1:
        names = ", ".join(sorted(tree for tree in trees if tree))
        raise UsageError(f"{path}: holds the runs {names}; give the folder of one of them")
    made = []
    for place, source in found.places.items():
        if place.what != "dump":
            continue
        step, rank = place.step, place.rank
        if step is None or rank is None:
            step, rank = _step_and_rank(source.paths[0], step, rank)
        made.append(DumpFile(step, rank, source.paths[0]))
    if with_empty and made:
        made += [DumpFile(place.step, place.rank or 0, folder, is_empty=True) for place, folder in found.empty.items()]
    made = [one for one in made if steps is None or one.step in set(steps)]
    made = [one for one in made if ranks is None or one.rank in set(ranks)]
    if not made:
        raise UsageError(f"{path}: holds no dump of the steps and ranks that were asked for")
    return sorted(made, key=lambda one: (-1 if one.step is None else one.step, one.rank))


def _step_and_rank(path: Path, step: int | None, rank: int | None) -> tuple[int | None, int]:
    """Return step and rank of a dump, by its header, else by the names of its folders."""
    file = find(path).absolute()
    run = read_head(file).run
    if step is None:
        recorded = run.get("step")
        step = recorded if type(recorded) is int else layout.step_number(file.parent.parent.name)
    if rank is None:
        recorded = run.get("rank")
        rank = recorded if type(recorded) is int else layout.rank_number(file.parent.name)
    return step, rank or 0


def by_step(files: Iterable[DumpFile]) -> dict[int | None, list[DumpFile]]:
    """The dumps of each step, in the order of the steps."""
    found: dict[int | None, list[DumpFile]] = {}
    for file in files:
        found.setdefault(file.step, []).append(file)
    return found
