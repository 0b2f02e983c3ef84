"""Train a small network for three steps; `python train.py --eps 1e-3` changes the epsilon of its norms."""

import argparse

import torch
from torch import nn

from msprobe.pytorch import PrecisionDebugger


class Block(nn.Module):
    """A residual block."""

    def __init__(self, eps):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32, eps=eps), nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


parser = argparse.ArgumentParser()
parser.add_argument("--eps", type=float, default=1e-5)
eps = parser.parse_args().eps
torch.manual_seed(0)
net = nn.Sequential(nn.Embedding(50, 32), Block(eps), Block(eps), nn.Linear(32, 50))
optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
debugger = PrecisionDebugger(dump_path="dump", task="statistics", level="mix")
tokens = torch.randint(0, 50, (4, 17))
for _ in range(3):
    debugger.start(net)
    loss = nn.functional.cross_entropy(net(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    debugger.stop()
    debugger.step()
