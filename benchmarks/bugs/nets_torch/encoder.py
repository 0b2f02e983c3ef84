"""The PyTorch twin of `nets_mindspore/encoder.py`."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional

SIZES = {"small": (16, 2, 2), "large": (24, 2, 3)}
TOKENS, LENGTH = 19, 8


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, padding):
        qkv = torch.reshape(self.qkv(x), (-1, LENGTH, 3, self.heads, self.size))
        query, key, value = torch.unbind(torch.permute(qkv, (2, 0, 3, 1, 4)))
        scores = torch.div(torch.matmul(query, torch.transpose(key, 2, 3)), self.size**0.5)
        weights = torch.softmax(torch.add(scores, padding), -1)
        mixed = torch.permute(torch.matmul(weights, value), (0, 2, 1, 3))
        return self.out(torch.reshape(mixed, x.shape))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = Attention(width, heads)
        self.norm1 = nn.LayerNorm((width,), eps=1e-5)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.norm2 = nn.LayerNorm((width,), eps=1e-5)

    def forward(self, x, padding):
        x = self.norm1(x + self.attention(x, padding))
        y = self.down(functional.gelu(self.up(x), approximate="none"))
        return self.norm2(x + y)


class Net(nn.Module):
    def __init__(self, size):
        super().__init__()
        width, heads, depth = SIZES[size]
        self.embedding = nn.Embedding(TOKENS, width)
        self.position = nn.Parameter(torch.zeros(LENGTH, width))
        self.norm = nn.LayerNorm((width,), eps=1e-5)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(depth)])
        self.transform = nn.Linear(width, width)
        self.bias = nn.Parameter(torch.zeros(TOKENS))

    def forward(self, tokens, padding, labels):
        x = self.norm(self.embedding(tokens) + self.position)
        for block in self.blocks:
            x = block(x, padding)
        x = torch.tanh(self.transform(x))
        logits = torch.add(torch.matmul(x, torch.permute(self.embedding.weight, (1, 0))), self.bias)
        likelihood = torch.log_softmax(logits, -1)
        taken = torch.gather(likelihood, -1, torch.unsqueeze(labels, -1))
        return torch.neg(torch.mean(taken))


def arguments(tokens, keep, labels):
    padding = np.where(keep, 0, -1e4).astype(np.float32)[:, None, None, :]
    return torch.from_numpy(tokens).long(), torch.from_numpy(padding), torch.from_numpy(labels).long()


def optimizer(parameters):
    return torch.optim.Adam(parameters, lr=0.005, betas=(0.9, 0.98), eps=1e-6)
