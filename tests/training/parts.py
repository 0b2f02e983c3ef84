"""What the small networks are made of."""

import numpy as np
from mindspore import Parameter, Tensor, nn, ops

WIDTH = 8

saver = None
"""`PrecisionDebugger.save` while a training collects at level debug."""


def save(variable, name):
    """Save a variable and its gradient at level debug; at other levels nothing."""
    if saver is not None:
        saver(variable, name)


def weight(*shape, seed):
    """A parameter's first value, from a generator of its own."""
    return Tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32) * 0.3)


class Linear(nn.Cell):
    """x @ w + b by functional APIs (2 calls)."""

    def __init__(self, seed, inside=WIDTH, outside=WIDTH):
        super().__init__()
        self.w = Parameter(weight(inside, outside, seed=seed), name="w")
        self.b = Parameter(weight(outside, seed=seed + 100), name="b")

    def construct(self, x):
        return ops.matmul(x, self.w) + self.b


class RMSNorm(nn.Cell):
    """Uses its input three times (6 calls)."""

    def __init__(self, eps=1e-5):
        super().__init__()
        self.g = Parameter(Tensor(np.linspace(0.5, 1.5, WIDTH, dtype=np.float32)), name="g")
        self.eps = eps

    def construct(self, x):
        variance = ops.mean(ops.square(x), -1, True)
        return x * ops.rsqrt(variance + self.eps) * self.g


class Block(nn.Cell):
    """A residual block: norm (6), linear (2), gelu, sum; and a save."""

    def __init__(self, seed):
        super().__init__()
        self.norm = RMSNorm()
        self.linear = Linear(seed)

    def construct(self, x):
        y = self.linear(self.norm(x))
        save(y, "block")
        return x + ops.gelu(y)


def squared_error(y, target):
    """3 calls; the network's result is saved."""
    save(y, "y")
    return ops.mean(ops.square(y - target))


def batch(rng, *shape):
    """Standard normal numbers."""
    return Tensor(rng.standard_normal(shape).astype(np.float32))
