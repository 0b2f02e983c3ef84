"""A generic initialization of all parameters runs after the special one of a decay, and overwrites it."""

import numpy as np
from case import Truth
from mindspore import Parameter, Tensor, mint, nn, ops, value_and_grad
from on_mindspore import Classifier, initialize, labels, vectors

SOURCE = "athms/mad-lab#3"
FRAMEWORK = "mindspore"
HALF = 1
TRUTH = Truth(kinds=("parameters differ",), parameters=("decay",), step=0)


class Recurrent(Classifier):
    def __init__(self):
        super().__init__()
        self.decay = Parameter(Tensor(np.zeros((1, 16), np.float32)), name="decay")

    def special_init(self):
        self.decay.set_data(Tensor(np.log(np.arange(1, 17, dtype=np.float32))[None]))

    def construct(self, x):
        return super().construct(x * mint.exp(-mint.exp(self.decay)))


def train(run):
    net = Recurrent()
    if run.buggy:
        net.special_init()
        initialize(net)
    else:
        initialize(net)
        net.special_init()
    optimizer = nn.AdamWeightDecay(net.trainable_params(), 1e-2)
    step_of = value_and_grad(lambda x, y: ops.cross_entropy(net(x), y), None, net.trainable_params())
    for step in run.steps(net):
        loss, gradients = step_of(vectors(step), labels(step))
        run.update(optimizer, gradients, loss)
