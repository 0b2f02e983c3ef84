"""Casts and other calls that round to fewer bits on one side only, by the dtypes that both sides recorded.

There is no tolerance for these: a dtype is exact, and the bits that are rounded away may be the whole fault. Two
programs may cast at different places, so the path between two pairs of tensors is decisive: precision differs if the
path of one side goes through a floating-point dtype with fewer bits than any on the other side.
"""

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.core.noise import Rounding
from msprobe.compare.core.standard import canonical
from msprobe.compare.judge.cross_framework import widths_are_custom
from msprobe.store.record import INPUT, PARAMETERS, Columns

from .downstream import compared_after
from .flow import Flow
from .pairs import AlignedGraphs
from .upstream import ancestors

MANTISSA = {"float64": 52, "float32": 23, "float16": 10, "bfloat16": 7, "float8_e4m3fn": 3, "float8_e5m2": 2}
"""Bits of the fraction of each floating-point dtype."""

_SIDES = ("target", "golden")


def one_sided_roundings(flow: Flow) -> dict[int, Rounding]:
    """Return by place the calls that round to fewer bits than all corresponding calls of the other side.

    Empty if one side as a whole computes in another precision: that is the setting that the user compares.
    """
    aligned = flow.aligned
    if aligned.has_other_kernels and widths_are_custom(aligned.pairs):
        return {}
    found: dict[int, Rounding] = {}
    bits = [_bits_of_looks(graph.columns) for graph in aligned.graphs]
    have_several = [len({one for one in of if one >= 0}) > 1 for of in bits]
    # Within one framework, a different dtype is an error.
    differing = aligned.events_with(_have_other_bits(aligned, bits)) if aligned.has_other_kernels else []
    for event in sorted((*differing, *aligned.one_sided), key=attrgetter("at")):
        if event.direction != "forward":
            continue
        if event.is_matched:
            if event in aligned.innermost:
                found.update((event.place, one) for one in _of_pair(aligned, event.rows))
            continue
        side = _SIDES.index(event.side)
        if not have_several[side]:
            continue
        call = aligned.calls[side][event.place]
        if call not in aligned.graphs[side].inside and (rounding := _of_call(flow, side, call)):
            found[event.place] = rounding
    return found


def _bits_of_looks(columns: Columns) -> list[int]:
    """Return, by kind of record of a dump, the bits of the fraction; -1 if the dtype is not floating-point."""
    return [MANTISSA.get(canonical(dtype), -1) for _, dtype, _ in columns.looks] or [-1]


def _have_other_bits(aligned: AlignedGraphs, bits: Sequence[Sequence[int]]) -> NDArray[np.bool_]:
    """Return which pairs of records are tensors with fewer bits on one side."""
    found = np.array(aligned.are_tensors)
    rows = np.flatnonzero(found)
    ours, theirs = (
        np.array(known)[np.frombuffer(graph.columns.look, np.int32)[np.asarray(of)[rows]]]
        for known, graph, of in zip(bits, aligned.graphs, aligned.rows, strict=True)
    )
    found[rows] = (ours != theirs) & (ours >= 0) & (theirs >= 0)
    return found


def _of_pair(aligned: AlignedGraphs, rows: Iterable[int]) -> Iterator[Rounding]:
    """Yield the rounding of a pair of calls, if its outputs have different precisions and its inputs do not."""
    tensors = [row for row in rows if aligned.are_tensors[row] and None not in _of_both(aligned, row)]
    given = [row for row in tensors if aligned.is_input[row]]
    if not given or any(_differs(aligned, row) for row in given):
        return
    for row in tensors:
        if not aligned.is_input[row] and _differs(aligned, row) and aligned.difference(row):
            bits = [of or 0 for of in _of_both(aligned, row)]
            side = bits.index(min(bits))
            yield Rounding(_SIDES[side], _dtype(aligned, side, row), _dtype(aligned, 1 - side, row))
            return


def _differs(aligned: AlignedGraphs, row: int) -> bool:
    target, golden = _of_both(aligned, row)
    return target != golden


def _of_both(aligned: AlignedGraphs, row: int) -> tuple[int | None, int | None]:
    return MANTISSA.get(_dtype(aligned, 0, row)), MANTISSA.get(_dtype(aligned, 1, row))


def _dtype(aligned: AlignedGraphs, side: int, row: int) -> str:
    return canonical(aligned.dtype_and_shape(side, row)[0])


def _of_call(flow: Flow, side: int, call: int) -> Rounding | None:
    """Return the rounding of tensors that both sides compare by a call of one side; None if the other side rounds as
    much."""
    aligned, graph = flow.aligned, flow.aligned.graphs[side]
    columns = graph.columns
    made = [row for row in graph.outputs(call) if canonical(columns.dtype(row)) in MANTISSA]
    given = [
        MANTISSA.get(canonical(columns.dtype(row)), 0)
        for part in (INPUT, PARAMETERS)
        for row in columns.tensors(call, part)
    ]
    if not made or not given:
        return None
    bits = min(MANTISSA[canonical(columns.dtype(row))] for row in made)
    if bits >= max(given) or graph.only_arranges(call):
        return None  # every element is representable in the other dtype
    widest = None
    for row in compared_after(aligned, side, outputs=made):
        others = _narrowest_path(flow, 1 - side, row)
        if others is None or MANTISSA[others] <= bits:
            return None
        widest = others
    dtype = next(canonical(columns.dtype(row)) for row in made if MANTISSA[canonical(columns.dtype(row))] == bits)
    return None if widest is None else Rounding(_SIDES[side], dtype, widest)


def _narrowest_path(flow: Flow, side: int, pair: int) -> str | None:
    """Return the floating-point dtype with the fewest bits on one side's path from the nearest pairs of tensors to a
    pair; None if there is none."""
    aligned = flow.aligned
    graph, row = aligned.graphs[side], aligned.rows[side][pair]
    columns = graph.columns
    dtypes = {canonical(columns.dtype(row))}
    made = aligned.made_by(side, row) if aligned.is_input[pair] else [row]
    for one in made:
        for call in ancestors(flow, side, one)[1]:
            dtypes |= _dtypes(columns, graph.outputs(call))
        dtypes.add(canonical(columns.dtype(one)))
    if not aligned.is_input[pair]:
        dtypes |= _dtypes(columns, graph.inputs(graph.call_of[row]))
    return min(dtypes & MANTISSA.keys(), key=MANTISSA.__getitem__, default=None)


def _dtypes(columns: Columns, rows: Iterable[int]) -> set[str]:
    return {canonical(columns.dtype(row)) for row in rows}
