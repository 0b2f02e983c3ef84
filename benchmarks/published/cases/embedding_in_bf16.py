"""The port computes the embedding in bfloat16, the original in float32: the loss is 0.1 higher."""

import mindspore as ms
from case import Truth
from mindspore import nn, value_and_grad
from on_mindspore import Gpt, initialize, language_loss, tokens

SOURCE = "MindFormers precision guide, case of 128 cards"
FRAMEWORK = "mindspore"
HALF = 1
TRUTH = Truth(
    kinds=("precision differs", "structure differs"),
    calls=("Tensor.astype.*", "Tensor.to.*", "*ast.*", "* @ embedding", "Cell.embedding.*"),
)


class Port(Gpt):
    rounds = False

    def embed(self, ids):
        x = self.embedding(ids)
        return x.astype(ms.bfloat16).astype(ms.float32) if self.rounds else x


def train(run):
    net = initialize(Port())
    net.rounds = run.buggy
    optimizer = nn.AdamWeightDecay(net.trainable_params(), 1e-2)
    step_of = value_and_grad(lambda ids: language_loss(net, ids), None, net.trainable_params())
    for step in run.steps(net):
        loss, gradients = step_of(tokens(step))
        run.update(optimizer, gradients, loss)
