"""PyTorch's API on MindSpore against the interface of frameworks; `tests/frameworks` has the others."""

import framework_contract as contract
import mindspore as ms
import pytest

msadapter = pytest.importorskip("msadapter")  # before torch: it replaces it
import torch  # noqa: E402

pytestmark = [pytest.mark.mindspore, pytest.mark.mindtorch]

NAME = "mindtorch"


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(2, 1, bias=False)

    def forward(self, x):
        return self.fc(x)


@pytest.mark.parametrize("check", ["interface", "tensors", "execution", "distributed", "environment"])
def test_capability(check):
    getattr(contract, f"check_{check}")(NAME)


def test_modules():
    net = Net()
    contract.check_modules(NAME, net, lambda: net(torch.ones(1, 2)), ["fc"], ["fc.weight"])


def test_functions():
    contract.check_functions(NAME, "Torch.bmm", "torch.bmm")


def test_gradients():
    contract.check_gradients(NAME, ms.ops.mul)


def test_randomness():
    contract.check_randomness(NAME, lambda: ms.manual_seed(ms.initial_seed() + 1))


class Still:
    """An optimizer that changes nothing: whether the layer's own can run depends on the tests before."""

    def __init__(self, parameter):
        self.param_groups = [{"params": [parameter]}]

    def step(self):
        pass


def optimizer():
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.grad = torch.tensor([3.0, 4.0])
    return Still(parameter)


def test_optimizers():
    own = optimizer()
    contract.check_optimizer(NAME, own, lambda: own.step(), [3.0, 4.0])


def test_reported_gradients():
    own = optimizer()
    contract.check_reported_gradients(NAME, own, lambda: own.step(), [3.0, 4.0])
