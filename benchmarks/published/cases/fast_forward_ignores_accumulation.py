"""A resumed training skips as many batches as it had made steps, and not those times the accumulation."""

from itertools import count, islice

import torch
from case import Truth
from on_pytorch import Gpt, language_loss, tokens

SOURCE = "EleutherAI/gpt-neox#308"
FRAMEWORK = "pytorch"
HALF = 1
TRUTH = Truth(
    kinds=("run inputs differ",),
    calls=("Functional.embedding.0.forward", "Module.embedding.*", "Tensor.__getitem__.0.forward @ "),
    step=0,
)
ACCUMULATION, ITERATION = 2, 3


def train(run):
    net = Gpt()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    skipped = ITERATION if run.buggy else ITERATION * ACCUMULATION
    batches = islice(map(tokens, count()), skipped, None)
    for _ in run.steps(net):
        total = 0.0
        for _ in range(ACCUMULATION):
            loss = language_loss(net, next(batches)) / ACCUMULATION
            loss.backward()
            total += loss.detach()
        run.update(optimizer, total)
