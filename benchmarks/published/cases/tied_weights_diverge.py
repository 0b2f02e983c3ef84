"""First and last pipeline stage share their embedding, and its gradients are not summed over the two stages."""

import torch
import torch.distributed as dist
from case import Truth
from on_pytorch import BATCH, LENGTH, VOCABULARY, WIDTH, tokens
from torch import nn
from torch.nn import functional as F

SOURCE = "NVIDIA/Megatron-LM#656, #844"
FRAMEWORK = "pytorch"
RANKS = 2
HALF = 2
TRUTH = Truth(
    kinds=("structure differs", "parameters differ"),
    calls=("Distributed.all_reduce.0.forward @ ",),
    parameters=("tied.weight",),
)


class Stage(nn.Module):
    def __init__(self, rank):
        super().__init__()
        torch.manual_seed(0)
        self.rank, self.tied = rank, nn.Embedding(VOCABULARY, WIDTH)
        torch.manual_seed(1 + rank)
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        if self.rank == 0:
            return torch.tanh(self.layer(self.tied(x)))
        return torch.tanh(self.layer(x)) @ self.tied.weight.T


def train(run):
    net = Stage(run.rank)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for step in run.steps(net):
        ids, loss = tokens(step), torch.zeros(())
        if run.rank == 0:
            hidden = net(ids[:, :-1])
            dist.send(hidden.detach(), 1)
            gradient = torch.zeros(BATCH, LENGTH, WIDTH)
            dist.recv(gradient, 1)
            hidden.backward(gradient)
        else:
            hidden = torch.zeros(BATCH, LENGTH, WIDTH)
            dist.recv(hidden, 0)
            hidden.requires_grad_()
            loss = F.cross_entropy(net(hidden).view(-1, VOCABULARY), ids[:, 1:].flatten())
            loss.backward()
            dist.send(hidden.grad, 0)
        if not run.buggy:
            dist.all_reduce(net.tied.weight.grad)
        run.update(optimizer, loss)
