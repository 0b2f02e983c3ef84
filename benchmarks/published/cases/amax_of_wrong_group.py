"""The greatest value for FP8 scaling is reduced over a group that does not contain all ranks."""

import torch
import torch.distributed as dist
from case import Truth
from on_pytorch import Classifier, average_gradients, labels, vectors
from torch.nn import functional as F

SOURCE = "NVIDIA/Megatron-LM#442"
FRAMEWORK = "pytorch"
RANKS = 2
HALF = 2
TRUTH = Truth(
    kinds=("argument differs", "computes differently"),
    calls=("Distributed.all_reduce.0.forward",),
    check=("reductions",),
)


class Fp8Classifier(Classifier):
    group = None

    def forward(self, x):
        amax = x.abs().max()
        dist.all_reduce(amax, dist.ReduceOp.MAX, group=self.group)
        scale = 448 / amax
        return super().forward((x * scale).to(torch.float8_e4m3fn).float() / scale)


def train(run):
    net = Fp8Classifier()
    alone = [dist.new_group([rank]) for rank in range(run.ranks)][run.rank]
    everyone = dist.new_group(list(range(run.ranks)))
    net.group = alone if run.buggy else everyone
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for step in run.steps(net):
        loss = F.cross_entropy(net((1 + run.rank) * vectors(step, run.rank)), labels(step, run.rank))
        loss.backward()
        average_gradients(net, run)
        run.update(optimizer, loss)
