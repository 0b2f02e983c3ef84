"""Parameters that are fused on one side: which part of the whole each record is."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from msprobe.store.record import OUTPUT, PARAMETERS, Dump

from .pairs import Ints, Pairs, View

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
            shape, shapes = whole.columns.shape(row), [parts.columns.shape(int(others[n])) for n in numbers]
            for number, text in zip(numbers, _slices(shape, shapes), strict=False):
                found[number] = View("", text, True) if is_golden else View(text, "", True)
            is_gradient = ".backward" in whole.columns.names[whole.columns.call_of(row)]
            if is_gradient and whole.columns.part[row] == OUTPUT and all(s == shape for s in shapes):
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
    for i, found in candidates.items():
        name, parts = target.names[i], sorted(found)
        if name.kind != "cell" or name.direction != "forward" or len(parts) < 2:
            continue
        if not _slices(_first_parameter(target, i), [_first_parameter(golden, j) for j in parts]):
            continue
        for part in parts:
            pairs = zip(_calls_of(target, i), _calls_of(golden, part), strict=True)
            yield from ((a, b) for a, b in pairs if a >= 0 <= b)


def _first_parameter(dump: Dump, call: int) -> Shape | None:
    columns = dump.columns
    return next((columns.shape(row) for row in columns.rows(call) if columns.part[row] == PARAMETERS), None)


def _calls_of(dump: Dump, call: int) -> tuple[int, int, int]:
    """A cell's call forward and backward, and the gradients of its parameters; -1 for each that there is not."""
    stem = f"{dump.names[call].stem}.parameters_grad"
    return call, dump.counterpart(call, "backward"), dump.place.get(f"{stem}.0", dump.place.get(stem, -1))


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
