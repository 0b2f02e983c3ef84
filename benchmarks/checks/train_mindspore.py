"""One rank of a clean or faulty training: `train_mindspore.py NET FAULT FOLDER TASK`, by `msrun` or alone."""

import math
import os
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, mint, nn, ops
from mindspore.communication import get_group_size, get_rank, init
from mindspore.mint import distributed

from msprobe.mindspore import PrecisionDebugger

NET, FAULT, FOLDER, TASK = *sys.argv[1:3], Path(sys.argv[3]), sys.argv[4]


class Perceptron(nn.Cell):
    """Three layers."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Dense(6, 8), nn.Dense(8, 8), nn.Dense(8, 5)

    def construct(self, x):
        x = mint.tanh(self.first(x))
        if FAULT == "uninitialised buffer":
            x = mint.add(x, mint.empty(x.shape, dtype=ms.float32))
        return self.last(ops.relu(self.second(x)))


class Convolution(nn.Cell):
    """Convolution and batch normalisation."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.last = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Dense(8, 5)

    def construct(self, x):
        return self.last(ops.relu(self.norm(self.conv(x))).mean((2, 3)))


class Attention(nn.Cell):
    """One causal layer of attention, behind a layer norm."""

    def __init__(self):
        super().__init__()
        self.norm, self.last = nn.LayerNorm((8,)), nn.Dense(8, 5)
        self.query, self.key, self.value = nn.Dense(8, 8), nn.Dense(8, 8), nn.Dense(8, 8)
        self.inside = nn.Dense(6, 8)
        side = np.tril if FAULT == "mask side" else np.triu
        self.mask = Tensor(side(np.ones((5, 5), bool), -1 if FAULT == "mask side" else 1))

    def construct(self, x):
        x = self.inside(x)
        h = self.norm(x)  # no mint.split: README.md
        q, k, v = self.query(h), self.key(h), self.value(h)
        scores = mint.matmul(q, mint.transpose(k, -1, -2)) / math.sqrt(8)
        weights = mint.softmax(ops.masked_fill(scores, self.mask, -1e9), -1)
        return self.last((x + mint.matmul(weights, v)).mean(1))


NETS = {
    "ms_perceptron": (Perceptron, (6, 6)),
    "ms_conv": (Convolution, (4, 3, 6, 6)),
    "ms_attention": (Attention, (4, 5, 6)),
}


def main():
    ms.set_context(mode=ms.PYNATIVE_MODE)
    rank, ranks = 0, 1
    if "MS_ROLE" in os.environ:
        init()
        rank, ranks = get_rank(), get_group_size()
    ms.set_seed(0)
    build, shape = NETS[NET]
    net = build()
    for n, p in enumerate(net.get_parameters()):  # the same on all ranks, whatever was drawn
        if p.requires_grad and p.ndim > 1:
            p.set_data(Tensor(np.random.default_rng(n).normal(0, 0.3, p.shape).astype(np.float32)))
    if FAULT == "frozen layer":
        for p in net.second.get_parameters():
            p.requires_grad = False
    trained = net.trainable_params()
    optimizer = nn.Momentum(trained, 0.02 if FAULT == "rate of one rank" and rank else 0.01, 0.9)

    def loss(x, y):
        return ops.cross_entropy(net(x), y)

    gradient = ms.value_and_grad(loss, None, trained)
    debugger = PrecisionDebugger(dump_path=str(FOLDER / "run"), level="mix", task=TASK)
    for step in range(2):
        numbers = np.random.default_rng([step, 0 if FAULT == "same batch" else rank])
        x = Tensor(numbers.standard_normal(shape).astype(np.float32))
        y = Tensor(numbers.integers(0, 5, shape[0]).astype(np.int32))
        debugger.start(net)
        _, gradients = gradient(x, y)
        if ranks > 1:
            for n, each in enumerate(gradients):
                if not (FAULT == "missing all_reduce" and n == 2):
                    distributed.all_reduce(each)
            gradients = tuple(each / ranks for each in gradients)
        debugger.stop()
        optimizer(gradients)
        debugger.step()


if __name__ == "__main__":
    main()
