"""The first differing call among all ranks.

Every call has a place (layer, number): calls before the first exchange are in layer 0, an exchange opens its layer with
number 0, the differing calls behind it go on with 1. So what differs before any communication comes first, then what
differs between exchanges, and last what differs behind the last exchange of the longest chain.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from .connect import Connected, connect
from .story import Node, RankStory

Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class First:
    """A call that differs first, on its rank; `place` is (layer, number)."""

    rank: int
    place: Place
    node: Node


def first_over_ranks(stories: Mapping[int, RankStory]) -> list[First]:
    """The calls that differ first, by rank: one, or several whose place is the same.

    What a rank received through an exchange is never named: an exchange whose result differs is named only where
    nothing that differs was put in, on any rank of which that is known. An exchange that differing data are put into is
    named only where no call before it differs on that rank: they come from what was not recorded.
    """
    connected = connect(stories)
    found = {rank: told for rank in sorted(stories) if (told := _first(rank, stories, connected))}
    lowest = min((place for place, _ in found.values()), default=None)
    return [First(rank, place, _node(stories[rank], name)) for rank, (place, name) in found.items() if place == lowest]


def _first(rank: int, stories: Mapping[int, RankStory], connected: Connected) -> tuple[Place, str] | None:
    """The place and name of the first call of one rank that differs by itself."""
    story, layer = stories[rank], 0
    for n, exchange in enumerate(story.exchanges):
        if story.between[n]:
            return (layer, 1), story.between[n]
        layer = connected.layers[rank, n]
        if exchange.given_differs and exchange.gives(rank):
            return (layer, 0), exchange.name
        if exchange.result_differs and exchange.takes(rank):
            is_received = any(stories[r].exchanges[m].given_differs for r, m in connected.sources(rank, n))
            return None if is_received else ((layer, 0), exchange.name)
    return ((layer, 1), story.between[-1]) if story.between[-1] else None


def _node(story: RankStory, name: str) -> Node:
    return next(node for node in story.nodes if node.name == name)
