"""A kernel errs by about 1000 units in the last place, in a part of its result, on its first call only (emulated)."""

import torch
from case import Truth
from on_pytorch import Classifier, aten, faulty_kernel, labels, vectors
from torch.nn import functional as F

SOURCE = "pytorch/pytorch#188792"
FRAMEWORK = "pytorch"
HALF = 2
TRUTH = Truth(
    kinds=("computes differently",),
    calls=("Functional.linear.0.forward", "Module.first.*forward*"),
    step=0,
    check=("replay",),
)


class Inaccurate:
    def __init__(self):
        self.calls = 0

    def __call__(self, addmm, *args, **kwargs):
        result = addmm(*args, **kwargs)
        self.calls += 1
        if self.calls == 1:
            result[:, :8] *= 1 + 1000 * 2**-23
        return result


def train(run):
    net = Classifier()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    with faulty_kernel(run, aten.addmm.default, Inaccurate()):
        for step in run.steps(net):
            loss = F.cross_entropy(net(vectors(step)), labels(step))
            loss.backward()
            run.update(optimizer, loss)
