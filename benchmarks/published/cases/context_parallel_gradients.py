"""Under context parallelism, the gradients of keys and values are not summed over the ranks that used them."""

import math

import torch
from case import Truth
from on_pytorch import VOCABULARY, Attention, Gather, Gpt, average_gradients, tokens
from torch.nn import functional as F

SOURCE = "NVIDIA/Megatron-LM#1464"
FRAMEWORK = "pytorch"
RANKS = 2
HALF = 2
TRUTH = Truth(
    kinds=("structure differs", "code between"),
    calls=(
        "Distributed.all_reduce.*",
        "Functional.linear.*.backward @ *.attention.value",
        "Functional.linear.*.backward @ *.attention.key",
        "Module.*.attention.key.*",
        "Module.*.attention.value.*",
        "Tensor.transpose.*.backward @ *.attention",
        "Tensor.view.*.backward @ *.attention",
    ),
)


class GatherOwnGradient(Gather):
    """Gives each rank only the gradient that this rank computed."""

    @staticmethod
    def backward(ctx, grad):
        rank = torch.distributed.get_rank()
        return grad.narrow(ctx.axis, rank * ctx.size, ctx.size).clone(), None


class ContextParallel(Attention):
    gather, rank = Gather, 0

    def attend(self, q, k, v, mask=None):
        k, v = self.gather.apply(k, 2), self.gather.apply(v, 2)
        rows = torch.arange(q.shape[2])[:, None] + self.rank * q.shape[2]
        scores = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).masked_fill(rows < torch.arange(k.shape[2]), -1e9)
        return torch.softmax(scores, -1) @ v


def train(run):
    ContextParallel.rank, ContextParallel.gather = run.rank, GatherOwnGradient if run.buggy else Gather
    net = Gpt(attention=ContextParallel)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    for step in run.steps(net):
        inputs, wanted = (part.chunk(2, 1)[run.rank] for part in (tokens(step)[:, :-1], tokens(step)[:, 1:]))
        loss = F.cross_entropy(net(inputs).view(-1, VOCABULARY), wanted.flatten())
        loss.backward()
        average_gradients(net, run)
        run.update(optimizer, loss)
