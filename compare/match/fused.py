"""Parameters that are fused on one side: which part of the whole each record is."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, permutations
from types import MappingProxyType
from typing import Any

import numpy as np

from msprobe.base.errors import DumpError
from msprobe.store.reader import load_tensor
from msprobe.store.record import OUTPUT, PARAMETERS, Dump

from .pairs import Ints, Match, Pairs, View

Shape = tuple[int, ...]

_FEWEST = 3
"""Minimum number of modules without a counterpart: a whole and two parts."""

_MAX_ORDERED = 4
"""Number of parts up to which all orders are tried."""

_NEAR = 0.2
"""Largest difference of a part and its slice, relative to the norm: that of another weight is above 1."""

SUM = View(is_part=True)
"""The gradient of a fused call's input is the sum of those of its parts."""


Orders = Mapping[tuple[bool, int], Sequence[int]]
"""By side (whether it is the golden) and forward call of a whole: the forward calls of its parts, in their order."""


def fused_views(pairs: Pairs, orders: Orders = MappingProxyType({})) -> dict[int, View]:
    """Return by number of the pair the slice of the whole that belongs to it, in the order of the parts.

    A record of which the others are parts is the whole: their sizes along one axis add up to its own. If no order is
    known, parts are in the order of their forward calls.
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
            order = orders.get((is_golden, _forward_of(whole, whole.columns.call_of(row))), ())
            place = {call: at for at, call in enumerate(order)}
            made = {n: _forward_of(parts, parts.columns.call_of(int(others[n]))) for n in numbers}
            numbers.sort(key=lambda n: place.get(made[n], made[n]))
            shape, shapes = whole.columns.shape(row), [parts.columns.shape(int(others[n])) for n in numbers]
            for number, text in zip(numbers, _slices(shape, shapes), strict=False):
                found[number] = View("", text, True) if is_golden else View(text, "", True)
            is_gradient = ".backward" in whole.columns.names[whole.columns.call_of(row)]
            if is_gradient and whole.columns.part[row] == OUTPUT and all(s == shape for s in shapes):
                found |= dict.fromkeys(numbers, SUM)
    return found


def _forward_of(dump: Dump, call: int) -> int:
    """Return the first forward call of the module that a call belongs to; the call itself if that is unknown."""
    name = dump.names[call]
    forward = dump.counterpart(call, "forward") if name.direction == "backward" else -1
    return dump.place.get(f"{name.stem}.forward.0", call) if forward < 0 else forward


def fused_in_one_framework(
    target: Dump, golden: Dump, found: Sequence[Match]
) -> tuple[list[Match], dict[tuple[bool, int], Sequence[int]]]:
    """Return the pairs of calls with those of parts and their whole, and the orders of the parts.

    Modules of one name whose parameters have other shapes may be a part and a whole, such as `up` and one that also
    computes the gate. Calls inside of a part are not counterparts of calls inside of the whole.
    """
    golden_of = {match.target: match.golden for match in found if match.by != "mapping"}
    others = {a: b for a, b in golden_of.items() if _has_other_parameters(target, a, golden, b)}
    fixed = {match.golden for match in found} - set(others.values())
    mine = [a for a in range(len(target.names)) if _owns(target, a) and (a not in golden_of or a in others)]
    theirs = [b for b in range(len(golden.names)) if _owns(golden, b) and b not in fixed]
    if not mine or not theirs or len(mine) + len(theirs) < _FEWEST:
        return list(found), {}
    from msprobe.compare.counterparts.search import fused_modules  # here: most runs of one framework have none

    pairs = [(match.target, match.golden) for match in found if match.target not in others]
    of_target, of_golden = fused_modules(target, golden, pairs)
    orders: dict[tuple[bool, int], Sequence[int]] = {}
    more: list[tuple[int, int]] = []
    for is_golden, sides, of_side in ((True, (golden, target), of_target), (False, (target, golden), of_golden)):
        for parts, whole in of_side:
            if order := order_of_parts(*sides, whole, parts):
                orders[is_golden, whole] = order
                more += ((part, whole) if is_golden else (whole, part) for part in order)
    if not more:
        return list(found), {}
    inside = [_calls_inside(dump, {pair[side] for pair in more}) for side, dump in enumerate((target, golden))]
    kept = [one for one in found if one.by == "mapping" or not (one.target in inside[0] or one.golden in inside[1])]
    for a, b in more:
        calls = zip(_calls_of(target, a), _calls_of(golden, b), strict=True)
        kept += (Match(i, j, "structure") for i, j in calls if i >= 0 <= j)
    return kept, orders


def order_of_parts(whole: Dump, parts: Dump, call: int, calls: Sequence[int]) -> Sequence[int]:
    """Return the forward calls of a whole's parts in the order of their slices; empty if their elements show that they
    are not slices of it, for example if those of each head are contiguous. Without elements, in the order of the
    calls."""
    columns = whole.columns
    rows = [
        row for row in columns.rows(call) if columns.part[row] == PARAMETERS and columns.max[row] > columns.min[row]
    ]
    rows.sort(key=lambda row: math.prod(columns.shape(row) or ()))
    for row in rows:
        own = [_same_parameter(parts, part, columns.path_of(row)) for part in calls]
        if len(own) > _MAX_ORDERED or min(own) < 0:
            continue
        try:
            all_of_it = load_tensor(whole, columns.record(row, call))
            pieces = [load_tensor(parts, parts.columns.record(at, part)) for at, part in zip(own, calls, strict=True)]
        except DumpError:
            continue
        orders = [order for order in permutations(range(len(calls))) if _fit(all_of_it, [pieces[n] for n in order])]
        return [calls[n] for n in orders[0]] if orders else ()
    return calls


def _fit(whole: "np.ndarray[Any, Any]", pieces: "Sequence[np.ndarray[Any, Any]]") -> bool:
    """Return whether most of some tensors are nearly the slices of another in this order; updated parameters drift."""
    is_near, at = [], 0
    for piece in pieces:
        mine, there = piece.astype(np.float64), whole[at : at + len(piece)].astype(np.float64)
        at += len(piece)
        is_near.append(
            mine.shape == there.shape and bool(np.linalg.norm(mine - there) <= _NEAR * np.linalg.norm(there))
        )
    return sum(is_near) >= len(pieces) - 1


def _same_parameter(dump: Dump, call: int, path: tuple[str, ...]) -> int:
    columns = dump.columns
    rows = (row for row in columns.rows(call) if columns.part[row] == PARAMETERS and columns.path_of(row) == path)
    return next(rows, -1)


def _owns(dump: Dump, call: int) -> bool:
    """Return whether a call is the forward of a module with parameters."""
    name = dump.names[call]
    return name.kind == "cell" and name.direction == "forward" and _first_parameter(dump, call) is not None


def _has_other_parameters(target: Dump, a: int, golden: Dump, b: int) -> bool:
    """Return whether a pair are the forward calls of modules whose first parameters have other shapes."""
    both = _owns(target, a) and _owns(golden, b)
    return both and _first_parameter(target, a) != _first_parameter(golden, b)


def _calls_inside(dump: Dump, modules: set[int]) -> set[int]:
    """Return the calls of modules, and those that ran inside them; `modules` are forward calls."""
    found = {call for module in modules for call in _calls_of(dump, module) if call >= 0}
    for call, parent in enumerate(dump.parents):
        while parent >= 0 and parent not in found:
            parent = dump.parents[parent]
        if parent >= 0:
            found.add(call)
    return found | {back for call in found if (back := dump.counterpart(call, "backward")) >= 0}


def groups(views: Mapping[int, View], target_rows: Ints, golden_rows: Ints) -> list[tuple[int, ...]]:
    """Return the numbers of pairs whose parts make up one whole."""
    found: dict[tuple[bool, int], list[int]] = {}
    for number, view in views.items():
        if view.is_part and view != SUM:
            row = golden_rows[number] if view.golden else target_rows[number]
            found.setdefault((bool(view.golden), int(row)), []).append(number)
    return [tuple(numbers) for numbers in found.values()]


def fused_targets(target: Dump, golden: Dump, candidates: Mapping[int, Sequence[int]]) -> Iterator[tuple[int, int]]:
    """Yield pairs of a target layer with each golden layer of which it consists: forward, backward and gradients.

    Of the golden calls that are candidates for a target call, those are its parts whose first parameters make up its
    own.
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
    """Return a cell's call forward and backward, and the gradients of its parameters; -1 for each that does not
    exist."""
    stem = f"{dump.names[call].stem}.parameters_grad"
    return call, dump.counterpart(call, "backward"), dump.place.get(f"{stem}.0", dump.place.get(stem, -1))


def _slices(whole: Shape | None, parts: Sequence[Shape | None]) -> list[str]:
    """Return the slice of each part; empty if the parts are not parts of the whole."""
    known = [p for p in parts if p is not None and whole and len(p) == len(whole) and p != whole]
    if not whole or len(known) < len(parts):
        return []
    for axis, size in enumerate(whole):
        rest = (*whole[:axis], *whole[axis + 1 :])
        ends = list(accumulate(p[axis] for p in known))
        if ends[-1:] == [size] and all((*p[:axis], *p[axis + 1 :]) == rest for p in known):
            return [f"slice({axis}, {end - p[axis]}, {end})" for p, end in zip(known, ends, strict=True)]
    return []
