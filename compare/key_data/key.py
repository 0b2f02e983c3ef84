"""What a tensor of key data goes by: tag, step, rank, micro step and id.

The number in a file's name that a graph saved counts everything of its process, and says nothing across two runs. The
order of a name's saves does: it begins the id of those.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from msprobe.base.log import once
from msprobe.store.saved import Saved
from msprobe.store.single_trees import Spot, saves_at

Part: TypeAlias = int | str


@dataclass(frozen=True, slots=True)
class Key:
    """Where in a run a tensor was saved. Two runs' tensors with one key belong together."""

    tag: str
    step: int
    rank: int
    micro_step: int
    id: tuple[Part, ...]
    """`(0,)` for a single tensor, `(3,)` or `("key",)` for one of a list or dict; order, then path, out of a graph."""

    def order(self) -> tuple[object, ...]:
        """What the rows of a sheet are sorted by: numbers as numbers, and before texts."""
        parts = tuple((0, part, "") if isinstance(part, int) else (1, 0, part) for part in self.id)
        return self.tag, self.step, self.rank, self.micro_step, parts


def files_by_key(spot: Spot, *, by_index: bool) -> Iterator[tuple[Key, str]]:
    """Every file of a spot with its key. Saves of an index that left no file are said."""
    identity = _of_graph if spot.is_of_graph else _of_value
    files = set(spot.folder.files)
    saves = saves_at(spot, by_index=by_index)
    here = [saved for saved in saves if saved.record.file in files]
    if len(here) < len(saves):
        told = f"{spot.folder.path}: {len(saves) - len(here)} saves of its index have no file there and are left out"
        once(told, told)
    for saved in here:
        key = Key(spot.tag, spot.step, spot.rank, spot.micro_step or 0, identity(saved, spot))
        yield key, saved.record.file


def _of_graph(saved: Saved, spot: Spot) -> tuple[Part, ...]:
    return (saved.number, *((saved.name,) if saved.name != spot.key else ()), *map(_part, saved.record.path))


def _of_value(saved: Saved, spot: Spot) -> tuple[Part, ...]:
    parts = tuple(map(_part, saved.record.path)) or (0,)
    # Of what is called otherwise only a number is an id: two runs may call it by two names.
    return parts if saved.name == spot.key or isinstance(parts[0], int) else (0,)


def _part(text: str) -> Part:
    """A number as a number, if it is written as one writes it: `3`, not `03`."""
    return int(text) if text.isascii() and text.isdigit() and str(int(text)) == text else text
