"""The gradient norm of experts is not summed over the expert-parallel ranks before clipping."""

import torch
import torch.distributed as dist
from case import Truth
from on_pytorch import WIDTH, Copy, Reduce, labels, vectors
from torch import nn
from torch.nn import functional as F

SOURCE = "NVIDIA/Megatron-LM#5916, #6099"
FRAMEWORK = "pytorch"
RANKS = 2
HALF = 2
TRUTH = Truth(
    kinds=("structure differs", "code between"),
    calls=("Distributed.all_reduce.*.forward @ ", "Tensor.__add__.*.forward @ "),
    check=("gradient-norm", "clipping", "equal-parameters"),
)


class Experts(nn.Module):
    """One expert on each rank; router and head are replicated."""

    def __init__(self, rank):
        super().__init__()
        torch.manual_seed(0)
        self.rank, self.router, self.head = rank, nn.Linear(WIDTH, 2), nn.Linear(WIDTH, 5)
        torch.manual_seed(1 + rank)
        self.expert = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        x = Copy.apply(x)
        gate = torch.softmax(self.router(x), -1)[:, self.rank, None]
        return self.head(torch.tanh(Reduce.apply(gate * self.expert(x))))


def train(run):
    net = Experts(run.rank)
    optimizer = torch.optim.SGD(net.parameters(), 0.5)
    for step in run.steps(net):
        loss = F.cross_entropy(net(vectors(step)), labels(step))
        loss.backward()
        for p in net.router.parameters():
            dist.all_reduce(p.grad)
        experts = sum(p.grad.square().sum() for p in net.expert.parameters())
        if not run.buggy:
            dist.all_reduce(experts)
        others = sum(p.grad.square().sum() for p in (*net.router.parameters(), *net.head.parameters()))
        norm = (experts + others).sqrt()
        for p in net.parameters():
            p.grad *= (0.1 / norm).clamp(max=1)
        run.update(optimizer, loss)
