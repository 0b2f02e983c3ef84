"""The sensitivity S of outputs: how far relative rounding of the floating inputs moves each element.

S^2 = E[(J (x * xi))^2] + f^2 with independent xi = +-1: rounding errors are modelled as independent with mean zero, as
in Higham and Mary, "A new approach to probabilistic rounding error analysis", SIAM J. Sci. Comput. 41 (2019). Times the
unit roundoff, S is the deviation of a kernel that rounds its inputs and its output once.

- bilinear operations, a sum of products with coefficients of 1: S^2 = op(x^2, w^2) + f^2, exactly; the vector-Jacobian
  product of squares likewise. A mean's coefficient 1/n comes as a factor.
- elementwise operations: S^2 = sum_i (df/dx_i x_i)^2 + f^2, one input at a time; backward on inputs expanded to the
  output's shape, so that contributions are squared before broadcasting sums them up.
- data movement: S^2 = 2 f^2, and op(g^2) + f^2 where the backward sums.
- others: finite differences along 8 sign patterns. The patterns are rows of a Hadamard matrix, the columns are given to
  elements in turn along every axis: between elements with different columns the cross terms cancel exactly, so S cannot
  vanish by chance where an output depends on few elements.

A derivative by a saved output y (tanh: g (1 - y^2)) takes y as one more input: its rounding is the kernel's.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch

Tensor = Any
Function = Callable[[Sequence[Tensor]], Sequence[Tensor]]

STEP = 2.0**-20
"""Relative step of finite differences: the error is 1e-6 of the curvature and 1e-10 of the value."""

PATTERNS = 8
_HADAMARD = np.array([[1 - 2 * (bin(i & j).count("1") % 2) for j in range(PATTERNS)] for i in range(PATTERNS)])


def of_squares(function: Function, inputs: Sequence[Tensor], values: Sequence[Tensor], factor: float) -> list[Tensor]:
    """Return S of a bilinear function."""
    squares = function([x.square() for x in inputs])
    return [(square.abs() * factor + value.square()).sqrt() for square, value in zip(squares, values, strict=True)]


def of_moved(values: Sequence[Tensor]) -> list[Tensor]:
    """Return S of elements that are only moved."""
    return [value.abs() * 2**0.5 for value in values]


def probed(function: Function, inputs: Sequence[Tensor], values: Sequence[Tensor]) -> list[Tensor]:
    """Return S by sign patterns over all inputs together."""
    squares = [torch.zeros_like(value, dtype=torch.float64) for value in values]
    signs = [
        (_kept_columns if x.numel() <= _SMALL else _columns)(tuple(x.shape), place) for place, x in enumerate(inputs)
    ]
    for row in range(PATTERNS):
        moved = [
            x * (1 + STEP * torch.from_numpy(np.asarray(_HADAMARD[row][column] * sign)))
            for x, (column, sign) in zip(inputs, signs, strict=True)
        ]
        _add(squares, function(moved), values, PATTERNS)
    return [(square + value.square()).sqrt() for square, value in zip(squares, values, strict=True)]


def one_by_one(function: Function, inputs: Sequence[Tensor], values: Sequence[Tensor]) -> list[Tensor]:
    """Return the squares (df/dx_i x_i)^2 + f^2 of an elementwise function, summed over its inputs."""
    squares = [value.square() for value in values]
    for place in range(len(inputs)):
        moved = [x * (1 + STEP) if i == place else x for i, x in enumerate(inputs)]
        _add(squares, function(moved), values, 1)
    return squares


def _add(squares: Sequence[Tensor], moved: Sequence[Tensor], values: Sequence[Tensor], count: int) -> None:
    for square, shifted, original in zip(squares, moved, values, strict=True):
        change = (shifted - original) / STEP
        square += torch.where(torch.isfinite(change), change, 0.0).square() / count


def summed_to(square: Tensor, shape: Sequence[int]) -> Tensor:
    """Return squares summed over the axes along which an input was expanded."""
    return square.sum_to_size(tuple(shape)) if tuple(square.shape) != tuple(shape) else square


_SMALL = 1 << 14
"""Elements; patterns of smaller tensors are kept, for shapes come again and again."""


def _columns(shape: tuple[int, ...], seed: int) -> tuple[Any, Any]:
    """Return a column of the patterns for each element, different for neighbors along any axis, and a sign."""
    column: Any = np.full((1,) * len(shape), seed, np.int64)
    for axis, size in enumerate(shape):
        steps = np.arange(size) * (2 * axis + 1)
        column = column + steps.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    sign = np.random.default_rng([seed, *shape]).integers(0, 2, shape, np.int8).astype(np.float64) * 2 - 1
    return np.broadcast_to(column % PATTERNS, shape), sign


_kept_columns = lru_cache(maxsize=64)(_columns)
