"""Pairs of calls and of records: as columns, and on demand as values.

Which call and which record of the target stands where which of the golden: as columns, and on demand as values.

A comparison of a million records would drown in objects, so a pair is two row numbers; `Pair` and `CallPair` are made
where somebody looks at them.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.core.reason import Reason, Why
from msprobe.store.record import TENSOR, Call, Dump, Record

from .calls import MatchedBy

Told = tuple[int, tuple[object, ...], object]
"""The number of a record, its place, and its value."""


def listed_alone(left: Iterable[Told], right: Iterable[Told], alone: "dict[int, Alone]") -> None:
    """Enter those values that stand alone because the other side says them as one value, or as a list."""
    ours, theirs = list(left), list(right)
    for single, listed in ((ours, theirs), (theirs, ours)):
        elements: dict[tuple[object, ...], list[tuple[int, object]]] = {}
        for number, place, value in listed:
            elements.setdefault(place[:-1], []).append((number, value))
        for number, place, value in single:
            if not (inner := elements.get(place)):
                continue
            is_wrong = not all(equal_values(value, v) for _, v in inner)
            why = Why.ONE_VALUE if is_wrong else Why.ONE_VALUE_EQUAL
            reason = Reason(why, target=value, golden=[v for _, v in inner])
            for n in (number, *(n for n, _ in inner)):
                alone[n] = Alone(reason, is_wrong)


def equal_values(a: object, b: object) -> bool:
    """Whether two values mean the same: 1 and 1.0, a tuple and a list."""
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(equal_values(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b) or (a != a and b != b)


Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Pair:
    """A target record with its golden record; either may be missing, never both."""

    target: Record | None
    golden: Record | None

    @property
    def record(self) -> Record:
        """The target's record, or the golden's where the target has none."""
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
        """The target's call, or the golden's where the target has none."""
        call = self.target or self.golden
        assert call is not None
        return call

    @property
    def name(self) -> str:
        """The name that a user knows: the target's, or the golden's where the target has no such call."""
        return self.call.name


@dataclass(frozen=True, slots=True)
class View:
    """How two records of different layout are brought to one: transforms in the words of `msprobe.mapping.transform`.

    An empty text leaves the tensor as it is. `is_part`: one record is a part of the other, with which it was fused.
    """

    target: str = ""
    golden: str = ""
    is_part: bool = False


@dataclass(frozen=True, slots=True)
class Alone:
    """Why a record within a pair of calls has no partner although everything was collected; `is_wrong` where it says
    that the two sides were given different things."""

    because: Reason
    is_wrong: bool = False


@dataclass(frozen=True, slots=True)
class Guess:
    """How sure an automatic pair of calls is, at most 1, and why it was made; 0 where a call has candidates only."""

    confidence: float
    because: Reason


@dataclass(frozen=True, slots=True)
class Notes:
    """What only two dumps of different frameworks, or a mapping of the user, need to say of their pairs.

    By row: `views` of records of another layout, `alone` of those that rightly have no partner, and in `meant` values
    of MindSpore in PyTorch's words, where those differ. By place: `guesses` of pairs that were found by themselves, and
    `without` of calls that have no counterpart in the other framework. `is_crossed`: some pairs are of records whose
    calls are no pair.
    """

    views: Mapping[int, View] = field(default_factory=dict)
    alone: Mapping[int, Alone] = field(default_factory=dict)
    meant: Mapping[int, object] = field(default_factory=dict)
    guesses: Mapping[int, Guess] = field(default_factory=dict)
    without: Mapping[int, Reason] = field(default_factory=dict)
    is_crossed: bool = False


NO_NOTES = Notes()


@dataclass(frozen=True, eq=False)
class Pairs(Sequence[CallPair]):
    """Every call of both dumps once, and every record of both once, in the target's execution order.

    Only where parameters are fused on one side a call, or a record, stands in several pairs.

    | column | one entry per | holds |
    |---|---|---|
    | `target_calls`, `golden_calls` | pair of calls | the call's place in its dump, -1 where a side has none |
    | `by` | pair of calls | what made it a pair; empty where a side has none |
    | `starts` | pair of calls, and one | its records' pairs are `starts[n]` to `starts[n + 1]` |
    | `target_rows`, `golden_rows` | pair of records | the record's row in `Dump.columns`, -1 where a side has none |
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
        target, target_records = _side(self.target, int(self.target_calls[at]))
        golden, golden_records = _side(self.golden, int(self.golden_calls[at]))
        rows = slice(self.starts[at], self.starts[at + 1])
        pairs = tuple(
            Pair(_found(self.target, target_records, t), _found(self.golden, golden_records, g))
            for t, g in zip(self.target_rows[rows].tolist(), self.golden_rows[rows].tolist(), strict=True)
        )
        return CallPair(target, golden, self.by[at], pairs)

    def __iter__(self) -> Iterator[CallPair]:
        return (self[at] for at in range(len(self)))

    @cached_property
    def call_of(self) -> Ints:
        """The pair of calls that each pair of records belongs to."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def target_record(self, row: int) -> Record | None:
        """The target's record of a pair."""
        at = int(self.target_rows[row])
        return None if at < 0 else self.target.columns.record(at, call_of_row(self.target, at))

    def golden_record(self, row: int) -> Record | None:
        """The golden's record of a pair."""
        at = int(self.golden_rows[row])
        return None if at < 0 else self.golden.columns.record(at, call_of_row(self.golden, at))

    def pair(self, row: int) -> Pair:
        """One pair of records."""
        return Pair(self.target_record(row), self.golden_record(row))

    def are_tensors(self, row: int) -> bool:
        """Whether a pair has two records and both are tensors."""
        t, g = self.target_rows[row], self.golden_rows[row]
        return bool(t >= 0 and g >= 0 and self.target.columns.kind[t] == self.golden.columns.kind[g] == TENSOR)

    def name(self, at: int) -> str:
        """The name of a pair of calls, as `CallPair.name`, without making it."""
        call = int(self.target_calls[at])
        return self.target.columns.names[call] if call >= 0 else self.golden.columns.names[int(self.golden_calls[at])]


def call_of_row(dump: Dump, row: int) -> int:
    """The call that a row of `Dump.columns` belongs to; a user may pair records of calls that are no pair."""
    return bisect_right(dump.columns.starts, row) - 1


def _found(dump: Dump, records: Mapping[int, Record], row: int) -> Record | None:
    if row < 0:
        return None
    return records[row] if row in records else dump.columns.record(row, call_of_row(dump, row))


def _side(dump: Dump, call: int) -> tuple[Call | None, dict[int, Record]]:
    """A call, and its records by row."""
    if call < 0:
        return None, {}
    made = dump.calls[call]
    return made, dict(enumerate(made.records, dump.columns.starts[call]))
