"""Rows of attention whose keys are all masked by -inf become NaN, and so do the gradients."""

import math

import torch
from case import Truth
from on_pytorch import LENGTH, Attention, Gpt, language_loss, tokens

SOURCE = "pytorch/pytorch#41508"
FRAMEWORK = "pytorch"
HALF = 1
TRUTH = Truth(kinds=("argument differs",), calls=("Tensor.masked_fill.0.forward @ blocks.0.attention",))


class MaskedAttention(Attention):
    fill = -1e9

    def attend(self, q, k, v, mask=None):
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        return torch.softmax(scores.masked_fill(mask, self.fill), -1) @ v


def train(run):
    MaskedAttention.fill = -math.inf if run.buggy else torch.finfo(torch.float32).min
    net = Gpt(attention=MaskedAttention)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    padded = torch.arange(LENGTH) >= torch.tensor([12, 8, 5, 0])[:, None]  # the last sample is only padding
    causal = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    for step in run.steps(net):
        loss = language_loss(net, tokens(step), mask=(causal | padded[:, None])[:, None])
        loss.backward()
        run.update(optimizer, loss)
