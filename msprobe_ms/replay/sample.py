"""A part of a very large call that computes each slice along some axis by itself: an elementwise function, a norm, a
convolution over its batch. The part is a smaller call of the same kind.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from .operations import Kind, Operation
from .plan import Candidate
from .recorded import Array, CannotReplay, Leaf, RecordedCall, leaves
from .result import Cause

WHOLE = 1 << 20
"""Elements of all tensors of a call up to which it is replayed whole."""

LARGEST = 1 << 27
"""Elements beyond which a call that has no sample is not replayed."""

_LAST_AXIS = ("softmax", "log_softmax", "softmin", "layer_norm", "rms_norm", "rotary", "swiglu", "glu", "normalize")
_FIRST_INPUT = ("conv1d", "conv2d", "conv3d", "group_norm", "interpolate")
_BATCH = ("attention", *_FIRST_INPUT, *(f"{kind}_pool{n}d" for kind in ("avg", "adaptive_avg") for n in (1, 2, 3)))


@dataclass(frozen=True, eq=False)
class Slices(Leaf):
    """Some slices of a recorded tensor along an axis; `record` has their shape."""

    axis: int
    places: Array

    @cached_property
    def array(self) -> Array:
        """The elements of the slices."""
        return np.take(self.loaded(), self.places, self.axis)


def size_of(call: RecordedCall) -> int:
    """Elements of all tensors of a call."""
    tensors = [*leaves([call.args, dict(call.kwargs)]), *call.parameters.values(), *call.outputs.values()]
    return sum(math.prod(leaf.shape) for leaf in tensors)


def sample(call: RecordedCall, operation: Operation, candidate: Candidate) -> RecordedCall:
    """A part of a call with about `WHOLE` elements; CannotReplay where the operation has none."""
    out = call.outputs.get(("0",))
    axis = _axis(out.shape, operation, candidate) if out is not None else None
    if out is None or axis is None:
        raise CannotReplay(Cause.TOO_LARGE, call.name)
    size = out.shape[axis]
    places = np.unique(np.linspace(0, size - 1, max(1, size * WHOLE // size_of(call))).astype(np.int64))
    ndim, first = len(out.shape), next(leaves([call.args, dict(call.kwargs)]), None)
    made: dict[Leaf, Leaf] = {}

    def cut(leaf: Leaf) -> Leaf:
        own = axis - ndim + len(leaf.shape)
        is_candidate = operation.name not in _FIRST_INPUT or leaf is first or leaf.record.part == "output"
        if is_candidate and own >= 0 and leaf.shape[own] == size and leaf not in made:
            shape = (*leaf.shape[:own], len(places), *leaf.shape[own + 1 :])
            made[leaf] = Slices(leaf.dump, replace(leaf.record, shape=shape), own, places)
        return made.get(leaf, leaf)

    return replace(
        call,
        args=_mapped(call.args, cut),
        kwargs=_mapped(dict(call.kwargs), cut),
        outputs={path: cut(leaf) for path, leaf in call.outputs.items()},
        incoming={path: cut(leaf) for path, leaf in call.incoming.items()},
        gradients=tuple((made[of], cut(gradient)) for of, gradient in call.gradients if of in made),
    )


def _axis(shape: tuple[int, ...], operation: Operation, candidate: Candidate) -> int | None:
    """The axis whose slices are computed by themselves: the longest that the operation allows."""
    if operation.kind is Kind.ELEMENTWISE:
        allowed = range(len(shape))
    elif operation.name in _LAST_AXIS and not _is_over_other_axes(shape, candidate):
        allowed = range(len(shape) - 1)
    elif operation.name == "matmul":
        allowed = range(len(shape) - 2)  # batches
    elif operation.name in _BATCH:
        allowed = range(min(1, len(shape)))
    else:
        return None
    longest = max(allowed, key=lambda axis: shape[axis], default=None)
    return None if longest is None or shape[longest] < 2 else longest


def _is_over_other_axes(shape: tuple[int, ...], candidate: Candidate) -> bool:
    """Whether a softmax or norm works along another axis than the last."""
    told = [candidate.kwargs.get(name) for name in ("dim", "axis")]
    told += [value for value in candidate.args[1:2] if isinstance(value, int)]
    if any(value not in (None, -1, len(shape) - 1) for value in told):
        return True
    weights = [leaf for leaf in leaves([*candidate.args, dict(candidate.kwargs)]) if leaf.shape != shape]
    return candidate.name.endswith("norm") and any(len(leaf.shape) > 1 for leaf in weights)


def _mapped(value: Any, change: Any) -> Any:
    if isinstance(value, Leaf):
        return change(value)
    if isinstance(value, tuple):
        return tuple(_mapped(inner, change) for inner in value)
    if isinstance(value, Mapping):
        return {key: _mapped(inner, change) for key, inner in value.items()}
    return value
