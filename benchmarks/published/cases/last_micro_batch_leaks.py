"""The gradients of the last micro batch are added after the update: they leak into the next step (emulated)."""

import torch
from case import Truth
from on_pytorch import Classifier, labels, vectors
from torch.nn import functional as F

SOURCE = "deepspeedai/DeepSpeed#7985"
FRAMEWORK = "pytorch"
HALF = 2
TRUTH = Truth(
    kinds=("parameters differ", "structure differs"),
    calls=("Tensor.__iadd__.*.forward @ ",),
    parameters=("first.", "second.", "head."),
)


class Bf16Optimizer:
    """Adds gradients to float32 buffers; `step` uses and clears them."""

    def __init__(self, parameters):
        self.parameters = list(parameters)
        self.inner = torch.optim.SGD(self.parameters, 0.1)
        self.buffers = [torch.zeros_like(p) for p in self.parameters]

    def accumulate(self):
        for buffer, p in zip(self.buffers, self.parameters, strict=True):
            buffer += p.grad
            p.grad = None

    def step(self):
        for buffer, p in zip(self.buffers, self.parameters, strict=True):
            p.grad = buffer.clone()
            buffer.zero_()
        self.inner.step()
        self.inner.zero_grad()


def train(run):
    net = Classifier()
    optimizer = Bf16Optimizer(net.parameters())
    for step in run.steps(net):
        late = []
        for micro in range(2):
            loss = F.cross_entropy(net(vectors(step, micro)), labels(step, micro)) / 2
            loss.backward()
            if run.buggy and micro == 1:
                late = [p.grad.clone() for p in net.parameters()]
            else:
                optimizer.accumulate()
        run.log(loss.detach())
        optimizer.step()
        for buffer, gradient in zip(optimizer.buffers, late, strict=False):
            buffer += gradient
