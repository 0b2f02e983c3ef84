"""The transformer of mindspore_training.py, trained with PyTorch."""

import torch
from torch import nn
from torch.nn import functional as f

from msprobe.pytorch import TrainerMon

__all__ = ["TrainerMon", "prepare", "training"]


class Block(nn.Module):
    """A pre-norm block."""

    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.act, self.down = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x):
        rows, length, width = x.shape
        y = self.norm1(x)
        shape = (rows, length, self.heads, width // self.heads)
        q, k, v = (layer(y).reshape(shape).transpose(1, 2) for layer in (self.q, self.k, self.v))
        scores = torch.softmax(q @ k.transpose(-2, -1) / shape[-1] ** 0.5, -1)
        x = x + self.out((scores @ v).transpose(1, 2).reshape(rows, length, width))
        return x + self.down(self.act(self.up(self.norm2(x))))


class Transformer(nn.Module):
    """Embedding, blocks, head, and the loss."""

    def __init__(self, blocks, width, words):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.ModuleList([Block(width, max(1, width // 64)) for _ in range(blocks)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, ids, following):
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x)
        return f.cross_entropy(self.head(self.norm(x)).flatten(0, 1), following.flatten())


def prepare(asynchronous):
    """A processor's tensors are computed when a call returns: there is no other mode."""


def training(size):
    """(model, optimizer, step): one call of `step` trains one step."""
    torch.manual_seed(0)
    ids, following = (torch.randint(0, size.words, (size.batch, size.length)) for _ in range(2))
    net = Transformer(size.blocks, size.width, size.words)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-4)

    def step():
        loss = net(ids, following)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return float(loss.detach())

    return net, optimizer, step
