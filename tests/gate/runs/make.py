"""The training of which the dumps in this folder were made; they are never written again.

MSPROBE_SETTINGS=settings.json python make.py [VARIANT] [--threads N]

base          16 inputs, 8 hidden units, task tensor, packed
eps           the epsilon of the LayerNorm is 1e-3
permuted      two columns of the hidden layer are exchanged: a change that statistics do not show
still         the optimizer is never called
wide, wide-1  64 inputs, 64 hidden units, 128 rows, task statistics; with two threads, and with one
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn

from msprobe.pytorch import PrecisionDebugger


class Net(nn.Module):
    def __init__(self, width, hidden, variant):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(width, hidden), nn.LayerNorm(hidden), nn.Linear(hidden, 4)
        self.variant = variant
        if variant == "eps":
            self.norm.eps = 1e-3

    def forward(self, x):
        return self.last(F.gelu(self.norm(self.first(x))))


def main(variant):
    torch.manual_seed(1)
    wide = variant.startswith("wide")
    torch.set_num_threads(1 if variant == "wide-1" else 2)
    width, hidden, rows = (64, 64, 128) if wide else (16, 8, 6)
    net = Net(width, hidden, variant)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    debugger = PrecisionDebugger()
    numbers = torch.Generator().manual_seed(2)
    for _ in range(3):
        x, labels = torch.randn(rows, width, generator=numbers), torch.arange(rows) % 4
        if variant == "permuted":
            x = x[:, [1, 0, *range(2, width)]]
        debugger.start(model=net)
        F.cross_entropy(net(x), labels).backward()
        debugger.stop()
        if variant != "still":
            optimizer.step()
        optimizer.zero_grad()
        debugger.step()


main(sys.argv[1] if len(sys.argv) > 1 else "base")
