"""A small language model in PyTorch's API, trained two steps; as a script it is collected with PyTorch itself."""

import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.functional import gelu


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.scale = width**-0.5

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        weights = torch.softmax(q @ k.transpose(-2, -1) * self.scale, -1)
        return x + self.out(gelu(weights @ v))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.blocks = nn.ModuleList([Block(8), Block(8)])
        self.head = nn.Linear(8, 11)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def filled():
    """The model with weights that do not depend on the framework's random numbers."""
    net, rng = Net(), np.random.default_rng(7)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.tensor((rng.standard_normal(tuple(parameter.shape)) * 0.3).astype(np.float32)))
    return net


def train(net, debugger=None, steps=2):
    """Train, without an optimizer of the framework; gives the losses and the parameters as bytes."""
    tokens, seen = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]]), []
    for _ in range(steps):
        if debugger is not None:
            debugger.start(net)
        logs = F.log_softmax(net(tokens).view(-1, 11), -1)
        loss = -(logs * F.one_hot(tokens.view(-1), 11).float()).mean()
        loss.backward()
        if debugger is not None:
            debugger.stop()
            debugger.step()
        seen.append(loss.detach().numpy().tobytes())
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.copy_(parameter - parameter.grad * 0.5)
                parameter.grad = None
    return seen + [parameter.detach().numpy().tobytes() for parameter in net.parameters()]


if __name__ == "__main__":
    from msprobe.pytorch import PrecisionDebugger

    train(filled(), PrecisionDebugger(dump_path=sys.argv[1], level="mix"))
