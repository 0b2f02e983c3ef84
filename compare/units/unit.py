"""One unit of a report, created where its dumps are: packed chunks, and its data in the head."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from msprobe.compare.core.exchanges import word_of
from msprobe.compare.judge.judged import Comparison
from msprobe.compare.locate.find import Located
from msprobe.compare.ranks.collectives import RankSummary, exchanges_of
from msprobe.findings.finding import Finding
from msprobe.report.document import Side
from msprobe.report.embed import encoded
from msprobe.store.record import Dump

from .calls import UnitCalls
from .details import Budgeted, OfComparison, OfDump, by_importance, details
from .findings import findings_of, harmless
from .layout import layout_of
from .state import state_of, state_of_dump


@dataclass(frozen=True, slots=True)
class PackedUnit:
    """A unit that can be sent between processes.

    `exchanges` are the calls of the exchanges of a `RankSummary`, by number. Findings have their call, and not yet
    their unit. `calls` and `detailed` count calls.
    """

    layout: bytes
    state: bytes
    details: Budgeted
    calls: int
    findings: tuple[Finding, ...] = ()
    harmless: tuple[Finding, ...] = ()
    exchanges: tuple[int, ...] = ()
    target: Side = field(default_factory=lambda: Side(""))
    golden: Side | None = None

    @property
    def first(self) -> int | None:
        """Return the call of the unit's own first divergence."""
        return self.findings[0].place.call if self.findings else None


def unit_of(
    comparison: Comparison, located: Located, summary: RankSummary | None, family: str, most: int
) -> PackedUnit:
    """Return a comparison as a unit with details of at most this size; `family` is the type of the dumps."""
    calls = UnitCalls.of_pairs(comparison.pairs, family)
    state = state_of(comparison, calls)
    found = findings_of(comparison, located, calls, state)
    named = [one.place.call for one in found if one.place.call is not None]
    order = by_importance(state.verdicts, calls, state.links, named)
    made = details(order, OfComparison(comparison, located, calls), most)
    return PackedUnit(
        encoded(layout_of(calls)),
        encoded(state),
        made,
        len(calls),
        found,
        harmless(comparison),
        _exchanges(summary, calls),
        side_of(comparison.target),
        side_of(comparison.golden),
    )


def unit_of_dump(dump: Dump, family: str, most: int, named: Sequence[str] = ()) -> PackedUnit:
    """Return a single dump as a unit; `named` are calls whose details come first."""
    calls = UnitCalls.of_dump(dump, family)
    state = state_of_dump(calls)
    first = [dump.place[name] for name in named if name in dump.place]
    first += [at for at, letter in enumerate(state.overflow) if letter != "."]
    made = details(by_importance(state.verdicts, calls, state.links, first), OfDump(calls), most)
    communicating = tuple(
        at
        for at, name in enumerate(dump.columns.names)
        if (word := word_of(name))
        for _ in exchanges_of(dump.calls[at], word)
    )
    return PackedUnit(
        encoded(layout_of(calls)), encoded(state), made, len(calls), exchanges=communicating, target=side_of(dump)
    )


def _exchanges(summary: RankSummary | None, calls: UnitCalls) -> tuple[int, ...]:
    """Return the numbers of the calls of all exchanges, in the order of the summary; -1 if a call is not displayed."""
    if summary is None:
        return ()
    side = calls.target
    places = (side.dump.place.get(exchange.name, -1) for exchange in summary.exchanges)
    return tuple(int(side.number[at]) if at >= 0 else -1 for at in places)


def side_of(dump: Dump) -> Side:
    """Return the path of a dump, and its framework and versions."""
    return Side(dump.where, dump.framework, dump.level, dump.task, dict(dump.made_with))
