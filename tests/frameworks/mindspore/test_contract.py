"""MindSpore against the interface of frameworks."""

import framework_contract as contract
import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops

pytestmark = pytest.mark.mindspore

NAME = "mindspore"


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(2, 1, has_bias=False)

    def construct(self, x):
        return self.fc(x)


@pytest.mark.parametrize("check", ["interface", "tensors", "statistics", "execution", "distributed", "environment"])
def test_capability(check):
    getattr(contract, f"check_{check}")(NAME)


def test_modules():
    net = Net()
    contract.check_modules(NAME, net, lambda: net(Tensor([[1.0, 2.0]])), ["fc"], ["fc.weight"])


def test_functions():
    contract.check_functions(NAME, "Functional.bmm", "mindspore.ops.bmm")


def test_gradients():
    contract.check_gradients(NAME, ops.mul)


def test_randomness():
    contract.check_randomness(NAME, lambda: ms.manual_seed(ms.initial_seed() + 1))


def optimizer():
    return nn.SGD([Parameter(Tensor(np.ones(2, np.float32)), name="weight")], 0.1)


def test_optimizers():
    own = optimizer()
    contract.check_optimizer(NAME, own, lambda: own((Tensor([3.0, 4.0]),)), [3.0, 4.0])


def test_reported_gradients():
    own = optimizer()
    contract.check_reported_gradients(NAME, own, lambda: own((Tensor([3.0, 4.0]),)), [3.0, 4.0])
