"""The outcomes of all jobs of a request: lines for the console, and the summary file."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import count as count_from
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.base.log import terminal_line
from msprobe.base.phrase import Words
from msprobe.compare.core.reason import Cause
from msprobe.compare.core.user_limits import NO_LIMITS, ExcusedCounts, UserLimits
from msprobe.compare.judge.verdict import GRADES, count, number_differing
from msprobe.compare.locate.wording import short
from msprobe.compare.tables.console import excused_phrase, left_open, no_difference
from msprobe.findings.catalogue.parallel import REPLICAS_DIFFER
from msprobe.findings.finding import Finding

from .outcome import Outcome

# Modules for several ranks, and those that write their summary, are imported on use.
if TYPE_CHECKING:
    from msprobe.compare.ranks.collectives import RankSummary
    from msprobe.compare.ranks.search import First

Group = tuple[int, bool, int]
"""A step, whether it has explicitly saved values, and the number of the tree."""


@dataclass(frozen=True)
class RequestResult:
    """The outcomes in the order of the jobs, and sentences about sources without a counterpart.

    `merging` are the findings of merging ranks; `omitted` is the number of further ones. `user_limits` are those of the
    request.
    """

    outcomes: tuple[Outcome, ...]
    missing: tuple[Words, ...] = ()
    merging: tuple[Finding, ...] = ()
    user_limits: UserLimits = NO_LIMITS
    omitted: int = 0

    @property
    def copies_agree(self) -> bool:
        """Return whether no value of which each rank has a copy differed when ranks were merged."""
        return not any(finding.kind is REPLICAS_DIFFER for finding in self.merging)

    @property
    def is_clean(self) -> bool:
        """Return whether every job succeeded and is clean, everything had a counterpart, and copies agreed."""
        return not self.missing and self.copies_agree and all(o.is_clean and not o.failed for o in self.outcomes)

    @property
    def differs(self) -> bool:
        """Return whether something is wrong."""
        return self.first is not None or not self.copies_agree

    @property
    def judged(self) -> int:
        """Return the number of pairs of records with a verdict."""
        return sum(outcome.judged for outcome in self.outcomes)

    @property
    def differing(self) -> int:
        """Return the number of these pairs that do not pass."""
        return sum(number_differing(outcome.counts) for outcome in self.outcomes)

    @property
    def unjudged(self) -> Counter[Cause]:
        """Return the number of pairs of records without a verdict, by cause."""
        return sum((Counter(outcome.unjudged) for outcome in self.outcomes), Counter())

    @property
    def first(self) -> Outcome | None:
        """Return the outcome with the first wrong call of all; None if nothing differs.

        Of the earliest step that differs, it is the rank in which a difference begins that it did not receive by a
        collective; if collectives do not show that, a rank with an error before ranks with differences within
        tolerance; of these the earliest in execution order, and then the lowest rank.
        """
        wrong = [outcome for outcome in self.outcomes if outcome.first is not None]
        if not wrong:
            return None
        earliest = min(wrong, key=_order)
        for group, outcomes in sorted(ranks_of(self).items()):
            if group[:2] == _group(earliest) and outcomes.get(earliest.rank or 0) is earliest:
                named = (outcomes[first.rank] for first in self.firsts(group))
                return min((o for o in named if o.first), key=_order, default=earliest)
        return earliest

    def firsts(self, group: Group) -> "list[First]":
        """Return the calls that differ first among the ranks of a step; joining thousands of ranks takes seconds."""
        if group not in self._firsts:
            from msprobe.compare.ranks.search import first_over_ranks

            self._firsts[group] = first_over_ranks(_rank_summaries(ranks_of(self)[group]))
        return self._firsts[group]

    @cached_property
    def _firsts(self) -> "dict[Group, list[First]]":
        return {}

    def lines(self) -> Iterator[str]:
        """Yield the answer of a single job; for several, one line each, what is missing, and the first wrong call of
        all.

        Before it are the findings of merging; these are the answer if nothing else is wrong.
        """
        is_answer = self.first is None and not self.copies_agree
        messages = [terminal_line(finding.reason) for finding in self.of_merging]
        yield from () if is_answer else messages
        yield from self._compared()
        yield from messages if is_answer else ()

    @property
    def of_merging(self) -> list[Finding]:
        """Return the findings of merging ranks, copies that differ last."""
        return sorted(self.merging, key=lambda finding: finding.kind is REPLICAS_DIFFER)

    @property
    def last(self) -> Words:
        """Return the last of these lines, in words."""
        if self.first is not None:
            return self.first.last
        if not self.copies_agree:
            return self.of_merging[-1].reason
        return self._no_difference

    @property
    def _no_difference(self) -> Words:
        absent = len(self.missing) + sum(bool(outcome.failed) for outcome in self.outcomes)
        left = [one for outcome in self.outcomes for one in outcome.roundings_left]
        return no_difference(
            self.is_clean, self.judged, self.unjudged, absent=absent, excused=self.excused, roundings_left=left
        ).sentence

    @property
    def excused(self) -> ExcusedCounts | None:
        """Return the differences within the limits of the user in all jobs; None without such limits."""
        return excused_of(self.outcomes)

    @property
    def limits(self) -> tuple[Words, ...]:
        """Return the noise limits, without duplicates."""
        return tuple({str(o.limits): o.limits for o in self.outcomes if o.limits}.values())

    def _compared(self) -> Iterator[str]:
        if len(self.outcomes) == 1 and not self.missing:
            yield from self.outcomes[0].lines
            return
        for outcome in self.outcomes:
            text = _state(outcome)
            if outcome.first:
                text += f"; first wrong call: {' '.join(short(outcome.first).split())}"
            yield terminal_line(f"{outcome.label or 'the two'}: {text}")
        yield from map(str, left_open(self.judged, self.differing, self.unjudged, (o.mode for o in self.outcomes)))
        yield from map(terminal_line, self.limits)
        if self.excused is not None:
            yield terminal_line(excused_phrase(self.excused, self.user_limits))
        for sentence in self.missing:
            yield terminal_line(f"missing: {sentence}")
        first = self.first
        if first is None:
            yield str(self._no_difference)
            return
        if first.label:
            yield f"the first is in {first.label}:"
        yield from first.lines


def excused_of(outcomes: Iterable[Outcome]) -> ExcusedCounts | None:
    """Return the differences within the limits of the user in these jobs together; None without such limits."""
    found = [outcome.excused for outcome in outcomes if outcome.excused is not None]
    return sum(found, ExcusedCounts()) if found else None


def _state(outcome: Outcome) -> str:
    """Return the result of one job as a sentence."""
    return (
        f"not compared: {outcome.failed}"
        if outcome.failed
        else outcome.unread or f"{outcome.mode}: {count(outcome.counts)}"
    )


def _order(outcome: Outcome) -> tuple[int, bool, bool, int, int]:
    """Return the order of an outcome: the step, calls before explicitly saved values, errors before differences within
    tolerance, the place in execution order, the rank."""
    at = outcome.first.at if outcome.first is not None else 0
    return *_group(outcome), not outcome.counts.get("error"), at, -1 if outcome.rank is None else outcome.rank


def _group(outcome: Outcome) -> tuple[int, bool]:
    """Return the step, -1 without one, and whether it has explicitly saved values."""
    return -1 if outcome.step is None else outcome.step, outcome.what == "debug"


def write_summary(path: Path, result: RequestResult) -> None:
    """Write the content of `lines`, with the divergences of every job, as one JSON object.

    It is independent of the machines that ran the jobs, and of the time.
    """
    from msprobe.compare.tables.json_file import as_object, causes, counts_of_excused
    from msprobe.compare.tables.table_file import write_text

    first = result.first
    text = {
        "is_clean": result.is_clean,
        "counts": {grade: sum(o.counts.get(grade, 0) for o in result.outcomes) for grade in GRADES},
        "unjudged": causes(result.unjudged),
        "try": first.hint.as_object() if first and first.hint else None,
        "first_wrong": [as_object(first.findings[0], first.step, first.rank)] if first else [],
        **({} if result.excused is None else {"user_limits": counts_of_excused(result.excused)}),
        "missing": list(map(str, result.missing)),
        "jobs": [
            {
                "label": o.label,
                "step": o.step,
                "rank": o.rank,
                "table": os.path.relpath(o.table, path.parent) if o.table else None,
                "mode": o.mode,
                "is_clean": o.is_clean,
                "counts": {grade: o.counts.get(grade, 0) for grade in GRADES},
                "unjudged": causes(o.unjudged),
                "beginnings": [as_object(finding, o.step, o.rank) for finding in o.findings],
                "failed": o.failed or None,
                "noise_limits": str(o.limits) or None,
                **({"unread": o.unread} if o.unread else {}),
            }
            for o in result.outcomes
        ],
    }
    write_text(path, text)


def write_first_over_ranks(path: Path, result: RequestResult) -> None:
    """Write the calls that differ first among all ranks, `{"rank_0": [...]}`; the answer of `-da`.

    Of several steps the earliest that differs counts, and of its trees the first; an empty object if nothing differs.
    """
    from msprobe.compare.ranks.search import as_objects
    from msprobe.compare.tables.table_file import write_text

    for group in sorted(ranks_of(result)):
        if found := result.firsts(group):
            write_text(path, as_objects(found, None if group[0] < 0 else group[0]))
            return
    write_text(path, {})


def ranks_of(result: RequestResult) -> dict[Group, dict[int, Outcome]]:
    """Return the outcomes by rank, of each step, for calls and for explicitly saved values, and of each tree."""
    found: dict[Group, dict[int, Outcome]] = {}
    for outcome in result.outcomes:
        if outcome.rank_summary is not None:
            trees = (found.setdefault((*_group(outcome), tree), {}) for tree in count_from())
            next(ranks for ranks in trees if (outcome.rank or 0) not in ranks)[outcome.rank or 0] = outcome
    return found


def _rank_summaries(outcomes: Mapping[int, Outcome]) -> "dict[int, RankSummary]":
    return {rank: outcome.rank_summary for rank, outcome in outcomes.items() if outcome.rank_summary is not None}
