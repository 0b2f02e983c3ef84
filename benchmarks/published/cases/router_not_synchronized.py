"""Under sequence parallelism, the gradients of the router are not reduced over the tensor-parallel ranks."""

import torch
from case import Truth
from on_pytorch import WIDTH, average_gradients, labels, vectors
from torch import nn
from torch.nn import functional as F

SOURCE = "NVIDIA/Megatron-LM#599, #619"
FRAMEWORK = "pytorch"
RANKS = 2
HALF = 2
TRUTH = Truth(
    kinds=("structure differs", "parameters differ"),
    calls=("Distributed.all_reduce.0.forward @ ", "Tensor.__itruediv__.0.forward @ "),
    parameters=("router.weight",),
    check=("reduced-gradients", "equal-parameters"),
)


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.router = nn.Linear(WIDTH, 3, bias=False)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.head = nn.Linear(WIDTH, 5)

    def forward(self, x):
        weights = torch.softmax(self.router(x), -1)
        outputs = torch.stack([expert(x) for expert in self.experts], -1)
        return self.head(torch.tanh((outputs * weights.unsqueeze(-2)).sum(-1)))


def train(run):
    net = Mixture()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for step in run.steps(net):
        # each rank has its part of the sequence
        loss = F.cross_entropy(net(vectors(step, run.rank)), labels(step, run.rank))
        loss.backward()
        average_gradients(net, run, skip=("router.weight",) if run.buggy else ())
        run.update(optimizer, loss)
