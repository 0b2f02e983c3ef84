"""A transformer that is trained with MindSpore, for benchmarks/monitor.py."""

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from msprobe.mindspore import TrainerMon

__all__ = ["TrainerMon", "prepare", "training"]


class Block(nn.Cell):
    """A pre-norm block."""

    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm((width,)), nn.LayerNorm((width,))
        self.q, self.k, self.v, self.out = (nn.Dense(width, width) for _ in range(4))
        self.up, self.act, self.down = nn.Dense(width, 4 * width), nn.GELU(), nn.Dense(4 * width, width)
        self.heads = heads

    def construct(self, x):
        rows, length, width = x.shape
        y = self.norm1(x)
        shape = (rows, length, self.heads, width // self.heads)
        q, k, v = (layer(y).reshape(shape).transpose((0, 2, 1, 3)) for layer in (self.q, self.k, self.v))
        scores = ops.softmax(ops.matmul(q, k.transpose((0, 1, 3, 2))) / shape[-1] ** 0.5, -1)
        x = x + self.out(ops.matmul(scores, v).transpose((0, 2, 1, 3)).reshape((rows, length, width)))
        return x + self.down(self.act(self.up(self.norm2(x))))


class Transformer(nn.Cell):
    """Embedding, blocks, head, and the loss."""

    def __init__(self, blocks, width, words):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.CellList([Block(width, max(1, width // 64)) for _ in range(blocks)])
        self.norm, self.head, self.loss = nn.LayerNorm((width,)), nn.Dense(width, words), nn.CrossEntropyLoss()

    def construct(self, ids, following):
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.norm(x))
        return self.loss(logits.reshape((-1, logits.shape[-1])), following.reshape((-1,)))


def prepare(asynchronous):
    """Once a process."""
    ms.set_context(mode=ms.PYNATIVE_MODE, pynative_synchronize=not asynchronous)


def training(size):
    """(model, optimizer, step): one call of `step` trains one step and waits for it."""
    ms.set_seed(0)
    rng = np.random.default_rng(0)
    ids, following = (Tensor(rng.integers(0, size.words, (size.batch, size.length)), ms.int32) for _ in range(2))
    net = Transformer(size.blocks, size.width, size.words).set_train()
    optimizer = nn.AdamWeightDecay(net.trainable_params(), 1e-4)
    gradient = ms.value_and_grad(net, None, net.trainable_params())

    def step():
        loss, gradients = gradient(ids, following)
        optimizer(gradients)
        return float(loss.asnumpy())

    return net, optimizer, step
