"""When do two values agree? To the bit while everything before did; within the standard after that.

So a clean upstream makes the rule exact: a first difference is found however small it is.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from msprobe.compare.judge import path_of
from msprobe.compare.run import Comparison, Judged, collected, kind_of
from msprobe.store.record import Call

from .events import Event

State = Literal["agrees", "differs", "unknown"]


@dataclass(frozen=True, slots=True)
class Seen:
    """One event and the pairs in it that do not agree."""

    event: Event
    givens: tuple[Judged, ...] = ()
    results: tuple[Judged, ...] = ()
    unknown_givens: tuple[Judged, ...] = ()
    unknown_results: tuple[Judged, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether everything is known, and the same."""
        return not (self.givens or self.results or self.unknown_givens or self.unknown_results)


def walk(comparison: Comparison, events: Sequence[Event]) -> list[Seen]:
    """Hold every pair of every event to the rule, in execution order."""
    rule = _Rule(comparison)
    seen = []
    for event in events:
        givens = (*event.own, *event.inherited)
        given_states = [rule.state(j, event) for j in givens]
        rule.note(event.own)
        result_states = [rule.state(j, event) for j in event.results]
        rule.note(event.results)
        seen.append(
            Seen(
                event,
                _in_state(givens, given_states, "differs"),
                _in_state(event.results, result_states, "differs"),
                _in_state(givens, given_states, "unknown"),
                _in_state(event.results, result_states, "unknown"),
            )
        )
    return seen


def _in_state(judged: Sequence[Judged], states: Sequence[State], wanted: State) -> tuple[Judged, ...]:
    if wanted not in states:
        return ()
    return tuple(j for j, state in zip(judged, states, strict=True) if state == wanted)


class _Rule:
    def __init__(self, comparison: Comparison) -> None:
        self._exact = True
        self._collected = {"target": collected(comparison.target), "golden": collected(comparison.golden)}

    def state(self, judged: Judged, event: Event) -> State:
        if judged.equal:
            return "agrees"
        if judged.pair.target is None or judged.pair.golden is None:
            return "differs" if event.is_matched and self._was_left_out(judged, event) else "unknown"
        if judged.equal is None:
            return "unknown"
        if self._exact or judged.verdict.grade in ("warning", "error"):
            return "differs"
        return "agrees" if judged.verdict.grade == "pass" else "unknown"

    def note(self, judged: Iterable[Judged]) -> None:
        if self._exact and any(j.equal is False for j in judged):
            self._exact = False

    def _was_left_out(self, judged: Judged, event: Event) -> bool:
        """Whether the other side really has no such value, rather than not having collected it."""
        other: Call | None = event.call.calls.golden if judged.pair.target else event.call.calls.target
        place = path_of(judged.pair.record)
        if other is None or any(place == gap or place.startswith(gap + ".") for gap in other.missing):
            return False
        side = "golden" if judged.pair.target else "target"
        return kind_of(judged.pair.record) in self._collected[side]
