"""Replicas are initialized with the seed of their rank and never synchronized."""

import torch
from case import Truth
from on_pytorch import Classifier, average_gradients, labels, vectors
from torch.nn import functional as F

SOURCE = "allenai/OLMo-core#319"
FRAMEWORK = "pytorch"
RANKS = 2
HALF = 1
TRUTH = Truth(
    kinds=("parameters differ",), parameters=("first.", "second.", "head."), step=0, rank=1, check=("equal-parameters",)
)


def train(run):
    net = Classifier()
    torch.manual_seed(run.rank if run.buggy else 0)
    for layer in (net.first, net.second, net.head):
        layer.reset_parameters()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for step in run.steps(net):
        loss = F.cross_entropy(net(vectors(step, run.rank)), labels(step, run.rank))
        loss.backward()
        average_gradients(net, run)
        run.update(optimizer, loss)
