"""A small training by `mindspore.train.Model`, as the tests of the callbacks need it, and what its dump holds."""

import json
from pathlib import Path

import numpy as np
from mindspore import Tensor, nn
from mindspore import dataset as datasets
from mindspore.train import Model

from msprobe.mindspore import PrecisionDebugger

BATCHES = 3
X = np.random.default_rng(5).standard_normal((2 * BATCHES, 4)).astype(np.float32)
Y = np.random.default_rng(6).standard_normal((2 * BATCHES, 3)).astype(np.float32)


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.body = nn.SequentialCell(nn.Dense(4, 3, weight_init=Tensor(X[:3]), bias_init="zeros"), nn.Tanh())
        self.scale = nn.LeakyReLU(0.5)

    def construct(self, x):
        return self.scale(self.body(x))


FORWARD = ["Cell.body.0.Dense", "Cell.body.1.Tanh", "Cell.body.SequentialCell", "Cell.scale.LeakyReLU"]
"""The calls of a step in their order."""


def batches():
    return datasets.NumpySlicesDataset({"x": X, "y": Y}, shuffle=False).batch(2)


def train(callbacks, net=None, epochs=1, **options):
    """Train by `Model`; gives the network."""
    net = net or Net()
    model = Model(net, loss_fn=nn.MSELoss(), optimizer=nn.SGD(net.trainable_params(), 0.1))
    model.train(epochs, batches(), callbacks=callbacks, **options)
    return net


def bits(net):
    return [parameter.asnumpy().tobytes() for parameter in net.get_parameters()]


def data_of(root, step):
    return json.loads(Path(root, f"step{step}", "rank", "dump.json").read_text())["data"]


def forward(root, step):
    """The forward calls of a step that was dumped; each runs once."""
    return [name.removesuffix(".forward.0") for name in data_of(root, step) if ".forward." in name]


def steps(root):
    return sorted(int(folder.name.removeprefix("step")) for folder in Path(root).glob("step*"))


def forget_debuggers():
    """End what was collected, so that the next test begins without debuggers."""
    for debugger in list(PrecisionDebugger._known.values()):
        debugger.step()
    PrecisionDebugger._known.clear()
    PrecisionDebugger._latest = None
