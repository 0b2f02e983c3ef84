"""A small training in MindSpore; the argument changes a value that no recorded call computes: data, mask or buffer."""

import sys

import mindspore as ms
import numpy as np
from mindspore import nn, ops

from msprobe.mindspore import PrecisionDebugger

CHANGE = sys.argv[1] if len(sys.argv) > 1 else ""
WIDTH = 8


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = (nn.Dense(WIDTH, WIDTH) for _ in range(3))
        self.norm, self.dropout = nn.BatchNorm1d(WIDTH), nn.Dropout(p=0.5)
        angles = np.arange(WIDTH, dtype=np.float32) / np.float32(WIDTH - 1 if CHANGE == "table" else WIDTH)
        self.cosines, self.sines = ms.Tensor(np.cos(angles)), ms.Tensor(np.sin(angles))
        self.hidden = ms.Tensor(np.arange(WIDTH) >= WIDTH - (2 if CHANGE == "mask" else 1))

    def construct(self, x):
        # Only one dropout: the masks of several are not the same in each process.
        x = ops.masked_fill(self.dropout(ops.tanh(self.norm(self.first(x)))), self.hidden, 0.0)
        return self.head(ops.tanh(self.rotated(self.second(self.rotated(x)))))

    def rotated(self, x):
        return x * self.cosines + ops.cat(ops.chunk(x, 2, -1)[::-1], -1) * self.sines


def main():
    ms.set_context(mode=ms.PYNATIVE_MODE)
    ms.set_seed(4 if CHANGE == "dropout" else 3)
    np.random.seed(1)
    model, numbers = Net(), np.random.default_rng(2)
    for parameter in model.trainable_params():
        parameter.set_data(ms.Tensor(np.random.randn(*parameter.shape).astype(np.float32) * 0.3))
    model.norm.moving_mean.set_data(ms.Tensor(np.full(WIDTH, 0.1 if CHANGE == "running" else 0.0, np.float32)))
    model.set_train()
    model.norm.set_train(False)  # a frozen normalization, which uses its running statistics
    optimizer = nn.SGD(model.trainable_params(), learning_rate=0.1)

    def loss_of(inputs, targets):
        return ops.mse_loss(model(inputs), targets)

    both = ms.value_and_grad(loss_of, None, model.trainable_params())
    debugger = PrecisionDebugger(task="structure", level="L0", dump_path="./not_used", step=[7])
    for _ in range(3):
        inputs, targets = (numbers.standard_normal((4, WIDTH)).astype(np.float32) for _ in range(2))
        if CHANGE == "data":
            inputs = inputs * np.float32(1.01)
        debugger.start(model=model)
        loss, gradients = both(ms.Tensor(inputs), ms.Tensor(targets))
        debugger.stop()
        optimizer(gradients)
        debugger.step()
    print("loss", loss)


main()
