"""Derivatives that kernels compute from the saved output y instead of the input: formula by operation."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

Tensor = Any


def _softmax(y: Tensor, g: Tensor, program: Any) -> Tensor:
    dim = program.option("dim", 1, -1)
    return y * (g - (g * y).sum(dim, keepdim=True))


def _log_softmax(y: Tensor, g: Tensor, program: Any) -> Tensor:
    dim = program.option("dim", 1, -1)
    return g - torch.exp(y) * g.sum(dim, keepdim=True)


def _logsumexp(y: Tensor, g: Tensor, program: Any) -> Tensor:
    x, dim = program.inputs[0], program.option("dim", 1, -1)
    if y.dim() != x.dim():
        for axis in sorted(each % x.dim() for each in (dim if isinstance(dim, tuple) else (dim,))):
            y, g = y.unsqueeze(axis), g.unsqueeze(axis)
    return torch.exp(x - y) * g


SAVED: Mapping[str, Callable[[Tensor, Tensor, Any], Tensor]] = {
    "tanh": lambda y, g, _: g * (1 - y * y),
    "sigmoid": lambda y, g, _: g * y * (1 - y),
    "exp": lambda y, g, _: g * y,
    "sqrt": lambda y, g, _: g / (2 * y),
    "rsqrt": lambda y, g, _: g * y * y * y / -2,
    "reciprocal": lambda y, g, _: -g * y * y,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "logsumexp": _logsumexp,
}
