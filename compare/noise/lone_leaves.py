"""Constants of two frameworks that only calls without a counterpart take: pair them, and decide whether they differ.

A table of frequencies may be taken by different calls on the two sides, so that it is not in a pair of records. It is a
leaf like others: if it differs, and the results computed from it do not agree as closely, it is the first difference.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from msprobe.compare.core.noise import ROUNDING, VANISHED, Constant, State
from msprobe.compare.core.standard import family
from msprobe.compare.dataflow.graph import Graph
from msprobe.store.record import TENSOR, Columns

from .downstream import calls_after, compared_after
from .pairs import AlignedGraphs

_GREATEST = 1e3
"""Constants with greater elements are masks, which have many forms; their effect is judged at the calls that take
them."""

_SIDES = ("target", "golden")


Numbers = tuple[float, float, float, float]
"""Maximum, minimum, mean and norm."""


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A tensor that no recorded call produced: its rows, and its statistics."""

    rows: tuple[int, ...]
    statistics: Numbers

    def distance(self, other: "_Leaf") -> float:
        """Return the greatest difference of two statistics, each relative to the other's scale."""
        return distance_of_statistics(self.statistics, other.statistics)


def differing_constants(aligned: AlignedGraphs, states: "memoryview[int]") -> dict[int, Constant]:
    """Return, by the place of the first call that takes one, the constants that differ and have an effect.

    For each shape, those that agree are removed; one that remains on each side is a pair. Several are not evidence.
    `states` are those of all pairs of records.
    """
    if not aligned.has_other_kernels:
        return {}
    found: dict[int, Constant] = {}
    leaves = [_unpaired(aligned, side) for side in (0, 1)]
    for shape in leaves[0].keys() & leaves[1].keys():
        mine, theirs = leaves[0][shape], leaves[1][shape]
        left = [one for one in mine if not any(one.distance(other) <= ROUNDING for other in theirs)]
        right = [one for one in theirs if not any(one.distance(other) <= ROUNDING for other in mine)]
        if len(left) != 1 or len(right) != 1:
            continue
        both, distance = (left[0], right[0]), left[0].distance(right[0])
        if _has_effect(aligned, states, both, distance):
            places = {place for side, one in enumerate(both) for place in calls_after(aligned, side, one.rows)}
            order = {place: aligned.event_at[place].at for place in places}
            side, row, place = _first_taken(aligned, both)
            if place < 0:
                continue  # the calls that take it have counterparts, which take it differently
            found[place] = Constant(_SIDES[side], row, distance, tuple(sorted(places, key=order.__getitem__)))
    return found


def _unpaired(aligned: AlignedGraphs, side: int) -> dict[tuple[int, ...], list[_Leaf]]:
    """Return by shape, without lengths of 1, the constants of one side that are not in a pair of records."""
    graph, pair_of = aligned.graphs[side], aligned.pair_of[side]
    columns = graph.columns
    returned: dict[Elements, int] = {}  # the first call that returned them
    for call in range(len(graph.names)):
        for row in graph.outputs(call):
            returned.setdefault(_elements(columns, row), call)
    rows_of: dict[int, list[int]] = defaultdict(list)
    for call, name in enumerate(graph.names):
        if name.direction == "forward" and call not in graph.inside:
            for row in graph.inputs(call):
                if graph.numbers[row] >= 0 and _is_constant(graph, row, returned):
                    rows_of[graph.numbers[row]].append(row)
    found: dict[tuple[int, ...], list[_Leaf]] = defaultdict(list)
    for rows in rows_of.values():
        _, dtype, shape = columns.looks[columns.look[rows[0]]]
        high, low = columns.max[rows[0]], columns.min[rows[0]]
        is_table = family(dtype) == "float" and high != low and max(abs(high), abs(low)) <= _GREATEST
        if is_table and all(pair_of[row] < 0 for row in rows):
            lengths = tuple(length for length in shape or () if length != 1)
            found[lengths].append(_Leaf(tuple(rows), statistics_of(columns, rows[0])))
    return found


Elements = tuple[float, float, float]


def _elements(columns: Columns, row: int) -> Elements:
    """Return the properties of a tensor that do not change if its elements are rearranged."""
    return columns.max[row], columns.min[row], columns.norm[row]


def _is_constant(graph: Graph, row: int, returned: Mapping[Elements, int]) -> bool:
    """Return whether an input is a constant: a leaf by the dump, or a value that no earlier call returned and that
    receives no gradient; `returned` has the first call that returned elements."""
    origin, _ = graph.origin(row)
    if origin != "unknown" or not graph.has_backward:
        return origin == "leaf"
    back = graph.gradient(row)
    is_new = returned.get(_elements(graph.columns, row), len(graph.names)) >= graph.call_of[row]
    return is_new and (back < 0 or graph.columns.kind[back] != TENSOR)


def statistics_of(columns: Columns, row: int) -> Numbers:
    """Return maximum, minimum, mean and norm of a tensor."""
    return columns.max[row], columns.min[row], columns.mean[row], columns.norm[row]


def distance_of_statistics(one: Numbers, other: Numbers) -> float:
    """Return the greatest difference of two statistics, each relative to its scale."""
    greatest = max(map(abs, other[:2]))
    scales = (greatest, greatest, greatest, abs(other[3]))
    pairs = zip(one, other, scales, strict=True)
    return max(abs(a - b) / scale if scale else float(a != b) for a, b, scale in pairs)


def _has_effect(aligned: AlignedGraphs, states: "memoryview[int]", both: tuple[_Leaf, _Leaf], distance: float) -> bool:
    """Return whether a value that is computed from two constants differs, or agrees less closely than without their
    effect; after a harmless difference, the result of the call that takes them."""
    for side, leaf in enumerate(both):
        for pair in compared_after(aligned, side, inputs=leaf.rows):
            rows, received = [pair], distance
            if states[pair] == State.HARMLESS and aligned.is_input[pair]:
                event = aligned.event_at[aligned.pairs.call_of.item(pair)]
                rows, received = aligned.outputs(event), aligned.distance(pair)
            for row in rows:
                left = aligned.distance(row)
                if left > ROUNDING and left * VANISHED > received:
                    return True
    return False


def _first_taken(aligned: AlignedGraphs, both: tuple[_Leaf, _Leaf]) -> tuple[int, int, int]:
    """Return the side, row and place of the first call in execution order that takes one of two constants."""
    taken = [
        (aligned.event_at[place].at, side, row, place)
        for side, leaf in enumerate(both)
        for row in leaf.rows
        if (place := aligned.unmatched_place[side].get(aligned.graphs[side].call_of[row])) is not None
    ]
    _, side, row, place = min(taken, default=(-1, 0, both[0].rows[0], -1))
    return side, row, place
