"""`MsProbe` with models and tensors of PyTorch's API on MindSpore."""

import json
from pathlib import Path

import numpy as np
import pytest

REASON = "MSAdapter, which takes the place of torch, is not installed; `make mindtorch` runs this"
msadapter = pytest.importorskip("msadapter", reason=REASON)

import mindspore as ms  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402

from msprobe.core import MsProbe  # noqa: E402

pytestmark = [pytest.mark.mindspore, pytest.mark.mindtorch]

ON = {"msprobe": True, "dump_path": "run", "key_data_dump": True, "actor_infer_dump": True, "actor_train_dump": True}


@pytest.fixture
def probe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ms.set_context(mode=ms.PYNATIVE_MODE)
    yield MsProbe
    MsProbe.config_init(None)


def calls(stage):
    """The names of a stage's calls, and whose they are."""
    dump = json.loads(Path("run", stage, "step0", "rank0", "dump.json").read_text())
    return dump["framework"], list(dump["data"])


def test_stages_and_key_data_are_those_of_a_training_in_pytorch(probe):
    net, x = nn.Sequential(nn.Linear(3, 2), nn.ReLU()), torch.ones(2, 3)
    probe.config_init({**ON, "token_range_start": 1, "token_range_end": 1})
    probe.debugger_start(net, "actor_generate_sequences")
    for _ in range(3):
        net(x)
    probe.debugger_stop("actor_generate_sequences")
    probe.debugger_start(net, "actor_update")
    output = net(x)
    output.sum().backward()
    probe.debugger_stop("actor_update")
    probe.save_data("outputs", [output, x.to(torch.bfloat16)])
    probe.save_data({"outputs": output})
    probe.step()
    linear, relu = "Module.0.Linear", "Module.1.ReLU"
    forward = [f"{linear}.forward.0", f"{relu}.forward.0"]
    assert calls("actor_generate_sequences") == ("mindtorch", forward)
    framework, names = calls("actor_update")
    assert (framework, names[:2]) == ("mindtorch", forward)
    assert set(names[2:]) == {f"{linear}.backward.0", f"{relu}.backward.0", f"{linear}.parameters_grad"}
    folder = Path("run/data/outputs/step0/rank0")
    assert sorted(path.name for path in folder.glob("*.npy")) == ["outputs.0_float32_0.npy", "outputs.1_float32_1.npy"]
    for file in ("outputs.0_float32_0.npy", "micro_step0/outputs.npy"):
        np.testing.assert_array_equal(np.load(folder / file), output.detach().numpy())
    np.testing.assert_array_equal(np.load(folder / "outputs.1_float32_1.npy"), np.ones((2, 3), np.float32))
