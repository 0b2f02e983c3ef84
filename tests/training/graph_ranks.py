"""One rank of a data-parallel training in graph mode: `msrun ... graph_ranks.py FOLDER`.

The gradients of the ranks are averaged by `AllReduce` inside the graph. The same training is run without us, in graph
mode and in PyNative mode; what it gave goes to `FOLDER/rank{R}.json`.
"""

import faulthandler
import json
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from mindspore.communication import get_rank, init

from msprobe.mindspore import PrecisionDebugger

STEPS = 2


class Net(nn.Cell):
    """Two layers."""

    def __init__(self):
        super().__init__()
        self.first, self.act, self.last = nn.Dense(4, 8), nn.Tanh(), nn.Dense(8, 1)

    def construct(self, x):
        return self.last(self.act(self.first(x)))


class Step(nn.Cell):
    """A step of data-parallel training."""

    def __init__(self, net, optimizer):
        super().__init__()
        self.net, self.optimizer = net, optimizer
        self.gradient = ops.value_and_grad(self.loss, None, optimizer.parameters)
        self.reduce = ops.AllReduce()

    def loss(self, x):
        return (self.net(x) ** 2).mean()

    def construct(self, x):
        loss, gradients = self.gradient(x)
        averaged = ()
        for gradient in gradients:
            averaged += (self.reduce(gradient) / 2,)
        return ops.depend(loss, self.optimizer(averaged))


def train(mode, folder):
    """The losses and weights of a training, collected into `folder` unless that is None."""
    ms.set_context(mode=mode)
    net = Net()
    for number, parameter in enumerate(net.get_parameters()):
        drawn = np.random.default_rng(number).standard_normal(parameter.shape) * 0.3
        parameter.set_data(Tensor(drawn, ms.float32))
    step = Step(net, nn.SGD(net.trainable_params(), 0.1))
    debugger = folder and PrecisionDebugger(level="L0", task="tensor", dump_path=str(folder))
    losses = []
    for number in range(STEPS):
        x = Tensor(np.random.default_rng(100 * number + get_rank()).standard_normal((3, 4)), ms.float32)
        if debugger:
            debugger.start(net)
        losses.append(float(step(x).asnumpy()))
        if debugger:
            debugger.stop()
            debugger.step()
    return losses, [parameter.asnumpy().tolist() for parameter in net.get_parameters()]


def main():
    faulthandler.dump_traceback_later(240, exit=True)  # nothing here may hang for ever
    folder = Path(sys.argv[1])
    init()
    arguments = {
        "bare": train(ms.GRAPH_MODE, None),
        "graph": train(ms.GRAPH_MODE, folder / "graph"),
        "python": train(ms.PYNATIVE_MODE, folder / "python"),
    }
    (folder / f"rank{get_rank()}.json").write_text(json.dumps(arguments))
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main()
