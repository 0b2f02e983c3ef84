"""Pairs of calls and of records: the counterparts of the target in the golden.

A comparison may have a million records, so a pair is two row numbers; `Pair` and `CallPair` are created on access.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.core.reason import Reason
from msprobe.compare.core.relation import Relation, relation_of
from msprobe.store.record import TENSOR, Call, Dump, Record

Ints = NDArray[np.int64]


MatchedBy = Literal["name", "renumbered", "structure", "mapping", "fuzzy", ""]


def equal_values(a: object, b: object) -> bool:
    """Return whether two values mean the same: 1 and 1.0, a tuple and a list."""
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(equal_values(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b) or (a != a and b != b)


@dataclass(frozen=True, slots=True)
class Pair:
    """A target record with its golden record; one of them may be missing."""

    target: Record | None
    golden: Record | None

    @property
    def record(self) -> Record:
        """Return the target's record, or the golden's if the target has none."""
        record = self.target or self.golden
        assert record is not None
        return record


@dataclass(frozen=True, slots=True)
class CallPair:
    """A target call with its golden call, and the pairs of their records in row order."""

    target: Call | None
    golden: Call | None
    matched_by: MatchedBy
    pairs: tuple[Pair, ...]

    @property
    def call(self) -> Call:
        """Return the target's call, or the golden's if the target has none."""
        call = self.target or self.golden
        assert call is not None
        return call

    @property
    def name(self) -> str:
        """Return the name shown to the user: the target's, or the golden's if the target has no such call."""
        return self.call.name


@dataclass(frozen=True, slots=True)
class View:
    """How two records of different layout are converted to one: transforms in the notation of
    `msprobe.mapping.transform`.

    An empty text keeps the tensor as it is. `is_part`: one record is a part of the other, with which it was fused.
    """

    target: str = ""
    golden: str = ""
    is_part: bool = False


@dataclass(frozen=True, slots=True)
class Partnerless:
    """Why a record in a pair of calls has no counterpart although everything was collected; `is_wrong` if the two sides
    were passed different values."""

    because: Reason
    is_wrong: bool = False


@dataclass(frozen=True, slots=True)
class Guess:
    """The confidence of an automatic pair of calls, at most 1, and the reason for it; 0 if a call has only
    candidates."""

    confidence: float
    because: Reason


class Match(NamedTuple):
    """Target call `target` and golden call `golden`, as positions in their dumps (-1 for none), and how they were
    matched.

    `name`: equal names. `renumbered`: equal except for the number. `structure`: another name at the same place of the
    program. `fuzzy`: only by neighbors and operation. `mapping`: by the user's mapping.
    """

    target: int
    golden: int
    by: MatchedBy
    guess: Guess | None = None


def in_order(matches: Iterable[Match], targets: int, goldens: int) -> list[Match]:
    """Return matches of all calls in the target's order; golden-only calls come before the calls that follow them in
    their dump."""
    of_target: defaultdict[int, list[Match]] = defaultdict(list)
    first: dict[int, int] = {}
    for match in matches:
        of_target[match.target].append(match)
        first[match.golden] = min(match.target, first.get(match.golden, match.target))
    before: defaultdict[int, list[int]] = defaultdict(list)
    place = targets
    for j in range(goldens - 1, -1, -1):
        place = first.get(j, place)
        if j not in first:
            before[place].append(j)
    ordered: list[Match] = []
    for i in range(targets + 1):
        ordered += (Match(-1, j, "") for j in reversed(before.get(i, ())))
        if i < targets:
            ordered += of_target.get(i) or [Match(i, -1, "")]
    return ordered


@dataclass(frozen=True, slots=True)
class Notes:
    """Further data of pairs, for two frameworks or a mapping of the user.

    By row: `views` of records of another layout, `partnerless` for those that correctly have no counterpart, and in
    `translated` values of one side in the terms of the other framework, if those differ; the side is the target if
    `translates_target`. By place: `guesses` for automatic pairs, and
    `without` for calls that have no counterpart in the other framework. `is_crossed`: some pairs are of records whose
    calls are not a pair.
    """

    views: Mapping[int, View] = field(default_factory=dict)
    partnerless: Mapping[int, Partnerless] = field(default_factory=dict)
    translated: Mapping[int, object] = field(default_factory=dict)
    guesses: Mapping[int, Guess] = field(default_factory=dict)
    without: Mapping[int, Reason] = field(default_factory=dict)
    is_crossed: bool = False
    translates_target: bool = True


@dataclass(frozen=True, eq=False)
class Pairs(Sequence[CallPair]):
    """Every call of both dumps once, and every record of both once, in the target's execution order.

    Only if parameters are fused on one side, a call or a record is in several pairs.

    | column | one entry per | content |
    |---|---|---|
    | `target_calls`, `golden_calls` | pair of calls | the call's place in its dump, -1 if a side has none |
    | `by` | pair of calls | how it was matched; empty if a side has none |
    | `starts` | pair of calls, and one | its records' pairs are `starts[n]` to `starts[n + 1]` |
    | `target_rows`, `golden_rows` | pair of records | the record's row in `Dump.columns`, -1 if a side has none |
    """

    target: Dump
    golden: Dump
    target_calls: Ints
    golden_calls: Ints
    by: Sequence[MatchedBy]
    starts: Ints
    target_rows: Ints
    golden_rows: Ints
    notes: Notes = field(default_factory=Notes)

    def __len__(self) -> int:
        return len(self.target_calls)

    @overload
    def __getitem__(self, at: int) -> CallPair: ...
    @overload
    def __getitem__(self, at: slice) -> list[CallPair]: ...
    def __getitem__(self, at: int | slice) -> CallPair | list[CallPair]:
        if isinstance(at, slice):
            return [self[n] for n in range(*at.indices(len(self)))]
        if not -len(self) <= at < len(self):
            raise IndexError(at)
        at %= len(self)
        rows = slice(self.starts[at], self.starts[at + 1])
        target, ours = _side(self.target, int(self.target_calls[at]), self.target_rows[rows])
        golden, theirs = _side(self.golden, int(self.golden_calls[at]), self.golden_rows[rows])
        return CallPair(target, golden, self.by[at], tuple(map(Pair, ours, theirs)))

    def __iter__(self) -> Iterator[CallPair]:
        return (self[at] for at in range(len(self)))

    @cached_property
    def relation(self) -> Relation:
        """The relation between the frameworks of the two sides."""
        return relation_of(self.target, self.golden)

    @cached_property
    def call_of(self) -> Ints:
        """Return the pair of calls that each pair of records belongs to."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def rows(self, at: int) -> range:
        """Return the pairs of records of a pair of calls."""
        return range(self._bounds[at], self._bounds[at + 1])

    @cached_property
    def _bounds(self) -> "memoryview[int]":
        """Return `starts` as a memoryview, whose elements are read faster."""
        return self.starts.data

    def pair(self, row: int) -> Pair:
        """Return one pair of records."""
        return Pair(_record(self.target, int(self.target_rows[row])), _record(self.golden, int(self.golden_rows[row])))

    def are_tensors(self, row: int) -> bool:
        """Return whether a pair has two records and both are tensors."""
        t, g = self.target_rows.item(row), self.golden_rows.item(row)
        return t >= 0 and g >= 0 and self.target.columns.kind[t] == self.golden.columns.kind[g] == TENSOR

    def name(self, at: int) -> str:
        """Return the name of a pair of calls, as `CallPair.name` does, without creating it."""
        call = self.target_calls.item(at)
        return self.target.columns.names[call] if call >= 0 else self.golden.columns.names[self.golden_calls.item(at)]


Rows = Sequence[int]
JoinRecords = Callable[[Match, int], tuple[Rows, Rows]]
"""Function that returns the rows of target and golden of a pair of calls, -1 for none; its second argument is the
number of earlier pairs of records."""


def pairs_of(target: Dump, golden: Dump, matches: Sequence[Match], join: JoinRecords) -> Pairs:
    """Return the pairs of records of all calls."""
    target_rows: list[int] = []
    golden_rows: list[int] = []
    starts = [0]
    for match in matches:
        i, j = match.target, match.golden
        ours = target.columns.rows(i) if i >= 0 else range(0)
        theirs = golden.columns.rows(j) if j >= 0 else range(0)
        if i >= 0 <= j:
            mine, other = join(match, len(target_rows))
        else:
            mine, other = ours or [-1] * len(theirs), theirs or [-1] * len(ours)
        target_rows += mine
        golden_rows += other
        starts.append(len(target_rows))
    return Pairs(
        target,
        golden,
        np.array([match.target for match in matches], np.int64),
        np.array([match.golden for match in matches], np.int64),
        [match.by for match in matches],
        np.array(starts, np.int64),
        np.array(target_rows, np.int64),
        np.array(golden_rows, np.int64),
    )


def _record(dump: Dump, row: int) -> Record | None:
    return None if row < 0 else dump.columns.record(row, dump.columns.call_of(row))


def _side(dump: Dump, at: int, rows: Ints) -> tuple[Call | None, list[Record | None]]:
    """Return a call, and the records of some rows, which may belong to other calls."""
    call = dump.calls[at] if at >= 0 else None
    own = {} if call is None else dict(enumerate(call.records, dump.columns.starts[at]))
    return call, [own.get(row) or _record(dump, row) for row in rows.tolist()]
