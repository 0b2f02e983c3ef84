"""Programs that save: `python saves.py CASE FOLDER`, or under `msrun`."""

import os
import sys

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from mindspore.communication import get_rank, init

from msprobe.mindspore import save, save_grad, step

FOLDER = sys.argv[2]


class Net(nn.Cell):
    def construct(self, x):
        y = x * 2
        save(FOLDER, "y", y)
        y = save_grad(FOLDER, "y", y)
        return (y * y).sum()


def loop():
    """1,000 runs, and the end right after the last call."""
    ms.set_context(mode=ms.GRAPH_MODE)
    gradient = ms.grad(Net())
    for number in range(500):
        gradient(Tensor(np.full(4, number, np.float32)))


def jit():
    """What the framework still has in hand when the program ends."""

    @ms.jit
    def heavy(x):
        for _ in range(20):
            x = ops.matmul(x, x)
            save(FOLDER, "x", x[0])
        return x

    for _ in range(2):
        heavy(Tensor(np.eye(500, dtype=np.float32)))


def endless():
    """Save until killed."""
    ms.set_context(mode=ms.GRAPH_MODE)
    net = Net()
    while True:
        net(Tensor(np.ones(1000, np.float32)))


@ms.jit(capture_mode="trace")
def traced(x):
    y = x * 2
    save(FOLDER, "y", y)
    return save_grad(FOLDER, "y", y)


def trace():
    """A graph that is captured by tracing."""
    print([traced(Tensor([number])).asnumpy().tolist() for number in (1.0, 2.0)])


def ranks():
    """Two steps on every rank, with a collective between the saves."""
    ms.set_context(mode=ms.GRAPH_MODE)
    init()
    net = Reducing()
    for number in range(2):
        net(Tensor(np.full(2, 10.0**number * (get_rank() + 1), np.float32)))
        step()
    assert os.environ["RANK_ID"] == str(get_rank())


class Reducing(nn.Cell):
    def __init__(self):
        super().__init__()
        self.reduce = ops.AllReduce()

    def construct(self, x):
        save(FOLDER, "own", x)
        x = self.reduce(x)
        save(FOLDER, "sum", x)
        return x


if __name__ == "__main__":
    {case.__name__: case for case in (loop, jit, endless, trace, ranks)}[sys.argv[1]]()
