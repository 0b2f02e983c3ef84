"""Make pairs: first the calls of two dumps, then the records inside a pair of calls. Nothing is measured here.

Two runs of one program make the same calls with the same shapes in the same order, and most comparisons are of those:
they are seen at once, column against column. Everything else goes through the stages of `calls.py`. Records
belong together by part and path (`input`, `("1", "0")`), never by the text of their row.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from msprobe.store.record import Columns, Dump

from .call_keys import identity
from .calls import Match, MatchedBy, match_calls
from .cross_framework import are_of_two_frameworks, joined, match_frameworks, with_rows
from .pairs import Ints, Pairs
from .user_mapping import NOTHING, Given


def match(target: Dump, golden: Dump, *, fuzzy: bool = False, given: Given = NOTHING) -> Pairs:
    """Every call of both dumps once, in the target's execution order, with golden-only calls where they belong.

    `given` is what the user's mapping says of the two.
    """
    if are_of_two_frameworks(target, golden):
        return match_frameworks(target, golden, given)
    if not given and _is_one_program(target, golden):
        every = np.arange(len(target.calls))
        rows = np.arange(len(target.columns.part))
        starts = np.frombuffer(target.columns.starts, np.int64)
        return Pairs(target, golden, every, every, ["name"] * len(every), starts, rows, rows)
    found = match_calls(target.calls, golden.calls, fuzzy=fuzzy, given=given.calls)
    calls = _in_order(found, len(target.calls), len(golden.calls))
    return joined(target, golden, calls, given) if given.rules else with_rows(_joined(target, golden, calls), given)


def _is_one_program(target: Dump, golden: Dump) -> bool:
    """Whether both sides made the same calls with the same shapes inside the same cells, one after the other."""
    t, g = target.columns, golden.columns
    if len(t.names) != len(g.names) or t.starts != g.starts or t.part != g.part or t.kind != g.kind:
        return False
    if t.names != g.names and list(map(identity, t.names)) != list(map(identity, g.names)):
        return False
    if not np.array_equal(np.frombuffer(t.path, np.int32), _translated(g, t)):
        return False
    shapes: dict[object, int] = {}
    t_shape, g_shape = (_ints(shapes.setdefault(shape, len(shapes)) for _, _, shape in c.looks) for c in (t, g))
    if not np.array_equal(t_shape[np.frombuffer(t.look, np.int32)], g_shape[np.frombuffer(g.look, np.int32)]):
        return False
    return _parents(target) == _parents(golden)


def _parents(dump: Dump) -> list[str | None]:
    return [dump.construct.get(name) for name in dump.columns.names]


def _ints(values: Iterable[int]) -> Ints:
    return np.array(list(values), np.int64)


def _translated(source: Columns, into: Columns) -> NDArray[np.int32]:
    """The paths of one side in the numbers of the other; paths that the other does not have get numbers behind."""
    numbers = {path: n for n, path in enumerate(into.paths)}
    table = np.array([numbers.setdefault(path, len(numbers)) for path in source.paths] or [0], np.int32)
    return table[np.frombuffer(source.path, np.int32)]


def _in_order(found: Iterable[Match], targets: int, goldens: int) -> list[tuple[int, int, MatchedBy]]:
    """Target call, golden call and what matched them; -1 for none. Golden-only calls stand where they belong."""
    partner = {m.target: m for m in found}
    taken = {m.golden: m.target for m in partner.values()}
    before: dict[int, list[int]] = {}
    place = targets
    for j in range(goldens - 1, -1, -1):
        if j in taken:
            place = taken[j]
        else:
            before.setdefault(place, []).append(j)
    ordered: list[tuple[int, int, MatchedBy]] = []
    for i in range(targets + 1):
        ordered += ((-1, j, "") for j in reversed(before.get(i, ())))
        if i < targets:
            m = partner.get(i)
            ordered.append((i, m.golden, m.by) if m else (i, -1, ""))
    return ordered


def _joined(target: Dump, golden: Dump, calls: Sequence[tuple[int, int, MatchedBy]]) -> Pairs:
    left, right = target.columns, golden.columns
    right_path = array("i", _translated(right, left).tolist())
    target_rows: list[int] = []
    golden_rows: list[int] = []
    starts = [0]
    for i, j, _ in calls:
        ours = range(left.starts[i], left.starts[i + 1]) if i >= 0 else range(0)
        theirs = range(right.starts[j], right.starts[j + 1]) if j >= 0 else range(0)
        a, b = slice(ours.start, ours.stop), slice(theirs.start, theirs.stop)
        if j < 0:
            target_rows += ours
            golden_rows += [-1] * len(ours)
        elif i < 0:
            target_rows += [-1] * len(theirs)
            golden_rows += theirs
        elif left.part[a] == right.part[b] and left.path[a] == right_path[b]:
            target_rows += ours
            golden_rows += theirs
        else:
            for t, g in _join_records(_places(left.part[a], left.path[a]), _places(right.part[b], right_path[b])):
                target_rows.append(-1 if t is None else ours.start + t)
                golden_rows.append(-1 if g is None else theirs.start + g)
        starts.append(len(target_rows))
    return Pairs(
        target,
        golden,
        _ints(i for i, _, _ in calls),
        _ints(j for _, j, _ in calls),
        [by for _, _, by in calls],
        np.array(starts, np.int64),
        np.array(target_rows, np.int64),
        np.array(golden_rows, np.int64),
    )


Place = tuple[int, int, int]
"""Part, path, and how many records of the same part and path stand before (an argument and a keyword may share one)."""


def _places(parts: Iterable[int], paths: Iterable[int]) -> list[Place]:
    seen: Counter[tuple[int, int]] = Counter()
    found = []
    for place in zip(parts, paths, strict=True):
        found.append((*place, seen[place]))
        seen[place] += 1
    return found


def _join_records(left: Sequence[Place], right: Sequence[Place]) -> list[tuple[int | None, int | None]]:
    """Places of records by their places, in row order: the left's, with right-only ones after their neighbour."""
    waiting = {place: g for g, place in enumerate(right)}
    taken = set(left)
    # The right-only records by what they stand behind: the nearest earlier right record of the same part that has a
    # partner. Without one they stand at the end of their part.
    behind: dict[int, list[int]] = {}
    first: dict[int, list[int]] = {}
    last: dict[int, int] = {}
    for g, place in enumerate(right):
        if place in taken:
            last[place[0]] = g
        elif place[0] in last:
            behind.setdefault(last[place[0]], []).append(g)
        else:
            first.setdefault(place[0], []).append(g)
    joined: list[tuple[int | None, int | None]] = []
    for t, place in enumerate(left):
        for part in sorted(part for part in first if part < place[0]):
            joined += ((None, g) for g in first.pop(part))
        here = waiting.get(place)
        joined.append((t, here))
        if here is not None:
            joined += ((None, g) for g in behind.get(here, ()))
    for part in sorted(first):
        joined += ((None, g) for g in first[part])
    return joined
