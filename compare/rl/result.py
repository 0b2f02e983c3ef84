"""The result of comparing two RL flows, and its sentences, tables and JSON."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from msprobe.base.files import make_folder
from msprobe.base.log import few, visible
from msprobe.compare.jobs.outcome import Outcome
from msprobe.compare.judge.verdict import GRADES, Cause, count
from msprobe.compare.key_data.comparator import COLUMNS as OF_KEY
from msprobe.compare.key_data.comparator import rows as rows_of_key
from msprobe.compare.locate.finding import Finding
from msprobe.compare.locate.wording import full, short
from msprobe.compare.request import Format
from msprobe.compare.tables.cells import Cell, guard
from msprobe.compare.tables.columns import Column
from msprobe.compare.tables.console import BLIND, no_difference, unjudged_line
from msprobe.compare.tables.json_file import as_object
from msprobe.compare.tables.table_file import write_table, write_text
from msprobe.store.folders import printable
from msprobe.store.saves.single_saves import stem_of

from .answer import First
from .cause import key_said, place_said
from .configurations import COLUMNS as OF_SETTINGS
from .configurations import ConfigurationDifferences
from .configurations import rows as rows_of_settings
from .key_data import KeyData
from .order import FLOW, UNKNOWN, Item
from .stages import Stage, called
from .walk import Seen, next_beginnings

_NAMED = 8  # so many names stand in a sentence
_SAID = 10  # sentences about what has no partner; the file has all of them


@dataclass(frozen=True)
class FlowResult:
    """Everything that was found; `first` is None where nothing differs."""

    configurations: ConfigurationDifferences
    keys: KeyData
    stages: tuple[Stage, ...]
    walked: tuple[Seen, ...]
    first: First | None
    missing: tuple[str, ...]
    top: int = 10

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """What came of every pair of dumps, stage by stage."""
        return tuple(outcome for stage in self.stages for outcome in stage.outcomes)

    @property
    def judged(self) -> int:
        """How many tensors and records have a verdict."""
        return sum(o.judged for o in self.outcomes) + sum(n for g, n in self.keys.counts.items() if g != "unjudged")

    @property
    def unjudged(self) -> Counter[Cause]:
        """Why tensors and records have none."""
        found = self.keys.unjudged
        for outcome in self.outcomes:
            found.update(outcome.unjudged)
        return found

    @property
    def is_clean(self) -> bool:
        """Whether something was judged, all of it passes, and everything that was saved or dumped has a partner.

        Configurations do not count: a path or a date always differs.
        """
        if not self.judged or self.missing:
            return False
        return all(stage.is_clean for stage in self.stages) and set(self.keys.counts) <= {"pass"}

    @property
    def headline(self) -> str:
        """What differs first, or that nothing does, in one line."""
        return visible(printable(" ".join(next(self._answer()).split())))

    def lines(self) -> Iterator[str]:
        """Configurations, key data, stages, what is missing; then the first difference, why, what to do, and others."""
        for line in self._lines():
            text = line if line.startswith("  ") else " ".join(line.split())
            yield visible(printable(text))

    def _lines(self) -> Iterator[str]:
        yield from _of_configurations(self.configurations, self.top)
        if self.keys.rows:
            tags = len({row.key.tag for row in self.keys.rows})
            yield f"key data of {tags} key{'s' * (tags != 1)} compared: {count(self.keys.counts)}"
        dumps = {(s.item.name, s.item.step, s.item.rank): s for s in self.walked if s.item.kind == "stage"}
        for stage in self.stages:
            for outcome in stage.outcomes:
                yield _of_outcome(outcome, stage, dumps[stage.name, outcome.step or 0, outcome.rank or 0])
        if said := unjudged_line(self.judged, self.unjudged):
            yield said
        for mode in dict.fromkeys(outcome.mode for outcome in self.outcomes):
            if mode and (blind := BLIND.get(mode)):
                yield f"{mode} cannot see {blind}"
        yield from (f"missing: {sentence}" for sentence in self.missing[:_SAID])
        if len(self.missing) > _SAID:
            yield f"missing: {len(self.missing) - _SAID} more, in the json"
        yield from _of_order(self.stages)
        yield from self._answer()
        yield from self._others()

    def _answer(self) -> Iterator[str]:
        """What differs first, why, and the call or what to do."""
        if self.first is None:
            where = " in what both sides have" if self.missing else " in what could be judged"
            yield no_difference(self.is_clean, self.judged, self.unjudged, where)
            return
        yield f"first difference: {self.first.says}"
        if self.first.why:
            yield f"why: {self.first.why}"
        if self.first.finding:
            yield f"first wrong call: {full(self.first.finding)}"
        if self.first.then:
            yield self.first.then

    def _others(self) -> Iterator[str]:
        """What was not judged before it, the first beyond tolerance, and what begins besides."""
        if self.first is None:
            return
        before = self.walked[: self.walked.index(self.first.seen)]
        if unjudged := [f"{seen.item.kind} {seen.item.name}" for seen in before if seen.role == "unjudged"]:
            yield f"not judged before it: {few(dict.fromkeys(unjudged), _NAMED)}"
        if not self.first.seen.item.is_beyond:
            beyond = next((seen.item for seen in self.walked if seen.item.is_beyond), None)
            where = f"the first beyond it: {_item_said(beyond)}" if beyond else "nothing is beyond it"
            yield f"it is within tolerance; {where}"
        following = next_beginnings(self.walked)
        for seen, again in following[: self.top]:
            steps = f"; again in step{'s' * (len(again) > 1)} {', '.join(map(str, again[:8]))}" if again else ""
            yield f"another difference: {_item_said(seen.item)}{steps}"
        if len(following) > self.top:
            yield f"another difference: {len(following) - self.top} more, in the json"


def _of_outcome(outcome: Outcome, stage: Stage, seen: Seen) -> str:
    where = f"{stage.called}, {outcome.label or f'step {outcome.step}'}"
    if outcome.failed:
        return f"{where}: not compared: {outcome.failed}"
    text = f"{where}: {outcome.mode} compared: {count(outcome.counts)}"
    if outcome.first is None:
        return text
    if seen.role == "received":
        through = f", {' and '.join(dict.fromkeys(seen.through))} differing before it" if seen.through else ""
        text += f"; it carries on a difference{through}"
    return f"{text}; first wrong call: {outcome.first.name} in {outcome.first.cell}"


def _item_said(item: Item) -> str:
    """In few words: where, and the key or the call."""
    if item.kind == "key":
        return f"{place_said(item)}, {key_said(item)}"
    call = f", call {short(item.finding)}" if item.finding else ""
    return f"{place_said(item)}, {called(item.name)}{call}"


def _of_order(stages: Sequence[Stage]) -> Iterator[str]:
    """Whether it is known in which order a step runs the stages, where the names do not say it."""
    compared = [stage for stage in stages if stage.answer]
    if len(compared) < 2 or all(stage.part != UNKNOWN for stage in compared):
        return
    if all(stage.is_placed for stage in compared):
        ordered = ", ".join(stage.name for stage in sorted(compared, key=lambda stage: stage.order))
        how = ", by the lines that call them" if any(stage.placed_by == "lines" for stage in compared) else ""
        yield f"order of the stages in a step{how}: {ordered}"
        return
    unknown = ", ".join(stage.name for stage in compared if not stage.is_placed)
    yield (
        f"order of the stages in a step: the dumps do not tell it for {unknown}; of one step, those in which a "
        "difference begins by their own dump are named first"
    )


def _of_configurations(compared: ConfigurationDifferences, top: int) -> Iterator[str]:
    differences = compared.differences
    if compared.problem:
        yield f"configurations: {compared.problem}"
    elif compared.count and not differences:
        yield f"configurations: 0 of {compared.count} settings differ"
    elif compared.count:
        places = sum(each.is_of_place for each in differences)
        of_places = f", {places} of them places or times" if places else ""
        yield (
            f"configurations: {len(differences)} of {compared.count} settings differ{of_places}; possible "
            "explanations, no faults by themselves:"
        )
        yield from (f"  {each.said}" for each in differences[:top])
        if len(differences) > top:
            yield f"  and {len(differences) - top} more in the table"


FOLDER = "key_data"
"""Where the tables of single keys go, below the output folder."""

OF_KEYS = (
    Column("step", "number of the step", 6),
    Column("rank", "number of the rank", 6),
    Column("key", "name of the key; rows stand in the order of the flow", 24),
    Column("made by", "the stage that makes it; empty for host code, `?` where that is not known", 28),
    Column("Verdict", "the worst of its tensors", 10),
    Column("first difference", "micro step, id and index of the first element that differs; empty without any", 24),
    Column("role", "`begins`, `received`, `open` (what it is made of was not saved), `agrees`, `unjudged`", 10),
    Column("Reason", "why, in a sentence", 60),
)


def summary(output: Path, second: str) -> Path:
    """The path of the file that has all of it."""
    return output / f"compare_flow_{second}.json"


def write_down(result: FlowResult, output: Path, form: Format, second: str) -> None:
    """Write everything but the tables of the stages, which are there already. OSError where the disk refuses."""
    make_folder(output)
    if result.keys.rows:
        make_folder(output / FOLDER)
        for tag, part in groupby(result.keys.rows, key=lambda row: row.key.tag):
            write_table(output / FOLDER / f"{stem_of(tag)}.{form}", OF_KEY, rows_of_key(part), form)
        write_table(output / f"compare_flow_keys_{second}.{form}", OF_KEYS, _rows(result.walked), form)
    if result.configurations.count:
        path = output / f"compare_flow_configurations_{second}.{form}"
        write_table(path, OF_SETTINGS, rows_of_settings(result.configurations), form)
    write_text(summary(output, second), _whole(result, output))


def _rows(walked: Sequence[Seen]) -> Iterator[tuple[Cell, ...]]:
    for seen in walked:
        item = seen.item
        if item.kind == "key":
            stage = FLOW[item.part].stage if item.part != UNKNOWN else "?"
            cells = guard(item.name), stage, item.grade, guard(item.first), seen.role, guard(item.reason)
            yield item.step, item.rank, *cells


def _whole(result: FlowResult, output: Path) -> Mapping[str, object]:
    first = result.first
    return {
        "is_clean": result.is_clean,
        "first_difference": None
        if first is None
        else {
            "step": first.seen.item.step,
            "rank": first.seen.item.rank,
            "stage": first.stage or None,
            "says": first.says,
            "why": first.why or None,
            "then": first.then or None,
            "role": first.seen.role,
            "keys": [item.name for item in first.seen_in],
            "collect": dict(first.collect) or None,
        },
        "first_wrong": _first_wrong(first.finding, first.seen) if first else [],
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
        "key_counts": {grade: result.keys.counts[grade] for grade in GRADES},
        "stages": [
            {
                "stage": stage.name,
                "problem": stage.problem or None,
                "is_clean": stage.answer.is_clean if stage.answer else None,
                "tables": [os.path.relpath(o.table, output) for o in stage.outcomes if o.table],
            }
            for stage in result.stages
        ],
        "missing": list(result.missing),
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
        "reason": item.reason or None,
        "first": item.first or None,
        "first_wrong": _first_wrong(item.finding, seen),
    }


def _first_wrong(finding: Finding | None, seen: Seen) -> list[dict[str, object]]:
    return [as_object(finding, *seen.item.place)] if finding else []
