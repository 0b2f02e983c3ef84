"""The gradients of attention sinks are split among the ranks, and the norm counts only those of the first rank."""

import torch
import torch.distributed as dist
from case import Truth
from on_pytorch import WIDTH, Copy, Reduce, labels, vectors
from torch import nn
from torch.nn import functional as F

SOURCE = "NVIDIA/Megatron-LM#7452 (8), #7530"
FRAMEWORK = "pytorch"
RANKS = 2
HALF = 2
TRUTH = Truth(
    kinds=("structure differs", "argument differs", "computes differently"),
    calls=(
        "Tensor.square.* @ ",
        "Tensor.sum.* @ ",
        "Tensor.__add__.* @ ",
        "Distributed.all_reduce.*",
        "Torch.stack.* @ ",
    ),
    check=("gradient-norm",),
)


class Heads(nn.Module):
    """The heads of this rank: each has a sink, a logit without a value."""

    def __init__(self, rank):
        super().__init__()
        torch.manual_seed(1 + rank)
        self.query, self.value = nn.Linear(WIDTH, 8, bias=False), nn.Linear(8, 5, bias=False)
        self.sinks = nn.Parameter(torch.randn(4))

    def forward(self, x):
        x = Copy.apply(x)
        logits = self.query(x).view(-1, 4, 2)
        weights = torch.softmax(torch.cat([logits, self.sinks.expand(len(x), 4).unsqueeze(-1)], -1), -1)
        return Reduce.apply(self.value(weights[..., :2].flatten(1)))


def train(run):
    net = Heads(run.rank)
    optimizer = torch.optim.SGD(net.parameters(), 0.5)
    for step in run.steps(net):
        loss = F.cross_entropy(net(vectors(step)), labels(step))
        loss.backward()
        is_split = {"query.weight", "value.weight"} | (set() if run.buggy else {"sinks"})
        counted = [p.grad for name, p in net.named_parameters() if name in is_split or run.rank == 0]
        square = torch.stack([grad.square().sum() for grad in counted]).sum()
        dist.all_reduce(square)
        for p in net.parameters():
            p.grad *= (0.05 / square.sqrt()).clamp(max=1)
        run.update(optimizer, loss)
