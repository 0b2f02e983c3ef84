"""The smallest training with the debugger: five lines of it are msprobe's."""

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from msprobe.mindspore import PrecisionDebugger


class Network(nn.Cell):
    """Two dense layers and the mean squared error."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Dense(8, 16), nn.Dense(16, 1)

    def construct(self, x, target):
        return ops.mean(ops.square(self.second(ops.relu(self.first(x))) - target))


ms.set_context(mode=ms.PYNATIVE_MODE)
ms.set_seed(1)
network = Network()
optimizer = nn.AdamWeightDecay(network.trainable_params(), learning_rate=0.01)
forward_and_backward = ms.value_and_grad(network, None, network.trainable_params())
debugger = PrecisionDebugger(config_path="config.json")

for step in range(5):
    x = np.random.default_rng(step).standard_normal((4, 8)).astype(np.float32)
    debugger.start(network)
    loss, gradients = forward_and_backward(Tensor(x), Tensor(x.sum(1, keepdims=True)))
    debugger.stop()
    optimizer(gradients)
    debugger.step()
    print(f"step {step} loss {float(loss.asnumpy()):.6f}")
