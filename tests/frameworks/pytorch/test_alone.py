"""A training runs where the other framework is not installed at all."""

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest

pytestmark = [pytest.mark.mindspore, pytest.mark.torch]

REFUSE = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == sys.argv[2]:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Refuse())
"""

TORCH = """
import torch
from msprobe.pytorch import PrecisionDebugger, compare, seed_all
seed_all(1)
net = torch.nn.Sequential(torch.nn.Linear(2, 2))
debugger = PrecisionDebugger(dump_path=sys.argv[1], level="mix")
debugger.start(net)
net(torch.ones(1, 2)).sum().backward()
debugger.stop()
debugger.step()
assert "mindspore" not in sys.modules
"""

MINDSPORE = """
import mindspore as ms
from mindspore import Tensor, nn, ops
from msprobe.mindspore import PrecisionDebugger, seed_all
seed_all(1)
net = nn.SequentialCell([nn.Dense(2, 2)])
debugger = PrecisionDebugger(dump_path=sys.argv[1], level="mix")
debugger.start(net)
ms.value_and_grad(lambda x: ops.sum(net(x)), None, net.trainable_params())(ops.ones((1, 2)))
debugger.stop()
debugger.step()
assert "torch" not in sys.modules
"""

NO_MINDSPORE = pytest.mark.skipif(
    find_spec("mindspore") is None, reason="this training is MindSpore's; it is not installed"
)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("script", "other", "name"),
    [
        (TORCH, "mindspore", "Module.0.Linear.backward.0"),
        pytest.param(MINDSPORE, "torch", "Cell.0.Dense.backward.0", marks=NO_MINDSPORE),
    ],
    ids=["PyTorch", "MindSpore"],
)
def test_a_training_needs_its_own_framework_only(script, other, name, tmp_path):
    command = [sys.executable, "-c", REFUSE + script, str(tmp_path / "dump"), other]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert name in json.loads((tmp_path / "dump/step0/rank/dump.json").read_text())["data"]
