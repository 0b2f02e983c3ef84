"""The exchange of gradients loses elements: some of the reduced gradient are zero (emulated)."""

import torch
import torch.distributed as dist
from case import Truth
from on_pytorch import Classifier, average_gradients, labels, vectors
from torch.nn import functional as F

SOURCE = "pytorch/pytorch#84803, #96600"
FRAMEWORK = "pytorch"
RANKS = 2
HALF = 2
TRUTH = Truth(
    kinds=("computes differently",), calls=("Distributed.all_reduce.0.forward",), step=0, check=("reductions",)
)


def lossy(all_reduce):
    def call(tensor, *args, **kwargs):
        done = all_reduce(tensor, *args, **kwargs)
        torch.ops.aten.fill_.Scalar(tensor.view(-1)[7::100].detach(), 0.0)
        return done

    return call


def train(run):
    if run.buggy:
        dist.all_reduce = lossy(dist.all_reduce)
    net = Classifier()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    for step in run.steps(net):
        loss = F.cross_entropy(net(vectors(step, run.rank)), labels(step, run.rank))
        loss.backward()
        average_gradients(net, run)
        run.update(optimizer, loss)
