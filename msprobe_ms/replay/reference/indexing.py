"""References that read or write by index, and the parts of the record that they use."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

Tensor = Any


@dataclass(frozen=True)
class Recorded:
    """Shape and dtype (`float32`) of the first output as recorded; they decide where the arguments are ambiguous."""

    shape: tuple[int, ...]
    dtype: str


def setitem(x: Tensor, index: Any, value: Any) -> Tensor:
    """x with x[index] = value."""
    made = x.clone()
    made[index] = value.to(made.dtype) if isinstance(value, torch.Tensor) else value
    return made


def getitem(x: Tensor, index: Any, *, recorded: Recorded) -> Tensor:
    """x[index]; records do not distinguish the tuple (0, 1) from the list [0, 1], but the shape of the output does."""
    try:
        found = x[index]
        if tuple(found.shape) == recorded.shape or not isinstance(index, tuple):
            return found
    except (IndexError, TypeError):
        if not isinstance(index, tuple):
            raise
    return x[list(index)]


def one_hot(indices: Tensor, depth: int, on: Any = 1, off: Any = 0, axis: int = -1) -> Tensor:
    """`on` where the index is along a new axis, else `off`; rows of an index out of range are `off`."""
    hot = indices.unsqueeze(axis) == torch.arange(depth).reshape(
        [depth if i == axis % (indices.dim() + 1) else 1 for i in range(indices.dim() + 1)]
    )
    return torch.where(hot, torch.as_tensor(on), torch.as_tensor(off))


def embedding(
    indices: Tensor, weight: Tensor, padding_idx: Any = None, max_norm: Any = None, *_: Any, **__: Any
) -> Any:
    """Rows of the weight; that of `padding_idx` gets no gradient."""
    if max_norm is not None:
        raise ValueError("rows are scaled in place")
    return functional.embedding(indices, weight, padding_idx)


def index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """Elements of an axis by an index of any shape, whose axes replace it."""
    dim = dim % max(x.dim(), 1)
    return x.index_select(dim, index.reshape(-1)).reshape(*x.shape[:dim], *index.shape, *x.shape[dim + 1 :])


def gather_nd(x: Tensor, indices: Tensor) -> Tensor:
    """x at the positions in the last axis of the indices."""
    return x[tuple(indices.unbind(-1))]


def slice_of(x: Tensor, begin: Sequence[int], size: Sequence[int]) -> Tensor:
    """`size` elements of each axis from `begin` on; -1: all remaining ones."""
    return x[tuple(slice(b, None if n == -1 else b + n) for b, n in zip(begin, size, strict=True))]


def strided_slice(
    x: Tensor,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int] = (),
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
) -> Tensor:
    """x[begin:end:stride] by axis.

    The bits of a mask say for which positions begin or end do not count, or the position is an ellipsis, a new axis, or
    an index.
    """
    index: list[Any] = []
    for place, (first, last) in enumerate(zip(begin, end, strict=True)):
        step, bit = strides[place] if strides else 1, 1 << place
        if ellipsis_mask & bit:
            index.append(...)
        elif new_axis_mask & bit:
            index.append(None)
        elif shrink_axis_mask & bit:
            index.append(first)
        elif step < 0:
            raise ValueError("torch has no negative strides")
        else:
            index.append(slice(None if begin_mask & bit else first, None if end_mask & bit else last, step))
    return x[tuple(index)]


def scatter_nd(indices: Tensor, updates: Tensor, shape: Sequence[int]) -> Tensor:
    """Zeros with the updates added at the positions in the last axis of the indices."""
    return scatter_nd_add(torch.zeros(tuple(shape), dtype=updates.dtype), indices, updates)


def scatter_nd_add(x: Tensor, indices: Tensor, updates: Tensor, use_locking: Any = None) -> Tensor:
    """x with the updates added."""
    return x.index_put(tuple(indices.unbind(-1)), updates, accumulate=True)


def scatter_nd_sub(x: Tensor, indices: Tensor, updates: Tensor, use_locking: Any = None) -> Tensor:
    """x with the updates subtracted."""
    return scatter_nd_add(x, indices, -updates)


def scatter_nd_update(x: Tensor, indices: Tensor, updates: Tensor, use_locking: Any = None) -> Tensor:
    """x with the updates instead of its elements at these positions."""
    return x.index_put(tuple(indices.unbind(-1)), updates)


def expand_as_recorded(x: Tensor, *, recorded: Recorded) -> Tensor:
    """x in the recorded shape."""
    return x.expand(recorded.shape)


def expand(x: Tensor, size: Any) -> Tensor:
    """x repeated along axes of size 1."""
    return x.expand(tuple(size.tolist()) if isinstance(size, torch.Tensor) else tuple(size))
