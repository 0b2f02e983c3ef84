"""A decoder with RMSNorm, rotary positions, a causal mask and SwiGLU that predicts tokens; trained by AdamW."""

import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.experimental import optim

SIZES = {"small": (16, 2, 2), "large": (24, 2, 3)}
TOKENS, LENGTH = 19, 8


class RMSNorm(nn.Cell):
    def __init__(self, width):
        super().__init__()
        self.scale = Parameter(Tensor(np.ones(width, np.float32)), name="scale")

    def construct(self, x):
        variance = ops.mean(ops.square(x), -1, True)
        return ops.mul(x, ops.rsqrt(variance + 1e-5)) * self.scale


class Rotary(nn.Cell):
    def __init__(self, size):
        super().__init__()
        frequencies = 10000.0 ** (-np.arange(0, size, 2) / size)
        angles = np.outer(np.arange(LENGTH), np.concatenate([frequencies, frequencies]))
        self.cos, self.sin = Tensor(np.cos(angles).astype(np.float32)), Tensor(np.sin(angles).astype(np.float32))

    def construct(self, x):
        first, second = ops.split(x, x.shape[-1] // 2, -1)
        rotated = ops.concat((ops.neg(second), first), -1)
        return ops.mul(x, self.cos) + ops.mul(rotated, self.sin)


class Attention(nn.Cell):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.query = nn.Dense(width, width, has_bias=False)
        self.key = nn.Dense(width, width, has_bias=False)
        self.value = nn.Dense(width, width, has_bias=False)
        self.out = nn.Dense(width, width, has_bias=False)
        self.rotary = Rotary(self.size)
        self.mask = Tensor(np.triu(np.ones((LENGTH, LENGTH), bool), 1))

    def divided(self, x):
        return ops.transpose(ops.reshape(x, (-1, LENGTH, self.heads, self.size)), (0, 2, 1, 3))

    def construct(self, x):
        query, key = self.rotary(self.divided(self.query(x))), self.rotary(self.divided(self.key(x)))
        value = self.divided(self.value(x))
        scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))
        scores = ops.mul(scores, self.size**-0.5)
        scores = ops.masked_fill(scores, self.mask, -1e9)
        weights = ops.softmax(scores, -1)
        mixed = ops.matmul(weights, value)
        mixed = ops.reshape(ops.transpose(mixed, (0, 2, 1, 3)), x.shape)
        return self.out(mixed)


class FeedForward(nn.Cell):
    def __init__(self, width):
        super().__init__()
        self.gate = nn.Dense(width, 2 * width, has_bias=False)
        self.up = nn.Dense(width, 2 * width, has_bias=False)
        self.down = nn.Dense(2 * width, width, has_bias=False)

    def construct(self, x):
        return self.down(ops.mul(ops.silu(self.gate(x)), self.up(x)))


class Block(nn.Cell):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.attention = RMSNorm(width), Attention(width, heads)
        self.norm2, self.feed_forward = RMSNorm(width), FeedForward(width)

    def construct(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


class Net(nn.Cell):
    def __init__(self, size):
        super().__init__()
        width, heads, depth = SIZES[size]
        self.embedding = nn.Embedding(TOKENS, width)
        self.blocks = nn.CellList([Block(width, heads) for _ in range(depth)])
        self.norm = RMSNorm(width)
        self.head = nn.Dense(width, TOKENS, has_bias=False)

    def construct(self, tokens, labels):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return ops.cross_entropy(ops.reshape(logits, (-1, TOKENS)), ops.reshape(labels, (-1,)))


def arguments(tokens, labels):
    return Tensor(tokens), Tensor(labels)


def optimizer(parameters):
    return optim.AdamW(parameters, lr=0.01, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
