"""Samples of very large products: rows of their outputs. (Other calls are sampled by `sample.py`.)

A product of 4096^3 takes many seconds in float64 on one core; 64 rows of its output take a fraction of one and tell as
much of the kernel. `Residual.count` then says how many elements were looked at. The rows are spread evenly, the same in
every run.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from msprobe.replay.plan import Candidate
from msprobe.replay.recorded import CannotReplay, Leaf, RecordedCall
from msprobe.replay.residual import measured
from msprobe.replay.result import Cause, Residual

Tensor = Any

ROWS = 64
"""Rows of a sampled output."""

PRODUCT = 1 << 31
"""Multiplications beyond which a product is sampled: some seconds in float64."""


def is_large(candidate: Candidate) -> bool:
    """Whether a candidate is a product of two matrices (not of batches of them) beyond the limit."""
    found = _operands(candidate)
    if found is None:
        return False
    a, b, _, _, _ = found
    return math.prod(a.shape) * max(b.shape) > PRODUCT and len(b.shape) == 2 and len(a.shape) >= 2


def _operands(candidate: Candidate) -> tuple[Leaf, Leaf, Leaf | None, bool, bool] | None:
    """The operands, the bias, and whether the second, or the first, stands transposed; None for no plain product."""
    args, kwargs, name = candidate.args, candidate.kwargs, candidate.name.rpartition(".")[2].strip("_")
    if name not in ("matmul", "mm", "linear"):
        return None
    if candidate.family == "own" and name == "matmul":
        first, second = kwargs["a"], kwargs["b"]
        bias, is_turned, first_turned = None, bool(kwargs.get("transpose_b")), bool(kwargs.get("transpose_a"))
    else:
        named = dict(zip(("x", "weight", "bias"), args, strict=False))
        named |= {{"input": "x", "other": "weight", "mat2": "weight"}.get(key, key): v for key, v in kwargs.items()}
        first, second = named.get("x"), named.get("weight")
        bias, is_turned, first_turned = named.get("bias"), name == "linear", False
    if not (isinstance(first, Leaf) and isinstance(second, Leaf) and first.is_floating and second.is_floating):
        return None
    return first, second, bias if isinstance(bias, Leaf) else None, is_turned, first_turned


def sampled(call: RecordedCall, candidate: Candidate) -> tuple[Residual, ...]:
    """The residuals of a large product on rows of its outputs; the gradient of a bias is looked at whole."""
    found = _operands(candidate)
    if found is None:
        raise CannotReplay(Cause.TOO_LARGE, call.name)
    first, second, bias, is_turned, first_turned = found
    a, b = _matrix(first), _matrix(second)
    a, b = a.T if first_turned else a, b.T if is_turned else b
    if not call.is_backward:
        leaf = call.outputs[("0",)]
        rows = _spread(a.shape[0])
        return (_measured(leaf, a[rows], b, _matrix(leaf)[rows], bias),)
    return tuple(_gradients(call, (first, a, first_turned), (second, b, is_turned), bias))


def _gradients(
    call: RecordedCall, first: tuple[Leaf, Tensor, bool], second: tuple[Leaf, Tensor, bool], bias: Leaf | None
) -> Iterator[Residual]:
    (leaf_a, a, a_turned), (leaf_b, b, b_turned) = first, second
    g = _matrix(call.incoming[("0",)])
    for leaf, record in call.gradients:
        if leaf is bias:
            wide = g.double()
            figures = _figures(record, wide.sum(0), (wide.square().sum(0) + wide.sum(0).square()).sqrt(), record.array)
            yield Residual(record.record.part, record.record.path, wide.shape[1], *figures)
            continue
        out = _matrix(record)
        if leaf is leaf_a:
            left, right, is_turned = g, b.T, a_turned  # g b^T
        elif leaf is leaf_b:
            left, right, is_turned = a.T, g, b_turned  # a^T g
        else:
            raise CannotReplay(Cause.TOO_LARGE, call.name)
        if is_turned:
            left, right = right.T, left.T
        rows = _spread(left.shape[0])
        yield _measured(record, left[rows], right, out[rows], None)


def _measured(record: Leaf, left: Tensor, right: Tensor, output: Tensor, bias: Leaf | None) -> Residual:
    x, w = left.double(), right.double()
    value, square = x @ w, x.square() @ w.square()
    if bias is not None:
        b = torch.from_numpy(bias.array).double()
        value, square = value + b, square + b.square()
    figures = _figures(record, value, (square + value.square()).sqrt(), output.numpy())
    return Residual(record.record.part, record.record.path, value.numel(), *figures)


def _figures(record: Leaf, value: Tensor, sensitivity: Tensor, output: Any) -> Any:
    if tuple(value.shape) != tuple(output.shape):
        raise CannotReplay(Cause.OTHER_SHAPE, record.record.name)
    return measured(output, value.numpy(), sensitivity.numpy(), record.dtype)


def _matrix(leaf: Leaf) -> Tensor:
    """A tensor as a matrix of its rows, in the dtype of its file."""
    return torch.from_numpy(leaf.array).reshape(-1, leaf.shape[-1])


def _spread(count: int) -> Tensor:
    """As many places as are looked at, from the first to the last."""
    return torch.from_numpy(np.unique(np.linspace(0, count - 1, min(ROWS, count)).astype(np.int64)))
