"""Across frameworks: calls that stand on one side only because the two sides are written differently.

What one framework has as one call another spells out (`rms_norm` against pow, mean, rsqrt, mul). Such a stretch is
explained where the cell around it, or what stands before and behind it, agrees on both sides; so is a call whose name
has no counterpart in the other framework, and the backward of an explained call.

A call that hands on what it is given, to the bit, is explained wherever it stands: a cast to the dtype that its tensor
has is no difference, and least of all in the one cell that does not agree.

What runs inside a layer of the frameworks (`Dense`, `Linear`) is their own way to compute it: the layer speaks for it.
"""

from collections.abc import Sequence
from functools import cached_property

from msprobe.base import names
from msprobe.compare.judge.judged import Comparison
from msprobe.compare.judge.verdict import GRADES
from msprobe.compare.match.pairs import call_of_row
from msprobe.compare.reason import Reason, Why
from msprobe.store.columns import PARTS, TENSOR

from .events import Event
from .handed import are_one_tensor
from .source import Sources, told
from .trained import trained_alone

_PASS, _WARNING, _ERROR, _UNJUDGED = (GRADES.index(grade) for grade in ("pass", "warning", "error", "unjudged"))

HANDING_ON = frozenset(["to", "contiguous", "clone", "reshape", "expand", "identity", "dropout"])
"""Operations, in the words of `kinship.word`, that may give the very tensor that they are given. What changes the
order of elements (`flip`) is not among them: statistics would not show it. Nor is `detach`, which ends the way back."""


def explained(comparison: Comparison, events: Sequence[Event]) -> dict[int, Reason]:
    """By place: why a call that stands alone is no difference."""
    return _Explaining(comparison, events).found


class Layers:
    """The pairs of cells of one comparison that are layers of the frameworks themselves."""

    def __init__(self, comparison: Comparison, events: Sequence[Event]) -> None:
        from msprobe.mapping.layers import counterpart_classes  # here: one framework needs no table of layers

        pairs = comparison.pairs
        self._is_ms_target = comparison.target.framework == "mindspore"
        dump, calls = (
            (comparison.target, pairs.target_calls) if self._is_ms_target else (comparison.golden, pairs.golden_calls)
        )
        self._matched: dict[str, bool] = {}
        for event in events:
            if event.is_matched and event.kind == "cell":
                name = names.parse(dump.columns.names[int(calls[event.place])])
                self._matched[event.key] = bool(counterpart_classes(name.stem.rpartition(".")[2]))
        # What holds other pairs of cells (`SequentialCell`) only hands on what they give.
        for event in events:
            if event.is_matched and event.kind == "cell":
                self._matched.update(dict.fromkeys(self._matched.keys() & set(event.keys), False))

    def around(self, event: Event) -> bool:
        """Whether the nearest pair of cells around a call is such a layer."""
        return next((self._matched[key] for key in event.keys if key in self._matched), False)


class _Explaining:
    def __init__(self, comparison: Comparison, events: Sequence[Event]) -> None:
        self._comparison, self._events = comparison, events
        self._starts = comparison.pairs.starts
        self._grades = comparison.grades
        self._has_judged_result: dict[int, bool] = {}  # a pair of calls -> whether a result of it has a verdict
        self._matched = {event.key: event for event in events if event.is_matched and event.kind != "parameters_grad"}
        self.found: dict[int, Reason] = dict(comparison.pairs.notes.without)
        at = 0
        before: Event | None = None  # the last pair of which a result could be judged
        while at < len(events):
            stop = at
            while stop < len(events) and not events[stop].is_matched:
                stop += 1
            behind = events[stop] if stop < len(events) else None
            for event in events[at:stop]:
                if event.place not in self.found and (reason := self._reason(event, before, behind)):
                    self.found[event.place] = reason
            if behind is not None and any(grade != _UNJUDGED for grade in self._grades_of(behind, results=True)):
                before = behind
            at = stop + 1

    def _reason(self, event: Event, before: Event | None, behind: Event | None) -> Reason | None:
        if self._hands_on(event):
            return Reason(Why.HANDS_ON)
        if event.place in self._feeding or event.place in self._trained_alone:
            return None
        if said := self._by_its_place(event, before, behind):
            return said
        return Reason(Why.COMPARED_LATER) if event.place in self._judged_later else None

    def _hands_on(self, event: Event) -> bool:
        """Whether the one result of a lonely call, or of its forward call, is the tensor that it was given."""
        from msprobe.compare.counterparts.kinship import word  # here: one framework needs no table of functions

        if event.direction == "backward" and event.forward is not None:
            event = self._events[event.forward]
        name = names.parse(event.called)
        if event.is_matched or name.kind != "api" or name.direction != "forward" or word(name.stem) not in HANDING_ON:
            return False
        pairs = self._comparison.pairs
        is_golden = event.side == "golden"
        columns = (pairs.golden if is_golden else pairs.target).columns
        rows = (pairs.golden_rows if is_golden else pairs.target_rows)[event.rows.start : event.rows.stop].tolist()
        tensors = [row for row in rows if columns.kind[row] == TENSOR]
        given, results = ([r for r in tensors if PARTS[columns.part[r]] == part] for part in ("input", "output"))
        return bool(given) and len(results) == 1 and are_one_tensor(columns, given[0], results[0])

    def _by_its_place(self, event: Event, before: Event | None, behind: Event | None) -> Reason | None:
        """What the calls before, behind and around a stretch say of it."""
        is_met = behind is not None and self._is_met(behind, is_around=behind.key in event.keys)
        around = next((self._matched[key] for key in event.keys if key in self._matched), None)
        if around is not None and (is_met or behind is None) and self._agrees(around, results=True):
            return Reason(Why.INSIDE, names=(around.name,))
        if event.forward is not None and self._events[event.forward].place in self.found:
            return Reason(Why.OF_FORWARD)
        if behind is None or not is_met or (before is not None and not self._agrees(before, results=True)):
            return None
        if before is None:
            return Reason(Why.BEFORE, names=(behind.name,))
        return Reason(Why.BETWEEN, names=(before.name, behind.name))

    @cached_property
    def _trained_alone(self) -> set[int]:
        return trained_alone(self._comparison, self._events)

    @cached_property
    def _feeding(self) -> set[int]:
        """The places of lonely calls of whose results, as the dump tells, come givens that differ; what else is lonely
        between them is followed."""
        pairs = self._comparison.pairs
        found: set[int] = set()
        for event in reversed(self._events):  # what takes a result runs later
            if event.is_matched:
                continue
            for number in self._uses[event.side == "golden"].get(event.called, ()):
                place = int(pairs.call_of[number])
                is_lonely = pairs.target_calls[place] < 0 or pairs.golden_calls[place] < 0
                if place in found if is_lonely else self._grades[number] in (_WARNING, _ERROR):
                    found.add(event.place)
                    break
        return found

    @cached_property
    def _judged_later(self) -> set[int]:
        """The places of lonely calls of whose results nothing comes but what is compared: givens that pass, or results
        of a pair that one side gets in more steps. Through other such calls too; known by what the dumps tell, else by
        value."""
        pairs, found = self._comparison.pairs, set[int]()
        enclosing = {key for event in self._events for key in event.keys}
        # What goes into a cell goes on to what runs in it.
        hollow = {e.place for e in self._events if not e.is_matched and e.key in enclosing}
        for event in reversed(self._events):
            if event.is_matched or event.kind != "api" or event.direction != "forward":
                continue
            uses = self._all_uses[event.side == "golden"].get(event.called, ())
            users = [(number, int(pairs.call_of[number])) for number in uses]
            are_met = [
                place in found
                if pairs.target_calls[place] < 0 or pairs.golden_calls[place] < 0
                else self._grades[number] == _PASS or self._is_of_a_longer_way(number, place)
                for number, place in users
                if place not in hollow
            ]
            if are_met and all(are_met):
                found.add(event.place)
        return found

    def _is_of_a_longer_way(self, number: int, place: int) -> bool:
        """Whether a given of a pair of calls rightly stands alone, and what the pair gives was judged."""
        alone = self._comparison.pairs.notes.alone.get(number)
        if alone is None or alone.is_wrong:
            return False
        if (known := self._has_judged_result.get(place)) is None:
            rows = slice(int(self._starts[place]), int(self._starts[place + 1]))
            known = bool(((self._grades[rows] != _UNJUDGED) & ~self._comparison.is_given[rows]).any())
            self._has_judged_result[place] = known
        return known

    @cached_property
    def _all_uses(self) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
        """As `_uses`; sources that the dumps do not tell are found by value."""
        pairs, is_given = self._comparison.pairs, self._comparison.is_given
        found: tuple[dict[str, list[int]], dict[str, list[int]]] = ({}, {})
        sides = (pairs.target, pairs.target_rows), (pairs.golden, pairs.golden_rows)
        for uses, (dump, rows) in zip(found, sides, strict=True):
            sources, columns = Sources(dump), dump.columns
            for event in self._events:
                for number in event.rows:
                    row = int(rows[number])
                    if row < 0 or not is_given[number] or columns.kind[row] != TENSOR:
                        continue
                    call = columns.names[call_of_row(dump, row)]
                    if made := sources.of(row, call, ()).call:
                        uses.setdefault(made, []).append(number)
        return found

    @cached_property
    def _uses(self) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
        """By call of each side: the pairs of records of the givens that come from it."""
        pairs = self._comparison.pairs
        found: tuple[dict[str, list[int]], dict[str, list[int]]] = ({}, {})
        sides = (pairs.target, pairs.target_rows), (pairs.golden, pairs.golden_rows)
        for uses, (dump, rows) in zip(found, sides, strict=True):
            said = dump.columns.source
            for number, row in enumerate(rows.tolist()):
                if row >= 0 and said[row].startswith("call ") and (call := told(said[row]).call):
                    uses.setdefault(call, []).append(number)
        return found

    def _is_met(self, behind: Event, *, is_around: bool) -> bool:
        """Whether what stands behind a stretch agrees: its givens, or its results where it is the cell around the
        stretch, or where of its givens nothing could be judged. An axis that differs says nothing of the stretch."""
        if is_around:
            return self._agrees(behind, results=True)
        grades = [grade for grade in self._grades_of(behind, results=False, tensors_only=True) if grade != _UNJUDGED]
        return all(grade == _PASS for grade in grades) if grades else self._agrees(behind, results=True)

    def _agrees(self, event: Event, *, results: bool) -> bool:
        """Whether all results (or givens) of a pair of calls that could be judged pass, and some could."""
        grades = self._grades_of(event, results=results)
        return _PASS in grades and all(grade in (_PASS, _UNJUDGED) for grade in grades)

    def _grades_of(self, event: Event, *, results: bool, tensors_only: bool = False) -> list[int]:
        is_given, pairs = self._comparison.is_given, self._comparison.pairs
        places = (event.place,) if results else (event.owners or (event.place,))
        rows = (row for place in places for row in range(int(self._starts[place]), int(self._starts[place + 1])))
        wanted = [row for row in rows if bool(is_given[row]) != results]
        return [int(self._grades[row]) for row in wanted if not tensors_only or pairs.are_tensors(row)]
