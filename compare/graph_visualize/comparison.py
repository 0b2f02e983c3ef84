"""Compare the records of two linked calls: their measures, and the result for the node."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property

from msprobe.base.digest import have_same_kind
from msprobe.compare.core.standard import canonical
from msprobe.compare.judge.elements import Elements
from msprobe.compare.judge.pairs import PairJudge
from msprobe.compare.match.pairs import Pairs
from msprobe.compare.measure.files import Effort
from msprobe.compare.run import mode_of
from msprobe.compare.tables.cells import Cell, Side, share, statistics_of_rows, tensor_cells
from msprobe.store.record import INPUT, NULL, OUTPUT, TENSOR, VALUE, Columns

from .colors import Task, measures
from .indicators import Indicator, Measured, distance, indicators, worst
from .rank import Rank
from .values import Item, requires_grad, rounded, text

_TASKS: dict[str, Task] = {"tensor": "all", "statistics": "summary", "digest": "md5"}


def task_of(target: Rank, golden: Rank) -> Task:
    """Return the type of data that two dumps have in common."""
    if not (target.has_values and golden.has_values):
        return "structure"
    return _TASKS[mode_of(target.dump, golden.dump)]


@dataclass(frozen=True, slots=True)
class NodeResult:
    """The additions to the records of the target's node, by row; and the number that determines the node's color."""

    members: Mapping[int, Item]
    index: float


class Comparison:
    """Compares the records of linked calls; `by_verdict` as msprobe 26 does it, otherwise as 8.1."""

    def __init__(self, target: Rank, golden: Rank, pairs: Pairs, task: Task, by_verdict: bool) -> None:
        self._target, self._golden, self._pairs = target, golden, pairs
        self._task, self._by_verdict = task, by_verdict
        self._judge = PairJudge(mode_of(target.dump, golden.dump), pairs)
        self._titles = [column.title for column in measures(task)]

    @cached_property
    def _place(self) -> dict[int, int]:
        """Return the first pair of each call of the target that has a counterpart."""
        found: dict[int, int] = {}
        for at, (i, j) in enumerate(zip(self._pairs.target_calls, self._pairs.golden_calls, strict=True)):
            if i >= 0 and j >= 0:
                found.setdefault(int(i), at)
        return found

    @cached_property
    def _cells(self) -> list[tuple[Cell, ...]]:
        """Return the measures of every pair of records, in the order of their titles."""
        pairs = self._pairs
        if self._task == "summary":
            t, g = pairs.target_rows, pairs.golden_rows
            sides = Side(self._target.dump.columns), Side(self._golden.dump.columns)
            columns = statistics_of_rows(*sides, t, g) if len(t) else []
            return list(zip(*columns[: len(self._titles)], strict=True))
        if self._task == "all":
            elements = Elements(pairs)
            for row in range(len(pairs.target_rows)):
                if pairs.are_tensors(row):
                    pair = pairs.pair(row)
                    if pair.target and pair.golden and pair.target.file and pair.golden.file:
                        elements.add(row, pair)
            found = {row: outcome.measures for row, _, _, outcome in elements.judged(Effort())}
            every = range(len(pairs.target_rows))
            return [tensor_cells(pairs.pair(row), found.get(row))[: len(self._titles)] for row in every]
        return [()] * len(pairs.target_rows)

    def of_call(self, call: int) -> NodeResult | None:
        """Return the comparison of a call of the target; None if nothing of it was compared."""
        at = self._place.get(call)
        if at is None or self._task == "structure":
            return None
        rows = [n for n in self._pairs.rows(at) if self._pairs.target_rows[n] >= 0]
        records = [self._measured(n) for n in rows]
        name = self._target.dump.columns.names[call]
        remarks = indicators(name, records)
        index = worst(remarks).value if self._by_verdict else distance(name, records, self._task)
        members = {
            int(self._pairs.target_rows[n]): self._members(n, record, found)
            for n, record, found in zip(rows, records, remarks, strict=True)
            if self._target.dump.columns.kind[self._pairs.target_rows[n]] != NULL
        }
        return NodeResult(members, index)

    def worst(self, indexes: Iterable[float]) -> float:
        """Return the number of a collection, by those of its members."""
        is_inverse = self._task == "md5" and not self._by_verdict
        return min(indexes) if is_inverse else max(indexes)

    def _measured(self, n: int) -> Measured:
        t, g = int(self._pairs.target_rows[n]), int(self._pairs.golden_rows[n])
        ours = self._target.dump.columns
        is_output, is_finite = ours.part[t] == OUTPUT, _is_finite(ours, t)
        if g < 0:
            note = self._pairs.notes.partnerless.get(n)
            is_right = ours.kind[t] == NULL or (note is not None and not note.is_wrong)
            return Measured(is_output, () if is_right else (Indicator.UNMATCHED,), is_finite=is_finite)
        own = tuple(self._own(n, t, g))
        cells = self._cells[n]
        shown = dict(zip(self._titles, cells, strict=True))
        found = [share(cell) for cell in cells[4:]] if self._task == "summary" else []
        high, low, mean, norm = (math.nan if each is None else each for each in found or [None] * 4)
        cosine, thousandth = (_number(shown.get(title)) for title in ("Cosine", "One Thousandth Err Ratio"))
        is_equal = not {Indicator.DIGEST, Indicator.OTHER_DIGEST} & set(own)
        return Measured(is_output, own, (high, low, mean, norm), cosine, thousandth, is_finite, is_equal)

    def _own(self, n: int, t: int, g: int) -> Iterator[Indicator]:
        """Yield the remarks on a record that do not depend on the others of its call."""
        ours, theirs = self._target.dump.columns, self._golden.dump.columns
        if self._task == "md5":
            if (mine := _digest(ours, t)) != (other := _digest(theirs, g)):
                is_of_one_kind = have_same_kind(mine, other) or VALUE in (ours.kind[t], theirs.kind[g])
                both = Indicator.DIGEST if is_of_one_kind else Indicator.OTHER_DIGEST
                yield both if mine and other else Indicator.UNMATCHED
            return
        if not _is_finite(ours, t) and _is_finite(theirs, g):
            yield Indicator.NON_FINITE
        if not self._are_consistent(t, g):
            yield Indicator.GRADIENT
        if ours.kind[t] == VALUE and ours.part[t] == INPUT:
            pair = self._pairs.pair(n)
            if pair.target and pair.golden and not self._judge.by_value(pair.target, pair.golden, n):
                yield Indicator.VALUE
        elif ours.kind[t] == theirs.kind[g] == TENSOR:
            if canonical(ours.dtype(t)) != canonical(theirs.dtype(g)):
                yield Indicator.DTYPE
            if n not in self._pairs.notes.views and ours.shape(t) != theirs.shape(g):
                yield Indicator.SHAPE

    def _are_consistent(self, t: int, g: int) -> bool:
        """Return whether `requires_grad` is equal, or unknown on both sides."""
        sides = ((self._target, t), (self._golden, g))
        mine, other = (requires_grad(side.dump.columns, row, side.entries) for side, row in sides)
        return mine is None or other is None or mine == other

    def _members(self, n: int, record: Measured, found: tuple[Indicator, ...]) -> Item:
        """Return the additions to a record of the target, in the order of msprobe."""
        shown = {title: self._shown(cell) for title, cell in zip(self._titles, self._cells[n], strict=True)}
        if not self._by_verdict:
            if self._task == "md5" and Indicator.OTHER_DIGEST not in record.own:
                shown["Result"] = "pass" if record.is_equal else "Different"
            return shown
        added = {
            "Requires_grad Consistent": str(Indicator.GRADIENT not in record.own),
            "Result": worst([found]).name.lower(),
            "Err_message": _sentences(found),
        }
        if self._task == "md5":
            added = {"Result": added.pop("Result"), **added}
        return {**shown, **added}

    def _shown(self, cell: Cell) -> str:
        """Return a cell as text; a share with at most six decimals."""
        if type(cell) is not str:
            return rounded(cell) if isinstance(cell, float) and not self._by_verdict else text(cell)
        part = share(cell)
        if part is None:
            return text(cell)
        shown = str(cell)
        digits = shown[:-1].partition(".")[2]
        return f"{100 * part:.6f}%" if len(digits) > 6 and "e" not in digits else shown


@cache
def _sentences(found: tuple[Indicator, ...]) -> str:
    return text(json.dumps([indicator.sentence for indicator in found]))


def _digest(columns: Columns, row: int) -> str:
    """Return a digest; the value of a record without one."""
    return columns.digest[row] or (repr(columns.values.get(row)) if columns.kind[row] == VALUE else "")


def _is_finite(columns: Columns, row: int) -> bool:
    if columns.kind[row] != TENSOR:
        return True
    statistics = columns.statistics(row)
    numbers = (statistics.max, statistics.min) if statistics else ()
    return all(math.isfinite(number) for number in numbers if type(number) is float)


def _number(cell: Cell | None) -> float:
    return float(cell) if isinstance(cell, int | float) else math.nan
