"""Operations that are dispatched to the collector: those that compute, and none of fake tensors."""

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

pytestmark = pytest.mark.torch


def test_operations_on_fake_tensors_are_not_recorded(collecting, dumped):
    debugger, net = collecting({"task": "statistics", "level": "mix", "dispatch": True}), nn.Linear(3, 2)
    debugger.start(net)
    with FakeTensorMode():
        assert nn.Linear(3, 2)(torch.ones(5, 3)).cosh().shape == (5, 2)
    net(torch.ones(4, 3)).sinh()
    debugger.stop()
    debugger.step()
    operations = {name.split(".")[1] for name in dumped(debugger).names if name.startswith("Aten.")}
    assert {"addmm", "sinh"} <= operations
    assert "cosh" not in operations
