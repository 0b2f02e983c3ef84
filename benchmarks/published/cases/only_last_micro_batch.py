"""Gradients are cleared before each micro batch instead of before each step: only the last one counts."""

import torch
from case import Truth
from on_pytorch import Classifier, labels, vectors
from torch.nn import functional as F

SOURCE = "allenai/open-instruct#1498"
FRAMEWORK = "pytorch"
HALF = 1
TRUTH = Truth(
    kinds=("computes differently", "code between", "parameters differ", "structure differs"),
    calls=("Module.*.parameters_grad",),
    parameters=("first.", "second.", "head."),
)


def train(run):
    net = Classifier()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for step in run.steps(net):
        total = 0.0
        for micro in range(2):
            if run.buggy:
                optimizer.zero_grad()
            loss = F.cross_entropy(net(vectors(step, micro)), labels(step, micro)) / 2
            loss.backward()
            total += loss.detach()
        run.update(optimizer, total)
