"""The PyTorch twin of `nets_mindspore/moe.py`."""

import torch
from torch import nn
from torch.nn import functional

SIZES = {"small": (16, 1), "large": (24, 2)}
FEATURES, CLASSES, EXPERTS = 12, 7, 4


class Expert(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        return self.down(functional.silu(self.up(x)))


class Mixture(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm((width,), eps=1e-5)
        self.router = nn.Linear(width, EXPERTS, bias=False)
        self.experts = nn.ModuleList([Expert(width) for _ in range(EXPERTS)])
        self.gate = nn.Linear(width, width)

    def forward(self, x):
        y = self.norm(x)
        shares = torch.softmax(self.router(y), -1)
        best, _ = torch.topk(shares, 2)
        chosen = torch.ge(shares, torch.narrow(best, 1, 1, 1))
        kept = torch.where(chosen, shares, torch.zeros_like(shares))
        kept = torch.div(kept, torch.sum(kept, 1, True))
        results = torch.stack([expert(y) for expert in self.experts], 1)
        mixed = torch.sum(torch.mul(results, torch.unsqueeze(kept, -1)), 1)
        gate = torch.sigmoid(self.gate(y))
        balance = torch.mul(torch.sum(torch.square(torch.mean(shares, 0))), float(EXPERTS))
        return torch.add(x, torch.mul(gate, mixed)), balance


class Net(nn.Module):
    def __init__(self, size):
        super().__init__()
        width, depth = SIZES[size]
        self.enter = nn.Linear(FEATURES, width)
        self.mixtures = nn.ModuleList([Mixture(width) for _ in range(depth)])
        self.scale = nn.Parameter(torch.ones(CLASSES))
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x, labels):
        x = torch.relu(self.enter(x))
        losses = []
        for mixture in self.mixtures:
            x, balance = mixture(x)
            losses.append(balance)
        logits = torch.mul(self.head(x), self.scale)
        return torch.add(functional.cross_entropy(logits, labels), torch.mul(torch.mean(torch.stack(losses)), 0.01))


def arguments(rows, labels):
    return torch.from_numpy(rows), torch.from_numpy(labels).long()


def optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=0.01, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
