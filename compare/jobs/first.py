"""The first wrong call of a request without its tables: ranks are read only if that can change the answer.

A rank whose digests are equal on both sides is not read. Of those that differ, the one whose calls can come first is
read; its result excludes others: a rank whose calls are all in later layers than a call that differs by itself cannot
have the first one. A rank without digests is read.
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
"""Number of digests in one task: each takes a millisecond."""


@dataclass(frozen=True, slots=True)
class DigestResult:
    """The result of comparing the digests of a job: its outcome if the dumps are equal, otherwise the first stretch
    that differs, and the exchanges; empty if the dumps have to be read."""

    outcome: Outcome | None = None
    stretch: int | None = None
    summary: RankSummary | None = None


def first_wrong_only(tasks: Sequence[Task], request: Request) -> tuple[Outcome, ...]:
    """Return the outcomes of all tasks, in order; `unread` is set in those whose dumps were not read and differ.

    The first wrong call is the same as that of a comparison of everything. Raise a DumpError if nothing could be
    compared.
    """
    by_digest = _compare_all(tasks, request)
    found = {at: result.outcome for at, result in enumerate(by_digest) if result.outcome is not None}
    equal, is_wrong = len(found), False
    for group in _groups(tasks):
        waiting = [at for at in group if at not in found]
        if is_wrong:
            found.update((at, _unread(tasks[at], by_digest[at], LATER_STEP)) for at in waiting)
            continue
        search = _Search(tasks, by_digest, request, {at: found[at] for at in group if at in found})
        search.find_outcomes(waiting)
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
    """Return the positions of the tasks of each step, in the order in which the first wrong call is searched."""
    groups: dict[tuple[int, bool], list[int]] = {}
    for at, task in enumerate(tasks):
        place = task.job.place
        groups.setdefault((-1 if place.step is None else place.step, place.what == "debug"), []).append(at)
    return (group for _, group in sorted(groups.items()))


def _compare_all(tasks: Sequence[Task], request: Request) -> list[DigestResult]:
    """Compare the digests of each task; return empty results if the request needs more than digests."""
    is_plain = not (request.mapping or request.fuzzy or request.stack_file or request.survey or request.html)
    if not is_plain or request.limits.source is not LimitSource.BUILT_IN:
        return [DigestResult()] * len(tasks)
    parts = [[tasks[at] for at in places] for places in bundles([1] * len(tasks), _TOGETHER, _TOGETHER)]
    workers = request.workers or 0
    results = dict(
        run(_compare, parts, workers=workers if len(tasks) > 4 * _TOGETHER else 1, scheduler=request.scheduler)
    )
    found: list[DigestResult] = []
    for at, part in enumerate(parts):
        found += [DigestResult()] * len(part) if isinstance(result := results[at], Lost) else result
    return _shared(found)


def _shared(by_digest: Sequence[DigestResult]) -> list[DigestResult]:
    """Return the same with equal sequences of exchanges stored once: thousands of ranks that do the same have millions
    of exchanges."""
    once: dict[RankSummary | None, RankSummary | None] = {}
    found = []
    for result in by_digest:
        summary = once.setdefault(result.summary, result.summary)
        outcome = None if result.outcome is None else replace(result.outcome, rank_summary=summary)
        found.append(DigestResult(outcome, result.stretch, summary))
    return found


def _compare(tasks: Sequence[Task]) -> list[DigestResult]:
    return [_compare_one(task) for task in tasks]


def _compare_one(task: Task) -> DigestResult:
    job = task.job
    if not job.is_of_calls:
        return DigestResult()
    target = read_digests(job.target.paths[0])
    golden = read_digests(job.golden.paths[0]) if target is not None else None
    if target is None or golden is None:
        return DigestResult()
    if (outcome := outcome_of_equal(task, target, golden)) is not None:
        return DigestResult(outcome, None, outcome.rank_summary)
    both = zip(target.stretches, golden.stretches, strict=False)
    stretch = next((n for n, (ours, theirs) in enumerate(both) if ours != theirs), None)
    # With other calls, or other metadata, digests of calls do not show where a difference begins; they do not either if
    # equal values are not a pass.
    if stretch is None or target.structure != golden.structure or target.alone is None or golden.alone is None:
        return DigestResult()
    return DigestResult(None, stretch, target.summary)


def _unread(task: Task, result: DigestResult, why: str) -> Outcome:
    place = task.job.place
    why = UNKNOWN if result.summary is None else why
    return Outcome(
        task.job.label, step=place.step, rank=place.rank, what=place.what, unread=why, rank_summary=result.summary
    )


class _Search:
    """The search among the tasks of one step; `found` has their results so far."""

    def __init__(
        self,
        tasks: Sequence[Task],
        by_digest: Sequence[DigestResult],
        request: Request,
        found: dict[int, Outcome],
    ) -> None:
        self._tasks, self._by_digest, self._request = tasks, by_digest, request
        self.found = found

    @property
    def is_wrong(self) -> bool:
        """Return whether a wrong call was found."""
        return any(outcome.first is not None for outcome in self.found.values())

    def find_outcomes(self, waiting: Sequence[int]) -> None:
        """Read the necessary ones of the tasks that differ, and find an outcome for all of them."""
        unclear = [at for at in waiting if self._by_digest[at].summary is None]
        waiting = [at for at in waiting if self._by_digest[at].summary is not None]
        ranks = {at: self._rank(at) for at in (*self.found, *unclear, *waiting)}
        if len(set(ranks.values())) < len(ranks):  # several trees: each has a separate sequence
            unclear, waiting = [*unclear, *waiting], []
        self._read(unclear)
        summaries = {ranks[at]: s for at in ranks if (s := self._summary(at)) is not None}
        if not waiting:
            return
        connected = connect(summaries)
        places = {at: earliest(connected, ranks[at], self._by_digest[at].stretch or 0) for at in waiting}
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
        self.found.update((at, _unread(self._tasks[at], self._by_digest[at], LATER_CALL)) for at in places)

    def _rank(self, at: int) -> int:
        return self._tasks[at].job.place.rank or 0

    def _summary(self, at: int) -> RankSummary | None:
        return self.found[at].rank_summary if at in self.found else self._by_digest[at].summary

    def _best(self, summaries: Mapping[int, RankSummary], connected: Connected) -> Place | None:
        """Return the place of the first wrong call of the dumps read so far; None if there is none."""
        if not self.is_wrong:
            return None
        firsts = first_over_ranks(summaries, connected)
        by_rank = {self._rank(at): outcome for at, outcome in self.found.items()}
        # Otherwise the answer is the earliest finding of any rank.
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
