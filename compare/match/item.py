"""The records of a pair of calls on their way to each other, and what is found of them."""

from collections.abc import Hashable
from dataclasses import dataclass, field

from msprobe.mapping.transform import Transform
from msprobe.store.columns import TENSOR
from msprobe.store.record import Dump, Part

from .pairs import Alone, View

Row = int | None


@dataclass
class Joined:
    """The rows of one pair of calls: target row and golden row (None for none), and by their number what is said."""

    rows: list[tuple[Row, Row]] = field(default_factory=list)
    views: dict[int, View] = field(default_factory=dict)
    alone: dict[int, Alone] = field(default_factory=dict)
    meant: dict[int, object] = field(default_factory=dict)


@dataclass(slots=True)
class Item:
    """One record on its way to a partner. `key` is its canonical place, None where it has none on purpose."""

    row: int
    part: Part
    path: tuple[str, ...]
    key: Hashable = None
    transform: Transform | None = None
    name: str = ""


def shape_of(dump: Dump, item: Item) -> tuple[int, ...] | None:
    """The shape of a tensor; None for anything else."""
    columns = dump.columns
    return columns.looks[columns.look[item.row]][2] if columns.kind[item.row] == TENSOR else None


def tells_inner_nodes(dump: Dump) -> bool:
    """Whether a dump's backward calls hand back what PyTorch's last inner node did, in its order: so does msprobe."""
    return dump.framework == "pytorch" and dump.format_version == 0
