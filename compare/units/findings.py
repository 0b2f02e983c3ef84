"""Findings of a report: with the records that are their evidence, and the user's source lines."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from msprobe.base.phrase import Words, names_phrase, phrase
from msprobe.compare.core.reason import Why
from msprobe.compare.core.standard import family
from msprobe.compare.dataflow.events import events
from msprobe.compare.judge.judged import Comparison
from msprobe.compare.judge.verdict import GRADES, path_of
from msprobe.compare.judge.wording import reasons_phrase
from msprobe.compare.locate.find import Located
from msprobe.compare.locate.finding import Between, Divergence, OtherCall
from msprobe.compare.locate.wording import finding_of, kind_phrase
from msprobe.compare.tables.console import later_divergences
from msprobe.findings.catalogue import comparison as kinds
from msprobe.findings.finding import Finding, Place
from msprobe.report.document import State
from msprobe.store.record import OUTPUT

from .calls import UnitCalls
from .details import place_of, tensor_of
from .links import Link

_SHOWN = 5
"""Number of records that are evidence, and of calls that could not be judged."""

MAX_FINDINGS = 50
"""Number of findings of one unit, and of harmless differences, that a report lists."""


def findings_of(comparison: Comparison, located: Located, calls: UnitCalls, state: State) -> tuple[Finding, ...]:
    """Return the findings of a comparison, the first and then in the console's order; a call is its number in the
    unit."""
    if not located.findings:
        return ()
    places = {event.at: event.place for event in events(comparison.pairs)}
    reach = Reach(calls, state.links, differing_calls(comparison, located))
    found = []
    for finding in [*located.findings[:1], *later_divergences(located)][:MAX_FINDINGS]:
        place = places.get(finding.at)
        to_loss = None if place is None else reach.loss(place)
        found.append(_finding(finding, comparison, located, place, to_loss))
    return tuple(found)


def harmless(comparison: Comparison) -> tuple[Finding, ...]:
    """Return the harmless differences, by pair of records."""
    rows = () if comparison.noise is None else comparison.noise.harmless
    found = []
    for row in islice(rows, MAX_FINDINGS):
        place = int(comparison.pairs.call_of[row])
        name = comparison.pairs.pair(row).record.name
        text = phrase("{reasons}.", reasons=reasons_phrase(comparison.reasons_at(row)))
        found.append(
            Finding(
                kinds.HARMLESS,
                Place(name, step=comparison.target.step, rank=comparison.target.rank, call=place),
                text,
                GRADES[comparison.grades[row]],
            )
        )
    return tuple(found)


def differing_calls(comparison: Comparison, located: Located) -> frozenset[int]:
    """Return the calls with a record that differs: beyond the tolerance, or along the dataflow."""
    rows = np.isin(comparison.grades, _WRONG)
    rows[list(located.roles)] = True
    return frozenset(np.unique(comparison.pairs.call_of[rows]).tolist())


def _finding(
    finding: Divergence, comparison: Comparison, located: Located, place: int | None, to_loss: bool | None
) -> Finding:
    """Return one finding; `place` is its pair of calls."""
    made = finding_of(finding, comparison.target.step, comparison.target.rank)
    evidence = tuple(_evidence(finding, comparison, located, place))
    return replace(made.placed(call=place), evidence=evidence, reaches_loss=to_loss)


def _evidence(finding: Divergence, comparison: Comparison, located: Located, place: int | None) -> Iterator[Words]:
    """Yield the records of the call that differ and why, and earlier calls that could not be judged."""
    if isinstance(finding.evidence, Between):
        yield kind_phrase(finding)
    rows = () if place is None else comparison.pairs.rows(place)
    if isinstance(finding.evidence, OtherCall):
        marked = list(rows)
        yield from _one_sided(comparison, marked[:_SHOWN], finding.evidence.side)
    else:
        marked = [row for row in rows if row in located.roles or comparison.grades[row] in _WRONG]
        yield from _two_sided(comparison, marked[:_SHOWN])
    if len(marked) > _SHOWN:
        yield phrase("and {number} more records of the call", number=len(marked) - _SHOWN)
    if finding.hidden:
        hidden = names_phrase(finding.hidden, _SHOWN)
        yield phrase("these earlier calls could not be judged completely: {names}", names=hidden)


def _two_sided(comparison: Comparison, rows: Iterable[int]) -> Iterator[Words]:
    """Yield why records differ."""
    for row in rows:
        reasons = comparison.reasons_at(row)
        text = reasons_phrase(reasons) or phrase("differs within tolerance")
        if any(reason.why is Why.VALUES for reason in reasons[:1]):  # has the place
            yield phrase("{reasons}.", reasons=text)
        else:
            yield phrase("{place}: {reasons}.", place=path_of(comparison.pairs.pair(row).record), reasons=text)


def _one_sided(comparison: Comparison, rows: Iterable[int], side: str) -> Iterator[Words]:
    """Yield the inputs and outputs of a call that only one side makes."""
    dump, _, rows_of_side = comparison.sides[side]
    for at in (int(rows_of_side[row]) for row in rows):
        if at >= 0:
            held = tensor_of(dump.columns, at)
            shape = "" if held.shape is None else f" {list(held.shape)}"
            norm = held.statistics.get("norm")
            of_norm = phrase(", norm {norm:.5g}", norm=norm) if isinstance(norm, int | float) else ""
            value = held.value or phrase("{dtype}{shape}{norm}", dtype=held.dtype, shape=shape, norm=of_norm)
            yield phrase("{place} of the {side}: {value}", place=place_of(dump.columns, at), side=side, value=value)


_WRONG = GRADES.index("warning"), GRADES.index("error")


class Reach:
    """Whether differences reach the loss along the dataflow: the last forward call that returns a single number."""

    def __init__(self, calls: UnitCalls, links: Sequence[Link], differing: frozenset[int]) -> None:
        self._calls, self._differing = calls, differing
        self._users: dict[int, list[int]] = defaultdict(list)
        for user, _, maker, _ in links:
            self._users[maker].append(user)
        self._inside: dict[int, list[int]] = defaultdict(list)
        for number, parent in enumerate(calls.parents):
            self._inside[parent].append(number)
        self._loss = _loss(calls)

    def loss(self, number: int) -> bool | None:
        """Return whether the loss receives a difference of this call; None if there is no loss, or it differs and no
        path to it was recorded."""
        if self._loss is None or self._calls.parsed[number].direction != "forward":
            return None
        if self._loss not in self._differing:
            return False
        seen, waiting = {number}, [number]
        while waiting:
            at = waiting.pop()
            if at == self._loss:
                return True
            following = [user for user in self._users[at] if user in self._differing]
            new = [each for each in (*following, *self._inside[at]) if each not in seen]
            seen.update(new)
            waiting += new
        return None


def _loss(calls: UnitCalls) -> int | None:
    """Return the last forward call whose only floating-point output has a single element, the innermost of them."""
    side = calls.target
    columns = side.dump.columns
    around = set(calls.parents)
    for number in reversed(range(len(calls))):
        call = int(side.calls[number])
        if call < 0 or calls.parsed[number].direction != "forward" or number in around:
            continue
        rows = list(columns.tensors(call, OUTPUT))
        if len(rows) == 1 and columns.shape(rows[0]) in ((), (1,)) and family(columns.dtype(rows[0])) == "float":
            return number
    return None
