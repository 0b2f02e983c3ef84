"""The optimizer was constructed before sharding replaced the parameters: nothing is updated."""

import copy

import torch
from case import Truth
from on_pytorch import Classifier, labels, vectors
from torch.nn import functional as F

SOURCE = "huggingface/accelerate#2665"
FRAMEWORK = "pytorch"
HALF = 2
TRUTH = Truth(kinds=("parameters differ",), parameters=("first.", "second.", "head."), step=1, check=("updates",))


def prepare(net, optimizer, buggy):
    """Wrap the net: its parameters become other tensors."""
    wrapped = copy.deepcopy(net)
    if not buggy:
        optimizer.param_groups[0]["params"] = list(wrapped.parameters())
    return wrapped


def train(run):
    net = Classifier()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    net = prepare(net, optimizer, run.buggy)
    for step in run.steps(net):
        loss = F.cross_entropy(net(vectors(step)), labels(step))
        net.zero_grad()
        loss.backward()
        run.update(optimizer, loss)
