"""Combine units: their chunks by number, exchanges between ranks, and findings with their unit."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from msprobe.base.phrase import Words, joined, names_phrase, phrase
from msprobe.compare.ranks.collectives import RankSummary, connect
from msprobe.findings.finding import Finding
from msprobe.report.document import Meeting, Unit
from msprobe.report.embed import encoded, unpacked
from msprobe.report.file import Chunks

from .unit import PackedUnit

_MAX_BYTES = 27_000_000
"""Maximum size of all units in one report: beyond it, units without a finding lose data, the last first: details, then
links."""

_MAX_BYTES_OF_STATES = 21_000_000
"""Part of it for states, so that some details fit."""

_MAX_EXCHANGES = 150_000
"""Maximum number of calls in exchanges: they are in the head, which is read before anything is displayed."""


class Assembly:
    """The units of a report while it is written."""

    def __init__(self) -> None:
        self.chunks = Chunks()
        self.units: list[Unit] = []
        self.packed: list[PackedUnit] = []
        self.notes: list[Words] = []
        self.meetings: tuple[Meeting, ...] = ()

    def add(self, packed: PackedUnit, unit: Unit) -> int:
        """Return the number of a unit, whose chunks are added by `finish`; `unit` is its other data in the head."""
        self.units.append(unit)
        self.packed.append(packed)
        return len(self.units) - 1

    def finish(self) -> None:
        """Number the chunks of all units: those that are read first come first."""
        states = self._states()
        kept = self._kept(_MAX_BYTES - sum(map(len, states)))
        for at, (packed, unit) in enumerate(zip(self.packed, self.units, strict=True)):
            made = packed.details.chunks if at in kept else ()
            self.units[at] = replace(
                unit,
                layout=self.chunks.put(packed.layout),
                state=self.chunks.put(states[at]),
                details=tuple((chunk.first, self.chunks.put(chunk.packed)) for chunk in made),
                first=packed.first,
            )
        if self.detailed(kept) < self.calls:
            self.notes.append(
                phrase(
                    "this page has details of {number} of {total} calls: first calls that differ, then calls "
                    "around them, then others; the tables have all records",
                    number=self.detailed(kept),
                    total=self.calls,
                )
            )
        self._detailed = self.detailed(kept)

    @property
    def calls(self) -> int:
        """Return the number of calls of all units."""
        return sum(packed.calls for packed in self.packed)

    @property
    def in_detail(self) -> int:
        """Return the number of calls with records."""
        return self._detailed

    def detailed(self, kept: Iterable[int]) -> int:
        """Return the number of calls of some units with records."""
        return sum(self.packed[at].details.calls for at in kept)

    @property
    def _by_importance(self) -> list[int]:
        """Return the units, those with a finding first."""
        return sorted(range(len(self.packed)), key=lambda at: (not self.packed[at].findings, at))

    def _states(self) -> list[bytes]:
        """Return the states of all units; links are left out of as few units as necessary."""
        states = [packed.state for packed in self.packed]
        size, without = sum(map(len, states)), 0
        for at in reversed(self._by_importance):
            if size <= _MAX_BYTES_OF_STATES:
                break
            size -= len(states[at])
            states[at] = encoded({key: value for key, value in unpacked(states[at]).items() if key != "links"})
            size += len(states[at])
            without += 1
        if without:
            self.notes.append(
                phrase(
                    "to limit its size, this page has no dataflow for {number} of {total} steps and ranks; "
                    "select fewer with --ranks and --steps to see it",
                    number=without,
                    total=len(states),
                )
            )
        return states

    def _kept(self, most: int) -> set[int]:
        """Return the units whose details fit into this size; the most important one always has its details."""
        kept: set[int] = set()
        size = 0
        for at in self._by_importance:
            more = sum(len(chunk.packed) for chunk in self.packed[at].details.chunks)
            if not kept or size + more <= most:
                kept.add(at)
                size += more
        return kept

    def placed(self, found: Iterable[Finding], unit: int) -> tuple[Finding, ...]:
        """Return the findings of a unit, with its number, and its step and rank if the dump does not contain them."""
        held = self.units[unit]
        return tuple(
            one.placed(
                unit=unit,
                step=held.step if one.place.step is None else one.place.step,
                rank=held.rank if one.place.rank is None else one.place.rank,
            )
            for one in found
        )

    def meet(self, units: Mapping[int, int], summaries: Mapping[int, RankSummary]) -> None:
        """Add the exchanges of the ranks of one step; `units` are the units by rank."""
        shown = {rank: summary for rank, summary in summaries.items() if rank in units}
        if len(shown) < 2:
            return
        found: dict[tuple[tuple[int, int], ...], None] = {}
        for receiver, members in connect(shown).partners.items():
            if len(members) == 1 and members[0] != receiver:
                members = (members[0], receiver)  # a message: sender, receiver
            found[tuple(members)] = None
        made = [meeting for members in found if (meeting := self._meeting(members, units, shown)) is not None]
        made.sort(key=lambda meeting: min(call for _, call in meeting.calls))
        size = sum(len(meeting.calls) for meeting in self.meetings)
        for at, meeting in enumerate(made):
            size += len(meeting.calls)
            if size > _MAX_EXCHANGES:
                left_out = len(made) - at
                self.notes.append(
                    phrase("{number} later communications between ranks are not shown on this page", number=left_out)
                )
                made = made[:at]
                break
        self.meetings += tuple(made)

    def _meeting(
        self, members: Sequence[tuple[int, int]], units: Mapping[int, int], summaries: Mapping[int, RankSummary]
    ) -> Meeting | None:
        """Return one exchange of several ranks; None if fewer than two of its calls are displayed."""
        calls = [(units[rank], self.packed[units[rank]].exchanges[place]) for rank, place in members]
        shown = tuple(dict.fromkeys(call for call in calls if call[1] >= 0))
        rank, place = members[0]
        exchange = summaries[rank].exchanges[place]
        role = "message" if exchange.traffic in ("send", "receive") else exchange.traffic
        return Meeting(exchange.word, shown, role) if len(shown) > 1 else None

    def merged(self) -> Words:
        """Return why the ranks of a step are displayed individually, if they make different calls; otherwise an empty
        text."""
        by_step: dict[tuple[str, int | None], dict[bytes, list[int]]] = {}
        for packed, unit in zip(self.packed, self.units, strict=True):
            if unit.rank is not None:
                by_step.setdefault((unit.stage, unit.step), {}).setdefault(packed.layout, []).append(unit.rank)
        several = max(by_step.values(), key=len, default={})
        if len(several) < 2:
            return ""
        groups = joined([names_phrase(ranks, 8) for ranks in several.values()], "{before}; {after}")
        return phrase(
            "the ranks have {number} different lists of calls{which}, as with pipeline or tensor parallelism; "
            "each is shown as recorded; to merge the ranks of a model first, give --rank-size, --tp and --pp",
            number=len(several),
            which=phrase(" (ranks {ranks})", ranks=groups) if len(several) <= 8 else "",
        )


def label_of(label: str, step: int | None, rank: int | None) -> str:
    """Return `step 0, rank 1`, if there is no other label."""
    words = ("" if step is None else f"step {step}", "" if rank is None else f"rank {rank}")
    return label or ", ".join(filter(None, words)) or "the dump"
