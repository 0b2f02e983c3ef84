"""Recomputation in the backward pass draws another dropout mask than the forward pass."""

import torch
from case import Truth
from on_pytorch import Gpt, Mlp, language_loss, tokens
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

SOURCE = "pytorch/pytorch#14518"
FRAMEWORK = "pytorch"
HALF = 1
TRUTH = Truth(
    kinds=("random operation", "computes differently"), calls=("Functional.dropout.*.forward @ blocks.*.mlp",)
)


class Dropped(Mlp):
    preserves = True

    def inside(self, x):
        return self.down(F.dropout(self.activation(self.up(x)), 0.2))

    def forward(self, x):
        return checkpoint(self.inside, x, use_reentrant=False, preserve_rng_state=self.preserves)


def train(run):
    Dropped.preserves = not run.buggy
    net = Gpt(mlp=Dropped)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    for step in run.steps(net):
        torch.manual_seed(step)
        loss = language_loss(net, tokens(step))
        loss.backward()
        run.update(optimizer, loss)
