"""The frequencies of Llama 3.1 are scaled with the factors of another model: only long contexts suffer."""

import math

import torch
from case import Truth
from on_pytorch import LENGTH, Attention, Gpt, language_loss, tokens
from torch import nn

SOURCE = "TransformerLensOrg/TransformerLens#910"
FRAMEWORK = "pytorch"
HALF = 1
TRUTH = Truth(kinds=("argument differs",), calls=("Tensor.__mul__.* @ blocks.0.attention.rotate",))


def frequencies(size, factor, low=1.0, high=4.0, original=64):
    """The frequencies of Llama 3.1: long waves are stretched by a factor, short ones are kept."""
    plain = 1 / 10000 ** (torch.arange(0, size, 2) / size)
    wave = 2 * math.pi / plain
    smooth = ((original / wave - low) / (high - low)).clamp(0, 1)
    return plain * (smooth + (1 - smooth) / factor)


class Rope(nn.Module):
    def __init__(self, factor):
        super().__init__()
        angles = torch.outer(torch.arange(LENGTH), frequencies(8, factor))
        self.register_buffer("cos", torch.cat([angles.cos()] * 2, -1))
        self.register_buffer("sin", torch.cat([angles.sin()] * 2, -1))

    def forward(self, x):
        first, second = x.chunk(2, -1)
        return x * self.cos + torch.cat([-second, first], -1) * self.sin


def train(run):
    net = Gpt(attention=lambda: Attention(rotate=Rope(32.0 if run.buggy else 8.0)))
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    for step in run.steps(net):
        loss = language_loss(net, tokens(step))
        loss.backward()
        run.update(optimizer, loss)
