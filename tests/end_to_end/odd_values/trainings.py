"""A small training for each framework, whose layer and function are given whatever is made around their tensor."""

from contextlib import suppress
from types import SimpleNamespace

import numpy as np


def torch_training():
    import torch
    from torch import nn

    from msprobe.pytorch import PrecisionDebugger

    functions = SimpleNamespace()

    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x, odd=None, *, named=None):
            return self.fc(x), odd

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x, makes, between=None):
            total = 0
            for make in makes:
                y, _ = self.inner(x, make(x), named=make(x))
                z, _ = Custom.passing(y, make(y), named=make(y))
                total = total + z.square().sum()
                if between is not None:
                    between(self)
            return total

    class Custom:
        @staticmethod
        def passing(y, odd, named=None):
            return y * 2, odd

    def run(makes, debugger=None, steps=1, event=None):
        torch.manual_seed(1)
        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        x = torch.linspace(-1, 1, 8).view(2, 4)
        for step in range(steps):
            if debugger is not None:
                debugger.start(net)
            between = None if event is None else lambda _, step=step, net=net: event(step, lambda: net.inner(x))
            net(x, makes, between).backward()
            optimizer.step()
            optimizer.zero_grad()
            if debugger is not None:
                debugger.stop()
                debugger.step()
        return [p.detach().numpy().tobytes() for p in net.parameters()]

    functions.Custom, functions.run, functions.debugger_class = Custom, run, PrecisionDebugger
    functions.tensor, functions.name = torch.ones(2, 3), "Module"
    return functions


def mindspore_training():
    import mindspore as ms
    from mindspore import Tensor, nn, ops
    from mindspore.dataset import NumpySlicesDataset
    from mindspore.train import Model

    from msprobe.mindspore import PrecisionDebugger

    ms.set_context(mode=ms.PYNATIVE_MODE)

    class Inner(nn.Cell):
        def __init__(self):
            super().__init__()
            weight = Tensor(np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4))
            self.fc = nn.Dense(4, 4, weight_init=weight, bias_init="zeros")

        def construct(self, x, odd=None, named=None):
            return self.fc(x), odd

    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.inner = Inner()
            self.makes, self.between = (), None

        def construct(self, x):
            total = 0
            for make in self.makes:
                y, _ = self.inner(x, make(x), named=make(x))
                z, _ = Custom.passing(y, make(y), named=make(y))
                total = total + ops.square(z).sum()
                if self.between is not None:
                    self.between(self)
            return total

    class Custom:
        @staticmethod
        def passing(y, odd, named=None):
            return y * 2, odd

    def run(makes, debugger=None, steps=1, event=None):
        net = Net()
        net.makes = makes
        optimizer = nn.SGD(net.trainable_params(), learning_rate=0.01)
        gradients_of = ms.value_and_grad(net, None, optimizer.parameters)
        x = Tensor(np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4))
        for step in range(steps):
            if debugger is not None:
                debugger.start(net)
            net.between = None if event is None else lambda _, step=step: event(step, lambda: net.inner(x))
            _, gradients = gradients_of(x)
            optimizer(gradients)
            if debugger is not None:
                debugger.stop()
                debugger.step()
        return [p.asnumpy().tobytes() for p in net.get_parameters()]

    def run_by_model(makes, callbacks=()):
        """The same by `Model.train`, in as many steps as its data has batches of two."""
        net = Net()
        net.makes = makes
        model = Model(net, loss_fn=None, optimizer=nn.SGD(net.trainable_params(), learning_rate=0.01))
        rows = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)
        batches = NumpySlicesDataset({"x": rows}, shuffle=False).batch(2)
        model.train(1, batches, callbacks=list(callbacks), dataset_sink_mode=False)
        return [p.asnumpy().tobytes() for p in net.get_parameters()]

    training = SimpleNamespace(Custom=Custom, run=run, run_by_model=run_by_model, debugger_class=PrecisionDebugger)
    training.tensor, training.name = Tensor(np.ones((2, 3), np.float32)), "Cell"
    return training


MAKERS = {"torch": torch_training, "mindspore": mindspore_training}


def accepted(training, odd):
    """Those of the odd values that the framework itself lets a layer and a function have."""
    found = {}
    for word, each in odd.items():
        with suppress(Exception):
            training.run([each.make])
            found[word] = each
    return found
