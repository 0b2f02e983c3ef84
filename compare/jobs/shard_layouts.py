"""Whether two runs have to be merged before they are compared, because they distribute their tensors differently."""

import re
from collections.abc import Mapping
from pathlib import Path

from msprobe.base.errors import DumpError
from msprobe.base.files import open_input
from msprobe.compare.core.layouts import Layout, Layouts
from msprobe.store import layout as files
from msprobe.store.reader import find

from .plan import side

_SHARD = re.compile(rb'"shard": ?(\{[^{}]*\})')


def layouts_of_shards(target: Path, golden: Path) -> Layouts | None:
    """Return the layouts by which two runs are merged: all ranks of a side have one model together.

    None where they can be compared rank by rank: no side has shards of distributed tensors, or both have the same
    ones on the same ranks. Only dumps of several ranks are read for this.
    """
    sides = [_ranks(path) for path in (target, golden)]
    if any(not ranks for ranks in sides) or max(map(len, sides)) < 2:
        return None
    firsts = [_shards(ranks[min(ranks)]) for ranks in sides]
    if not any(firsts):
        return None
    mine, theirs = sides
    if mine.keys() == theirs.keys() and all(_shards(mine[rank]) == _shards(theirs[rank]) for rank in mine):
        return None
    if any(sorted(ranks) != list(range(len(ranks))) for ranks in sides if len(ranks) > 1):
        return None
    first, second = (Layout(len(ranks), len(ranks)) for ranks in sides)
    return Layouts(first, second)


def _ranks(path: Path) -> Mapping[int, Path]:
    """The dumps of the first step by rank; empty where the path holds anything else."""
    try:
        found = side(path)
    except DumpError:
        return {}
    if found.family != "dump":
        return {}
    steps: dict[tuple[str, int], dict[int, Path]] = {}
    for place, source in found.places.items():
        if place.what == "dump":
            at = place.tree or "", -1 if place.step is None else place.step
            steps.setdefault(at, {})[place.rank or 0] = source.paths[0]
    return steps[min(steps)] if steps else {}


def _shards(path: Path) -> frozenset[bytes]:
    """The descriptions of shards in a dump; empty where it cannot be read."""
    try:
        file = find(path)
        if file.name in files.TABLES:
            return _in_table(file)
        with open_input(file) as opened:
            return frozenset(each.replace(b" ", b"") for line in opened for each in _SHARD.findall(line))
    except (DumpError, OSError, ValueError):  # reported when it is compared
        return frozenset()


def _in_table(file: Path) -> frozenset[bytes]:
    from msprobe.store.columnar.records import read_records

    texts = "\n".join(read_records(file).templates).encode()
    return frozenset(each.replace(b" ", b"") for each in _SHARD.findall(texts))
