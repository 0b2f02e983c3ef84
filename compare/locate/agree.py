"""When do two values agree? To the bit while everything before did; within the standard after that.

So a clean upstream makes the rule exact: a first difference is found however small it is. Across frameworks nothing is
ever equal to the bit, so there it is the verdict from the start.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from msprobe.compare.judge.judged import DIFFERENT, EQUAL, Comparison, Judged, calls_with
from msprobe.compare.judge.one_by_one import Kind, collected, kind_of
from msprobe.compare.judge.verdict import GRADES, path_of
from msprobe.compare.match.frameworks import are_of_two_frameworks, round_differently
from msprobe.compare.noise.report import State

from .events import Event, missing_of

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
    def _collected(self) -> dict[str, frozenset[Kind]]:
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
