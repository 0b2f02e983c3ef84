"""Fine-tuning freezes every layer that is not the head, and a layer that should train is not updated."""

import torch
from case import Truth
from on_pytorch import Classifier, labels, vectors
from torch.nn import functional as F

SOURCE = "https://discuss.pytorch.org/t/84911"
FRAMEWORK = "pytorch"
HALF = 1
TRUTH = Truth(
    kinds=("structure differs", "parameters differ"),
    calls=(
        "* @ second",
        "Module.second.*",
        "Torch.tanh.*.backward",
        "Functional.linear.2.backward",
        "Module.head.*backward*",
    ),
    parameters=("second.weight", "second.bias"),
)


def train(run):
    net = Classifier()
    for name, parameter in net.named_parameters():
        frozen = not name.startswith("head") if run.buggy else name.startswith("first")
        parameter.requires_grad_(not frozen)
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], 0.1)
    for step in run.steps(net):
        loss = F.cross_entropy(net(vectors(step)), labels(step))
        loss.backward()
        run.update(optimizer, loss)
