"""Dumps of PyTorch's API on MindSpore against those of PyTorch, by names, and of MindSpore, by what calls are."""

import numpy as np
import pytest

REASON = "MSAdapter, which takes the place of torch, is not installed; `make mindtorch` runs this"
pytest.importorskip("msadapter", reason=REASON)

import mindspore as ms  # noqa: E402
import small_net  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from msprobe.compare.locate.find import locate  # noqa: E402
from msprobe.compare.run import compare  # noqa: E402
from msprobe.store.reader import read  # noqa: E402

pytestmark = [pytest.mark.mindspore, pytest.mark.mindtorch]


@pytest.fixture
def collected(collecting, dumped):
    """The first step of the small net as this layer computes it."""

    def collected():
        debugger = collecting()
        small_net.train(small_net.filled(), debugger, steps=1)
        return read(dumped(debugger).folder)

    return collected


def test_a_sound_port_agrees_with_pytorch_call_by_call(collected, pytorch_dump):
    golden = read(pytorch_dump / "step0" / "rank")
    for sides in ((collected(), golden), (golden, collected())):
        comparison = compare(*sides)
        assert {each.calls.matched_by for each in comparison.calls} == {"name"}
        assert (comparison.counts["error"], comparison.counts["warning"]) == (0, 0)
        assert comparison.counts["pass"] > 250
        assert locate(comparison).first is None


def test_the_call_that_computes_something_else_is_found(collected, pytorch_dump, monkeypatch):
    monkeypatch.setattr(small_net, "gelu", lambda x: F.gelu(x, approximate="tanh") * 1.01)
    found = locate(compare(collected(), read(pytorch_dump / "step0" / "rank"))).first
    assert (found.kind.name, found.name) == ("computes differently", "Functional.gelu.0.forward")


class Module(nn.Module):
    def __init__(self, weights):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(6, 5), nn.Linear(5, 3)
        with torch.no_grad():
            for parameter, weight in zip(self.parameters(), weights, strict=True):
                parameter.copy_(torch.tensor(weight))

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x)))


class Cell(ms.nn.Cell):
    def __init__(self, weights):
        super().__init__()
        self.fc1, self.fc2 = ms.nn.Dense(6, 5), ms.nn.Dense(5, 3)
        for parameter, weight in zip(self.get_parameters(), weights, strict=True):
            parameter.set_data(ms.Tensor(weight))

    def construct(self, x):
        return self.fc2(ms.ops.relu(self.fc1(x)))


def test_modules_find_the_cells_that_they_are(collecting, dumped):
    rng = np.random.default_rng(3)
    weights = [rng.standard_normal(shape).astype(np.float32) for shape in ((5, 6), (5,), (3, 5), (3,))]
    x = rng.standard_normal((4, 6)).astype(np.float32)
    sides = []
    for net in (Module(weights), Cell(weights)):
        debugger = collecting()
        debugger.start(net)
        net(ms.Tensor(x))
        debugger.stop()
        debugger.step()
        sides.append(read(dumped(debugger).folder))
    assert [side.framework for side in sides] == ["mindtorch", "mindspore"]
    for target, golden in (sides, sides[::-1]):
        comparison = compare(target, golden)
        calls = [each.calls for each in comparison.calls]
        pairs = {pair.target.name: pair.golden.name for pair in calls if pair.target and pair.golden}
        ours = {
            "Module.fc1.Linear.forward.0": "Cell.fc1.Dense.forward.0",
            "Module.fc2.Linear.forward.0": "Cell.fc2.Dense.forward.0",
        }
        expected = ours if target.framework == "mindtorch" else {cell: module for module, cell in ours.items()}
        assert expected.items() <= pairs.items()
        assert locate(comparison).first is None
