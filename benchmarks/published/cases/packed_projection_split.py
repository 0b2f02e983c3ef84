"""A packed projection of several parts is split across ranks as one matrix: rank 0 gets all of the first part."""

import torch
from case import Truth
from on_pytorch import WIDTH, Copy, Reduce, labels, vectors
from torch import nn
from torch.nn import functional as F

SOURCE = "NVIDIA/Megatron-LM#1989, NVIDIA-NeMo/Megatron-Bridge#1690"
FRAMEWORK = "pytorch"
RANKS = 2
HALF = 2
TRUTH = Truth(kinds=("parameters differ",), parameters=("in_proj",), step=0)


class Gated(nn.Module):
    """`in_proj` packs a gate and a value."""

    def __init__(self, rank, ranks, buggy):
        super().__init__()
        torch.manual_seed(0)
        self.head = nn.Linear(WIDTH, 5)
        packed, out = torch.randn(32, WIDTH) / 4, torch.randn(WIDTH, 16) / 4
        parts = [packed] if buggy else packed.chunk(2)
        shard = torch.cat([part.chunk(ranks)[rank] for part in parts])
        self.in_proj = nn.Parameter(shard.clone())
        self.out = nn.Parameter(out.chunk(ranks, 1)[rank].clone())

    def forward(self, x):
        gate, value = F.linear(Copy.apply(x), self.in_proj).chunk(2, -1)
        return self.head(x + Reduce.apply(F.linear(torch.sigmoid(gate) * value, self.out)))


def train(run):
    net = Gated(run.rank, run.ranks, run.buggy)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for step in run.steps(net):
        loss = F.cross_entropy(net(vectors(step)), labels(step))
        loss.backward()
        run.update(optimizer, loss)
