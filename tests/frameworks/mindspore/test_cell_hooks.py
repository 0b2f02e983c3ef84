"""`gradients: "hooks"`: cells' gradients by the framework's own backward hooks."""

import json

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops

from msprobe.frameworks.mindspore.debugger import PrecisionDebugger

pytestmark = pytest.mark.mindspore

X = Tensor(np.random.default_rng(3).standard_normal((4, 4)).astype(np.float32))


class Linear(nn.Cell):
    def __init__(self, seed):
        super().__init__()
        self.w = Parameter(Tensor(np.random.default_rng(seed).standard_normal((4, 4)).astype(np.float32)), name="w")

    def construct(self, x):
        return ops.matmul(x, self.w)


class Parts(nn.Cell):
    def construct(self, x):
        return {"double": x * 2, "triple": x * 3}


class Same(nn.Cell):
    def construct(self, x):
        return x


class Net(nn.Cell):
    """A shared cell, one that gives back what it was given, and one with a dict as its result."""

    def __init__(self):
        super().__init__()
        self.first, self.shared, self.same, self.parts = Linear(1), Linear(2), Same(), Parts()

    def construct(self, x):
        y = self.same(self.shared(ops.tanh(self.shared(self.first(x)))))
        parts = self.parts(y)
        return ops.sum(parts["double"] * parts["triple"])


@pytest.fixture
def dumps(tmp_path):
    """The entries of one training step by each way of seeing gradients."""
    found, net = {}, Net()
    for way in ("own", "hooks"):
        config = tmp_path / f"{way}.json"
        config.write_text(json.dumps({"dump_path": str(tmp_path / way), "level": "mix", "gradients": way}))
        debugger = PrecisionDebugger(config)
        debugger.start(net)
        ms.value_and_grad(net, None, net.trainable_params())(X)
        debugger.stop()
        debugger.step()
        PrecisionDebugger._known.pop(debugger._settings)
        dump = json.loads((tmp_path / way / "step0" / "rank" / "dump.json").read_text())
        assert "missing" not in dump
        assert dump["run"]["settings"]["gradients"] == way
        found[way] = dump["data"]
        assert not any(cell._backward_hook or cell._backward_pre_hook for cell in net.cells()), "hooks stay"
    return found


def test_cells_have_the_same_backwards_as_by_nodes_but_for_results_that_hooks_do_not_see(dumps):
    assert set(dumps["own"]) - set(dumps["hooks"]) == {"Cell.parts.Parts.backward.0"}
    assert set(dumps["hooks"]) <= set(dumps["own"])


def test_what_one_call_contributes_is_the_same_within_rounding(dumps):
    for name in ("Cell.shared.Linear.backward.0", "Cell.shared.Linear.backward.1", "Cell.same.Same.backward.0"):
        for part in ("input", "output"):
            (own,), (hooks,) = dumps["own"][name][part], dumps["hooks"][name][part]
            assert hooks["Norm"] == pytest.approx(own["Norm"], rel=1e-5)
            assert hooks["shape"] == own["shape"] == [4, 4]


def test_an_argument_that_is_given_back_has_its_own_contribution_too(dumps):
    assert dumps["own"]["Cell.same.Same.backward.0"]["output"][0]["gradient"] == "accumulated"
    assert "gradient" not in dumps["hooks"]["Cell.same.Same.backward.0"]["output"][0]


def test_a_first_layer_reports_null_for_its_data(dumps):
    assert dumps["hooks"]["Cell.first.Linear.backward.0"]["output"] == [None]
    assert dumps["hooks"]["Cell.first.Linear.backward.0"]["input"][0]["shape"] == [4, 4]
