"""Across frameworks: a tensor on one side that the other says as a number, or does not compute as nobody needs it."""

from collections.abc import Sequence
from functools import cached_property

from msprobe.base import names
from msprobe.compare.judge.judged import Comparison
from msprobe.compare.judge.verdict import GRADES, Cause, Verdict, unjudged
from msprobe.compare.match.pairs import call_of_row
from msprobe.store.columns import NULL, PARTS, TENSOR, VALUE, Columns
from msprobe.store.record import Dump

from .events import Event, parent_of, upwards
from .source import Sources

_DIFFER = {GRADES.index("warning"), GRADES.index("error")}
_INPUT, _OUTPUT = PARTS.index("input"), PARTS.index("output")


def means_the_same(comparison: Comparison, events: Sequence[Event]) -> dict[int, Verdict]:
    """By row: verdicts of pairs of which one is a tensor, and the other a number or nothing.

    `0 + y` and `zeros + y` are given the same. PyTorch has no gradient of a tensor that needs none (a mask made of
    comparisons), where MindSpore computes that of every argument. What PyTorch was told to detach needs none there
    either: so that it needs none is said by MindSpore's side, where its gradient reaches no parameter.
    """
    pairs = comparison.pairs
    sides = (pairs.target.columns, pairs.target_rows), (pairs.golden.columns, pairs.golden_rows)
    found: dict[int, Verdict] = {}
    ways = _WaysBack(pairs.target if pairs.target.framework == "mindspore" else pairs.golden)
    for event in events:
        if not event.is_matched or event.kind != "api":
            continue
        for row in event.rows:
            if int(comparison.grades[row]) not in _DIFFER:
                continue
            (mine, t), (theirs, g) = ((columns, int(rows[row])) for columns, rows in sides)
            if t < 0 or g < 0:
                continue
            kinds = mine.kind[t], theirs.kind[g]
            if kinds in ((VALUE, TENSOR), (TENSOR, VALUE)) and comparison.is_given[row]:
                tensor, value = (
                    ((mine, t), theirs.values.get(g)) if kinds[0] == TENSOR else ((theirs, g), mine.values.get(t))
                )
                if _holds_only(*tensor, value):
                    found[row] = Verdict("pass", f"A tensor that holds nothing but {value!r}, and that number.")
            elif event.direction == "backward" and not comparison.is_given[row] and NULL in kinds and TENSOR in kinds:
                at, is_golden = (g, True) if kinds[0] == NULL else (t, False)
                with_one = pairs.golden if is_golden else pairs.target
                if with_one.framework == "mindspore" and not any(
                    ways.reach_a_parameter(given) for given in _argument(comparison, event, at, is_golden=is_golden)
                ):
                    reason = "PyTorch computes no gradient of a tensor that needs none."
                    found[row] = unjudged(reason, Cause.UNNEEDED_GRADIENT)
    return found


def _holds_only(columns: Columns, row: int, value: object) -> bool:
    """Whether every element of a tensor is this number, and stays so: not of a parameter, which is trained."""
    is_number = isinstance(value, int | float) and type(value) is not bool
    is_trained = columns.source[row].startswith("parameter ")
    return is_number and not is_trained and columns.max[row] == columns.min[row] == value


def _argument(comparison: Comparison, event: Event, row: int, *, is_golden: bool) -> list[int]:
    """The rows of the argument whose gradient stands at a row of a backward call, of one side."""
    pairs = comparison.pairs
    dump, rows = (pairs.golden, pairs.golden_rows) if is_golden else (pairs.target, pairs.target_rows)
    columns = dump.columns
    forward = [int(rows[at]) for place in event.forwards for at in range(pairs.starts[place], pairs.starts[place + 1])]
    return [
        at
        for at in forward
        if at >= 0
        and columns.part[at] == _INPUT
        and columns.kind[at] == TENSOR
        and columns.path[at] == columns.path[row]
    ]


class _WaysBack:
    """Follows gradients through one dump, from an argument to what it was computed from."""

    def __init__(self, dump: Dump) -> None:
        self._dump = dump
        self._sources = Sources(dump)

    @cached_property
    def _calls(self) -> dict[str, int]:
        return {name: at for at, name in enumerate(self._dump.columns.names)}

    def reach_a_parameter(self, row: int) -> bool:
        """Whether a given was computed from a parameter, by calls whose gradients are neither None nor zeros."""
        columns, waiting, known = self._dump.columns, [row], {row}
        while waiting:
            row = waiting.pop()
            call = call_of_row(self._dump, row)
            parents = upwards(parent_of(self._dump, call), self._dump.construct)
            source = self._sources.of(row, columns.names[call], parents)
            if source.origin == "parameter":
                return True
            if (maker := self._calls.get(source.call)) is None:
                continue
            rows = range(columns.starts[maker], columns.starts[maker + 1])
            if f"{names.parse(source.call).stem}.parameters_grad" in self._calls:
                return True
            onwards = {at for at in rows if columns.part[at] == _INPUT and self._has_a_gradient(maker, at)}
            waiting += onwards - known
            known |= onwards
        return False

    def _has_a_gradient(self, call: int, row: int) -> bool:
        """Whether something goes back through an argument of a call."""
        columns = self._dump.columns
        back = self._calls.get(names.counterpart(columns.names[call], "backward"))
        return columns.kind[row] == TENSOR and any(
            columns.kind[at] == TENSOR and not columns.max[at] == columns.min[at] == 0
            for at in (range(columns.starts[back], columns.starts[back + 1]) if back is not None else ())
            if columns.part[at] == _OUTPUT and columns.path[at] == columns.path[row]
        )
