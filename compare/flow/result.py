"""What the comparison of two roots found, and the lines of it for the console."""

from collections.abc import Iterator
from dataclasses import dataclass

from msprobe.base.visible import visible
from msprobe.compare.jobs.outcome import Outcome
from msprobe.compare.judge.verdict import GRADES, count
from msprobe.compare.report.console import BLIND
from msprobe.store.folders import printable

from .answer import First, finding_said, key_said, place_said
from .configurations import Compared
from .item import Item
from .keys import KeyData
from .stages import Stage
from .walk import Seen, next_beginnings

_NAMED = 8  # so many names stand in a sentence
_SAID = 10  # sentences about what has no partner; the file has all of them


@dataclass(frozen=True)
class FlowResult:
    """Everything that was found; `first` is None where nothing differs."""

    configurations: Compared
    keys: KeyData
    stages: tuple[Stage, ...]
    walked: tuple[Seen, ...]
    first: First | None
    missing: tuple[str, ...]
    top: int = 10

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """What came of every pair of dumps, stage by stage."""
        return tuple(outcome for stage in self.stages if stage.answer for outcome in stage.answer.outcomes)

    @property
    def judged(self) -> int:
        """How many tensors and records have a verdict."""
        return sum(o.judged for o in self.outcomes) + sum(n for g, n in self.keys.counts.items() if g != "unjudged")

    @property
    def unjudged(self) -> int:
        """How many have none."""
        return sum(o.counts.get("unjudged", 0) for o in self.outcomes) + self.keys.counts["unjudged"]

    @property
    def is_clean(self) -> bool:
        """Whether something was judged, all of it passes, and everything that was saved or dumped has a partner.

        Configurations do not count: a path or a date always differs.
        """
        if not self.judged or self.missing or any(stage.answer is None for stage in self.stages):
            return False
        of_stages = all(stage.answer.is_clean for stage in self.stages if stage.answer)
        return of_stages and set(self.keys.counts) <= {"pass"}

    def lines(self) -> Iterator[str]:
        """Configurations, key data, stages, what is missing, the next beginnings, and the first difference last."""
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
            for outcome in stage.answer.outcomes if stage.answer else ():
                yield _of_outcome(outcome, stage.name, dumps[stage.name, outcome.step or 0, outcome.rank or 0])
        for mode in dict.fromkeys(outcome.mode for outcome in self.outcomes):
            if mode and (blind := BLIND.get(mode)):
                yield f"{mode} cannot see {blind}"
        yield from (f"missing: {sentence}" for sentence in self.missing[:_SAID])
        if len(self.missing) > _SAID:
            yield f"missing: {len(self.missing) - _SAID} more, in the json"
        yield from self._next()
        yield from self._answer()

    def _next(self) -> Iterator[str]:
        following = next_beginnings(self.walked)
        for seen, again in following[: self.top]:
            steps = f" [again in step{'s' * (len(again) > 1)} {', '.join(map(str, again[:8]))}]" if again else ""
            yield f"next: {place_said(seen.item)}, {_item_said(seen.item)}{steps}"
        if len(following) > self.top:
            yield f"and {len(following) - self.top} more beginnings in the json"

    def _answer(self) -> Iterator[str]:
        if self.first is None:
            where = " in what both sides have" if self.missing else ""
            yield f"no difference{where}: {self.judged} pairs judged, {self.unjudged} unjudged"
            return
        first = self.first.seen.item
        before = self.walked[: self.walked.index(self.first.seen)]
        if unjudged := [f"{seen.item.kind} {seen.item.name}" for seen in before if seen.role == "unjudged"]:
            named = list(dict.fromkeys(unjudged))
            more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
            yield f"not judged before it: {', '.join(named[:_NAMED])}{more}"
        if not first.is_beyond:
            beyond = next((seen.item for seen in self.walked if seen.item.is_beyond), None)
            where = f"{place_said(beyond)}, {_item_said(beyond)}" if beyond else "nothing"
            yield f"the first difference is within tolerance; the first beyond it: {where}"
        yield f"first difference: {self.first.says}"
        yield f"first wrong call: {finding_said(self.first.finding)}" if self.first.finding else self.first.then


def _of_outcome(outcome: Outcome, stage: str, seen: Seen) -> str:
    where = f"stage {stage}, {outcome.label or f'step {outcome.step}'}"
    if outcome.failed:
        return f"{where}: not compared: {outcome.failed}"
    counts = {grade: outcome.counts.get(grade, 0) for grade in GRADES}
    text = f"{where}: {outcome.mode} compared: {count(counts)}"
    if outcome.first is None:
        return text
    if seen.role == "received":
        through = f", {' and '.join(dict.fromkeys(seen.through))} differing before it" if seen.through else ""
        text += f"; it carries on a difference{through}"
    return f"{text}; first wrong call: {outcome.first.name} in {outcome.first.cell}"


def _item_said(item: Item) -> str:
    if item.kind == "key":
        return key_said(item)
    return f"stage {item.name}: {finding_said(item.finding)}" if item.finding else f"stage {item.name}"


def _of_configurations(compared: Compared, top: int) -> Iterator[str]:
    if compared.problem:
        yield f"configurations: {compared.problem}"
        return
    if not compared.count:
        return
    differences = compared.differences
    if not differences:
        yield f"configurations: 0 of {compared.count} settings differ"
        return
    places = sum(each.is_of_place for each in differences)
    of_places = f", {places} of them places or times" if places else ""
    yield (
        f"configurations: {len(differences)} of {compared.count} settings differ{of_places}; possible explanations, no "
        "faults by themselves:"
    )
    for each in differences[:top]:
        yield f"  {each.said}"
    if len(differences) > top:
        yield f"  and {len(differences) - top} more in the table"
