"""Across frameworks: which given is which result of an earlier call, handed on unchanged on both sides.

What was said of that result holds of the given too: it is the same pair of tensors.
"""

from functools import cached_property

from msprobe.compare.judge.judged import Comparison
from msprobe.store.columns import PARTS, TENSOR, Columns

from .source import told

_Places = dict[int, dict[tuple[str, tuple[str, ...]], int]]
"""By call: the rows of its records, by part and path."""


class Handed:
    """Finds the results that givens are, by what the dumps tell; a tensor that was written to since is another."""

    def __init__(self, comparison: Comparison) -> None:
        pairs = comparison.pairs
        self._results: tuple[_Places, _Places] = ({}, {})
        self._sides = (pairs.target.columns, pairs.target_rows), (pairs.golden.columns, pairs.golden_rows)

    def of(self, row: int) -> int:
        """The pair of results that a pair of givens is; -1 where it is none, or that is not known."""
        known = [found for side in (0, 1) if (found := self._told(side, row)) >= 0]
        if not known or len(set(known)) > 1:
            return -1
        result = known[0]
        are_same = (are_one_tensor(columns, int(rows[row]), int(rows[result])) for columns, rows in self._sides)
        return result if all(are_same) else -1

    def _told(self, side: int, row: int) -> int:
        columns, rows = self._sides[side]
        if (at := int(rows[row])) < 0:
            return -1
        source = told(columns.source[at])
        if source.origin != "call" or (call := self._calls[side].get(source.call)) is None:
            return -1
        known = self._results[side].get(call)
        if known is None:
            known = self._results[side][call] = {}
            for result in range(columns.starts[call], columns.starts[call + 1]):
                known.setdefault((PARTS[columns.part[result]], columns.paths[columns.path[result]]), result)
        result = known.get((source.part, source.path), -1)
        return self._numbers[side].get(result, -1)

    @cached_property
    def _calls(self) -> tuple[dict[str, int], ...]:
        """By side: a call's name and its place in the dump."""
        return tuple({name: at for at, name in enumerate(columns.names)} for columns, _ in self._sides)

    @cached_property
    def _numbers(self) -> tuple[dict[int, int], ...]:
        """By side: a row of the dump and the pair that it stands in, the last where there are several."""
        return tuple({row: n for n, row in enumerate(rows.tolist()) if row >= 0} for _, rows in self._sides)


def are_one_tensor(columns: Columns, row: int, other: int) -> bool:
    """Whether two records of one dump look like one tensor; not where a NaN keeps them from being told."""
    if row < 0 or other < 0 or columns.kind[row] != TENSOR or columns.look[row] != columns.look[other]:
        return False
    if columns.digest[row] or columns.digest[other]:
        return columns.digest[row] == columns.digest[other]
    values = (columns.max, columns.min, columns.mean, columns.norm)
    return all(value[row] == value[other] for value in values)
