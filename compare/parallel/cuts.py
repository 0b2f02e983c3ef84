"""How the tensor-parallel ranks share one value: each has all of it, a part along an axis, or something else.

The data decide first. A shape that differs from the other side's in one dimension, by the factor of the parallel sizes,
is cut along it; one that is equal there is not cut. Only if the other side does not show it (there is none, its layout
is the same, or it lacks the call), a table of Megatron's classes decides.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from msprobe.base import names

from .values import Shape

TakenAs = Enum("TakenAs", "WHOLE PARTS STACK UNKNOWN")
"""Every rank has all of it; the ranks' parts together are it; parts, but along an unknown axis; unknown."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The way in which a value is split, and its shape in the whole model."""

    taken_as: TakenAs
    shape: Shape = ()


UNKNOWN = Cut(TakenAs.UNKNOWN)


def by_shapes(mine: Sequence[Shape], theirs: Sequence[Shape]) -> Cut:
    """Return the split that the shapes on the ranks of both sides allow; UNKNOWN if several are possible."""
    ours, others = _wholes(mine), _wholes(theirs)
    common = ours.keys() & others.keys()
    if len(common) == 1:
        (shape,) = common
        return Cut(ours[shape], shape)
    # Axes may have been joined or split after the cut: heads * width at one place, heads and width separate at another.
    if not common and len(theirs) == 1 and sum(map(math.prod, mine)) == math.prod(theirs[0]) > 0:
        return Cut(TakenAs.PARTS, theirs[0])
    return UNKNOWN


def _wholes(shapes: Sequence[Shape]) -> dict[Shape, TakenAs]:
    """Return the shapes that the whole value may have, by the split that each requires."""
    found = {}
    first = shapes[0]
    if len(shapes) > 1:
        for axis in range(len(first)):
            if (whole := _along(shapes, axis)) is not None:
                found[whole] = TakenAs.PARTS
    if all(shape == first for shape in shapes):
        found[first] = TakenAs.WHOLE
    return found


def _along(shapes: Sequence[Shape], axis: int) -> Shape | None:
    """Return the shape of a concatenation; None if the other axes do not fit."""
    first = shapes[0]
    if axis >= len(first):
        return None
    if any(len(s) != len(first) or s[:axis] + s[axis + 1 :] != first[:axis] + first[axis + 1 :] for s in shapes):
        return None
    return (*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :])


_COLUMN, _ROW, _VOCABULARY = "ColumnParallelLinear", "RowParallelLinear", "VocabParallelEmbedding"

_PARAMETERS = {
    (_COLUMN, "weight"): 0,
    (_COLUMN, "bias"): 0,
    (_ROW, "weight"): 1,
    (_VOCABULARY, "weight"): 0,
}
"""The axes along which parameters of Megatron's layers are cut; any other is whole on each rank. The classes of other
libraries contain these names: TEColumnParallelLinear, TELayerNormColumnParallelLinear."""

_VALUES = {(_COLUMN, "result"): -1, (_ROW, "argument"): -1}
"""The same for their inputs and outputs; a gradient is cut like the value that it belongs to."""


def class_of(cell: str) -> str:
    """Return Megatron's class of a cell call; empty for other classes, and for calls of functions."""
    name = names.parse(cell)
    if name.kind not in ("cell", "parameters_grad"):
        return ""
    written = name.stem.rpartition(".")[2]
    return next((known for known in (_COLUMN, _ROW, _VOCABULARY) if known in written), "")


def by_class(
    call: str, part: str, path: Sequence[str], shapes: Sequence[Shape], *, are_equal: bool, opposite: Shape
) -> Cut:
    """Return the split of a value of a cell call by the table; UNKNOWN for other calls.

    `opposite` is the shape of the result for an argument, and of the argument for a result. A result of a
    column-parallel layer that is equal on all ranks was gathered inside. A value that is whole in the table is cut
    along the first axis with sequence parallelism: then the first axis of the opposite is longer by the number of
    ranks.
    """
    kind = class_of(call)
    if not kind:
        return UNKNOWN
    if part in ("parameters", "parameters_grad"):
        axis = _PARAMETERS.get((kind, path[0] if path else ""))
    elif are_equal:
        axis = None
    else:
        is_result = (part == "output") is (names.parse(call).direction == "forward")
        axis = _VALUES.get((kind, "result" if is_result else "argument"))
        if axis is None and not opposite:
            return UNKNOWN
        if axis is None and (sequence := _along(shapes, 0)) and sequence[0] == opposite[0]:
            return Cut(TakenAs.PARTS, sequence)
    if axis is None:
        return Cut(TakenAs.WHOLE, shapes[0])
    at = axis % len(shapes[0]) if shapes[0] else 0
    whole = _along(shapes, at)
    return Cut(TakenAs.PARTS, whole) if whole is not None else UNKNOWN


def stacked(shapes: Sequence[Shape]) -> Cut:
    """Return the split along an unknown axis: parts are stacked along a new one, so that the elements are correct."""
    first = shapes[0]
    if all(shape == first for shape in shapes):
        return Cut(TakenAs.STACK, (len(shapes), *first))
    return Cut(TakenAs.STACK, (sum(map(math.prod, shapes)),))
