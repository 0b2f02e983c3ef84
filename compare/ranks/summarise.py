"""The story of one rank, out of its comparison."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from msprobe.base import names
from msprobe.compare.judge.judged import Comparison, calls_with
from msprobe.compare.judge.op_family import UNINITIALISED
from msprobe.compare.judge.verdict import GRADES
from msprobe.compare.locate.events import Event, events
from msprobe.compare.locate.find import Located

from .communication import exchanges_of, is_buffer, word_of
from .node import node_of
from .story import Exchange, RankStory

_IGNORED = (*UNINITIALISED, "fill", "fill_", "__setitem__")
"""Calls that are never named: what they give was in memory before, or is written into it."""


def summarise(comparison: Comparison, located: Located) -> RankStory:
    """What the search over ranks must know of one rank.

    A call differs where one of its results is in error, or where a difference begins (`locate`). What an exchange was
    given or gave differs where it is in error, or begins or hands on a difference.
    """
    flags = _Flags(comparison, located)
    if not flags.any:
        return _clean(comparison)
    exchanges: list[Exchange] = []
    between = [""]
    told: list[Event] = []  # what the search may name: all up to where it ends on this rank
    is_sure = False
    for event in events(comparison):
        word = word_of(event.called) if comparison.pairs.target_calls[event.place] >= 0 else ""
        if word:
            made = tuple(flags.marked(event, word))
            exchanges += made
            between += [""] * len(made)
            differs = any(exchange.given_differs or exchange.result_differs for exchange in made)
            sure = any(map(_ends_the_search, made))
        else:
            differs = sure = not between[-1] and flags.differs(event)
            if differs:
                between[-1] = event.called
        if differs and not is_sure:
            told.append(event)
            is_sure = sure
    return RankStory(tuple(exchanges), tuple(between), tuple(node_of(event) for event in told))


def _clean(comparison: Comparison) -> RankStory:
    """The story of a rank on which nothing differs; other ranks' stories are held against it."""
    dump = comparison.target
    communicating = ((at, word) for at, name in enumerate(dump.columns.names) if (word := word_of(name)))
    exchanges = tuple(exchange for at, word in communicating for exchange in exchanges_of(dump.calls[at], word))
    return RankStory(exchanges, ("",) * (len(exchanges) + 1))


def _ends_the_search(exchange: Exchange) -> bool:
    """Whether nothing behind an exchange will be named on this rank, whichever rank it is."""
    is_given = exchange.given_differs and exchange.traffic in ("all", "send", "to_one")
    return is_given or (exchange.result_differs and exchange.traffic in ("all", "receive", "from_one"))


class _Flags:
    """Which calls of a comparison differ."""

    def __init__(self, comparison: Comparison, located: Located) -> None:
        self._comparison = comparison
        in_error = comparison.grades == GRADES.index("error")
        marked, begins = np.zeros_like(in_error), np.zeros_like(in_error)
        marked[list(located.roles)] = True
        begins[[row for row, role in located.roles.items() if role == "begins"]] = True
        given = comparison.is_given
        self._given_rows: NDArray[np.bool_] = given & (in_error | marked)
        self._given = calls_with(comparison, self._given_rows) > 0
        self._result = calls_with(comparison, ~given & (in_error | marked)) > 0
        self._own = calls_with(comparison, (~given & in_error) | begins) > 0
        self._found = {finding.name for finding in located.findings}
        self.any = bool(self._found or in_error.any() or located.roles)
        """Whether anything differs at all."""

    def differs(self, event: Event) -> bool:
        """Whether a call that does not communicate differs."""
        if not (self._own[event.place] or event.name in self._found):
            return False
        return names.parse(event.called).stem.rsplit(".", 1)[-1] not in _IGNORED

    def marked(self, event: Event, word: str) -> Iterator[Exchange]:
        """The exchanges of a call, with what of it differs."""
        call = event.call.calls.target
        assert call is not None  # asked for those of the target only
        given = bool(self._given[event.place]) and any(
            not is_buffer(word, path, call.records) for path in self._paths(event)
        )
        for exchange in exchanges_of(call, word):
            yield replace(exchange, given_differs=given, result_differs=bool(self._result[event.place]))

    def _paths(self, event: Event) -> Iterator[Sequence[str]]:
        """Where in the call the givens stand that differ."""
        for row in event.rows:
            if self._given_rows[row]:
                yield self._comparison.pairs.pair(row).record.path
