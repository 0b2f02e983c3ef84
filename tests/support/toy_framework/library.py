"""Tensors, functions and modules on numpy, which know nothing of msprobe."""

import numpy as np


class Tensor:
    """An array that functions do not change."""

    def __init__(self, array):
        self.array = np.asarray(array)
        self.requires_grad = False

    @property
    def dtype(self):
        return self.array.dtype

    @property
    def shape(self):
        return self.array.shape


def matmul(a, b):
    return Tensor(a.array @ b.array)


def relu(a):
    return Tensor(np.maximum(a.array, 0))


class Module:
    """A module with parameters and hooks that are called before and after its forward."""

    def __init__(self):
        self._parameters, self._modules = {}, {}
        self.hooks_before, self.hooks_after = [], []

    def __call__(self, *args):
        for hook in list(self.hooks_before):
            hook(self, args)
        result = self.forward(*args)
        for hook in list(self.hooks_after):
            hook(self, args, result)
        return result

    def named_parameters(self, prefix=""):
        yield from ((f"{prefix}{name}", each) for name, each in self._parameters.items())
        for name, module in self._modules.items():
            yield from module.named_parameters(f"{prefix}{name}.")


class Linear(Module):
    def __init__(self, weight):
        super().__init__()
        self._parameters["weight"] = Tensor(np.array(weight, np.float32))

    def forward(self, x):
        return matmul(x, self._parameters["weight"])


class Network(Module):
    """Two layers and a function between them."""

    def __init__(self, first, second):
        super().__init__()
        self._modules["first"], self._modules["second"] = Linear(first), Linear(second)

    def forward(self, x):
        return self._modules["second"](relu(self._modules["first"](x)))
