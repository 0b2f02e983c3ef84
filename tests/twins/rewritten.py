"""A decoder in PyTorch that computes the same in several ways, each with faults that can be planted in block 1."""

import math

import torch
from torch import nn
from torch.nn import functional

WIDTH, HEADS, LENGTH, BATCH, TOKENS, DEPTH = 16, 2, 6, 2, 13, 2

REWRITES = ("fused", "formula", "plus_zero", "mask", "keywords", "loss")
"""One projection for query, key and value; a layer norm as its formula; `weight + 0.0`; a mask that is added instead of
filled in; arguments by keyword, and defaults left out; a loss as its formula."""

FAULTS = ("scale", "eps", "gelu", "dropped", "doubled", "key")
"""A scale 1.02 times as large; an epsilon of 1e-3; the other gelu; a residual that is missing; a factor too many; the
key's weights 1.02 times as large."""


class Norm(nn.Module):
    def __init__(self, rewrites, eps):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH))
        self.rewrites, self.eps = rewrites, eps

    def forward(self, x):
        if "formula" in self.rewrites:
            centered = x - x.mean(-1, keepdim=True)
            variance = (centered * centered).mean(-1, keepdim=True)
            return centered * torch.rsqrt(variance + self.eps) * self.weight + self.bias
        weight = self.weight + 0.0 if "plus_zero" in self.rewrites else self.weight
        if "keywords" in self.rewrites:
            return functional.layer_norm(x, normalized_shape=(WIDTH,), weight=weight, bias=self.bias, eps=self.eps)
        return functional.layer_norm(x, (WIDTH,), weight, self.bias, self.eps)


class Attention(nn.Module):
    def __init__(self, rewrites, fault):
        super().__init__()
        self.rewrites, self.factor = rewrites, 1.02 if fault == "scale" else 1.0
        if "fused" in rewrites:
            self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        else:
            self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, mask):
        parts = self.qkv(x).chunk(3, -1) if "fused" in self.rewrites else (self.q(x), self.k(x), self.v(x))
        q, k, v = (part.view(BATCH, LENGTH, HEADS, -1).transpose(1, 2) for part in parts)
        if "sdpa" in self.rewrites:
            mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            return self.out(mixed.transpose(1, 2).reshape(x.shape))
        scores = torch.matmul(q, k.transpose(-1, -2)) * (self.factor / math.sqrt(WIDTH // HEADS))
        scores = scores + mask if "mask" in self.rewrites else scores.masked_fill(mask, -1e9)
        weights = torch.softmax(scores, dim=-1) if "keywords" in self.rewrites else torch.softmax(scores, -1)
        return self.out(torch.matmul(weights, v).transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    def __init__(self, rewrites, fault):
        super().__init__()
        self.rewrites, self.fault = rewrites, fault
        self.norm1, self.norm2 = Norm(rewrites, 1e-5), Norm(rewrites, 1e-3 if fault == "eps" else 1e-5)
        self.attention = Attention(rewrites, fault)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x, mask):
        mixed = self.attention(self.norm1(x), mask)
        x = mixed if self.fault == "dropped" else x + mixed
        y = self.up(self.norm2(x))
        if self.fault == "gelu":
            y = functional.gelu(y, approximate="tanh")
        else:
            y = functional.gelu(y) if "keywords" in self.rewrites else functional.gelu(y, approximate="none")
        y = self.down(y)
        return x + (y * 1.02 if self.fault == "doubled" else y)


class Decoder(nn.Module):
    def __init__(self, rewrites=(), fault=""):
        super().__init__()
        self.rewrites = rewrites
        self.embedding = nn.Embedding(TOKENS, WIDTH)
        self.blocks = nn.ModuleList(Block(rewrites, fault if n == 1 else "") for n in range(DEPTH))
        self.norm, self.head = Norm(rewrites, 1e-5), nn.Linear(WIDTH, TOKENS)

    def forward(self, tokens, labels):
        if "mask" in self.rewrites:
            mask = torch.triu(torch.full((LENGTH, LENGTH), -1e9), 1)
        elif "sdpa" in self.rewrites:
            mask = torch.triu(torch.full((LENGTH, LENGTH), float("-inf")), 1)
        else:
            mask = torch.triu(torch.ones(LENGTH, LENGTH, dtype=torch.bool), 1)
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, mask)
        logits, labels = self.head(self.norm(x)).reshape(-1, TOKENS), labels.reshape(-1)
        if "loss" in self.rewrites:
            return -torch.log_softmax(logits, -1).gather(1, labels[:, None]).mean()
        return functional.cross_entropy(logits, labels)


def weights(rewrites, fault=""):
    """The same values for every way to write the network."""
    generator = torch.Generator().manual_seed(1)
    plain = {name: torch.randn(value.shape, generator=generator) for name, value in Decoder().state_dict().items()}
    plain = {name: 1 + value / 10 if "norm" in name else value / 4 for name, value in plain.items()}
    if fault == "key":
        plain["blocks.1.attention.k.weight"] *= 1.02
    if "fused" in rewrites:
        for n in range(DEPTH):
            for kind in ("weight", "bias"):
                parts = [plain.pop(f"blocks.{n}.attention.{part}.{kind}") for part in "qkv"]
                plain[f"blocks.{n}.attention.qkv.{kind}"] = torch.cat(parts)
    return plain


def data():
    """The tokens and the labels of the step."""
    generator = torch.Generator().manual_seed(2)
    return tuple(torch.randint(0, TOKENS, (BATCH, LENGTH), generator=generator) for _ in range(2))


def train(debugger, rewrites=(), fault="", steps=1):
    """Some steps with Adam, which a debugger collects."""
    net = Decoder(rewrites, fault)
    net.load_state_dict(weights(rewrites, fault))
    optimizer, batch = torch.optim.Adam(net.parameters(), lr=1e-2), data()
    for _ in range(steps):
        debugger.start(net)
        net(*batch).backward()
        debugger.stop()
        debugger.step()
        optimizer.step()
        optimizer.zero_grad()
