"""With sharded gradients, each rank clips by the norm of its own shard only."""

import torch
import torch.distributed as dist
from case import Truth
from on_pytorch import Classifier, average_gradients, labels, vectors
from torch.nn import functional as F

SOURCE = "deepspeedai/DeepSpeed#7718"
FRAMEWORK = "pytorch"
RANKS = 2
HALF = 2
TRUTH = Truth(kinds=("parameters differ",), parameters=("first.", "second.", "head."), step=1)


def train(run):
    net = Classifier()
    optimizer = torch.optim.SGD(net.parameters(), 0.5)
    shards = [list(net.first.parameters()), [*net.second.parameters(), *net.head.parameters()]]
    for step in run.steps(net):
        loss = F.cross_entropy(net(vectors(step, run.rank)), labels(step, run.rank))
        loss.backward()
        average_gradients(net, run)
        run.log(loss.detach())
        square = sum(p.grad.square().sum() for p in shards[run.rank])
        if not run.buggy:
            dist.all_reduce(square)
        for p in shards[run.rank]:  # each rank updates its own shard, all receive it
            p.grad *= (0.1 / square.sqrt()).clamp(max=1)
        optimizer.step()
        for owner, shard in enumerate(shards):
            for p in shard:
                dist.broadcast(p.data, owner)
        optimizer.zero_grad()
