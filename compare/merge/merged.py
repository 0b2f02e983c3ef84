"""The rows of several tables side by side: joined by the name of the record, entry by entry of what was asked for."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msprobe.compare.report.cells import Cell, guard

from .tables import GOLDEN, NAME, TARGET, Table

_NO_NUMBER = ("N/A", "unsupported", "Nan", "nan")
"""Measures that say nothing; the two values themselves say more: a group's ranks, a number, a text."""

Key = tuple[str, int]


@dataclass(frozen=True)
class Merged:
    """Per rank the cells of every record that was asked for, one cell per measure; and the records in order.

    A record is known by its name and, where a table has that name more than once, by which of them it is.
    """

    measures: tuple[str, ...]
    keys: tuple[Key, ...]
    cells: Mapping[int, Mapping[Key, tuple[Cell, ...]]]

    @property
    def titles(self) -> tuple[str, ...]:
        """The headings of every sheet."""
        return (NAME, *(f"rank{rank}" for rank in self.cells))

    def rows(self, measure: str) -> Iterator[tuple[Cell, ...]]:
        """One row per record: its name, and the measure at every rank; empty where a rank has no such record."""
        at = self.measures.index(measure)
        for key in self.keys:
            of_ranks = (known.get(key) for known in self.cells.values())
            yield (guard(key[0]), *(cells[at] if cells else "" for cells in of_ranks))


def merge(
    tables: Iterable[tuple[int, Table]], measures: Sequence[str], place_of: Callable[[str], int | None]
) -> Merged:
    """Join the tables, each with its rank, over all records whose name has a place; one table is read after the other.

    Names with the same place stand together, places in their order, and within a place as the tables have them.
    """
    cells = {rank: _cells(table, measures, place_of) for rank, table in tables}
    ordered = _in_order([list(known) for known in cells.values()])
    return Merged(tuple(measures), tuple(sorted(ordered, key=lambda key: place_of(key[0]) or 0)), cells)


def _cells(table: Table, measures: Sequence[str], place_of: Callable[[str], int | None]) -> dict[Key, tuple[Cell, ...]]:
    found: dict[Key, tuple[Cell, ...]] = {}
    met: Counter[str] = Counter()
    for name, target, golden, *values in table.picked((NAME, TARGET, GOLDEN, *measures)):
        if not isinstance(name, str) or place_of(name) is None:
            continue
        found[name, met[name]] = tuple(
            guard(f"NPU:{target}  Bench:{golden}") if value in _NO_NUMBER else _guarded(value) for value in values
        )
        met[name] += 1
    return found


def _guarded(value: Cell) -> Cell:
    return guard(value) if isinstance(value, str) else value


def _in_order(sequences: Sequence[Sequence[Key]]) -> list[Key]:
    """Every key once; one that only later tables have stands behind the key that it follows there."""
    follows: dict[Key | None, Key | None] = {None: None}  # a chain from None to None
    for sequence in sequences:
        before: Key | None = None
        for key in sequence:
            if key not in follows:
                follows[key], follows[before] = follows[before], key
            before = key
    ordered: list[Key] = []
    at = follows[None]
    while at is not None:
        ordered.append(at)
        at = follows[at]
    return ordered
