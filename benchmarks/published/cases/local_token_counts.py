"""Each rank divides its loss by its own number of tokens: 14/3 instead of 4."""

import torch
import torch.distributed as dist
from case import Truth
from on_pytorch import VOCABULARY, Gpt, average_gradients, tokens
from torch.nn import functional as F

SOURCE = "NVIDIA/Megatron-LM#7452 (3), #7498"
FRAMEWORK = "pytorch"
RANKS = 2
HALF = 1
TRUTH = Truth(
    kinds=("structure differs", "argument differs"),
    calls=("Distributed.all_reduce.0.forward @ ", "Tensor.__truediv__.* @ "),
    check=("loss-weights",),
)


def train(run):
    net = Gpt()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    for step in run.steps(net):
        ids = tokens(step, run.rank)
        wanted = ids[:, 1:].clone()
        wanted[:, (11, 4)[run.rank] :] = -100
        losses = F.cross_entropy(net(ids[:, :-1]).view(-1, VOCABULARY), wanted.flatten(), reduction="sum")
        count = (wanted != -100).sum().float()
        if not run.buggy:
            dist.all_reduce(count)
            count = count / run.ranks  # gradients are averaged afterwards
        loss = losses / count
        loss.backward()
        average_gradients(net, run)
        run.update(optimizer, loss)
