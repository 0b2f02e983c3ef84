"""Across frameworks: a tensor on one side that the other says as a number, or does not compute as nobody needs it."""

from collections.abc import Sequence

from msprobe.compare.judge.judged import Comparison
from msprobe.compare.judge.verdict import GRADES, Verdict
from msprobe.store.columns import NULL, PARTS, TENSOR, VALUE, Columns

from .events import Event

_DIFFER = {GRADES.index("warning"), GRADES.index("error")}
_INPUT = PARTS.index("input")


def means_the_same(comparison: Comparison, events: Sequence[Event]) -> dict[int, Verdict]:
    """By row: verdicts of pairs of which one is a tensor, and the other a number or nothing.

    `0 + y` and `zeros + y` are given the same. PyTorch has no gradient of a tensor that needs none (a mask made of
    comparisons), where MindSpore computes that of every argument; a tensor that a recorded call with a gradient gave
    needs one.
    """
    pairs = comparison.pairs
    sides = (pairs.target.columns, pairs.target_rows), (pairs.golden.columns, pairs.golden_rows)
    found: dict[int, Verdict] = {}
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
                without = pairs.target if kinds[0] == NULL else pairs.golden
                if without.framework == "pytorch" and _needs_none(comparison, event, row, is_golden=kinds[1] == NULL):
                    found[row] = Verdict("unjudged", "PyTorch computes no gradient of a tensor that needs none.")
    return found


def _holds_only(columns: Columns, row: int, value: object) -> bool:
    """Whether every element of a tensor is this number."""
    is_number = isinstance(value, int | float) and type(value) is not bool
    return is_number and columns.max[row] == columns.min[row] == value


def _needs_none(comparison: Comparison, event: Event, row: int, *, is_golden: bool) -> bool:
    """Whether no call gave the argument whose gradient stands at a row, as the forward call tells."""
    pairs = comparison.pairs
    dump, rows = (pairs.golden, pairs.golden_rows) if is_golden else (pairs.target, pairs.target_rows)
    path = dump.columns.paths[dump.columns.path[int(rows[row])]]
    forward = [int(rows[at]) for place in event.forwards for at in range(pairs.starts[place], pairs.starts[place + 1])]
    given = [at for at in forward if at >= 0 and dump.columns.part[at] == _INPUT]
    return any(
        dump.columns.paths[dump.columns.path[at]] == path
        and dump.columns.kind[at] == TENSOR
        and not dump.columns.source[at].startswith(("call ", "parameter "))
        for at in given
    )
