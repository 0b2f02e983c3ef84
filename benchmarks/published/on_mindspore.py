"""Tiny MindSpore trainings in PyNative mode: the run, data, a perceptron, attention and data parallelism."""

import math
import sys
from contextlib import nullcontext
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, mint, nn, ops
from training import Run, integers, numbers

from msprobe.mindspore import PrecisionDebugger

sys.path.append(str(Path(__file__).parents[1] / "bugs"))
VOCABULARY, WIDTH, LENGTH, BATCH = 29, 16, 12, 4


class MindSporeRun(Run):
    """One rank of a MindSpore training."""

    debugger_class = PrecisionDebugger

    def update(self, optimizer, gradients, loss):
        """Stop recording, keep the loss, and let the optimizer use the gradients."""
        self.log(loss.asnumpy())
        optimizer(gradients)


def tokens(step, rank=0, batch=BATCH, length=LENGTH):
    """Token ids [batch, length + 1]: inputs and, shifted by one, labels."""
    return Tensor(integers(step, rank, 7, shape=(batch, length + 1), below=VOCABULARY).astype(np.int32))


def vectors(step, rank=0, shape=(8, WIDTH)):
    """A batch of normal numbers."""
    return Tensor(numbers(step, rank, 11, shape=shape))


def labels(step, rank=0, count=8, below=5):
    """A class for each sample."""
    return Tensor(integers(step, rank, 13, shape=count, below=below).astype(np.int32))


def initialize(net, seed=0):
    """Draw the weights of all layers; norms keep 1, biases 0."""
    for number, p in enumerate(net.get_parameters()):
        if p.ndim > 1:
            p.set_data(Tensor(numbers(seed, number, 3, shape=p.shape, scale=0.3), p.dtype))
    return net


class Attention(nn.Cell):
    """Causal attention of one head."""

    def __init__(self, width=WIDTH):
        super().__init__()
        self.query, self.key, self.value = (nn.Dense(width, width) for _ in range(3))
        self.out = nn.Dense(width, width)

    def construct(self, x):
        q, k, v = self.query(x), self.key(x), self.value(x)
        scores = ops.matmul(q, k.swapaxes(-1, -2)) / math.sqrt(x.shape[-1])
        hidden = Tensor(np.triu(np.ones((x.shape[1], x.shape[1]), bool), 1))
        return self.out(ops.matmul(ops.softmax(scores.masked_fill(hidden, -1e9), -1), v))


class Gpt(nn.Cell):
    """One block of attention and one of two layers, between an embedding and a head."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.norm1, self.attention, self.norm2 = nn.LayerNorm((WIDTH,)), Attention(), nn.LayerNorm((WIDTH,))
        self.up, self.down, self.head = nn.Dense(WIDTH, 32), nn.Dense(32, WIDTH), nn.Dense(WIDTH, VOCABULARY)

    def embed(self, ids):
        """The input of the first block."""
        return self.embedding(ids)

    def construct(self, ids):
        x = self.embed(ids)
        x = x + self.attention(self.norm1(x))
        return self.head(x + self.down(ops.relu(self.up(self.norm2(x)))))


class Classifier(nn.Cell):
    """A small perceptron."""

    def __init__(self, width=WIDTH, classes=5):
        super().__init__()
        self.first, self.second, self.head = nn.Dense(width, 24), nn.Dense(24, 24), nn.Dense(24, classes)

    def construct(self, x):
        return self.head(mint.tanh(self.second(ops.relu(self.first(x)))))


def language_loss(net, ids):
    """Cross entropy of the next token."""
    return ops.cross_entropy(net(ids[:, :-1]).reshape(-1, VOCABULARY), ids[:, 1:].reshape(-1))


def average_gradients(gradients, run):
    """Data parallelism: the mean of the gradients of all ranks."""
    from mindspore.mint import distributed

    for each in gradients:
        distributed.all_reduce(each)
    return tuple(each / run.ranks for each in gradients)


def other_order(noise):
    """Kernels that compute the same results with sums in another order; those of benchmarks/bugs."""
    if not noise:
        return nullcontext()
    from kernels import Inside
    from planting import planted

    return planted(Inside(order="reversed"), None)


def execute(case, run, noise):
    """Train one rank of a case."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    ms.set_seed(0)
    if run.ranks > 1:
        from mindspore.communication import init

        init()
    with other_order(noise):
        case.train(run)
    if run.ranks > 1:
        from mindspore.mint import distributed

        distributed.barrier()
