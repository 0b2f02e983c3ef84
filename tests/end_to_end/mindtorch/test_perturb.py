"""Task free_benchmark with PyTorch's API on MindSpore."""

import json

import mindspore as ms
import numpy as np
import pytest

msadapter = pytest.importorskip("msadapter")  # before torch: it takes its place
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

from msprobe.base.errors import SettingsError  # noqa: E402
from msprobe.frameworks.mindspore.debugger import PrecisionDebugger  # noqa: E402
from msprobe.store.free_benchmark import read_table  # noqa: E402

pytestmark = [pytest.mark.mindspore, pytest.mark.mindtorch]


@pytest.fixture
def make(tmp_path):
    """A debugger with a section of free_benchmark."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    made = []

    def make(**section):
        config = tmp_path / "config.json"
        dump = tmp_path / "dump"
        config.write_text(json.dumps({"task": "free_benchmark", "dump_path": str(dump), "free_benchmark": section}))
        made.append(PrecisionDebugger(config))
        return made[-1]

    yield make
    for each in made:
        each._retire()


def train(debugger):
    """The gradients and outputs of two steps."""
    net = torch.nn.Linear(4, 3)
    values = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
    net.weight.data.copy_(torch.tensor(values))
    net.bias.data.copy_(torch.tensor(values[:, 0]))
    found = []
    for _ in range(2):
        if debugger is not None:
            debugger.start(net)
        x = torch.tensor(np.arange(1, 9).reshape(2, 4).astype(np.float32) / 8)
        y = torch.mul(F.softmax(net(x), -1), torch.tensor([1.0, 2.0, 3.0]))
        net.weight.grad = None
        y.sum().backward()
        if debugger is not None:
            debugger.stop()
            debugger.step()
        found += [y.detach().numpy().tobytes(), net.weight.grad.numpy().tobytes()]
    return found


@pytest.mark.parametrize("mode", ["bit_noise", "change_value"])
def test_calls_are_compared_and_the_training_keeps_its_bits(mode, make, tmp_path):
    plain = train(None)
    assert train(make(pert_mode=mode)) == plain
    summary = json.loads((tmp_path / "dump" / "free_benchmark_summary.json").read_text())
    assert summary["framework"] == "mindtorch"
    assert "failed" not in summary["skipped"]
    assert {"Functional.linear", "Functional.softmax", "Torch.mul"} <= {line["api"] for line in summary["lines"]}


def test_rows_are_named_as_pytorch_s_and_chosen_by_its_names(make, tmp_path):
    debugger = make(pert_mode="change_value", list=["torch.mul"])
    debugger.start()
    torch.mul(torch.tensor([1.0, 2.0, 4.0]), 2.0)
    F.relu(torch.tensor([1.0, 2.0]))
    debugger.stop()
    (row,) = read_table(tmp_path / "dump" / "free_benchmark.csv")
    assert (row.api, row.max_rel) == ("Torch.mul.0", 3.0)


def test_gradients_are_refused(make):
    with pytest.raises(SettingsError, match="fuzz_stage"):
        make(fuzz_stage="backward")


def test_an_unknown_name_is_refused(make):
    with pytest.raises(SettingsError, match=r"did you mean \"torch\.nn\.functional\.softmax\""):
        make(list=["torch.nn.functional.softmx"])
