"""Rotary positions of split halves are applied to weights that are stored for interleaved pairs."""

import torch
from case import Truth
from on_pytorch import LENGTH, Attention, Gpt, language_loss, tokens
from torch import nn

SOURCE = "rasbt/LLMs-from-scratch#747"
FRAMEWORK = "pytorch"
HALF = 1
TRUTH = Truth(
    kinds=("argument differs", "structure differs"),
    calls=("* @ blocks.0.attention.rotate",),
)


class Rope(nn.Module):
    def __init__(self, size, interleaved):
        super().__init__()
        angles = torch.outer(torch.arange(LENGTH), 1 / 100 ** (torch.arange(0, size, 2) / size))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        self.first = slice(0, None, 2) if interleaved else slice(0, size // 2)
        self.second = slice(1, None, 2) if interleaved else slice(size // 2, None)
        self.interleaved = interleaved

    def forward(self, x):
        a, b = x[..., self.first], x[..., self.second]
        a, b = a * self.cos - b * self.sin, a * self.sin + b * self.cos
        return torch.stack([a, b], -1).flatten(-2) if self.interleaved else torch.cat([a, b], -1)


def train(run):
    net = Gpt(attention=lambda: Attention(rotate=Rope(8, interleaved=not run.buggy)))
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    for step in run.steps(net):
        loss = language_loss(net, tokens(step))
        loss.backward()
        run.update(optimizer, loss)
