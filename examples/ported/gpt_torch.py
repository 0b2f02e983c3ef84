"""The original: a small GPT in PyTorch."""

import math

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, LENGTH, WIDTH, HEADS, BLOCKS = 61, 10, 48, 4, 2


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key = nn.Linear(WIDTH, WIDTH)
        self.value = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (
            layer(x).view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(WIDTH // HEADS)
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        weights = F.softmax(scores.masked_fill(future, float("-inf")), dim=-1)
        mixed = torch.matmul(weights, v).transpose(1, 2).reshape(batch, length, WIDTH)
        return self.out(mixed)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1 = nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.ln_2 = nn.LayerNorm(WIDTH)
        self.fc_in = nn.Linear(WIDTH, 4 * WIDTH)
        self.act = nn.GELU()
        self.fc_out = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.attention(self.ln_1(x))
        return x + self.fc_out(self.act(self.fc_in(self.ln_2(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(LENGTH, WIDTH)
        for table in (self.tokens, self.positions):
            nn.init.normal_(table.weight, std=0.02)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.ln_f = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln_f(x))


def loss_of(net, batch, labels):
    logits = net(batch)
    return F.cross_entropy(logits.view(-1, VOCABULARY), labels.view(-1))
