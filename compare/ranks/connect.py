"""Which exchanges of different ranks are one, and in which layer each stands.

The layer of an exchange is one more than the highest of those before it on the ranks that take part: so what can have
had an influence on another call never stands in a later layer than that.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from .story import Exchange, RankStory

At = tuple[int, int]
"""A rank, and the place of an exchange in its story."""


@dataclass(frozen=True)
class Connected:
    """The layer of every exchange, from 1 on; and on which ranks it took part, each with its place there.

    `partners` of what is received are its sender; an exchange with no entry stands alone.
    """

    stories: Mapping[int, RankStory]
    layers: Mapping[At, int]
    partners: Mapping[At, Sequence[At]]

    def sources(self, rank: int, n: int) -> list[At]:
        """Where the data that come out of an exchange were put in, on other ranks."""
        others = [(r, m) for r, m in self.partners.get((rank, n), ()) if r != rank]
        return [(r, m) for r, m in others if self.stories[r].exchanges[m].gives(r)]


def connect(stories: Mapping[int, RankStory]) -> Connected:
    """Join the exchanges of all ranks.

    The n-th call of one name within one group, with one root, is the same exchange on all its ranks; the n-th message
    from one rank to another is the n-th that is received there. What has no partner stands alone.
    """
    joined = list(_collectives(stories))
    sent = dict(_messages(stories))
    # One list for all members: of hundreds of ranks there are too many pairs to be kept.
    partners = {member: members for members in joined for member in members}
    return Connected(
        stories, _layers(stories, joined, sent), partners | {receiver: [sender] for receiver, sender in sent.items()}
    )


def _all(stories: Mapping[int, RankStory]) -> Iterator[tuple[At, Exchange]]:
    for rank, story in sorted(stories.items()):
        for n, exchange in enumerate(story.exchanges):
            yield (rank, n), exchange


def _collectives(stories: Mapping[int, RankStory]) -> Iterator[list[At]]:
    everyone = frozenset(stories)
    found: defaultdict[tuple[object, int], list[At]] = defaultdict(list)
    counts: defaultdict[tuple[object, ...], int] = defaultdict(int)
    for at, exchange in _all(stories):
        if exchange.traffic in ("send", "receive"):
            continue
        group: object = exchange.group
        if isinstance(group, tuple):
            group = None if everyone <= frozenset(group) else frozenset(group)
        key = exchange.word, group, exchange.peer
        found[key, counts[at[0], key]].append(at)
        counts[at[0], key] += 1
    yield from found.values()


def _messages(stories: Mapping[int, RankStory]) -> Iterator[tuple[At, At]]:
    """Receiver and sender of every message that has both."""
    waiting: defaultdict[tuple[int, int, str], deque[At]] = defaultdict(deque)
    for at, exchange in _all(stories):
        if exchange.traffic == "send":
            waiting[at[0], exchange.peer, exchange.word].append(at)
    from_anyone = []
    for at, exchange in _all(stories):
        if exchange.traffic != "receive":
            continue
        if exchange.peer < 0:
            from_anyone.append((at, exchange))
        elif line := waiting.get((exchange.peer, at[0], exchange.word)):
            yield at, line.popleft()
    for at, exchange in from_anyone:
        keys = ((rank, at[0], exchange.word) for rank in sorted(stories))
        if line := next((waiting[key] for key in keys if waiting.get(key)), None):
            yield at, line.popleft()


def _layers(
    stories: Mapping[int, RankStory], joined: Iterable[Sequence[At]], sent: Mapping[At, At]
) -> Mapping[At, int]:
    """The layers, going along all ranks at once.

    Stories that contradict each other (exchanges that wait for each other crosswise, because one of them was not
    recorded somewhere) are gone along all the same: then the first that waits does not any longer.
    """
    knots = [*joined, *([at] for at, exchange in _all(stories) if exchange.traffic in ("send", "receive"))]
    knot_of = {at: number for number, members in enumerate(knots) for at in members}
    after: list[list[int]] = [[] for _ in knots]
    missing = [0] * len(knots)
    for number, members in enumerate(knots):
        before = [(rank, n - 1) for rank, n in members if n] + [sent[at] for at in members if at in sent]
        for at in before:
            after[knot_of[at]].append(number)
        missing[number] = len(before)
    lowest = [0] * len(knots)
    layers = [0] * len(knots)
    ready = deque(number for number, count in enumerate(missing) if not count)
    waiting = iter(sorted(range(len(knots)), key=lambda number: min((n, rank) for rank, n in knots[number])))
    while True:
        if not ready:
            stuck = next((number for number in waiting if not layers[number]), None)
            if stuck is None:
                return {at: layers[number] for at, number in knot_of.items()}
            ready.append(stuck)
        number = ready.popleft()
        if layers[number]:
            continue
        layers[number] = lowest[number] + 1
        for later in after[number]:
            lowest[later] = max(lowest[later], layers[number])
            missing[later] -= 1
            if not missing[later]:
                ready.append(later)
