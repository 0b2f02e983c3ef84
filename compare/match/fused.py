"""Parameters that are fused on one side: which part of the whole each record is."""

from collections.abc import Iterator, Mapping, Sequence

from msprobe.base import names
from msprobe.store.record import PARTS, TENSOR, Dump

from .pairs import Ints, Pairs, View, call_of_row

Shape = tuple[int, ...]

SUM = View(is_part=True)
"""The gradient that a fused call hands back is the sum of those that its parts hand back."""


def fused_views(pairs: Pairs) -> dict[int, View]:
    """By number of the pair: the slice of the whole that belongs to it, in the order of the pairs.

    A record of which the others are parts is the whole: their sizes along one axis sum up to its own.
    """
    found: dict[int, View] = {}
    for whole, parts, rows, others, is_golden in (
        (pairs.golden, pairs.target, pairs.golden_rows, pairs.target_rows, True),
        (pairs.target, pairs.golden, pairs.target_rows, pairs.golden_rows, False),
    ):
        for numbers in _repeated(rows, others):
            shape = _shape(whole, int(rows[numbers[0]]))
            shapes = [_shape(parts, int(others[n])) for n in numbers]
            for number, text in zip(numbers, _slices(shape, shapes), strict=False):
                found[number] = View("", text, True) if is_golden else View(text, "", True)
            if _is_handed_back(whole, int(rows[numbers[0]])) and all(s == shape for s in shapes):
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
            forms = zip(_forms(target.columns.names[i]), _forms(golden.columns.names[part]), strict=True)
            both = [
                (next(filter(ours.__contains__, a), ""), next(filter(theirs.__contains__, b), "")) for a, b in forms
            ]
            yield from ((ours[a], theirs[b]) for a, b in both if a and b)


def _first_parameter(dump: Dump, call: int) -> Shape | None:
    columns = dump.columns
    rows = range(columns.starts[call], columns.starts[call + 1])
    return next((_shape(dump, row) for row in rows if PARTS[columns.part[row]] == "parameters"), None)


def _forms(call: str) -> list[tuple[str, ...]]:
    """The names of a cell's call forward and backward, and of the gradients of its parameters."""
    stem = names.parse(call).stem
    return [(call,), (names.counterpart(call, "backward"),), (f"{stem}.parameters_grad.0", f"{stem}.parameters_grad")]


def _repeated(rows: Ints, others: Ints) -> Iterator[list[int]]:
    where: dict[int, list[int]] = {}
    for number, (row, other) in enumerate(zip(rows.tolist(), others.tolist(), strict=True)):
        if row >= 0 and other >= 0:
            where.setdefault(row, []).append(number)
    return (numbers for numbers in where.values() if len(numbers) > 1)


def _slices(whole: Shape | None, parts: Sequence[Shape | None]) -> list[str]:
    """The slice of each part; nothing where the parts are no parts of the whole."""
    if not whole or any(p is None or len(p) != len(whole) or p == whole for p in parts):
        return []
    known = [p for p in parts if p is not None]
    for axis, size in enumerate(whole):
        rest = (*whole[:axis], *whole[axis + 1 :])
        if sum(p[axis] for p in known) == size and all((*p[:axis], *p[axis + 1 :]) == rest for p in known):
            ends = [sum(p[axis] for p in known[: n + 1]) for n in range(len(known))]
            return [f"slice({axis}, {end - p[axis]}, {end})" for p, end in zip(known, ends, strict=True)]
    return []


def _is_handed_back(dump: Dump, row: int) -> bool:
    """Whether a row is a result of a backward call."""
    name = dump.columns.names[call_of_row(dump, row)]
    return ".backward" in name and PARTS[dump.columns.part[row]] == "output"


def _shape(dump: Dump, row: int) -> Shape | None:
    columns = dump.columns
    return columns.looks[columns.look[row]][2] if columns.kind[row] == TENSOR else None
