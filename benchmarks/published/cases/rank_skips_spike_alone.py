"""A rank skips the update after a spike of its own loss, and the other ranks do not."""

import torch
import torch.distributed as dist
from case import Truth
from on_pytorch import Classifier, average_gradients, labels, vectors
from torch.nn import functional as F

SOURCE = "ecmwf/WeatherGenerator#2724"
FRAMEWORK = "pytorch"
RANKS = 2
HALF = 1
TRUTH = Truth(
    kinds=("parameters differ",), parameters=("first.", "second.", "head."), step=2, check=("equal-parameters",)
)


def train(run):
    net = Classifier()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for step in run.steps(net, collect=(0, 1, 2)):
        spike = 50.0 if (step, run.rank) == (1, 0) else 1.0
        loss = spike * F.cross_entropy(net(vectors(step, run.rank)), labels(step, run.rank))
        loss.backward()
        average_gradients(net, run)
        run.log(loss.detach())
        skips = torch.tensor(float(loss > 4))
        if not run.buggy:
            dist.all_reduce(skips, dist.ReduceOp.MAX)
        if not skips:
            optimizer.step()
        optimizer.zero_grad()
