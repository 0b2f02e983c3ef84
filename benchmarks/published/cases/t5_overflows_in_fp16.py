"""The output of T5's feed-forward layer overflows in float16; the fix clamps it."""

import torch
from case import Truth
from on_pytorch import Gpt, Mlp, language_loss, tokens

SOURCE = "huggingface/transformers#9487"
FRAMEWORK = "pytorch"
HALF = 1
TRUTH = Truth(
    kinds=("structure differs",),
    calls=("Torch.clamp.* @ blocks.*", "Torch.isinf.* @ blocks.*", "Tensor.__add__.* @ blocks.*"),
)


class FeedForward(Mlp):
    clamps = True

    def forward(self, x):
        x = super().forward(x)
        if self.clamps and torch.isinf(x).any():
            limit = torch.finfo(x.dtype).max - 1000
            x = torch.clamp(x, min=-limit, max=limit)
        return x


def train(run):
    FeedForward.clamps = not run.buggy
    net = Gpt(mlp=FeedForward)
    net.blocks[0].mlp.down.weight.data *= 3e5
    net = net.half()
    optimizer = torch.optim.SGD(net.parameters(), 1e-6)
    for step in run.steps(net):
        loss = language_loss(net, tokens(step))
        loss.backward()
        run.update(optimizer, loss)
