"""Why an input differs: where it comes from, and whether that differed already.

When do two values agree? To the bit while everything before did; within the standard after that.

So a clean upstream makes the rule exact: a first difference is found however small it is. Across frameworks nothing is
ever equal to the bit, so there it is the verdict from the start.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from msprobe.compare.core.noise import State
from msprobe.compare.core.standard import family
from msprobe.compare.dataflow.events import UNKNOWN, Event, Source, Sources, fingerprint, missing_of, parent_of, upwards
from msprobe.compare.judge.judged import DIFFERENT, EQUAL, Comparison, Judged, calls_with
from msprobe.compare.judge.pairs import DigestKind, collected, kind_of
from msprobe.compare.judge.verdict import GRADES, path_of
from msprobe.compare.match.cross_framework import are_of_two_frameworks, round_differently
from msprobe.store.record import PARTS

from .finding import Dataflow

_AGREES, _DIFFERS, _UNKNOWN, _ONE_SIDED = range(4)


@dataclass(slots=True, eq=False)  # not frozen, as `Event`
class Seen:
    """One event and the pairs in it that do not agree, by their rows in the comparison."""

    event: Event
    given_rows: tuple[int, ...] = ()
    result_rows: tuple[int, ...] = ()
    unknown_given_rows: tuple[int, ...] = ()
    unknown_result_rows: tuple[int, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether everything is known, and the same."""
        return not (self.given_rows or self.result_rows or self.unknown_given_rows or self.unknown_result_rows)

    @property
    def givens(self) -> tuple[Judged, ...]:
        """What it was given and differs."""
        return tuple(map(self.event.comparison.judged, self.given_rows))

    @property
    def results(self) -> tuple[Judged, ...]:
        """What it gave and differs."""
        return tuple(map(self.event.comparison.judged, self.result_rows))

    @property
    def unknown_givens(self) -> tuple[Judged, ...]:
        """What it was given and cannot be judged."""
        return tuple(map(self.event.comparison.judged, self.unknown_given_rows))


def walk(comparison: Comparison, events: Sequence[Event]) -> list[Seen]:
    """Hold every pair of every event to the rule, in execution order."""
    rule = _Rule(comparison)
    return [rule.seen(event) for event in events]


class _Rule:
    def __init__(self, comparison: Comparison) -> None:
        self._comparison = comparison
        self._exact = not round_differently(comparison.target, comparison.golden)
        # PyTorch and its API on MindSpore: one side writes out what the other leaves to its defaults.
        self._writes_out = round_differently(comparison.target, comparison.golden) and not are_of_two_frameworks(
            comparison.target, comparison.golden
        )
        self._starts = comparison.pairs.starts.tolist()
        self._is_given = comparison.is_given.tobytes()
        self._is_different = (comparison.equal == DIFFERENT).tobytes()
        exact = np.where(
            comparison.equal == EQUAL, _AGREES, np.where(comparison.equal == DIFFERENT, _DIFFERS, _UNKNOWN)
        )
        sides = np.minimum(comparison.pairs.target_rows, comparison.pairs.golden_rows)
        exact[sides < 0] = _ONE_SIDED
        for row, alone in comparison.pairs.notes.alone.items():
            exact[row] = _DIFFERS if alone.is_wrong else _AGREES
        exact[comparison.is_exempt & ((sides >= 0) | (comparison.noise is not None and not self._exact))] = _AGREES
        by_grade = np.array([{"pass": _AGREES, "unjudged": _UNKNOWN}.get(grade, _DIFFERS) for grade in GRADES])
        later = np.where(exact == _DIFFERS, by_grade[comparison.grades], exact)
        if comparison.noise is not None:  # judged along the dataflow: the states say it, from the first call on
            self._exact = False
            known = (sides >= 0) & (comparison.noise.states != State.UNKNOWN) & ~comparison.is_exempt
            later = np.where(known, np.where(comparison.noise.differs(), _DIFFERS, _AGREES), later)
        self._codes = {True: exact.astype(np.uint8).tobytes(), False: later.astype(np.uint8).tobytes()}
        self._dirty = {
            True: (calls_with(comparison, exact != _AGREES) > 0).tobytes(),
            False: (calls_with(comparison, later != _AGREES) > 0).tobytes(),
        }

    @cached_property
    def _collected(self) -> dict[str, frozenset[DigestKind]]:
        return {"target": collected(self._comparison.target), "golden": collected(self._comparison.golden)}

    def seen(self, event: Event) -> Seen:
        """The pairs of one event that do not agree; afterwards the rule may be less strict."""
        dirty = self._dirty[self._exact]
        if not (dirty[event.place] or any(dirty[p] for p in event.owners) or any(dirty[p] for p in event.forwards)):
            return Seen(event)
        own = [row for place in event.owners or (event.place,) for row in self._rows(place) if self._is_given[row]]
        results = [row for row in self._rows(event.place) if not self._is_given[row]]
        inherited = [row for place in event.forwards for row in self._rows(place)]
        given = self._states((*own, *inherited), event)
        self._note(own)
        resulting = self._states(results, event)
        self._note(results)
        return Seen(event, given[0], resulting[0], given[1], resulting[1])

    def _rows(self, place: int) -> range:
        return range(self._starts[place], self._starts[place + 1])

    def _note(self, rows: Iterable[int]) -> None:
        if self._exact and any(self._is_different[row] for row in rows):
            self._exact = False

    def _states(self, rows: Iterable[int], event: Event) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The rows that differ, and those that are not known."""
        codes = self._codes[self._exact]
        differing, unknown = [], []
        for row in rows:
            code = codes[row]
            if code == _ONE_SIDED and self._writes_out and self._comparison.pairs.pair(row).record.kind != "tensor":
                continue
            if code == _ONE_SIDED:
                code = _DIFFERS if event.is_matched and self._was_left_out(row, event) else _UNKNOWN
            if code == _DIFFERS:
                differing.append(row)
            elif code == _UNKNOWN:
                unknown.append(row)
        return tuple(differing), tuple(unknown)

    def _was_left_out(self, row: int, event: Event) -> bool:
        """Whether the other side really has no such value, rather than not having collected it."""
        pair = self._comparison.pairs.pair(row)
        place = path_of(pair.record)
        if any(place == gap or place.startswith(gap + ".") for gap in self._missing(event, not pair.target)):
            return False
        return kind_of(pair.record) in self._collected["golden" if pair.target else "target"]

    def _missing(self, event: Event, of_target: bool) -> tuple[str, ...]:
        """What one side of a matched call says could not be collected."""
        pairs = self._comparison.pairs
        dump, calls = (pairs.target, pairs.target_calls) if of_target else (pairs.golden, pairs.golden_calls)
        return missing_of(dump, int(calls[event.place]))


_PARAMETER = "parameter "
_INPUT, _UNJUDGED = PARTS.index("input"), GRADES.index("unjudged")

Kind = Literal["received", "parameter", "exchanged", "value", "leaf", "code", "unclear"]


@dataclass(frozen=True, slots=True)
class Cause:
    """Why one given differs.

    | kind | meaning | `names` |
    |---|---|---|
    | `received` | what produced it differed; `finding` is where that began | |
    | `parameter` | it is a parameter | |
    | `exchanged` | it is another parameter, of those that both sides have | the target's and the golden's |
    | `value` | it is an argument that is no tensor, or stands on one side only | |
    | `leaf` | no recorded call produced it | |
    | `code` | what produced it agrees, or was not recorded, as `dataflow` says | what `dataflow` says |
    | `unclear` | a record that is needed is missing | that record |
    """

    kind: Kind
    names: tuple[str, ...] = ()
    dataflow: Dataflow = Dataflow.UNKNOWN
    finding: int = -1


_UNRECORDED = Cause("code", dataflow=Dataflow.UNRECORDED)


def _made_by(call: str) -> Cause:
    """The cause of what a call gave that agrees, or nothing recorded."""
    return Cause("code", (call,), Dataflow.PRODUCER) if call else _UNRECORDED


class Causes:
    """Answers for the givens of one comparison; looks values up only once something differs."""

    def __init__(self, comparison: Comparison, seen: Sequence[Seen], origin: dict[int, int]) -> None:
        self._seen = seen
        self._origin = origin  # event -> the finding that it belongs to; grows while the caller walks
        self._comparison = comparison
        self._rows: dict[tuple[str, str], dict[tuple[str, tuple[str, ...]], int]] = {}  # of a side's call, by place
        self._level = comparison.target.level
        self._are_two_frameworks = are_of_two_frameworks(comparison.target, comparison.golden)
        self._given_the_same: dict[str, bool] = {}  # a cell -> whether the tensors that it was given agree
        self._given: tuple[int, dict[tuple[object, object], str]] = (-1, {})  # an event, and `_fingerprints` of it
        self._sources = {"target": Sources(comparison.target), "golden": Sources(comparison.golden)}

    @cached_property
    def _events(self) -> dict[tuple[str, str], int]:
        """Side and name of a call -> its event."""
        pairs = self._comparison.pairs
        found: dict[tuple[str, str], int] = {}
        for side, dump, calls in (
            ("target", pairs.target, pairs.target_calls.tolist()),
            ("golden", pairs.golden, pairs.golden_calls.tolist()),
        ):
            names = dump.columns.names
            found.update(
                ((side, names[calls[s.event.place]]), s.event.at) for s in self._seen if calls[s.event.place] >= 0
            )
        return found

    def of(self, judged: Judged, event: Event, latest: int) -> Cause:
        """The cause of one differing given; `latest` is the number of the finding before, -1 without any."""
        if not event.owns(judged.row):
            return self._inherited(event, judged, latest)
        pairs, is_backward = self._comparison.pairs, event.direction == "backward"
        target, golden = int(pairs.target_rows[judged.row]), int(pairs.golden_rows[judged.row])
        if target < 0 or golden < 0 or not (is_backward or pairs.are_tensors(judged.row)):
            return Cause("value")
        if latest < 0 and (swapped := self._swapped(judged, event)):
            return Cause("code", swapped, Dataflow.SWAPPED)
        sources = {"target": self._sources["target"].of(target, event.called, event.parents)}
        if latest >= 0 and sources["target"].origin == "unknown":
            return Cause("received", finding=latest)
        said = pairs.target.columns.source[target]
        if latest < 0 or said:
            sources["golden"] = self._golden_source(golden, event)
        if any(s.origin == "parameter" for s in sources.values()):
            exchanged = self._exchanged(target, golden)
            return Cause("exchanged", exchanged) if exchanged else Cause("parameter")
        is_told = said.startswith("call ") and pairs.golden.columns.source[golden].startswith("call ")
        if latest < 0 and not self._are_two_frameworks and (rewired := self._rewired(sources, event)):
            return Cause("code", rewired, Dataflow.REWIRED)
        if cause := self._by_producer(sources, latest, is_told):
            return cause
        origins = {s.origin for s in sources.values()}
        if "leaf" in origins:
            return Cause("leaf")
        if latest >= 0:
            return Cause("received", finding=latest)
        if "code" in origins and not self.is_first_given(event):
            return _UNRECORDED
        if is_backward:
            return Cause("code")
        # Nothing says where it came from. Masks, ids and positions are given; a float between two cells is computed.
        computed = (
            self._level == "L0"
            and family(pairs.target.columns.looks[pairs.target.columns.look[target]][1]) == "float"
            and not self.is_first_given(event)
        )
        return _UNRECORDED if computed else Cause("leaf")

    def is_first_given(self, event: Event) -> bool:
        """Whether no call before this one was given a tensor, nor a cell around it tensors that all agree: what it gets
        is what the run was given."""
        if event.at > self._first_with_tensors:
            return False
        return not any(self._was_given_the_same(cell) for cell in event.parents)

    @cached_property
    def _first_with_tensors(self) -> int:
        """The first event that was given a tensor, of two frameworks of those with a partner; their number where none
        was."""
        told = (s.event for s in self._seen if s.event.is_matched or not self._are_two_frameworks)
        given = (event.at for event in told if _given_tensors(event))
        return next(given, len(self._seen))

    def _was_given_the_same(self, cell: str) -> bool:
        if (known := self._given_the_same.get(cell)) is None:
            known = self._given_the_same[cell] = False
            if (at := self._events.get(("target", cell))) is not None:
                s = self._seen[at]
                given = _given_tensors(s.event)
                known = bool(given) and given.isdisjoint((*s.given_rows, *s.unknown_given_rows))
                self._given_the_same[cell] = known
        return known

    def differing_parameters(self) -> list[tuple[int, str]]:
        """Every parameter that differs, with the event at which it is first seen, in execution order."""
        found: dict[str, int] = {}
        for s in self._seen:
            mine, theirs = list[str](), list[str]()
            for judged in s.givens if s.given_rows and s.event.is_matched else ():
                pairs = self._comparison.pairs
                target, golden = int(pairs.target_rows[judged.row]), int(pairs.golden_rows[judged.row])
                if target < 0 or golden < 0 or not s.event.owns(judged.row):
                    continue
                if self._exchanged(target, golden):
                    continue
                source = self._sources["target"].of(target, s.event.called, s.event.parents)
                if source.origin == "parameter":
                    mine.append(source.text)
                elif (other := self._golden_source(golden, s.event)).origin == "parameter":
                    theirs.append(f"golden {other.text}" if self._are_two_frameworks else other.text)
            # Where both name one, at two places of a call, it is one parameter that stands at another place.
            for name in mine or theirs:
                found.setdefault(name, s.event.at)
        return [(at, name) for name, at in found.items()]

    def _exchanged(self, target: int, golden: int) -> tuple[str, ...]:
        """Which two parameters of those that both sides have; a renamed one is known to one side only."""
        pairs = self._comparison.pairs
        told = pairs.target.columns.source[target], pairs.golden.columns.source[golden]
        if told[0] == told[1] or not all(text.startswith(_PARAMETER) and text in self._common for text in told):
            return ()
        return tuple(text.removeprefix(_PARAMETER) for text in told)

    @cached_property
    def _common(self) -> set[str]:
        """The sources that both dumps tell."""
        return set(self._comparison.target.columns.source) & set(self._comparison.golden.columns.source)

    def _inherited(self, event: Event, judged: Judged, latest: int) -> Cause:
        """A backward call is given what its forward was given and gave."""
        finding = self._origin.get(event.forward, latest) if event.forward is not None else latest
        if finding >= 0:
            return Cause("received", finding=finding)
        return Cause("unclear", (judged.pair.record.name,))

    def _golden_source(self, row: int, event: Event) -> Source:
        golden = self._comparison.golden
        call = int(self._comparison.pairs.golden_calls[event.place])
        if call < 0:
            return UNKNOWN
        parents = upwards(parent_of(golden, call), golden.construct)
        return self._sources["golden"].of(row, golden.columns.names[call], parents)

    def _rewired(self, sources: dict[str, Source], event: Event) -> tuple[str, ...]:
        """The target's and the golden's call that made it, where these are no pair, or one of them runs only later on
        the other side; empty for a call that was not recorded."""
        calls = {side: source.call for side, source in sources.items() if source.origin == "call"}
        found = {side: self._events.get((side, call)) for side, call in calls.items()}
        made = {side: at for side, at in found.items() if at is not None and self._seen[at].event.is_matched}
        if not (len({*made.values()}) > 1 or any(at > event.at for at in made.values())):
            return ()
        return tuple(calls[side] if side in made else "" for side in ("target", "golden"))

    def _by_producer(self, sources: dict[str, Source], latest: int, is_told: bool) -> Cause | None:
        agreeing = ""
        for side, source in sources.items():
            at = self._events.get((side, source.call)) if source.origin == "call" else None
            if at is None:
                continue
            s = self._seen[at]
            finding = self._origin.get(at, latest)
            if self._holds(s.result_rows, side, source):
                # Nothing begins it where only the sum over all users differs: some user was not recorded.
                return Cause("received", finding=finding) if finding >= 0 else _UNRECORDED
            if self._are_two_frameworks and not s.event.is_matched and finding < 0:
                continue  # transparent, and what it was computed from agrees
            is_known = s.event.is_matched and self._holds(s.event.rows, side, source)
            if not is_known or self._holds(s.unknown_result_rows, side, source):
                place = ".".join((source.call, source.part, *source.path))
                return Cause("received", finding=finding) if finding >= 0 else Cause("unclear", (place,))
            agreeing = agreeing or source.call
        if agreeing and (is_told or latest < 0):
            return _made_by(agreeing)
        return None

    def _swapped(self, judged: Judged, event: Event) -> tuple[str, ...]:
        """The places of two arguments that were swapped; empty where they were not."""
        if judged.pair.target is None or judged.pair.golden is None:
            return ()
        t, g = fingerprint(judged.pair.target), fingerprint(judged.pair.golden)
        if t is None or g is None or t == g:
            return ()
        if self._given[0] != event.at:
            self._given = event.at, _fingerprints(event)
        other = self._given[1].get((g, t))
        return (path_of(judged.pair.target), other) if other else ()

    def _holds(self, rows: Sequence[int], side: str, source: Source) -> bool:
        """Whether one of some pairs of records, in order, is of a result, as one side has it."""
        row = self._row_of(side, source)
        at = bisect_left(rows, row)
        return at < len(rows) and rows[at] == row

    def _row_of(self, side: str, source: Source) -> int:
        """The pair of records of a result, as one side has it; -1 where there is none."""
        known = self._rows.get((side, source.call))
        if known is None:
            known = self._rows[side, source.call] = {}
            pairs, at = self._comparison.pairs, self._events.get((side, source.call))
            dump, places = (pairs.target, pairs.target_rows) if side == "target" else (pairs.golden, pairs.golden_rows)
            columns = dump.columns
            for row in self._seen[at].event.rows if at is not None else ():
                if (place := int(places[row])) >= 0:
                    known.setdefault((PARTS[columns.part[place]], columns.paths[columns.path[place]]), row)
        return known.get((source.part, source.path), -1)


def _given_tensors(event: Event) -> set[int]:
    """The rows of the tensors that a call was given."""
    return {j.row for j in event.own if j.pair.record.kind == "tensor" and j.pair.record.part == "input"}


def _fingerprints(event: Event) -> dict[tuple[object, object], str]:
    """What tells a given tensor, the target's and the golden's together -> the place of the first of such."""
    found: dict[tuple[object, object], str] = {}
    for judged in event.own:
        target, golden = judged.pair.target, judged.pair.golden
        if target is not None and golden is not None:
            found.setdefault((fingerprint(target), fingerprint(golden)), path_of(target))
    return found
