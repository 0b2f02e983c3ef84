"""The networks of the step benchmark. Both tools' environments import this file, so it knows neither tool.

A network calls `self.seen(tensor, name)`, if that is set, for three of its tensors: there a user saves single ones.
"""

import itertools

import numpy as np
from mindspore import Parameter, Tensor, nn, ops


class Attention(nn.Cell):
    """Softmax attention with one matrix for query, key and value."""

    def __init__(self, hidden, heads):
        super().__init__()
        self.heads, self.size = heads, hidden // heads
        self.qkv, self.out = nn.Dense(hidden, 3 * hidden), nn.Dense(hidden, hidden)

    def construct(self, x):
        batch, length, hidden = x.shape
        q, k, v = ops.split(self.qkv(x), hidden, axis=2)
        q, k, v = (
            ops.transpose(ops.reshape(t, (batch, length, self.heads, self.size)), (0, 2, 1, 3)) for t in (q, k, v)
        )
        weights = ops.softmax(ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) / self.size**0.5, -1)
        return self.out(ops.reshape(ops.transpose(ops.matmul(weights, v), (0, 2, 1, 3)), (batch, length, hidden)))


class Block(nn.Cell):
    """Pre-norm block."""

    def __init__(self, hidden, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm((hidden,)), nn.LayerNorm((hidden,))
        self.attention = Attention(hidden, heads)
        self.up, self.down = nn.Dense(hidden, 4 * hidden), nn.Dense(4 * hidden, hidden)

    def construct(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(ops.gelu(self.up(self.norm2(x))))


class Net(nn.Cell):
    """Layers one behind the other; the first three tensors between them can be seen."""

    def __init__(self, layers):
        super().__init__()
        self.layers, self.seen = nn.CellList(layers), None

    def construct(self, x):
        for at, layer in enumerate(self.layers):
            x = layer(x)
            if self.seen and at < 3:
                self.seen(x, f"hidden{at}")
        return self.loss(x)


class Transformer(Net):
    """Two pre-norm blocks, hidden 512, sequence 256, batch 4."""

    def __init__(self):
        super().__init__([nn.Dense(512, 512), Block(512, 8), Block(512, 8)])

    def loss(self, x):
        return ops.mean(ops.square(x))


class Conv(Net):
    """Four convolutions with batch norm on 8 pictures of 16 x 16."""

    def __init__(self):
        widths = itertools.pairwise([3, 16, 32, 32, 64])
        super().__init__(
            [nn.SequentialCell([nn.Conv2d(a, b, 3, has_bias=False), nn.BatchNorm2d(b), nn.ReLU()]) for a, b in widths]
        )
        self.head = nn.Dense(64, 10)

    def loss(self, x):
        return ops.mean(ops.square(self.head(ops.mean(x, (2, 3)))))


class Scale(nn.Cell):
    """Three operations."""

    def __init__(self):
        super().__init__()
        self.g = Parameter(Tensor(np.ones(8, np.float32)))

    def construct(self, x):
        return ops.tanh(x * self.g + 0.1)


class Tiny(Net):
    """Forty cells of three operations on 4 x 8 numbers: nothing but overhead."""

    def __init__(self):
        super().__init__([Scale() for _ in range(40)])

    def loss(self, x):
        return ops.sum(x)


NETS = {"transformer": (Transformer, (4, 256, 512)), "conv": (Conv, (8, 3, 16, 16)), "tiny": (Tiny, (4, 8))}
