"""Collecting that watches, in trainings with PyTorch's API on MindSpore."""

import json

import numpy as np
import pytest

REASON = "MSAdapter, which takes the place of torch, is not installed; `make mindtorch` runs this"
msadapter = pytest.importorskip("msadapter", reason=REASON)

import torch  # noqa: E402

pytestmark = [pytest.mark.mindspore, pytest.mark.mindtorch]


class Layer(torch.nn.Module):
    def __init__(self, fault=False):
        super().__init__()
        self.fc, self.fault = torch.nn.Linear(4, 4), fault

    def forward(self, x):
        x = torch.tanh(self.fc(x))
        return torch.log(x - 2.0) if self.fault else x


@pytest.mark.parametrize(("level", "name"), [("mix", "Torch.log.0.forward"), ("L0", "Module.1.Layer.forward.0")])
def test_the_first_call_that_overflows_is_all_that_is_written(level, name, collecting, dumped, tmp_path):
    debugger = collecting({"task": "overflow_check", "dump_path": str(tmp_path)}, level=level)
    net = torch.nn.Sequential(Layer(), Layer(fault=True), Layer())
    debugger.start(net)
    net(torch.tensor(np.ones((3, 4), np.float32))).sum().backward()
    debugger.stop()
    debugger.step()
    dump = dumped(debugger)
    assert dump.names == [name]
    saved = [np.load(dump.folder / "dump_tensor_data" / f"{name}.{part}.0.npy") for part in ("input", "output")]
    assert [np.isfinite(each).all() for each in saved] == [True, False]
    assert json.loads((dump.folder / "findings.json").read_text())["findings"][0]["kind"] == "made"
