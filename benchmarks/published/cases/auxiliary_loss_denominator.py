"""The global auxiliary loss sums the tokens of each expert over all ranks, and divides by the tokens of one."""

import numpy as np
from case import Truth
from mindspore import Tensor, nn, ops, value_and_grad
from mindspore.mint import distributed
from on_mindspore import average_gradients, initialize, labels, vectors

SOURCE = "NVIDIA/Megatron-LM#7213"
FRAMEWORK = "mindspore"
RANKS = 2
HALF = 2
TRUTH = Truth(kinds=("argument differs",), calls=("Tensor.__truediv__.*", "Functional.div.*", "Tensor.__mul__.*"))
TOKENS = 8


class Mixture(nn.Cell):
    def __init__(self):
        super().__init__()
        self.router, self.first, self.second = nn.Dense(16, 2), nn.Dense(16, 5), nn.Dense(16, 5)

    def construct(self, x):
        gates = ops.softmax(self.router(x), -1)
        return gates[:, :1] * self.first(x) + gates[:, 1:] * self.second(x), gates


def train(run):
    net = initialize(Mixture())
    optimizer = nn.SGD(net.trainable_params(), 0.1)
    denominator = TOKENS if run.buggy else TOKENS * run.ranks

    def loss_of(x, y, counts):
        logits, gates = net(x)
        auxiliary = ((counts / denominator) * gates.mean(0)).sum()
        return ops.cross_entropy(logits, y) + 0.5 * auxiliary

    step_of = value_and_grad(loss_of, None, net.trainable_params())
    for step in run.steps(net):
        x, y = vectors(step, run.rank), labels(step, run.rank)
        counts = Tensor(np.bincount(np.arange(TOKENS) % (2 + run.rank), minlength=2)[:2].astype(np.float32))
        distributed.all_reduce(counts)
        loss, gradients = step_of(x, y, counts)
        gradients = average_gradients(gradients, run)
        run.update(optimizer, gradients, loss)
