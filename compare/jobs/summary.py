"""The outcomes of all jobs of a request together: lines for the console, and the file that sums them up."""

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from msprobe.base.files import replacing
from msprobe.base.log import visible
from msprobe.compare.judge.verdict import GRADES, Cause, count
from msprobe.compare.locate.finding import Finding
from msprobe.compare.locate.wording import short
from msprobe.compare.ranks.collectives import RankStory
from msprobe.compare.ranks.search import as_objects, first_over_ranks, write_first
from msprobe.compare.tables.console import BLIND, no_difference, unjudged_said
from msprobe.compare.tables.json_file import as_object, causes

from .outcome import Outcome


@dataclass(frozen=True)
class Answer:
    """The outcomes in the order of the jobs, and in sentences what had no partner."""

    outcomes: tuple[Outcome, ...]
    missing: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether every job was done and is clean, and everything had a partner."""
        return not self.missing and all(o.is_clean and not o.failed for o in self.outcomes)

    @property
    def judged(self) -> int:
        """How many pairs of records have a verdict."""
        return sum(outcome.judged for outcome in self.outcomes)

    @property
    def unjudged(self) -> Counter[Cause]:
        """Why pairs of records have none."""
        found: Counter[Cause] = Counter()
        for outcome in self.outcomes:
            found.update(outcome.unjudged)
        return found

    @property
    def first(self) -> Outcome | None:
        """The outcome with the first wrong call of all; None where nothing differs.

        Of the earliest step that has one, it is of the rank where a difference begins that no exchange brought; where
        exchanges do not tell, of the rank whose beginning is earliest in execution order, and of equal ones the lowest.
        """
        wrong = [(order, n) for n, o in enumerate(self.outcomes) if (order := _order(o)) is not None]
        if not wrong:
            return None
        earliest = self.outcomes[min(wrong)[1]]
        for (step, is_debug, _), outcomes in sorted(_ranks(self).items()):
            if (step, is_debug) == (_step(earliest), earliest.what == "debug") and earliest in outcomes.values():
                found = first_over_ranks(_stories(outcomes))
                named = [o for first in found if (o := outcomes[first.rank]).first]
                return min(named, key=_order, default=earliest)  # type: ignore[arg-type]  # each has a first
        return earliest

    def lines(self) -> Iterator[str]:
        """The answer of a single job; of several one line each, what is missing, and the first wrong call of all."""
        if len(self.outcomes) == 1 and not self.missing:
            yield from self.outcomes[0].lines
            return
        for outcome in self.outcomes:
            yield _line(outcome)
        if said := unjudged_said(self.judged, self.unjudged):
            yield said
        for mode in dict.fromkeys(o.mode for o in self.outcomes):
            if mode and (blind := BLIND.get(mode)):
                yield f"{mode} cannot see {blind}"
        yield from map(visible, dict.fromkeys(o.limits for o in self.outcomes if o.limits))
        for sentence in self.missing:
            yield visible(f"missing: {sentence}")
        first = self.first
        if first is None:
            yield no_difference(self.is_clean, self.judged, self.unjudged)
            return
        if first.label:
            yield f"the first is in {first.label}:"
        yield first.lines[-1]


def _order(outcome: Outcome) -> tuple[int, bool, int, int] | None:
    """What comes first: the step, calls before what was saved by hand, the place in execution order, the rank."""
    if outcome.first is None:
        return None
    return _step(outcome), outcome.what == "debug", outcome.first.at, -1 if outcome.rank is None else outcome.rank


def _step(outcome: Outcome) -> int:
    return -1 if outcome.step is None else outcome.step


def _line(outcome: Outcome) -> str:
    label = outcome.label or "the two"
    if outcome.failed:
        return visible(f"{label}: not compared: {outcome.failed}")
    text = f"{label}: {outcome.mode}: {count(outcome.counts)}"
    return visible(f"{text}; {_short(outcome.first)}" if outcome.first else text)


def _short(finding: Finding) -> str:
    return " ".join(f"first wrong call: {short(finding)}".split())


def write_summary(path: Path, answer: Answer) -> None:
    """Write what `lines` says, with the beginnings of every job, as one JSON object.

    It is the same wherever the jobs were done: of machines and of the time it says nothing.
    """
    first = answer.first
    text = {
        "is_clean": answer.is_clean,
        "counts": {grade: sum(o.counts.get(grade, 0) for o in answer.outcomes) for grade in GRADES},
        "unjudged": causes(answer.unjudged),
        "first_wrong": [as_object(first.findings[0], first.step, first.rank)] if first else [],
        "missing": list(answer.missing),
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
                "noise_limits": o.limits or None,
            }
            for o in answer.outcomes
        ],
    }
    _write(path, text)


def write_first_over_ranks(path: Path, answer: Answer) -> None:
    """Write the calls that differ first among all ranks, `{"rank_0": [...]}`; the answer of `-da`.

    Of several steps the earliest that differs counts, and of its trees the first; nothing differs: an empty object.
    """
    for (step, _, _), outcomes in sorted(_ranks(answer).items()):
        if found := first_over_ranks(_stories(outcomes)):
            write_first(path, as_objects(found, None if step < 0 else step))
            return
    write_first(path, {})


def _ranks(answer: Answer) -> dict[tuple[int, bool, int], dict[int, Outcome]]:
    """The outcomes by rank, of each step, of calls and of what was saved by hand, and of each tree."""
    found: dict[tuple[int, bool, int], dict[int, Outcome]] = {}
    for outcome in answer.outcomes:
        if outcome.story is None:
            continue
        tree = 0
        while (outcome.rank or 0) in found.get((_step(outcome), outcome.what == "debug", tree), {}):
            tree += 1
        found.setdefault((_step(outcome), outcome.what == "debug", tree), {})[outcome.rank or 0] = outcome
    return found


def _stories(outcomes: Mapping[int, Outcome]) -> dict[int, RankStory]:
    return {rank: outcome.story for rank, outcome in outcomes.items() if outcome.story is not None}


def _write(path: Path, text: object) -> None:
    with replacing(path) as file:
        file.write(json.dumps(text, ensure_ascii=False, indent=1).encode("utf-8", "replace") + b"\n")
