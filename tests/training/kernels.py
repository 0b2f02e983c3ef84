"""One training of three steps in a process of its own, with and without a kernel dump: `kernels.py DUMP_PATH OPTIONS`.

OPTIONS is JSON: what `PrecisionDebugger` is given (`debugger`, absent: none is made), its `config`, the `mode` and
`jit_level`, and `late`: what runs before the debugger is made. Prints JSON: losses and weights, as exact texts, or the
error of the debugger.
"""

import json
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from msprobe.base.errors import MsprobeError
from msprobe.mindspore import PrecisionDebugger

STEPS = 3


class Net(nn.Cell):
    """A dense layer, an activation, an API call."""

    def __init__(self):
        super().__init__()
        weight = np.arange(12, dtype=np.float32).reshape(3, 4) / 10
        self.fc = nn.Dense(4, 3, weight_init=Tensor(weight), bias_init=Tensor(np.zeros(3, np.float32)))
        self.act = nn.ReLU()

    def construct(self, x):
        return ops.exp(self.act(self.fc(x)) * 0.1).sum()


def batch(step):
    return Tensor(np.arange(8, dtype=np.float32).reshape(2, 4) * (step + 1) / 10)


@ms.jit
def doubled(x):
    return x * 2


def late(what):
    """Something that runs before the debugger is made."""
    if what == "graph":
        nn.ReLU()(batch(0)).asnumpy()
    elif what == "jit":
        doubled(batch(0)).asnumpy()
    elif what == "optimizer":
        net = Net()
        nn.SGD(net.trainable_params(), 0.1)(ms.grad(net, None, net.trainable_params())(batch(0)))
    elif what == "pynative":
        ms.grad(Net())(batch(0)).asnumpy()


def trainer(mode, network):
    """What makes a training step: a cell in graph mode, or a `@jit` function."""
    optimizer = nn.SGD(network.trainable_params(), 0.1)
    if mode == "graph":
        return nn.TrainOneStepCell(network, optimizer)
    gradient = ms.value_and_grad(network, None, network.trainable_params())

    @ms.jit
    def step(x):
        loss, gradients = gradient(x)
        optimizer(gradients)
        return loss

    return step


def main(folder, options):
    mode = options.get("mode", "graph")
    if "late" in options:
        ms.set_context(mode=ms.PYNATIVE_MODE if options["late"] in ("optimizer", "pynative") else ms.GRAPH_MODE)
        late(options["late"])
    context = ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE
    ms.set_context(mode=context, jit_config={"jit_level": options.get("jit_level", "O0")})
    debugger = None
    if "debugger" in options:
        config = None
        if "config" in options:
            config = Path(folder).parent / f"{Path(folder).name}.json"
            config.write_text(json.dumps({"dump_path": folder, **options["config"]}))
        try:
            debugger = PrecisionDebugger(config, dump_path=folder, level="L2", **options["debugger"])
        except MsprobeError as err:
            return {"error": type(err).__name__, "says": str(err)}
    network = Net()
    step = trainer(mode, network)
    other = nn.ReLU()
    losses = []
    for number in range(STEPS):
        losses += [step(batch(number))]  # of no step: before start
        if debugger is not None:
            debugger.start(network)
        losses += [step(batch(number)) for _ in range(options.get("runs", 1))]
        if options.get("other"):
            other(batch(number))
        if debugger is not None:
            debugger.stop()
        losses += [step(batch(number))]  # of no step: behind stop
        if debugger is not None:
            debugger.step()
    weights = [each.asnumpy().tobytes().hex() for each in network.trainable_params()]
    return {"losses": [loss.asnumpy().tobytes().hex() for loss in losses], "weights": weights}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], json.loads(sys.argv[2]))))
