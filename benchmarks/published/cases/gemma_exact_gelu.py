"""Gemma was trained with the tanh approximation of GELU, and the port computes the exact one."""

from functools import partial

import torch
from case import Truth
from on_pytorch import Gpt, Mlp, language_loss, tokens
from torch.nn import functional as F

SOURCE = "huggingface/transformers#29402"
FRAMEWORK = "pytorch"
HALF = 1
TRUTH = Truth(kinds=("argument differs",), calls=("Functional.gelu.0.forward @ blocks.0.mlp",))


def train(run):
    gelu = partial(F.gelu, approximate="none" if run.buggy else "tanh")
    net = Gpt(mlp=lambda: Mlp(activation=gelu))
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    for step in run.steps(net):
        loss = language_loss(net, tokens(step))
        loss.backward()
        run.update(optimizer, loss)
