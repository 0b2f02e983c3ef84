"""The first origin among all ranks of a step, in the order that collectives and messages give.

Every origin has a place (layer, number), as in `msprobe.compare.ranks`: before the first exchange the layer is 0, an
exchange opens its layer with number 0, the calls behind it have number 1. A rank's exchange is in a later layer than
all that were before it on the ranks that take part, whatever their groups. So nothing is named that can have been
received from what is not: spec and reference look for a call before, during and after communication, which are the
layers 0, between, and the last.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from msprobe.base.verdicts import Gap, Verdicts, total
from msprobe.checks.dumps import DumpFile, by_step
from msprobe.compare.ranks.collectives import Connected, RankSummary, connect
from msprobe.compare.workers.run import Lost, run
from msprobe.findings.catalogue import nonfinite as kinds

from .finding import Answer, Origin, RankWalk
from .walk import RankTask, walk_file

Place = tuple[int, int]


def search(files: Iterable[DumpFile], workers: int = 0, *, reads_tensors: bool = False) -> Iterator[Answer]:
    """The answers, step after step, up to the first step in which something is not finite.

    `reads_tensors`: also those whose statistics are finite.
    """
    previous: int | None = None
    for step, ranks in by_step(files).items():
        answer = first_of_step(_walks(ranks, workers, reads_tensors), step)
        if previous is not None and step == previous + 1:
            answer = _with_previous(answer, previous)
        yield answer
        if answer.first:
            return
        previous = step if not answer.unjudged else None


def _walks(files: Sequence[DumpFile], workers: int, reads_tensors: bool) -> dict[int, RankWalk]:
    gaps = {True: Gap.NO_DUMP, False: Gap.UNREADABLE_DUMP}
    tasks = [RankTask(file.rank, str(file.path), reads_tensors, gaps[file.is_empty]) for file in files]
    found = {}
    for at, walk in run(walk_file, tasks, workers=workers):
        rank = tasks[at].rank
        if isinstance(walk, Lost):
            why = f"{tasks[at].path}: could not be read: {walk.reason}"
            walk = RankWalk(rank, unjudged=why, verdicts=Verdicts(gaps={Gap.UNREADABLE_DUMP: 1}))
        found[rank] = walk
    return dict(sorted(found.items()))


def _with_previous(answer: Answer, step: int) -> Answer:
    """Parameters that were finite in the step before: the update between the two made them what they are."""
    first = [replace(each, previous=step) if each.kind is kinds.PARAMETER else each for each in answer.first]
    return replace(answer, first=tuple(first))


def first_of_step(walks: Mapping[int, RankWalk], step: int | None = None) -> Answer:
    """The answer for one step of all ranks."""
    connected = connect({rank: RankSummary(walk.exchanges) for rank, walk in walks.items()})
    found: dict[int, tuple[Place, Origin]] = {}
    for skips_absorbed in (True, False):
        for rank, walk in walks.items():
            if entry := _first(walk, walks, connected, skips_absorbed):
                found[rank] = entry
        if found:
            break
    lowest = min((place for place, _ in found.values()), default=None)
    first = tuple(origin for place, origin in found.values() if place == lowest)
    named = {(origin.rank, origin.name) for origin in first}
    every = [origin for _, origin in found.values()] + [one for walk in walks.values() for one in walk.origins]
    others = {(one.rank, one.name): one for one in every if (one.rank, one.name) not in named}
    unjudged = tuple((rank, walk.unjudged) for rank, walk in walks.items() if walk.unjudged)
    masks = sum(walk.masks for walk in walks.values())
    verdicts = total(walk.verdicts for walk in walks.values()) + Verdicts(wrong=len(first))
    return Answer(step, tuple(walks), first, tuple(others.values()), masks, unjudged, verdicts)


def _first(
    walk: RankWalk, walks: Mapping[int, RankWalk], connected: Connected, skips_absorbed: bool
) -> tuple[Place, Origin] | None:
    """The place of the first origin of a rank, and the origin; None where nothing begins, or all was received."""
    layer = 0
    origins = [one for one in walk.origins if not (skips_absorbed and one.is_absorbed)]
    for n in range(len(walk.exchanges) + 1):
        if here := next((one for one in origins if one.exchanges == n), None):
            if here.kind is kinds.UNRECORDED and _may_be_received(walk, n, connected):
                return None
            return (layer, 1), here
        if n == len(walk.exchanges):
            break
        exchange, layer = walk.exchanges[n], connected.layers[walk.rank, n]
        if exchange.result_differs:
            if exchange.input_differs and exchange.gives(walk.rank):
                return None  # of an absorbed origin, or of one that is not among those that are kept
            if _is_received(walk.rank, n, connected) or _comes_from_ended(walk.rank, n, walks, connected):
                return None
            assert walk.received is not None  # it has every exchange whose result is not finite
            return (layer, 0), _of_exchange(walk.received[n], n, walks, connected)
    return None


def _is_received(rank: int, n: int, connected: Connected) -> bool:
    """Whether what came out of an exchange was put in by another rank, on which it was not finite."""
    return any(connected.summaries[r].exchanges[m].input_differs for r, m in connected.sources(rank, n))


def _comes_from_ended(rank: int, n: int, walks: Mapping[int, RankWalk], connected: Connected) -> bool:
    """Whether a rank that takes part in an exchange had an overflow before it, at which its collection ended.

    Of a group that is known by its name only, those take part that have used it before; where no partner is known at
    all, any may.
    """
    exchange = walks[rank].exchanges[n]
    there = {rank, *(r for r, _ in connected.partners.get((rank, n), ()))}
    ended = [r for r, walk in walks.items() if walk.has_ended and r not in there]
    if exchange.traffic in ("receive", "from_one") and exchange.peer >= 0:
        return exchange.peer in ended
    if isinstance(exchange.group, tuple):
        return any(r in exchange.group for r in ended)
    if exchange.group is None or len(there) == 1:
        return bool(ended)
    return any(other.group == exchange.group for r in ended for other in walks[r].exchanges)


def _may_be_received(walk: RankWalk, before: int, connected: Connected) -> bool:
    """Whether an exchange whose result was not recorded brought what is not finite."""
    return any(_is_received(walk.rank, n, connected) for n in walk.unrecorded if n < before)


def _of_exchange(origin: Origin, n: int, walks: Mapping[int, RankWalk], connected: Connected) -> Origin:
    """What comes out of an exchange, although all that is known to be put in is finite."""
    rank = origin.rank
    missing = _missing(rank, n, walks, connected)
    if missing is None:
        return replace(origin, kind=kinds.EXCHANGE, exchanges=n)
    return replace(origin, kind=kinds.MISSING_RANK, ranks=missing, exchanges=n)


def _missing(rank: int, n: int, walks: Mapping[int, RankWalk], connected: Connected) -> tuple[int, ...] | None:
    """Which ranks put something into an exchange and are not in the dump; () where it is not known which."""
    exchange = walks[rank].exchanges[n]
    there = {r for r, _ in connected.partners.get((rank, n), ())}
    if exchange.traffic in ("receive", "from_one"):
        if exchange.peer >= 0:
            return None if exchange.peer in there or exchange.peer == rank else (exchange.peer,)
        return None if there - {rank} else ()
    there |= {rank}
    if isinstance(exchange.group, tuple):
        return tuple(sorted(set(exchange.group) - there)) or None
    if exchange.group is None:
        return tuple(sorted(set(range(max(walks) + 1)) - there)) or (None if len(there) > 1 else ())
    return None if len(there) > 1 else ()
