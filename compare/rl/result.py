"""The result of comparing two RL flows, its tables and JSON."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from msprobe.base.files import make_folder
from msprobe.base.log import terminal_line
from msprobe.base.phrase import Words
from msprobe.compare.core.reason import Cause
from msprobe.compare.core.user_limits import NO_LIMITS, ExcusedCounts, UserLimits
from msprobe.compare.jobs.outcome import Outcome
from msprobe.compare.jobs.summary import excused_of
from msprobe.compare.judge.verdict import GRADES, count, number_differing
from msprobe.compare.key_data.comparator import COLUMNS as OF_KEY
from msprobe.compare.key_data.comparator import rows as rows_of_key
from msprobe.compare.locate.finding import Divergence
from msprobe.compare.request import Format
from msprobe.compare.tables.cells import Cell, guard
from msprobe.compare.tables.columns import Column
from msprobe.compare.tables.console import excused_phrase, left_open, no_difference
from msprobe.compare.tables.json_file import as_object, counts_of_excused
from msprobe.compare.tables.table_file import write_table, write_text
from msprobe.store.folders import printable
from msprobe.store.saves.single_saves import stem_of

from . import wording
from .configurations import COLUMNS as OF_SETTINGS
from .configurations import ConfigurationDifferences
from .configurations import rows as rows_of_settings
from .key_data import KeyData
from .order import FLOW, UNKNOWN
from .origin import First
from .stages import Stage
from .walk import Seen

_MAX_LISTED = 10  # sentences about data without counterpart; the file has all of them


_NONE_IN_COMMON = "no difference in what both sides have"
_NONE_JUDGED = "no difference in what could be judged"


@dataclass(frozen=True)
class FlowResult:
    """The complete result; `first` is None if nothing differs. `user_limits` are those of the request; they apply to
    dumps, not to key data."""

    configurations: ConfigurationDifferences
    keys: KeyData
    stages: tuple[Stage, ...]
    walked: tuple[Seen, ...]
    first: First | None
    missing: tuple[Words, ...]
    top: int = 10
    user_limits: UserLimits = NO_LIMITS

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """Return the outcome of every pair of dumps, stage by stage."""
        return tuple(outcome for stage in self.stages for outcome in stage.outcomes)

    @property
    def differs(self) -> bool:
        """Return whether something is wrong: the first difference of key data may be within tolerance."""
        return self.first is not None and not self.is_clean

    @property
    def judged(self) -> int:
        """Return the number of tensors and records with a verdict."""
        return sum(o.judged for o in self.outcomes) + sum(n for g, n in self.keys.counts.items() if g != "unjudged")

    @property
    def differing(self) -> int:
        """Return the number of these that do not pass."""
        return sum(map(number_differing, (*(outcome.counts for outcome in self.outcomes), self.keys.counts)))

    @property
    def unjudged(self) -> Counter[Cause]:
        """Return the number of tensors and records without a verdict, by cause."""
        found = self.keys.unjudged
        for outcome in self.outcomes:
            found.update(outcome.unjudged)
        return found

    @property
    def excused(self) -> ExcusedCounts | None:
        """Return the differences within the limits of the user in all dumps; None without such limits."""
        return excused_of(self.outcomes)

    @property
    def is_clean(self) -> bool:
        """Return whether something was judged, everything passes, and everything that was saved or dumped has a
        counterpart.

        Configurations do not count: paths and dates always differ.
        """
        if not self.judged or self.missing:
            return False
        return all(stage.is_clean for stage in self.stages) and set(self.keys.counts) <= {"pass"}

    @property
    def headline(self) -> str:
        """Return the first difference in one line, or that there is none."""
        return terminal_line(printable(" ".join(str(self.answer).split())))

    def lines(self) -> Iterator[str]:
        """Return the lines: configurations, key data, stages, what is missing; then the first difference, why, what to
        do, and others."""
        for line in map(str, self._lines()):
            text = line if line.startswith("  ") else " ".join(line.split())
            yield terminal_line(printable(text))

    def _lines(self) -> Iterator[Words]:
        yield from wording.configurations(self.configurations, self.top)
        if self.keys.rows:
            tags = len({row.key.tag for row in self.keys.rows})
            yield f"key data of {tags} key{'s' * (tags != 1)} compared: {count(self.keys.counts)}"
        dumps = {(s.item.name, s.item.step, s.item.rank): s for s in self.walked if s.item.kind == "stage"}
        for stage in self.stages:
            for outcome in stage.outcomes:
                yield wording.compared(outcome, stage, dumps[stage.name, outcome.step or 0, outcome.rank or 0])
        yield from left_open(self.judged, self.differing, self.unjudged, (outcome.mode for outcome in self.outcomes))
        if self.excused is not None:
            yield excused_phrase(self.excused, self.user_limits)
        yield from (f"missing: {sentence}" for sentence in self.missing[:_MAX_LISTED])
        if len(self.missing) > _MAX_LISTED:
            yield f"missing: {len(self.missing) - _MAX_LISTED} more, in the JSON file"
        yield from wording.order_of(self.stages)
        yield from self.sentences()
        if self.first is not None:
            yield from wording.others(self.first, self.walked, self.top)
            if self.first.hint is not None:
                yield self.first.hint.line

    @property
    def answer(self) -> Words:
        """Return the first difference, or that there is none."""
        return next(self.sentences())

    def sentences(self) -> Iterator[Words]:
        """Return the first difference, why, and the call or what to do."""
        if self.first is not None:
            yield from wording.sentences(self.first)
            return
        title = _NONE_IN_COMMON if self.missing else _NONE_JUDGED
        left = [one for outcome in self.outcomes for one in outcome.roundings_left]
        yield no_difference(
            self.is_clean, self.judged, self.unjudged, title, excused=self.excused, roundings_left=left
        ).sentence


@dataclass(frozen=True)
class Stepwise:
    """Results of the steps that both sides have; `missing` are those of one side only."""

    results: dict[int, FlowResult]
    missing: tuple[Words, ...]

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """Return the outcome of every pair of dumps, step by step."""
        return tuple(outcome for result in self.results.values() for outcome in result.outcomes)

    @property
    def differs(self) -> bool:
        """Return whether something is wrong, as `FlowResult.differs`."""
        return any(result.differs for result in self.results.values())

    @property
    def judged(self) -> int:
        """Return the number of tensors and records with a verdict."""
        return sum(result.judged for result in self.results.values())

    @property
    def differing(self) -> int:
        """Return the number of these that do not pass."""
        return sum(result.differing for result in self.results.values())

    @property
    def unjudged(self) -> Counter[Cause]:
        """Return the number of tensors and records without a verdict, by cause."""
        return sum((result.unjudged for result in self.results.values()), Counter())

    @property
    def user_limits(self) -> UserLimits:
        """Return the limits of the request."""
        return next((result.user_limits for result in self.results.values()), NO_LIMITS)

    @property
    def excused(self) -> ExcusedCounts | None:
        """Return the differences within the limits of the user in all dumps; None without such limits."""
        return excused_of(self.outcomes)

    @property
    def is_clean(self) -> bool:
        """Return whether every step is clean, and both sides have the same steps."""
        return not self.missing and all(result.is_clean for result in self.results.values())

    @property
    def first(self) -> int | None:
        """Return the first step in which something differs."""
        return next((step for step, result in self.results.items() if result.first is not None), None)

    def lines(self) -> Iterator[str]:
        """Return one line for each step, then all lines of the first step that differs."""
        for step, result in self.results.items():
            yield f"step {step}: {result.headline}"
        yield from (terminal_line(f"missing: {each}") for each in self.missing)
        if self.first is not None:
            yield f"the first step in which something differs is {self.first}:"
            yield from self.results[self.first].lines()


FOLDER = "key_data"
"""Folder of the tables of single keys, below the output folder."""

OF_KEYS = (
    Column("step", "number of the step", 6),
    Column("rank", "number of the rank", 6),
    Column("key", "name of the key; rows are in the order of the flow", 24),
    Column("made by", "the stage that produces it; empty for host code, `?` if unknown", 28),
    Column("Verdict", "the worst of its tensors", 10),
    Column(
        "first difference", "micro step, id and index of the first element that differs; empty if all are equal", 24
    ),
    Column("role", "`begins`, `received`, `open` (its inputs were not saved), `agrees`, `unjudged`", 10),
    Column("Reason", "the reason", 60),
)


def summary(output: Path, second: str) -> Path:
    """Return the path of the file with all results."""
    return output / f"compare_flow_{second}.json"


def write_down(result: FlowResult, output: Path, form: Format, second: str) -> None:
    """Write everything except the tables of the stages, which exist already; raise an OSError if writing fails."""
    make_folder(output)
    if result.keys.rows:
        make_folder(output / FOLDER)
        for tag, part in groupby(result.keys.rows, key=lambda row: row.key.tag):
            write_table(output / FOLDER / f"{stem_of(tag)}.{form}", OF_KEY, rows_of_key(part), form)
        write_table(output / f"compare_flow_keys_{second}.{form}", OF_KEYS, rows_of_walk(result.walked), form)
    if result.configurations.count:
        path = output / f"compare_flow_configurations_{second}.{form}"
        write_table(path, OF_SETTINGS, rows_of_settings(result.configurations), form)
    write_text(summary(output, second), _whole(result, output))


def rows_of_walk(walked: Sequence[Seen]) -> Iterator[tuple[Cell, ...]]:
    """Return the rows of the table of keys."""
    for seen in walked:
        item = seen.item
        if item.kind == "key":
            stage = FLOW[item.part].stage if item.part != UNKNOWN else "?"
            where, why = wording.first_place(item), str(wording.reason_of(item))
            cells = guard(item.name), stage, item.grade, guard(where), seen.role, guard(why)
            yield item.step, item.rank, *cells


def _whole(result: FlowResult, output: Path) -> Mapping[str, object]:
    first = result.first
    return {
        "is_clean": result.is_clean,
        "first_difference": None
        if first is None
        else {
            "step": first.item.step,
            "rank": first.item.rank,
            "stage": first.stage or None,
            "says": str(wording.text(first)),
            "why": str(wording.why(first)) or None,
            "then": str(wording.then(first)) or None,
            "role": first.seen.role,
            "keys": [item.name for item in first.keys],
            "collect": (first.collect.fields if first.collect else None) or None,
        },
        "first_wrong": _first_wrong(first.finding, first.seen) if first else [],
        "try": first.hint.as_object() if first and first.hint else None,
        "configurations": {
            "count": result.configurations.count,
            "problem": result.configurations.problem or None,
            "differences": [
                {
                    "setting": each.path,
                    "target": each.target,
                    "golden": each.golden,
                    "changes": each.meaning.changes if each.meaning else None,
                }
                for each in result.configurations.differences
            ],
        },
        **({} if result.excused is None else {"user_limits": counts_of_excused(result.excused)}),
        "key_counts": {grade: result.keys.counts[grade] for grade in GRADES},
        "stages": [
            {
                "stage": stage.name,
                "problem": stage.problem or None,
                "is_clean": stage.result.is_clean if stage.result else None,
                "tables": [os.path.relpath(o.table, output) for o in stage.outcomes if o.table],
            }
            for stage in result.stages
        ],
        "missing": list(map(str, result.missing)),
        "walk": [_seen(seen) for seen in result.walked],
    }


def _seen(seen: Seen) -> dict[str, object]:
    item = seen.item
    return {
        "step": item.step,
        "rank": item.rank,
        item.kind: printable(item.name),
        "verdict": item.grade,
        "role": seen.role,
        "through": list(seen.through),
        "reason": str(wording.reason_of(item)) or None,
        "first": wording.first_place(item) or None,
        "first_wrong": _first_wrong(item.finding, seen),
    }


def _first_wrong(finding: Divergence | None, seen: Seen) -> list[dict[str, object]]:
    return [as_object(finding, *seen.item.place)] if finding else []
