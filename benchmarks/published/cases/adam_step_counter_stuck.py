"""The step counter of Adam is stuck after a step without gradients: wrong bias correction (emulated)."""

import torch
from case import Truth
from on_pytorch import Classifier, labels, vectors
from torch.nn import functional as F

SOURCE = "pytorch/pytorch#115607"
FRAMEWORK = "pytorch"
HALF = 1
TRUTH = Truth(kinds=("parameters differ",), parameters=("first.weight", "first.bias", "second.", "head."), step=2)


class Adam(torch.optim.Adam):
    """Adam whose counter is stuck, as that of the compiled one was."""

    stuck = False

    def step(self):
        super().step()
        for state in self.state.values():
            if self.stuck:
                state["step"].zero_()


def train(run):
    net = Classifier()
    optimizer = Adam(net.parameters(), 1e-2)
    optimizer.stuck = run.buggy
    optimizer.step()  # there are no gradients yet
    for step in run.steps(net, collect=(0, 1, 2)):
        loss = F.cross_entropy(net(vectors(step)), labels(step))
        loss.backward()
        run.update(optimizer, loss)
