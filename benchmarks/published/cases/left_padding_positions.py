"""Positions of left-padded samples count the padding too."""

import torch
from case import Truth
from on_pytorch import LENGTH, WIDTH, Gpt, tokens
from torch import nn
from torch.nn import functional as F

SOURCE = "huggingface/transformers#3021"
FRAMEWORK = "pytorch"
HALF = 1
TRUTH = Truth(
    kinds=("structure differs", "argument differs"),
    calls=(
        "Functional.embedding.1.forward",
        "Module.positions.*",
        "Torch.arange.*",
        "Tensor.cumsum.*",
        "Tensor.__sub__.*",
        "Tensor.clamp.*",
        "Tensor.expand*",
    ),
)


class Gpt2(Gpt):
    def __init__(self):
        super().__init__()
        self.positions = nn.Embedding(LENGTH, WIDTH)

    def forward(self, ids, attention_mask, position_ids):
        self.position_ids = position_ids
        return super().forward(ids, ~attention_mask[:, None, None])

    def embed(self, ids):
        return self.embedding(ids) + self.positions(self.position_ids)


def train(run):
    net = Gpt2()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    attention_mask = torch.arange(LENGTH) >= torch.tensor([0, 2, 4, 5])[:, None]
    for step in run.steps(net):
        ids = tokens(step)
        if run.buggy:
            position_ids = torch.arange(LENGTH)[None].expand(len(ids), -1)
        else:
            position_ids = (attention_mask.cumsum(-1) - 1).clamp(min=0)
        wanted = ids[:, 1:].masked_fill(~attention_mask, -100)
        loss = F.cross_entropy(net(ids[:, :-1], attention_mask, position_ids).flatten(0, 1), wanted.flatten())
        loss.backward()
        run.update(optimizer, loss)
