"""Gradient accumulation averages the losses of micro batches with different numbers of tokens."""

import torch
from case import Truth
from on_pytorch import VOCABULARY, Gpt, tokens
from torch.nn import functional as F

SOURCE = "huggingface/transformers#34191, https://unsloth.ai/blog/gradient"
FRAMEWORK = "pytorch"
HALF = 1
TRUTH = Truth(
    kinds=("argument differs", "structure differs"),
    calls=("Functional.cross_entropy.0.forward @ ", "Tensor.__truediv__.* @ "),
    check=("loss-weights",),
)


def train(run):
    net = Gpt()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    for step in run.steps(net):
        micro_batches, total = [], 0.0
        for number, length in enumerate((11, 3)):  # tokens of a sample; the rest is padding
            ids = tokens(10 * step + number)
            wanted = ids[:, 1:].clone()
            wanted[:, length:] = -100
            micro_batches.append((ids[:, :-1], wanted.flatten()))
        count = sum(int((wanted != -100).sum()) for _, wanted in micro_batches)
        for ids, wanted in micro_batches:
            logits = net(ids).view(-1, VOCABULARY)
            if run.buggy:
                loss = F.cross_entropy(logits, wanted) / len(micro_batches)
            else:
                loss = F.cross_entropy(logits, wanted, reduction="sum") / count
            loss.backward()
            total += loss.detach()
        run.update(optimizer, total)
