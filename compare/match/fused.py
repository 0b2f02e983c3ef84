"""Parameters that are fused on one side: which part of the whole each record is."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from msprobe.base import names
from msprobe.base.names import Name
from msprobe.store.record import PARTS, TENSOR, Dump

from .pairs import Ints, Pairs, View, call_of_row

Shape = tuple[int, ...]

SUM = View(is_part=True)
"""The gradient of a fused call's input is the sum of those of its parts."""


def fused_views(pairs: Pairs) -> dict[int, View]:
    """By number of the pair: the slice of the whole that belongs to it, in the order of the pairs.

    A record of which the others are parts is the whole: their sizes along one axis sum up to its own.
    """
    found: dict[int, View] = {}
    for whole, parts, rows, others, is_golden in (
        (pairs.golden, pairs.target, pairs.golden_rows, pairs.target_rows, True),
        (pairs.target, pairs.golden, pairs.target_rows, pairs.golden_rows, False),
    ):
        where: defaultdict[int, list[int]] = defaultdict(list)
        for number, (row, other) in enumerate(zip(rows.tolist(), others.tolist(), strict=True)):
            if row >= 0 <= other:
                where[row].append(number)
        for row, numbers in where.items():
            if len(numbers) < 2:
                continue
            shape, shapes = _shape(whole, row), [_shape(parts, int(others[n])) for n in numbers]
            for number, text in zip(numbers, _slices(shape, shapes), strict=False):
                found[number] = View("", text, True) if is_golden else View(text, "", True)
            is_gradient = ".backward" in whole.columns.names[call_of_row(whole, row)]
            if is_gradient and PARTS[whole.columns.part[row]] == "output" and all(s == shape for s in shapes):
                found |= dict.fromkeys(numbers, SUM)
    return found


def groups(views: Mapping[int, View], target_rows: Ints, golden_rows: Ints) -> list[tuple[int, ...]]:
    """The numbers of pairs whose parts make up one whole."""
    found: dict[tuple[bool, int], list[int]] = {}
    for number, view in views.items():
        if view.is_part and view != SUM:
            row = golden_rows[number] if view.golden else target_rows[number]
            found.setdefault((bool(view.golden), int(row)), []).append(number)
    return [tuple(numbers) for numbers in found.values()]


def fused_targets(target: Dump, golden: Dump, candidates: Mapping[int, Sequence[int]]) -> Iterator[tuple[int, int]]:
    """Pairs of a target layer with each golden layer of which it is made, forward, backward and the gradients.

    Of the golden calls that a target call could be, those are its parts whose first parameters make up its own.
    """
    ours, theirs = ({name: at for at, name in enumerate(dump.columns.names)} for dump in (target, golden))
    for i, found in candidates.items():
        name, parts = names.parse(target.columns.names[i]), sorted(found)
        if name.kind != "cell" or name.direction != "forward" or len(parts) < 2:
            continue
        if not _slices(_first_parameter(target, i), [_first_parameter(golden, j) for j in parts]):
            continue
        for part in parts:
            pairs = zip(_calls_of(name, ours), _calls_of(names.parse(golden.columns.names[part]), theirs), strict=True)
            yield from ((a, b) for a, b in pairs if a is not None and b is not None)


def _first_parameter(dump: Dump, call: int) -> Shape | None:
    columns = dump.columns
    rows = range(columns.starts[call], columns.starts[call + 1])
    return next((_shape(dump, row) for row in rows if PARTS[columns.part[row]] == "parameters"), None)


def _calls_of(name: Name, at: Mapping[str, int]) -> tuple[int | None, ...]:
    """A cell's call forward and backward, and the gradients of its parameters, by the calls' positions."""
    gradients = at.get(f"{name.stem}.parameters_grad.0", at.get(f"{name.stem}.parameters_grad"))
    return at.get(name.text), at.get(names.counterpart(name.text, "backward")), gradients


def _slices(whole: Shape | None, parts: Sequence[Shape | None]) -> list[str]:
    """The slice of each part; nothing where the parts are no parts of the whole."""
    known = [p for p in parts if p is not None and whole and len(p) == len(whole) and p != whole]
    if not whole or len(known) < len(parts):
        return []
    for axis, size in enumerate(whole):
        rest = (*whole[:axis], *whole[axis + 1 :])
        ends = list(accumulate(p[axis] for p in known))
        if ends[-1:] == [size] and all((*p[:axis], *p[axis + 1 :]) == rest for p in known):
            return [f"slice({axis}, {end - p[axis]}, {end})" for p, end in zip(known, ends, strict=True)]
    return []


def _shape(dump: Dump, row: int) -> Shape | None:
    columns = dump.columns
    return columns.looks[columns.look[row]][2] if columns.kind[row] == TENSOR else None
