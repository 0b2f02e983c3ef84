"""NaN that a network hands to a cross entropy, as most do, is named where it begins, in real trainings."""

import mindspore
import numpy as np
import pytest
import torch
from mindspore import nn, ops

pytestmark = [pytest.mark.mindspore, pytest.mark.torch]

X, LABELS = np.random.default_rng(0).normal(0, 1, (5, 4)).astype(np.float32), np.array([0, 1, 2, 3, 0])


@pytest.mark.parametrize(("wrong", "name"), [("log", "Torch.log.0.forward"), ("div", "Tensor.__truediv__.0.forward")])
def test_pytorch(tmp_path, last_answer, wrong, name):
    from msprobe.pytorch import PrecisionDebugger

    first, second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
    net = torch.nn.ModuleList([first, second])
    debugger = PrecisionDebugger(dump_path=str(tmp_path), level="mix")
    debugger.start(net)
    x = first(torch.from_numpy(X))
    x = torch.log(x - 100) if wrong == "log" else x / torch.zeros(())
    torch.nn.functional.cross_entropy(second(x), torch.from_numpy(LABELS)).backward()
    debugger.stop()
    debugger.step()
    assert [one.name for one in last_answer(tmp_path).first] == [name]


def test_mindspore(tmp_path, last_answer):
    from msprobe.mindspore import PrecisionDebugger

    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    net = nn.CellList([nn.Dense(4, 4), nn.Dense(4, 4)])

    def loss(x, labels):
        return ops.cross_entropy(net[1](ops.log(net[0](x) - 100)), labels)

    debugger = PrecisionDebugger(dump_path=str(tmp_path), level="mix")
    debugger.start(net)
    gradient = mindspore.value_and_grad(loss, None, net.trainable_params())
    gradient(mindspore.Tensor(X), mindspore.Tensor(LABELS, mindspore.int32))
    debugger.stop()
    debugger.step()
    assert [one.name for one in last_answer(tmp_path).first] == ["Functional.log.0.forward"]
