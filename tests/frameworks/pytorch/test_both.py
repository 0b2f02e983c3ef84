"""Values of the other framework in a training's calls: they have no gradients here, and cost no call its record."""

import subprocess
import sys

import numpy as np
import pytest
import torch

pytestmark = pytest.mark.torch

pytest.importorskip("mindspore", reason="the values are of this framework")

ROW = np.array([[1.0, -2.0, 3.0]], dtype=np.float32)


def test_a_module_that_is_given_a_tensor_of_mindspore_is_recorded(collecting, dumped):
    import mindspore as ms

    class Bridge(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(3, 2)

        def forward(self, x):
            return self.fc(torch.from_numpy(x.asnumpy())), x

    net = torch.nn.ModuleDict({"bridge": Bridge()})
    debugger = collecting(level="L0")
    debugger.start(net)
    result, _ = net["bridge"](ms.Tensor(ROW))
    result.sum().backward()
    debugger.stop()
    debugger.step()
    found = dumped(debugger)
    assert set(found.data) == {
        "Module.bridge.fc.Linear.forward.0",
        "Module.bridge.Bridge.forward.0",
        "Module.bridge.fc.Linear.backward.0",
        "Module.bridge.fc.Linear.parameters_grad",
        "Module.bridge.Bridge.backward.0",
    }
    assert found.data["Module.bridge.Bridge.forward.0"]["input_args"] == [None]
    assert {(line["name"], line["part"]) for line in found.missing} == {
        ("Module.bridge.Bridge.forward.0", "input.0"),
        ("Module.bridge.Bridge.forward.0", "output.1"),
    }


ENDING = """
import atexit, sys
from msprobe.pytorch import PrecisionDebugger as OfTorch
OfTorch(dump_path=sys.argv[1] + "/torch")
registered, register = [], atexit.register
atexit.register = lambda function, *args, **kwargs: registered.append(function) or register(function, *args, **kwargs)
from msprobe.mindspore import PrecisionDebugger
assert [getattr(f, "__module__", "") for f in registered][-1] == "msprobe.debugger", registered
"""


def test_what_is_open_is_finished_before_the_framework_that_was_imported_later_ends(tmp_path):
    done = subprocess.run([sys.executable, "-c", ENDING, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
