"""Gradients are clipped on the first tensor-parallel rank only: replicated norms diverge (BLOOM-176B)."""

import torch
import torch.distributed as dist
from case import Truth
from on_pytorch import WIDTH, Copy, Reduce, labels, vectors
from torch import nn
from torch.nn import functional as F

SOURCE = "microsoft/DeepSpeed#1801"
FRAMEWORK = "pytorch"
RANKS = 2
HALF = 1
TRUTH = Truth(
    kinds=("parameters differ",),
    parameters=("norm.weight", "norm.bias", "up.", "down.", "head."),
    step=1,
    check=("equal-parameters", "clipping"),
)


class Parallel(nn.Module):
    """Norm and head are replicated, `up` and `down` are split among the ranks."""

    def __init__(self, rank):
        super().__init__()
        torch.manual_seed(0)
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 5)
        torch.manual_seed(1 + rank)
        self.up, self.down = nn.Linear(WIDTH, 16), nn.Linear(16, WIDTH, bias=False)

    def forward(self, x):
        hidden = torch.relu(self.up(Copy.apply(self.norm(x))))
        return self.head(x + Reduce.apply(self.down(hidden)))


def train(run):
    net = Parallel(run.rank)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for step in run.steps(net):
        loss = F.cross_entropy(net(vectors(step)), labels(step))
        loss.backward()
        run.log(loss.detach())
        square = sum(p.grad.square().sum() for n, p in net.named_parameters() if n.startswith(("up", "down")))
        dist.all_reduce(square)
        square += sum(p.grad.square().sum() for n, p in net.named_parameters() if n.startswith(("norm", "head")))
        if run.rank == 0 or not run.buggy:
            for p in net.parameters():
                p.grad *= (0.5 / square.sqrt()).clamp(max=1)
        optimizer.step()
        optimizer.zero_grad()
