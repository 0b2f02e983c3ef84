"""The dumps, monitors, checkpoints and packs of configurations below a folder."""

from dataclasses import dataclass
from pathlib import Path

from msprobe.base.errors import MsprobeError
from msprobe.compare.jobs.plan import side
from msprobe.diagnose.collected import Collection, Inventory, Kind, inventory
from msprobe.store.detect import kind_of
from msprobe.store.reader import find, read, size_in_json

_MAX_COUNTED = 256 << 20
"""Bytes of a dump.json up to which its calls are counted."""

_MAX_LISTED = 200
"""Dumps, and other entries, that are listed."""


@dataclass(frozen=True)
class Run:
    """One dump or one run of dumps.

    what : one of the kinds of `store.detect`: `dump`, `step`, `run`, ...
    text : the same as a phrase.
    steps, ranks : empty where neither folders nor headers have them.
    calls : number of calls in the dump of the first step and rank; None where it is large or not readable.
    """

    path: Path
    what: str
    text: str
    steps: tuple[int, ...]
    ranks: tuple[int, ...]
    framework: str
    task: str
    level: str
    calls: int | None


@dataclass(frozen=True)
class Other:
    """A file or folder that is not a dump."""

    path: Path
    what: str


@dataclass(frozen=True)
class Listing:
    """The contents of a folder; `omitted` counts what is not listed because there is too much."""

    folder: Path
    runs: tuple[Run, ...]
    others: tuple[Other, ...]
    unused: tuple[Other, ...]
    omitted: int


def listing_of(folder: Path) -> Listing:
    """Return what is below a folder. DumpError or UsageError if nothing there can be read."""
    found = inventory(folder)
    others, unused = tuple(_others(found)), tuple(Other(folder / one.name, one.why) for one in found.unused)
    parts = found.collections, others, unused
    return Listing(
        folder,
        tuple(_run(one) for one in found.collections[:_MAX_LISTED]),
        others[:_MAX_LISTED],
        unused[:_MAX_LISTED],
        sum(max(0, len(part) - _MAX_LISTED) for part in parts),
    )


def _others(found: Inventory) -> list[Other]:
    return [Other(path, kind.value) for kind in Kind for path in found.of(kind).values()]


def _run(found: Collection) -> Run:
    kind, head = kind_of(found.path), found.head
    step, rank = (number if type(number := head.run.get(name)) is int else None for name in ("step", "rank"))
    return Run(
        found.path,
        kind.word,
        kind.text,
        found.steps or (() if step is None else (step,)),
        found.ranks or (() if rank is None else (rank,)),
        head.framework,
        head.task,
        head.level,
        _calls(found),
    )


def _calls(found: Collection) -> int | None:
    """The number of calls in the first dump; None where it is too large, not readable, or not a dump of calls."""
    if found.family != "dump":
        return None
    try:
        places = side(found.path).places
        first = min(places, key=lambda place: (place.what, place.step or 0, place.rank or 0))
        file = find(places[first].paths[0])
        if size_in_json(file) > _MAX_COUNTED:
            return None
        dump = read(file, structure=True)
    except (MsprobeError, OSError, ValueError):
        return None
    return len(dump.calls) or len(dump.construct)
