"""Parts of calls that are too large to be replayed whole: slices along an axis, and rows of products.

A call that computes each slice along some axis by itself (an elementwise function, a norm, a convolution over its
batch) is replaced by a smaller call of the same kind. Of a product of two matrices rows of the outputs are computed: a
product of 4096^3 takes many seconds in float64 on one core, 64 rows of its output take a fraction of one and tell as
much of the kernel. Slices and rows are spread evenly, the same in every run.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from msprobe.replay.operations import Kind, Operation
from msprobe.replay.plan import Candidate
from msprobe.replay.recorded import Array, CannotReplay, Cause, Leaf, RecordedCall, leaves, mapped
from msprobe.replay.references import WHOLE, Reference

from .execute import Tensor

LARGEST = 1 << 27
"""Elements beyond which a call that has no sample is not replayed."""

_LAST_AXIS = ("softmax", "log_softmax", "softmin", "layer_norm", "rms_norm", "rotary", "swiglu", "glu", "normalize")
_FIRST_INPUT = ("conv1d", "conv2d", "conv3d", "group_norm", "interpolate")
_BATCH = ("attention", *_FIRST_INPUT, *(f"{kind}_pool{n}d" for kind in ("avg", "adaptive_avg") for n in (1, 2, 3)))


@dataclass(frozen=True, eq=False)
class Slices(Leaf):
    """Some slices of a recorded tensor along an axis; `record` has their shape."""

    of: Leaf
    axis: int
    places: Array

    @cached_property
    def array(self) -> Array:
        """Return the elements of the slices."""
        return np.take(self.of.loaded(), self.places, self.axis)


def size_of(call: RecordedCall) -> int:
    """Return the number of elements of all tensors of a call."""
    tensors = [*leaves([call.args, call.kwargs]), *call.parameters.values(), *call.outputs.values()]
    return sum(math.prod(leaf.shape) for leaf in tensors)


def sample(call: RecordedCall, operation: Operation, candidate: Candidate, whole: int = WHOLE) -> RecordedCall:
    """Return a part of a call with about `whole` elements; the call itself where its operation has no slices."""
    out = call.outputs.get(("0",))
    axis = _axis(out.shape, operation, candidate) if out is not None else None
    if out is None or axis is None:
        return call
    size, ndim = out.shape[axis], len(out.shape)
    places = _spread(size, max(1, size * whole // size_of(call)))
    first = next(leaves([call.args, call.kwargs]), None)
    made: dict[Leaf, Leaf] = {}

    def cut(leaf: Any) -> Any:
        if not isinstance(leaf, Leaf):
            return leaf
        own = axis - ndim + len(leaf.shape)
        is_candidate = operation.name not in _FIRST_INPUT or leaf is first or leaf.record.part == "output"
        if is_candidate and own >= 0 and leaf.shape[own] == size and leaf not in made:
            shape = (*leaf.shape[:own], len(places), *leaf.shape[own + 1 :])
            made[leaf] = Slices(leaf.dump, replace(leaf.record, shape=shape), leaf, own, places)
        return made.get(leaf, leaf)

    part = replace(
        call,
        args=mapped(call.args, cut),
        kwargs=mapped(call.kwargs, cut),
        outputs=mapped(call.outputs, cut),
        incoming=mapped(call.incoming, cut),
    )
    gradients = tuple((made[of], cut(gradient)) for of, gradient in call.gradients if of in made)
    return call if call.is_backward and not gradients else replace(part, gradients=gradients)


def _axis(shape: tuple[int, ...], operation: Operation, candidate: Candidate) -> int | None:
    """Return the axis whose slices are computed separately: the longest that the operation allows."""
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
    """Return whether a softmax or norm works along another axis than the last."""
    axes = [candidate.kwargs.get(name) for name in ("dim", "axis")]
    axes += [value for value in candidate.args[1:2] if isinstance(value, int)]
    if any(value not in (None, -1, len(shape) - 1) for value in axes):
        return True
    weights = [leaf for leaf in leaves([candidate.args, candidate.kwargs]) if leaf.shape != shape]
    return candidate.name.endswith("norm") and any(len(leaf.shape) > 1 for leaf in weights)


def _spread(size: int, count: int) -> Array:
    """Return `count` places, from the first to the last."""
    return np.unique(np.linspace(0, size - 1, count).astype(np.int64))


ROWS = 64
"""Rows of a sampled output."""

PRODUCT = 1 << 31
"""Multiplications beyond which a product is sampled: some seconds in float64."""


@dataclass(frozen=True)
class Product:
    """a @ b + bias, where an operand may be recorded transposed."""

    a: Leaf
    b: Leaf
    bias: Leaf | None
    is_a_transposed: bool = False
    is_b_transposed: bool = False


def large_product(candidate: Candidate) -> Product | None:
    """Return a candidate as a product of two matrices (not batches); None for other candidates, and small ones."""
    name = candidate.name.rpartition(".")[2].strip("_")
    if name not in ("matmul", "mm", "linear"):
        return None
    kwargs = candidate.kwargs
    if candidate.family == "own" and name == "matmul":
        a, b, bias = kwargs["a"], kwargs["b"], None
        transposed = bool(kwargs.get("transpose_a")), bool(kwargs.get("transpose_b"))
    else:
        bound = dict(zip(("x", "weight", "bias"), candidate.args, strict=False))
        bound |= {{"input": "x", "other": "weight", "mat2": "weight"}.get(key, key): v for key, v in kwargs.items()}
        a, b, bias = (bound.get(key) for key in ("x", "weight", "bias"))
        transposed = False, name == "linear"
    if not (isinstance(a, Leaf) and isinstance(b, Leaf) and a.is_floating and b.is_floating):
        return None
    is_large = math.prod(a.shape) * max(b.shape) > PRODUCT and len(b.shape) == 2 and len(a.shape) >= 2
    return Product(a, b, bias if isinstance(bias, Leaf) else None, *transposed) if is_large else None


@dataclass(frozen=True, eq=False)
class Rows(Leaf):
    """Some rows of a recorded tensor as a matrix; `record` has their shape."""

    of: Leaf
    places: Array

    @cached_property
    def array(self) -> Array:
        """Return the elements of the rows."""
        return self.of.loaded().reshape(-1, self.shape[-1])[self.places]


def sampled(call: RecordedCall, candidate: Candidate) -> tuple[Reference, ...]:
    """Return the references of a large product on rows of its outputs; the gradient of a bias is computed whole."""
    product = large_product(candidate)
    if product is None:
        raise CannotReplay(Cause.TOO_LARGE, call.name)
    a, b = _matrix(product.a), _matrix(product.b)
    a, b = a.T if product.is_a_transposed else a, b.T if product.is_b_transposed else b
    if not call.is_backward:
        return (_of_rows(call.outputs[("0",)], a, b, product.bias),)
    g = _matrix(call.incoming[("0",)])
    found = []
    for leaf, record in call.gradients:
        if leaf is product.bias:
            wide = g.double()
            value = wide.sum(0)
            found.append(_reference(record, value, (wide.square().sum(0) + value.square()).sqrt()))
        elif leaf is product.a:
            found.append(_of_rows(record, *((b, g.T) if product.is_a_transposed else (g, b.T))))
        elif leaf is product.b:
            found.append(_of_rows(record, *((g.T, a) if product.is_b_transposed else (a.T, g))))
        else:
            raise CannotReplay(Cause.TOO_LARGE, call.name)
    return tuple(found)


def _of_rows(record: Leaf, left: Tensor, right: Tensor, bias: Leaf | None = None) -> Reference:
    """Return rows of left @ right + bias, whose sensitivity is sqrt(left^2 @ right^2 + bias^2 + value^2)."""
    places = _spread(left.shape[0], min(ROWS, left.shape[0]))
    if math.prod(record.shape) != left.shape[0] * right.shape[1] or not record.shape:
        raise CannotReplay(Cause.OTHER_SHAPE, record.record.name)
    rows = Rows(record.dump, replace(record.record, shape=(len(places), record.shape[-1])), record, places)
    x, w = left[torch.from_numpy(places)].double(), right.double()
    value, square = x @ w, x.square() @ w.square()
    if bias is not None:
        wide = torch.from_numpy(bias.array).double()
        value, square = value + wide, square + wide.square()
    return _reference(rows, value, (square + value.square()).sqrt())


def _reference(record: Leaf, value: Tensor, sensitivity: Tensor) -> Reference:
    return Reference(record, value.numpy(), sensitivity.numpy())


def _matrix(leaf: Leaf) -> Tensor:
    """Return a tensor as a matrix of its rows, in the dtype of its file."""
    return torch.from_numpy(leaf.array).reshape(-1, leaf.shape[-1])
