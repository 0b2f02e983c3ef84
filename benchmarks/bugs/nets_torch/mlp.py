"""The PyTorch twin of `nets_mindspore/mlp.py`."""

import torch
from torch import nn
from torch.nn import functional

SIZES = {"small": (16, 2), "large": (24, 3)}
FEATURES, CLASSES = 12, 7


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm((width,), eps=1e-5)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        y = self.up(self.norm(x))
        y = functional.gelu(y, approximate="tanh")
        return x + self.down(y)


class Net(nn.Module):
    def __init__(self, size):
        super().__init__()
        width, depth = SIZES[size]
        self.enter = nn.Linear(FEATURES, width)
        self.blocks = nn.ModuleList([Residual(width) for _ in range(depth)])
        self.norm = nn.LayerNorm((width,), eps=1e-5)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x, labels):
        x = torch.mul(torch.sub(x, 0.1), 1.25)
        x = torch.tanh(self.enter(x))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits, labels)


def arguments(rows, labels):
    return torch.from_numpy(rows), torch.from_numpy(labels).long()


def optimizer(parameters):
    return torch.optim.Adam(parameters, lr=0.01, betas=(0.9, 0.999), eps=1e-8)
