"""PyTorch against the interface of frameworks."""

import framework_contract as contract
import pytest
import torch

pytestmark = pytest.mark.torch

NAME = "pytorch"


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(2, 1, bias=False)

    def forward(self, x):
        return self.fc(x)


@pytest.mark.parametrize("check", ["interface", "tensors", "statistics", "execution", "distributed", "environment"])
def test_capability(check):
    getattr(contract, f"check_{check}")(NAME)


def test_modules():
    net = Net()
    contract.check_modules(NAME, net, lambda: net(torch.ones(1, 2)), ["fc"], ["fc.weight"])


def test_functions():
    contract.check_functions(NAME, "Torch.bmm", "torch.bmm")


def test_gradients():
    contract.check_gradients(NAME, torch.mul)


def test_randomness():
    contract.check_randomness(NAME, lambda: torch.rand(1))


def optimizer():
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.grad = torch.tensor([3.0, 4.0])
    return torch.optim.SGD([parameter], 0.1)


def test_optimizers():
    own = optimizer()
    contract.check_optimizer(NAME, own, lambda: own.step(), [3.0, 4.0])


def test_reported_gradients():
    own = optimizer()
    contract.check_reported_gradients(NAME, own, lambda: own.step(), [3.0, 4.0])
