"""The FP8 recipe rounds gradients to E5M2, with two bits of mantissa, instead of E4M3 (emulated)."""

import torch
from case import Truth
from on_pytorch import Classifier, labels, vectors
from torch import nn
from torch.nn import functional as F

SOURCE = "NVIDIA-NeMo/Megatron-Bridge#638"
FRAMEWORK = "pytorch"
HALF = 2
TRUTH = Truth(
    kinds=("argument differs", "precision differs"),
    calls=("Tensor.to.*", "Tensor.float.*", "Tensor.__rtruediv__.0.forward @ second"),
)


class Fp8Gradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dtype):
        ctx.dtype = dtype
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        scale = torch.finfo(ctx.dtype).max / grad.abs().max()
        return (grad * scale).to(ctx.dtype).float() / scale, None


class Fp8Linear(nn.Linear):
    dtype = torch.float8_e4m3fn

    def forward(self, x):
        return Fp8Gradient.apply(super().forward(x), self.dtype)


def train(run):
    Fp8Linear.dtype = torch.float8_e5m2 if run.buggy else torch.float8_e4m3fn
    net = Classifier()
    net.second.__class__ = Fp8Linear
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    for step in run.steps(net):
        loss = F.cross_entropy(net(vectors(step)), labels(step))
        loss.backward()
        run.update(optimizer, loss)
