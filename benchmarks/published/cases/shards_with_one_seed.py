"""All tensor-parallel ranks draw their shards with the same seed: the halves of each weight are equal."""

import torch
from case import Truth
from on_pytorch import WIDTH, Copy, Reduce, labels, vectors
from torch import nn
from torch.nn import functional as F

SOURCE = "modelscope/ms-swift#7944"
FRAMEWORK = "pytorch"
RANKS = 2
HALF = 2
TRUTH = Truth(kinds=("parameters differ",), parameters=("up.weight", "up.bias", "down.weight"), step=0, rank=1)


class Parallel(nn.Module):
    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(0)
        self.head = nn.Linear(WIDTH, 5)
        torch.manual_seed(seed)
        self.up, self.down = nn.Linear(WIDTH, 16), nn.Linear(16, WIDTH, bias=False)

    def forward(self, x):
        return self.head(x + Reduce.apply(self.down(torch.relu(self.up(Copy.apply(x))))))


def train(run):
    net = Parallel(1 if run.buggy else 1 + run.rank)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for step in run.steps(net):
        loss = F.cross_entropy(net(vectors(step)), labels(step))
        loss.backward()
        run.update(optimizer, loss)
