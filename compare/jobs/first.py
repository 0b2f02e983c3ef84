"""The first wrong call of a request without its tables: ranks are read only where that can change the answer.

A rank whose digests are equal on both sides is not read. Of those that differ, the one is read whose calls can come
first; what it says rules others out: a rank whose calls all stand in later layers than a call that differs by itself
cannot hold the first one. A rank without digests is read.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from msprobe.base.errors import DumpError
from msprobe.base.log import logger
from msprobe.compare.core.limits import LimitSource
from msprobe.compare.ranks.collectives import Connected, RankSummary, connect
from msprobe.compare.ranks.search import Place, first_over_ranks
from msprobe.compare.ranks.stretches import earliest
from msprobe.compare.request import Request
from msprobe.compare.workers.run import Lost, bundles, run

from .digested import outcome_of_equal, read_digests
from .outcome import Outcome, Task, compare_job, failure

LATER_STEP = "differs by its digests; not read, as an earlier step is wrong"
LATER_CALL = "differs by its digests, from a later call on; not read"
UNKNOWN = "not examined, because an earlier step is wrong"

_TOGETHER = 64
"""So many digests are one task: each takes a millisecond."""


@dataclass(frozen=True, slots=True)
class Look:
    """What the digests of a job say: its outcome where the dumps are equal, else the first stretch that differs, and
    the exchanges; nothing where only reading tells."""

    outcome: Outcome | None = None
    stretch: int | None = None
    summary: RankSummary | None = None


def first_wrong_only(tasks: Sequence[Task], request: Request) -> tuple[Outcome, ...]:
    """Return the outcomes of all tasks, in order; `unread` is set in those whose dumps were not read and differ.

    The first wrong call is that of a comparison of everything. DumpError if nothing could be compared.
    """
    looks = _look_at_all(tasks, request)
    found = {at: look.outcome for at, look in enumerate(looks) if look.outcome is not None}
    equal, is_wrong = len(found), False
    for group in _groups(tasks):
        waiting = [at for at in group if at not in found]
        if is_wrong:
            found.update((at, _unread(tasks[at], looks[at], LATER_STEP)) for at in waiting)
            continue
        search = _Search(tasks, looks, request, {at: found[at] for at in group if at in found})
        search.go_on(waiting)
        found.update(search.found)
        is_wrong = search.is_wrong
    outcomes = tuple(found[at] for at in range(len(tasks)))
    unread = sum(bool(outcome.unread) for outcome in outcomes)
    logger.info(
        "%d of %d pairs of dumps are equal by their digests, %d differ and were not read, %d were read",
        *(equal, len(tasks), unread, len(tasks) - equal - unread),
    )
    if all(outcome.failed for outcome in outcomes):
        raise DumpError(f"nothing could be compared: {outcomes[0].label}: {outcomes[0].failed}")
    return outcomes


def _groups(tasks: Sequence[Task]) -> Iterator[list[int]]:
    """Return the places of the tasks of each step, in the order in which the first wrong call is looked for."""
    groups: dict[tuple[int, bool], list[int]] = {}
    for at, task in enumerate(tasks):
        place = task.job.place
        groups.setdefault((-1 if place.step is None else place.step, place.what == "debug"), []).append(at)
    return (group for _, group in sorted(groups.items()))


def _look_at_all(tasks: Sequence[Task], request: Request) -> list[Look]:
    """Compare the digests of each task; nothing if the request needs more than digests."""
    is_plain = not (request.mapping or request.fuzzy or request.stack_file or request.survey or request.html)
    if not is_plain or request.limits.source is not LimitSource.BUILT_IN:
        return [Look()] * len(tasks)
    parts = [[tasks[at] for at in places] for places in bundles([1] * len(tasks), _TOGETHER, _TOGETHER)]
    workers = request.workers or 0
    results = dict(
        run(_look_at, parts, workers=workers if len(tasks) > 4 * _TOGETHER else 1, scheduler=request.scheduler)
    )
    found: list[Look] = []
    for at, part in enumerate(parts):
        found += [Look()] * len(part) if isinstance(result := results[at], Lost) else result
    return _shared(found)


def _shared(looks: Sequence[Look]) -> list[Look]:
    """Return the same with each story once: thousands of ranks that do the same have millions of equal exchanges."""
    once: dict[RankSummary | None, RankSummary | None] = {}
    found = []
    for look in looks:
        summary = once.setdefault(look.summary, look.summary)
        outcome = None if look.outcome is None else replace(look.outcome, rank_summary=summary)
        found.append(Look(outcome, look.stretch, summary))
    return found


def _look_at(tasks: Sequence[Task]) -> list[Look]:
    return [_look(task) for task in tasks]


def _look(task: Task) -> Look:
    job = task.job
    if not job.is_of_calls:
        return Look()
    target = read_digests(job.target.paths[0])
    golden = read_digests(job.golden.paths[0]) if target is not None else None
    if target is None or golden is None:
        return Look()
    if (outcome := outcome_of_equal(task, target, golden)) is not None:
        return Look(outcome, None, outcome.rank_summary)
    both = zip(target.stretches, golden.stretches, strict=False)
    stretch = next((n for n, (ours, theirs) in enumerate(both) if ours != theirs), None)
    # With other calls, or under another header, digests of calls do not say where a difference begins; nor do they
    # where equal values are no pass.
    if stretch is None or target.structure != golden.structure or target.alone is None or golden.alone is None:
        return Look()
    return Look(None, stretch, target.summary)


def _unread(task: Task, look: Look, why: str) -> Outcome:
    place = task.job.place
    why = UNKNOWN if look.summary is None else why
    return Outcome(
        task.job.label, step=place.step, rank=place.rank, what=place.what, unread=why, rank_summary=look.summary
    )


class _Search:
    """The search among the tasks of one step; `found` has what is known of them."""

    def __init__(
        self, tasks: Sequence[Task], looks: Sequence[Look], request: Request, found: dict[int, Outcome]
    ) -> None:
        self._tasks, self._looks, self._request = tasks, looks, request
        self.found = found

    @property
    def is_wrong(self) -> bool:
        """Return whether a wrong call was found."""
        return any(outcome.first is not None for outcome in self.found.values())

    def go_on(self, waiting: Sequence[int]) -> None:
        """Read what must be read of the tasks that differ, and find an outcome for all of them."""
        unclear = [at for at in waiting if self._looks[at].summary is None]
        waiting = [at for at in waiting if self._looks[at].summary is not None]
        ranks = {at: self._rank(at) for at in (*self.found, *unclear, *waiting)}
        if len(set(ranks.values())) < len(ranks):  # several trees: each is a story of its own
            unclear, waiting = [*unclear, *waiting], []
        self._read(unclear)
        summaries = {ranks[at]: s for at in ranks if (s := self._summary(at)) is not None}
        if not waiting:
            return
        connected = connect(summaries)
        places = {at: earliest(connected, ranks[at], self._looks[at].stretch or 0) for at in waiting}
        while places:
            first = min(places.values())
            best = self._best(summaries, connected)
            if best is not None and first > best:
                break
            chosen = [at for at, place in places.items() if place == first]
            self._read(chosen)
            for at in chosen:
                del places[at]
                if (summary := self.found[at].rank_summary) is not None:
                    summaries[ranks[at]] = summary
        self.found.update((at, _unread(self._tasks[at], self._looks[at], LATER_CALL)) for at in places)

    def _rank(self, at: int) -> int:
        return self._tasks[at].job.place.rank or 0

    def _summary(self, at: int) -> RankSummary | None:
        return self.found[at].rank_summary if at in self.found else self._looks[at].summary

    def _best(self, summaries: Mapping[int, RankSummary], connected: Connected) -> Place | None:
        """Return the place of the first wrong call of what was read so far; None while nothing is wrong."""
        if not self.is_wrong:
            return None
        firsts = first_over_ranks(summaries, connected)
        by_rank = {self._rank(at): outcome for at, outcome in self.found.items()}
        # Else the answer is the earliest finding of any rank.
        has_finding = any(by_rank[first.rank].first is not None for first in firsts)
        return firsts[0].place if has_finding else None

    def _read(self, chosen: Sequence[int]) -> None:
        """Compare these in full."""
        workers, scheduler = self._request.workers or 0, self._request.scheduler
        tasks = [replace(self._tasks[at], is_one_of_many=True) for at in chosen]
        results = dict(run(compare_job, tasks, workers=workers, scheduler=scheduler, title="comparing"))
        for n, at in enumerate(chosen):
            result = results[n]
            self.found[at] = failure(tasks[n].job, result.reason) if isinstance(result, Lost) else result
