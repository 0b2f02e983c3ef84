"""Make pairs: first of the calls of two dumps, then of the records inside a pair of calls. Measures nothing.

Two runs of one program make the same calls with the same shapes in the same order, and most comparisons are of such
runs: they are detected immediately, by comparing columns. Records correspond by part and path (`input`, `("1", "0")`),
never by the text of their row.
"""

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.core.relation import relation_of
from msprobe.store.record import INPUT, TENSOR, Columns, Dump

from .call_keys import identity
from .calls import match_calls
from .cross_framework import join_by_meaning, match_frameworks
from .fused import fused_in_one_framework, fused_views
from .pairs import Match, Notes, Pairs, Rows, in_order, pairs_of
from .records import Operands
from .user_mapping import NOTHING, UserPairs, with_rows


def match(target: Dump, golden: Dump, *, fuzzy: bool = False, by_user: UserPairs = NOTHING) -> Pairs:
    """Return every call of both dumps once, in the target's execution order, with golden-only calls at their place.

    `by_user` are the pairs of the user's mapping.
    """
    if relation_of(target, golden).has_other_names:
        return match_frameworks(target, golden, by_user)
    if not by_user and _is_one_program(target, golden):
        every = np.arange(len(target.calls))
        rows = np.arange(len(target.columns.part))
        starts = np.frombuffer(target.columns.starts, np.int64)
        return Pairs(target, golden, every, every, ["name"] * len(every), starts, rows, rows)
    found = match_calls(target, golden, fuzzy=fuzzy, by_user=by_user.calls)
    found, orders = fused_in_one_framework(target, golden, found)
    calls = in_order(found, len(target.calls), len(golden.calls))
    if by_user.rules:
        return join_by_meaning(target, golden, calls, by_user)
    pairs = _join_by_path(target, golden, calls)
    if orders:
        pairs = replace(pairs, notes=Notes(fused_views(pairs, orders)))
    return with_rows(pairs, by_user)


def _is_one_program(target: Dump, golden: Dump) -> bool:
    """Return whether both sides make the same calls in the same order, with the same shapes inside the same cells.

    Numbers and strings among the arguments are not compared: if all names, cells and shapes agree, an argument that
    differs is a finding, not another call.
    """
    t, g = target.columns, golden.columns
    if len(t.names) != len(g.names) or t.starts != g.starts or t.part != g.part:
        return False
    if t.names != g.names and list(map(identity, t.names)) != list(map(identity, g.names)):
        return False
    if not np.array_equal(np.frombuffer(t.path, np.int32), _translated(g, t)):
        return False
    shapes: dict[object, int] = {}
    of_look = (np.array([shapes.setdefault(shape, len(shapes)) for _, _, shape in c.looks], np.int64) for c in (t, g))
    ours, theirs = (shape[np.frombuffer(c.look, np.int32)] for shape, c in zip(of_look, (t, g), strict=True))
    if not np.array_equal(ours, theirs):
        return False
    if t.names == g.names and target.construct == golden.construct and target.calls.are_enclosed_as(golden.calls):
        return True
    parents = [list(map(dump.parent, range(len(dump.names)))) for dump in (target, golden)]
    return parents[0] == parents[1] or not all(map(any, parents))


def _translated(source: Columns, into: Columns) -> NDArray[np.int32]:
    """Return the paths of one side as numbers of the other; paths that the other does not have get numbers after
    those."""
    numbers = {path: n for n, path in enumerate(into.paths)}
    table = np.array([numbers.setdefault(path, len(numbers)) for path in source.paths] or [0], np.int32)
    return table[np.frombuffer(source.path, np.int32)]


def _join_by_path(target: Dump, golden: Dump, calls: Sequence[Match]) -> Pairs:
    left, right = target.columns, golden.columns
    right_path = array("i", _translated(right, left).tolist())
    partners = {match.target: match.golden for match in calls if match.target >= 0 and match.golden >= 0}
    operands = Operands(target, golden, partners)

    def join(match: Match, _: int) -> tuple[Rows, Rows]:
        ours, theirs = left.rows(match.target), right.rows(match.golden)
        a, b = slice(ours.start, ours.stop), slice(theirs.start, theirs.stop)
        golden_rows: Rows = theirs
        if exchanged := operands.exchanged(match.target, match.golden):
            places = dict(zip(exchanged, reversed(exchanged), strict=True))
            golden_rows = [places.get(row, row) for row in theirs]
        if left.part[a] == right.part[b] and left.path[a] == right_path[b]:
            return ours, golden_rows
        mine = _placed(left.part[a], left.path[a], ours)
        other = _placed(right.part[b], right_path[b], golden_rows)
        return _join_records(mine, _with_keywords_as_positions(mine, other, left, right))

    return pairs_of(target, golden, calls, join)


Place = tuple[int, int, int]
"""Part, path, and the number of earlier records with the same part and path (an argument and a keyword may share
one)."""

_Argument = list[tuple[Place, int, tuple[str, ...]]]
"""The records of one argument of a call: their places, rows, and paths inside the argument."""


def _with_keywords_as_positions(
    left: Mapping[Place, int], right: Mapping[Place, int], ours: Columns, theirs: Columns
) -> dict[Place, int]:
    """Return the golden's places, in which an argument that is passed by position on one side and by keyword on the
    other has the target's.

    Two such arguments correspond if they are equal, or if they are the only remaining two of one type.
    """
    mine, other = _arguments(left, right, ours), _arguments(right, left, theirs)
    if not mine or not other:
        return dict(right)
    moved: dict[Place, Place] = {}
    for how in (_content, _types):
        if how is _types and (len(mine) > 1 or len(other) > 1):
            break
        alike: dict[object, list[str]] = defaultdict(list)  # of the golden, the last first
        for name, records in reversed(other.items()):
            alike[not name.isdigit(), how(records, theirs)].append(name)
        for name, argument in list(mine.items()):
            if names := alike.get((name.isdigit(), how(argument, ours))):
                records = other.pop(names.pop())
                moved |= {new[0]: old[0] for old, new in zip(mine.pop(name), records, strict=True)}
    return {moved.get(place, place): row for place, row in right.items()}


def _arguments(own: Mapping[Place, int], others: Mapping[Place, int], columns: Columns) -> dict[str, _Argument]:
    """Return by name or number the arguments of a call for which the other side has no record at this place."""
    found: dict[str, _Argument] = defaultdict(list)
    shared: set[str] = set()
    for place, row in own.items():
        if place[0] == INPUT and (path := columns.path_of(row)):
            found[path[0]].append((place, row, path[1:]))
            if place in others:
                shared.add(path[0])
    return {name: records for name, records in found.items() if name not in shared}


def _content(argument: _Argument, columns: Columns) -> object:
    """Return form and statistics of a tensor, the value of any other argument."""
    return tuple(
        (path, columns.looks[columns.look[row]][1:], columns.max[row], columns.min[row], columns.norm[row])
        if columns.kind[row] == TENSOR
        else (path, repr(columns.values.get(row)))
        for _, row, path in argument
    )


def _types(argument: _Argument, columns: Columns) -> object:
    """Return the form of a tensor, the type of any other argument."""
    return tuple(
        (path, columns.looks[columns.look[row]][1:])
        if columns.kind[row] == TENSOR
        else (path, type(columns.values.get(row)))
        for _, row, path in argument
    )


def _placed(parts: Iterable[int], paths: Iterable[int], rows: Iterable[int]) -> dict[Place, int]:
    """Return the rows by their places, in order."""
    seen: Counter[tuple[int, int]] = Counter()
    found: dict[Place, int] = {}
    for part, path, row in zip(parts, paths, rows, strict=True):
        found[part, path, seen[part, path]] = row
        seen[part, path] += 1
    return found


def _join_records(left: Mapping[Place, int], right: Mapping[Place, int]) -> tuple[Rows, Rows]:
    """Return the rows of both sides joined by their places, in the left's order; -1 for none.

    A right-only record comes after the nearest earlier right record of the same part that has a counterpart, otherwise
    at the end of its part.
    """
    after: defaultdict[int, list[int]] = defaultdict(list)
    first: defaultdict[int, list[int]] = defaultdict(list)
    last: dict[int, int] = {}
    for place, g in right.items():
        if place in left:
            last[place[0]] = g
        elif place[0] in last:
            after[last[place[0]]].append(g)
        else:
            first[place[0]].append(g)
    joined: list[tuple[int, int]] = []
    for place, t in left.items():
        for part in sorted(part for part in first if part < place[0]):
            joined += ((-1, g) for g in first.pop(part))
        here = right.get(place, -1)
        joined.append((t, here))
        joined += ((-1, g) for g in after.get(here, ()))
    for part in sorted(first):
        joined += ((-1, g) for g in first[part])
    return [t for t, _ in joined], [g for _, g in joined]
