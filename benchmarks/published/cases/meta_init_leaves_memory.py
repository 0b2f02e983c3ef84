"""A model that was constructed on the meta device is materialized, and one parameter is never initialized."""

import torch
from case import Truth
from on_pytorch import Classifier, labels, vectors
from torch import nn
from torch.nn import functional as F

SOURCE = "fla-org/flash-linear-attention#156"
FRAMEWORK = "pytorch"
HALF = 2
TRUTH = Truth(kinds=("parameters differ",), parameters=("decay",), step=0)


class Recurrent(Classifier):
    def __init__(self):
        super().__init__()
        self.decay = nn.Parameter(torch.zeros(16))

    def forward(self, x):
        return super().forward(x * torch.sigmoid(self.decay))


def train(run):
    with torch.device("meta"):
        net = Recurrent()
    net.to_empty(device="cpu")
    torch.manual_seed(0)
    for layer in (net.first, net.second, net.head):
        layer.reset_parameters()
    if run.buggy:
        net.decay.data.copy_(torch.linspace(-3e-2, 4e-2, 16))  # what the memory had
    else:
        nn.init.ones_(net.decay)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for step in run.steps(net):
        loss = F.cross_entropy(net(vectors(step)), labels(step))
        loss.backward()
        run.update(optimizer, loss)
