"""What the search over ranks must know of one rank: its exchanges in execution order, and where it differs.

A story is made where the rank is compared, and travels; so it is small, and holds plain values only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Traffic = Literal["all", "from_one", "to_one", "send", "receive"]
"""Whose data reach whom: everyone's everyone, the root's everyone, everyone's the root, or one's one."""

Group = tuple[int, ...] | str | None
"""The ranks of a group, its name where only that was recorded, None for the group of all."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A call that communicates.

    `word` is equal on all ranks that take part. `peer` is the root of `from_one` and `to_one`, the other rank of `send`
    and `receive`, -1 where it is not known (`recv` from anyone). `given_differs` and `result_differs` say whether what
    went in and what came out differs between target and golden.
    """

    name: str
    traffic: Traffic
    word: str
    group: Group = None
    peer: int = -1
    given_differs: bool = False
    result_differs: bool = False

    def gives(self, rank: int) -> bool:
        """Whether a rank puts data in; otherwise what it hands over is a buffer to be filled."""
        return self.traffic in ("all", "send", "to_one") or (self.traffic == "from_one" and self.peer == rank)

    def takes(self, rank: int) -> bool:
        """Whether data come out at a rank."""
        return self.traffic in ("all", "receive", "from_one") or (self.traffic == "to_one" and self.peer == rank)


@dataclass(frozen=True, slots=True)
class Node:
    """A call as it is reported: its values on the target's side with our verdicts, the cells around it from the
    outermost on and itself, and its stack."""

    name: str
    data_info: Mapping[str, object]
    construct_info: tuple[str, ...]
    stack_info: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RankStory:
    """One rank: its exchanges, and the first differing call before each of them and behind the last, empty for none.

    So `between` has one entry more than `exchanges`. `nodes` are the calls that the search may name.
    """

    exchanges: tuple[Exchange, ...] = ()
    between: tuple[str, ...] = ("",)
    nodes: tuple[Node, ...] = ()
