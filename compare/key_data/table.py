"""Rows become the sheet of a tag: the headings of the older tool, then our verdict."""

from collections.abc import Iterable, Iterator

from msprobe.compare.report.cells import guard, number
from msprobe.compare.report.columns import Column

from .judge import Row
from .key import Part
from .measure import Found

Cell = str | int | float | bool

COLUMNS = (
    Column("step", "number of the step", 6),
    Column("rank", "number of the rank", 6),
    Column("micro_step", "number of the micro step; 0 without one", 11),
    Column("id", "position or key within a list or dict, 0 for a single tensor; the order of saves out of a graph", 8),
    Column("shape1", "shape in the first folder; empty without a tensor there", 14),
    Column("shape2", "shape in the second folder", 14),
    Column("相同元素百分比(%)", "elements that are the same, in percent", 18),
    Column("首个不匹配元素索引", "flat index of the first element that differs; empty without any", 18),
    Column("最大绝对误差", "greatest absolute difference", 20),
    Column("最大相对误差", "greatest difference relative to the greater of the two absolute values", 20),
    Column("误差在千分之一内元素占比(%)", "elements whose relative difference is at most 0.001, in percent", 26),
    Column("误差在百分之一内元素占比(%)", "the same for 0.01", 26),
    Column("Verdict", "`pass`, `warning`, `error`, or `unjudged`: nothing that was not judged ever passes", 10),
    Column("Reason", "why, in a sentence; empty for a plain pass", 60),
)


def rows(found: Iterable[Row]) -> Iterator[tuple[Cell, ...]]:
    """One row of cells per pair."""
    for row in found:
        key = row.key
        yield (
            key.step,
            key.rank,
            key.micro_step,
            _id(key.id),
            _shape(row.target_shape),
            _shape(row.golden_shape),
            *(("",) * 6 if row.found is None else _numbers(row.found)),
            row.verdict.grade,
            guard(row.verdict.reason),
        )


def _id(parts: tuple[Part, ...]) -> Cell:
    return parts[0] if len(parts) == 1 and isinstance(parts[0], int) else guard(".".join(map(str, parts)))


def _shape(shape: tuple[int, ...] | None) -> str:
    return "" if shape is None else str(list(shape))


def _numbers(found: Found) -> tuple[Cell, ...]:
    return (
        _percent(found.same, found),
        found.first if found.first >= 0 else "",
        number(found.max_absolute),
        number(found.max_relative),
        _percent(found.within_1e_3, found),
        _percent(found.within_1e_2, found),
    )


def _percent(count: int, found: Found) -> float:
    return count / found.size * 100 if found.size else 100.0
