"""The context-parallel path of attention drops the softmax sink, whose gradient is then zero."""

import math

import torch
from case import Truth
from on_pytorch import VOCABULARY, Attention, Gather, Gpt, average_gradients, tokens
from torch import nn
from torch.nn import functional as F

SOURCE = "NVIDIA/TransformerEngine#3551"
FRAMEWORK = "pytorch"
RANKS = 2
HALF = 2
TRUTH = Truth(
    kinds=("structure differs", "argument differs"),
    calls=("* @ blocks.0.attention",),
    check=("gradients",),
)


class SinkAttention(Attention):
    rank, has_sink = 0, True

    def __init__(self):
        super().__init__()
        self.sink = nn.Parameter(torch.ones(self.heads))

    def attend(self, q, k, v, mask=None):
        k, v = Gather.apply(k, 2), Gather.apply(v, 2)
        rows = torch.arange(q.shape[2])[:, None] + self.rank * q.shape[2]
        scores = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).masked_fill(rows < torch.arange(k.shape[2]), -1e9)
        if not self.has_sink:
            return torch.softmax(scores, -1) @ v
        sink = self.sink.view(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
        return torch.softmax(torch.cat([scores, sink], -1), -1)[..., :-1] @ v


def train(run):
    SinkAttention.rank, SinkAttention.has_sink = run.rank, not run.buggy
    net = Gpt(attention=SinkAttention)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    for step in run.steps(net):
        inputs, wanted = (part.chunk(2, 1)[run.rank] for part in (tokens(step)[:, :-1], tokens(step)[:, 1:]))
        loss = F.cross_entropy(net(inputs).view(-1, VOCABULARY), wanted.flatten())
        loss.backward()
        average_gradients(net, run)
        run.update(optimizer, loss)
