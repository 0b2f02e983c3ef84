"""A kernel reads a transposed tensor in the order of its memory (emulated)."""

import mindspore as ms
import numpy as np
from case import Truth
from mindspore import Tensor, nn, ops, value_and_grad
from on_mindspore import Classifier, initialize, labels, vectors

SOURCE = "vllm-project/vllm-ascend#2355"
FRAMEWORK = "mindspore"
HALF = 2
TRUTH = Truth(kinds=("computes differently",), calls=("Functional.silu.0.forward",), check=("replay",))


class StridedSilu(ms._Function):
    """silu of the memory of a transposed tensor."""

    @staticmethod
    def forward(ctx, x):
        memory = x.asnumpy().T.reshape(x.shape)
        ctx.memory = memory
        return Tensor(memory / (1 + np.exp(-memory)))

    @staticmethod
    def backward(ctx, grad):
        sigmoid = 1 / (1 + np.exp(-ctx.memory))
        return Tensor(grad.asnumpy() * sigmoid * (1 + ctx.memory * (1 - sigmoid)))


class Net(Classifier):
    def construct(self, x):
        return self.head(ops.silu(self.first(x).swapaxes(0, 1)).swapaxes(0, 1))


def train(run):
    if run.buggy:
        ops.silu = lambda x: StridedSilu.apply(x)
    net = initialize(Net())
    optimizer = nn.SGD([*net.first.trainable_params(), *net.head.trainable_params()], 0.1)
    step_of = value_and_grad(lambda x, y: ops.cross_entropy(net(x), y), None, optimizer.parameters)
    for step in run.steps(net):
        loss, gradients = step_of(vectors(step), labels(step))
        run.update(optimizer, gradients, loss)
