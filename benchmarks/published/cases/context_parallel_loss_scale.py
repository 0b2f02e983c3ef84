"""The loss is not multiplied by the size of context parallelism before gradients are averaged over its ranks."""

import torch
import torch.distributed as dist
from case import Truth
from on_pytorch import VOCABULARY, Gpt, average_gradients, tokens
from torch.nn import functional as F

SOURCE = "NVIDIA/Megatron-LM#906"
FRAMEWORK = "pytorch"
RANKS = 2
HALF = 2
TRUTH = Truth(kinds=("structure differs",), calls=("Tensor.__mul__.* @ ",))


def train(run):
    net = Gpt()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for step in run.steps(net):
        ids = tokens(step, run.rank)
        losses = F.cross_entropy(net(ids[:, :-1]).view(-1, VOCABULARY), ids[:, 1:].flatten(), reduction="sum")
        count = torch.tensor(float(ids[:, 1:].numel()))
        dist.all_reduce(count)
        loss = losses / count
        if not run.buggy:
            loss = loss * run.ranks
        loss.backward()
        average_gradients(net, run)
        run.update(optimizer, loss)
