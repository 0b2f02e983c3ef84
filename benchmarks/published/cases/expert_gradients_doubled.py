"""Expert parallelism sums the gradients of experts over its ranks and does not divide them."""

import torch
import torch.distributed as dist
from case import Truth
from on_pytorch import WIDTH, labels, vectors
from torch import nn
from torch.nn import functional as F

SOURCE = "pytorch/pytorch#160285"
FRAMEWORK = "pytorch"
RANKS = 2
HALF = 2
TRUTH = Truth(
    kinds=("structure differs", "parameters differ"),
    calls=("Tensor.__itruediv__.*", "Tensor.div_.*"),
    parameters=("experts.0.weight", "experts.1.weight", "experts.0.bias", "experts.1.bias"),
)


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.router, self.head = nn.Linear(WIDTH, 2), nn.Linear(WIDTH, 5)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))

    def forward(self, x):
        gates = torch.softmax(self.router(x), -1)
        return self.head(torch.tanh(sum(gates[:, n, None] * each(x) for n, each in enumerate(self.experts))))


def train(run):
    net = Mixture()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for step in run.steps(net):
        loss = F.cross_entropy(net(vectors(step, run.rank)), labels(step, run.rank))
        loss.backward()
        for name, p in net.named_parameters():
            dist.all_reduce(p.grad)
            if not (run.buggy and name.startswith("experts")):
                p.grad /= run.ranks
        run.update(optimizer, loss)
