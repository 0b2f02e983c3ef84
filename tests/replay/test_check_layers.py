"""`msprobe check` executes again what a layer calls, not the layer: it may have an activation, or be of the user."""

import mindspore
import numpy as np
import pytest
import torch

from msprobe.checks.invariants.judgement import Status
from msprobe.checks.invariants.replayed import outputs_replay
from msprobe.checks.invariants.verb import read_run

pytestmark = [pytest.mark.mindspore, pytest.mark.torch]

X = np.random.default_rng(0).normal(0, 1, (3, 4)).astype(np.float32)


class Linear(torch.nn.Linear):
    """With an equalised learning rate."""

    def forward(self, x):
        return torch.nn.functional.linear(x, self.weight * 0.5, self.bias)


@pytest.mark.parametrize("level", ["mix", "L0"])
def test_a_dense_layer_with_an_activation(tmp_path, level):
    from msprobe.mindspore import PrecisionDebugger

    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    net = mindspore.nn.SequentialCell(mindspore.nn.Dense(4, 4, activation="gelu"), mindspore.nn.Dense(4, 2))
    debugger = PrecisionDebugger(dump_path=str(tmp_path), task="tensor", level=level)
    debugger.start(net)
    mindspore.value_and_grad(lambda x: net(x).sum(), None, net.trainable_params())(mindspore.Tensor(X))
    debugger.stop()
    debugger.step()
    found = list(outputs_replay(read_run(tmp_path)))
    assert [one.subject for one in found if one.status is Status.VIOLATED] == []
    assert sum(one.status is Status.HOLDS for one in found) >= 3, "activation and second layer, or the calls inside"


def test_a_layer_of_the_user_with_a_known_name(tmp_path):
    from msprobe.pytorch import PrecisionDebugger

    net = torch.nn.Sequential(Linear(4, 4))
    debugger = PrecisionDebugger(dump_path=str(tmp_path), task="tensor", level="mix")
    debugger.start(net)
    net(torch.from_numpy(X)).sum().backward()
    debugger.stop()
    debugger.step()
    found = list(outputs_replay(read_run(tmp_path)))
    assert [one.subject for one in found if one.status is Status.VIOLATED] == []
