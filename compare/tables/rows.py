"""Convert judged pairs to rows: tuples of cells in the order of the columns. Measures and judges nothing.

The cells under msprobe 8.1's headings have the values that 8.1 would print, including its two verdict columns, without
its errors (reference/differences.md). The verdict of this tool comes after them. Rows are created in stretches, so that
their number does not affect memory.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from msprobe.base.digest import have_same_kind
from msprobe.compare.judge.judged import DIFFERENT, EQUAL, UNKNOWN, Comparison
from msprobe.compare.judge.verdict import GRADES
from msprobe.compare.judge.wording import sentence
from msprobe.compare.locate.find import Located
from msprobe.compare.match.pairs import Ints

from .cells import (
    NOT_APPLICABLE,
    Cell,
    Side,
    guard,
    guarded,
    number,
    our_measures,
    statistics_of_rows,
    tensor_cells,
)
from .columns import optional_names

Row = tuple[Cell, ...]

_STRETCH = 4096

_RESULTS = {EQUAL: "pass", DIFFERENT: "Different", UNKNOWN: NOT_APPLICABLE}


def stretches(comparison: Comparison, located: Located, with_stack: bool) -> Iterator[list[Sequence[Cell]]]:
    """Yield the columns of some thousands of pairs at a time, in execution order."""
    made, stop = _Rows(comparison, located, with_stack), len(comparison.grades)
    return (made.stretch(at, min(at + _STRETCH, stop)) for at in range(0, stop, _STRETCH))


def rows(comparison: Comparison, located: Located, with_stack: bool) -> Iterator[Row]:
    """Yield one row per pair, in execution order."""
    for columns in stretches(comparison, located, with_stack):
        yield from zip(*columns, strict=True)


def rows_of(comparison: Comparison, located: Located, parts: Iterable[range]) -> Iterator[Row]:
    """Yield the rows of some stretches of pairs, without the column of call stacks."""
    made = _Rows(comparison, located, False)
    for start, stop in _joined(parts):
        yield from zip(*made.stretch(start, stop), strict=True)


def _joined(parts: Iterable[range]) -> Iterator[tuple[int, int]]:
    """Yield the stretches; consecutive ones are joined."""
    start = stop = -1
    for part in parts:
        if part.start != stop:
            if start < stop:
                yield start, stop
            start = part.start
        stop = part.stop
    if start < stop:
        yield start, stop


class _Rows:
    """Creates the rows of one comparison, some thousands at a time."""

    def __init__(self, comparison: Comparison, located: Located, with_stack: bool) -> None:
        self._comparison, self._pairs = comparison, comparison.pairs
        self._roles, self._with_stack = located.roles, with_stack
        self._stack_texts: dict[tuple[str, ...], str] = {}
        self._target, self._golden = Side(comparison.target.columns), Side(comparison.golden.columns)
        self._optional = optional_names(comparison)

    def stretch(self, start: int, stop: int) -> list[Sequence[Cell]]:
        """Return the columns of the rows from `start` to `stop`."""
        t, g = self._pairs.target_rows[start:stop], self._pairs.golden_rows[start:stop]
        places = self._pairs.call_of[start:stop]
        ours, theirs = t.tolist(), g.tolist()
        our_names = self._target.names(t, self._pairs.target_calls[places])
        their_names = self._golden.names(g, self._golden_calls(g, places))
        columns: list[Sequence[Cell]] = [our_names, their_names]
        columns += [self._target.dtypes(t), self._golden.dtypes(g)]
        columns += [self._target.shapes(t), self._golden.shapes(g)]
        mode = self._comparison.mode
        if mode == "digest":
            columns += zip(*self._digests(start, ours, theirs), strict=True)
        elif mode == "statistics":
            columns += statistics_of_rows(self._target, self._golden, t, g)
        else:
            found = self._comparison.measures
            measured = [tensor_cells(self._pairs.pair(row), found.get(row)) for row in range(start, stop)]
            *measures, accuracy, message = zip(*measured, strict=True)
            columns += [*measures, *zip(*self._statistics_of_both(start, t, g), strict=True), accuracy, message]
        if self._with_stack:
            columns.append(self._stacks(start, places))
        if mode == "tensor":
            columns.append(self._files(ours, theirs))
            columns += zip(*(self._ours(row, t) for row, t in enumerate(ours, start)), strict=True)
        grades = self._comparison.grades[start:stop].tolist()
        columns.append([GRADES[grade] for grade in grades])
        columns.append(guarded(self._comparison.reasons_of(start, stop)))
        columns.append([self._roles.get(row, "") for row in range(start, stop)])
        columns.append([self._pairs.by[place] for place in places.tolist()])
        if self._comparison.noise_of_tensors is not None:
            columns += zip(*map(self._noise, range(start, stop)), strict=True)
        if guesses := self._pairs.notes.guesses:
            made = [guesses.get(place) for place in places.tolist()]
            columns.append([round(guess.confidence, 3) if guess and guess.confidence else "" for guess in made])
            columns.append(["" if guess is None else guard(sentence(guess.because)) for guess in made])
        for name in self._optional:
            columns += [self._target.optional(name, ours), self._golden.optional(name, theirs)]
        return columns

    def _golden_calls(self, rows: Ints, places: Ints) -> Ints:
        """Return the golden's call of each row; the user may pair records of calls that are not a pair."""
        if not self._pairs.notes.is_crossed:
            return self._pairs.golden_calls[places]
        starts = np.frombuffer(self._comparison.golden.columns.starts, np.int64)
        return np.searchsorted(starts, rows, side="right") - 1

    def _statistics_of_both(self, start: int, t: Ints, g: Ints) -> Iterator[Iterator[Cell]]:
        """Yield the statistics of both sides: from the dumps, or measured if these do not contain them."""
        described = self._comparison.described
        sides = self._target.numerals(t), self._golden.numerals(g)
        for row, (ours, theirs) in enumerate(zip(*sides, strict=True), start):
            if row in described:
                ours, theirs = (s.numbers for s in described[row])
            yield map(number, chain(ours, theirs))

    def _ours(self, row: int, target: int) -> tuple[Cell, ...]:
        columns = self._comparison.target.columns
        shape = columns.looks[columns.look[target]][2] if target >= 0 else None
        return our_measures(self._comparison.measures.get(row), shape or ())

    def _noise(self, row: int) -> tuple[Cell, ...]:
        """Return the evidence that decided an output; empty if it was not judged by itself."""
        noise = self._comparison.noise
        found = noise.evidence.get(row) if noise is not None else None
        if found is None:
            return "", "", "", ""
        residual, bound = ("" if value != value else number(value) for value in (found.residual, found.bound))
        return residual, bound, found.is_of.value, found.source.value

    def _digests(self, start: int, ours: Sequence[int], theirs: Sequence[int]) -> Iterator[tuple[str, str, str]]:
        pairs = zip(self._target.digests(ours), self._golden.digests(theirs), strict=True)
        for row, (a, b) in enumerate(pairs, start):
            if self._pairs.target_rows[row] < 0 or self._pairs.golden_rows[row] < 0:
                yield a, b, NOT_APPLICABLE
            elif NOT_APPLICABLE in (a, b) or not have_same_kind(a, b):  # the verdict was not based on digests
                yield a, b, _RESULTS[int(self._comparison.equal[row])]
            else:
                yield a, b, _RESULTS[EQUAL if a == b else DIFFERENT]

    def _files(self, ours: Sequence[int], theirs: Sequence[int]) -> list[str]:
        left, right = self._comparison.target.columns.file, self._comparison.golden.columns.file
        return [
            guard(str([(left[t] if t >= 0 else "") or "-1", (right[g] if g >= 0 else "") or "-1"]))
            for t, g in zip(ours, theirs, strict=True)
        ]

    def _stacks(self, start: int, places: Ints) -> list[str]:
        """Return the stack of a call on its first row."""
        found = [NOT_APPLICABLE] * len(places)
        first = np.flatnonzero(self._pairs.starts[places] == np.arange(start, start + len(places)))
        for at, call in zip(first.tolist(), self._pairs.target_calls[places[first]].tolist(), strict=True):
            if frames := self._comparison.target.calls.stack(call) if call >= 0 else ():
                if frames not in self._stack_texts:  # many calls have the same stack
                    self._stack_texts[frames] = guard(str(list(frames)))
                found[at] = self._stack_texts[frames]
        return found
