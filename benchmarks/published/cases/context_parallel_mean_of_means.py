"""Each context-parallel rank takes the mean over its own unmasked tokens, and the means are averaged."""

import numpy as np
from case import Truth
from mindspore import Tensor, nn, ops, value_and_grad
from mindspore.mint import distributed
from on_mindspore import VOCABULARY, Gpt, average_gradients, initialize, tokens

SOURCE = "NVIDIA/Megatron-LM#673"
FRAMEWORK = "mindspore"
RANKS = 2
HALF = 2
TRUTH = Truth(
    kinds=("argument differs", "structure differs"),
    calls=("Functional.cross_entropy.0.forward @ *", "*all_reduce.0.forward @ ", "Tensor.__truediv__.* @ "),
    check=("loss-weights",),
)


def train(run):
    net = initialize(Gpt())
    optimizer = nn.SGD(net.trainable_params(), 0.1)

    def loss_of(ids, wanted, count):
        logits = net(ids).reshape(-1, VOCABULARY)
        if run.buggy:
            return ops.cross_entropy(logits, wanted)
        return ops.cross_entropy(logits, wanted, reduction="sum") / count

    step_of = value_and_grad(loss_of, None, net.trainable_params())
    for step in run.steps(net):
        ids = tokens(step, run.rank)
        wanted = ids[:, 1:].asnumpy().copy()
        wanted[:, (11, 3)[run.rank] :] = -100
        count = Tensor(np.float32((wanted != -100).sum()))
        if not run.buggy:
            distributed.all_reduce(count)
            count = count / run.ranks
        loss, gradients = step_of(ids[:, :-1], Tensor(wanted.reshape(-1)), count)
        gradients = average_gradients(gradients, run)
        run.update(optimizer, gradients, loss)
