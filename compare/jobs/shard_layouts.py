"""Detect runs that distribute their tensors differently: ranks have to be merged before they are compared."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from msprobe.base.errors import DumpError
from msprobe.base.files import read_input
from msprobe.base.log import join_names
from msprobe.compare.core.layouts import Layout, Layouts
from msprobe.findings.catalogue.parallel import NOT_NUMBERED
from msprobe.findings.finding import Finding, Place
from msprobe.store import layout as files
from msprobe.store.reader import find

from .plan import Side

_MAX_RANKS = 8
"""Ranks in a message; further ones are counted."""

_KEY = b'"shard"'
_SHARD = re.compile(_KEY + rb": ?(\{[^{}]*\})")


def layouts_of_shards(target: Side, golden: Side) -> Layouts | Finding | None:
    """Return the layouts by which two runs are merged: all ranks of a side have one model together.

    None if they can be compared rank by rank: no side has shards of distributed tensors, or both have the same ones on
    the same ranks. A finding if ranks would have to be merged, but their numbers have gaps. Only dumps of several ranks
    are read for this.
    """
    sides = [_ranks(each) for each in (target, golden)]
    if any(not ranks for ranks in sides) or max(map(len, sides)) < 2:
        return None
    firsts = [_shards(ranks[min(ranks)]) for ranks in sides]
    if not any(firsts):
        return None
    mine, theirs = sides
    if mine.keys() == theirs.keys() and all(_shards(mine[rank]) == _shards(theirs[rank]) for rank in mine):
        return None
    for name, each, ranks in zip(("target", "golden"), (target, golden), sides, strict=True):
        if len(ranks) > 1 and sorted(ranks) != list(range(len(ranks))):
            listed = join_names([str(rank) for rank in sorted(ranks)], _MAX_RANKS)
            message = NOT_NUMBERED.sentence(side=name, ranks=listed)
            return Finding(NOT_NUMBERED, Place(str(each.path)), message, fields={"side": name, "ranks": sorted(ranks)})
    first, second = (Layout(len(ranks), len(ranks)) for ranks in sides)
    return Layouts(first, second)


def _ranks(one: Side) -> Mapping[int, Path]:
    """Return the dumps of the first step by rank; empty if the side has anything else."""
    if one.family != "dump":
        return {}
    steps: dict[tuple[str, int], dict[int, Path]] = {}
    for place, source in one.places.items():
        if place.what == "dump":
            at = place.tree or "", -1 if place.step is None else place.step
            steps.setdefault(at, {})[place.rank or 0] = source.paths[0]
    return steps[min(steps)] if steps else {}


def _shards(path: Path) -> frozenset[bytes]:
    """Return the descriptions of shards in a dump; empty if it cannot be read."""
    try:
        file = find(path)
        if file.name in files.TABLES:
            return _in_table(file)
        return frozenset(_found(read_input(file)))
    except (DumpError, OSError, ValueError):  # reported when it is compared
        return frozenset()


def _found(content: bytes) -> Iterator[bytes]:
    """Return the descriptions in a text; searching the key alone takes a tenth of the time of the expression."""
    at = content.find(_KEY)
    while at >= 0:
        if found := _SHARD.match(content, at):
            yield found[1].replace(b" ", b"")
        at = content.find(_KEY, at + 1)


def _in_table(file: Path) -> frozenset[bytes]:
    from msprobe.store.columnar.records import read_records

    texts = "\n".join(read_records(file).templates).encode()
    return frozenset(each.replace(b" ", b"") for each in _SHARD.findall(texts))
