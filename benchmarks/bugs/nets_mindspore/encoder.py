"""An encoder with LayerNorm behind the sums, a padding mask and a tied embedding that fills tokens in."""

import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.experimental import optim

SIZES = {"small": (16, 2, 2), "large": (24, 2, 3)}
TOKENS, LENGTH = 19, 8


class Attention(nn.Cell):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.qkv = nn.Dense(width, 3 * width)
        self.out = nn.Dense(width, width)

    def construct(self, x, padding):
        qkv = ops.reshape(self.qkv(x), (-1, LENGTH, 3, self.heads, self.size))
        query, key, value = ops.unbind(ops.transpose(qkv, (2, 0, 3, 1, 4)))
        scores = ops.div(ops.matmul(query, ops.swapaxes(key, 2, 3)), self.size**0.5)
        weights = ops.softmax(ops.add(scores, padding), -1)
        mixed = ops.transpose(ops.matmul(weights, value), (0, 2, 1, 3))
        return self.out(ops.reshape(mixed, x.shape))


class Block(nn.Cell):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = Attention(width, heads)
        self.norm1 = nn.LayerNorm((width,), epsilon=1e-5)
        self.up, self.down = nn.Dense(width, 2 * width), nn.Dense(2 * width, width)
        self.norm2 = nn.LayerNorm((width,), epsilon=1e-5)

    def construct(self, x, padding):
        x = self.norm1(x + self.attention(x, padding))
        y = self.down(ops.gelu(self.up(x), approximate="none"))
        return self.norm2(x + y)


class Net(nn.Cell):
    def __init__(self, size):
        super().__init__()
        width, heads, depth = SIZES[size]
        self.embedding = nn.Embedding(TOKENS, width)
        self.position = Parameter(Tensor(np.zeros((LENGTH, width), np.float32)), name="position")
        self.norm = nn.LayerNorm((width,), epsilon=1e-5)
        self.blocks = nn.CellList([Block(width, heads) for _ in range(depth)])
        self.transform = nn.Dense(width, width)
        self.bias = Parameter(Tensor(np.zeros(TOKENS, np.float32)), name="bias")

    def construct(self, tokens, padding, labels):
        x = self.norm(self.embedding(tokens) + self.position)
        for block in self.blocks:
            x = block(x, padding)
        x = ops.tanh(self.transform(x))
        logits = ops.add(ops.matmul(x, ops.transpose(self.embedding.embedding_table, (1, 0))), self.bias)
        likelihood = ops.log_softmax(logits, -1)
        taken = ops.gather_elements(likelihood, -1, ops.unsqueeze(labels, -1))
        return ops.neg(ops.mean(taken))


def arguments(tokens, keep, labels):
    padding = np.where(keep, 0, -1e4).astype(np.float32)[:, None, None, :]
    return Tensor(tokens), Tensor(padding), Tensor(labels)


def optimizer(parameters):
    return optim.Adam(parameters, lr=0.005, betas=(0.9, 0.98), eps=1e-6)
