"""The PyTorch twin of `nets_mindspore/decoder.py`."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional

SIZES = {"small": (16, 2, 2), "large": (24, 2, 3)}
TOKENS, LENGTH = 19, 8


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        variance = torch.mean(torch.square(x), -1, True)
        return torch.mul(x, torch.rsqrt(variance + 1e-5)) * self.scale


class Rotary(nn.Module):
    def __init__(self, size):
        super().__init__()
        frequencies = 10000.0 ** (-np.arange(0, size, 2) / size)
        angles = np.outer(np.arange(LENGTH), np.concatenate([frequencies, frequencies]))
        self.cos = torch.from_numpy(np.cos(angles).astype(np.float32))
        self.sin = torch.from_numpy(np.sin(angles).astype(np.float32))

    def forward(self, x):
        first, second = torch.split(x, x.shape[-1] // 2, -1)
        rotated = torch.cat((torch.neg(second), first), -1)
        return torch.mul(x, self.cos) + torch.mul(rotated, self.sin)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.rotary = Rotary(self.size)
        self.mask = torch.from_numpy(np.triu(np.ones((LENGTH, LENGTH), bool), 1))

    def divided(self, x):
        return torch.permute(torch.reshape(x, (-1, LENGTH, self.heads, self.size)), (0, 2, 1, 3))

    def forward(self, x):
        query, key = self.rotary(self.divided(self.query(x))), self.rotary(self.divided(self.key(x)))
        value = self.divided(self.value(x))
        scores = torch.matmul(query, torch.permute(key, (0, 1, 3, 2)))
        scores = torch.mul(scores, self.size**-0.5)
        scores = torch.masked_fill(scores, self.mask, -1e9)
        weights = torch.softmax(scores, -1)
        mixed = torch.matmul(weights, value)
        mixed = torch.reshape(torch.permute(mixed, (0, 2, 1, 3)), x.shape)
        return self.out(mixed)


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate = nn.Linear(width, 2 * width, bias=False)
        self.up = nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x):
        return self.down(torch.mul(functional.silu(self.gate(x)), self.up(x)))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.attention = RMSNorm(width), Attention(width, heads)
        self.norm2, self.feed_forward = RMSNorm(width), FeedForward(width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


class Net(nn.Module):
    def __init__(self, size):
        super().__init__()
        width, heads, depth = SIZES[size]
        self.embedding = nn.Embedding(TOKENS, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(depth)])
        self.norm = RMSNorm(width)
        self.head = nn.Linear(width, TOKENS, bias=False)

    def forward(self, tokens, labels):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return functional.cross_entropy(torch.reshape(logits, (-1, TOKENS)), torch.reshape(labels, (-1,)))


def arguments(tokens, labels):
    return torch.from_numpy(tokens).long(), torch.from_numpy(labels).long()


def optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=0.01, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
