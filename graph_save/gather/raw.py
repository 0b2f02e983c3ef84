"""Which ranks a kernel dump has, and which folders are theirs."""

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from msprobe.base.errors import DumpError, UsageError
from msprobe.store.folders import walk
from msprobe.store.kernel_folders import METADATA, ORDERS, WITHOUT_KERNELS, Place, holds_kernels, place_of, rank_of


@dataclass
class Rank:
    """What one rank left: its own folder, which also holds orders and graphs, and the folders of its kernels."""

    rank: int
    root: Path
    places: list[Place] = field(default_factory=list)

    def iterations(self) -> list[int]:
        """The iterations of which there are files."""
        return sorted({place.iteration for place in self.places})


def find(raw: Path) -> list[Rank]:
    """Every rank below `raw`, which may also be a rank's folder or one below.

    UsageError where it is no folder, DumpError where nothing below is a kernel dump or two dumps of one rank are.
    """
    if not raw.is_dir():
        raise UsageError(f"{raw}: is no folder; give the dump_path of a kernel dump")
    ranks: dict[Path, Rank] = {}
    for folder in walk(raw.absolute(), WITHOUT_KERNELS):
        place = place_of(folder.path)
        if place is not None and holds_kernels(folder.files):
            ranks.setdefault(place.root, Rank(place.rank, place.root)).places.append(place)
            continue
        rank = rank_of(folder.path.name)
        if rank is not None and not {ORDERS, METADATA}.isdisjoint(folder.folders):
            ranks.setdefault(folder.path, Rank(rank, folder.path))  # it ran, though perhaps nothing was dumped
    if not ranks:
        raise DumpError(
            f"{raw}: holds no kernel dump (rank_0/Net/0/0/*.npy or statistic.csv); give the dump_path of the settings "
            "that MINDSPORE_DUMP_CONFIG names, and see that the variable was set before the first graph was compiled"
        )
    found = sorted(ranks.values(), key=lambda rank: rank.rank)
    for one, other in pairwise(found):
        if one.rank == other.rank:
            raise DumpError(f"{raw}: holds two dumps of rank {one.rank}, {one.root} and {other.root}; give one of them")
    return found
