"""The angles of rotary positions are computed in bfloat16: large positions share an angle."""

import torch
from case import Truth
from on_pytorch import LENGTH, Attention, Gpt, language_loss, tokens
from torch import nn

SOURCE = "huggingface/transformers#29285"
FRAMEWORK = "pytorch"
HALF = 1
TRUTH = Truth(
    kinds=("precision differs", "argument differs", "structure differs"),
    calls=("* @ blocks.0.attention.rotate", "Module.blocks.0.attention.rotate.*"),
)


class Rope(nn.Module):
    def __init__(self, size, dtype):
        super().__init__()
        self.dtype = dtype
        self.inverse = 1 / 10000 ** (torch.arange(0, size, 2) / size)
        self.positions = torch.arange(1000, 1000 + LENGTH)

    def forward(self, x):
        angles = self.positions.to(self.dtype)[:, None] * self.inverse.to(self.dtype)
        cos, sin = (torch.cat([f(angles)] * 2, -1).to(x.dtype) for f in (torch.cos, torch.sin))
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat([-second, first], -1) * sin


def train(run):
    dtype = torch.bfloat16 if run.buggy else torch.float32
    net = Gpt(attention=lambda: Attention(rotate=Rope(8, dtype))).bfloat16()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    for step in run.steps(net):
        loss = language_loss(net, tokens(step))
        loss.backward()
        run.update(optimizer, loss)
