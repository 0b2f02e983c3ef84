"""Whether `torch` is PyTorch or a layer on MindSpore is told without importing anything."""

import subprocess
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import pytest

from msprobe.frameworks.torch_names import torch_on_mindspore

pytestmark = [pytest.mark.mindtorch, pytest.mark.everywhere]


class Ours:
    """MindSpore's tensors."""


class Adapted(Ours):
    """Those of a layer that makes a class of its own."""


class Theirs:
    """PyTorch's tensors."""


@pytest.mark.parametrize(
    ("torch", "mindspore", "expected"),
    [
        (SimpleNamespace(Tensor=Ours), SimpleNamespace(Tensor=Ours), True),
        (SimpleNamespace(Tensor=Adapted), SimpleNamespace(Tensor=Ours), True),
        (SimpleNamespace(Tensor=Theirs), SimpleNamespace(Tensor=Ours), False),
        (SimpleNamespace(), SimpleNamespace(Tensor=Ours), False),  # it is being imported
        (SimpleNamespace(Tensor=Ours), SimpleNamespace(), False),
        (None, SimpleNamespace(Tensor=Ours), False),
        (SimpleNamespace(Tensor=Theirs), None, False),
        (None, None, False),
    ],
)
def test_a_layer_is_known_by_its_class_of_tensors(monkeypatch, torch, mindspore, expected):
    for name, module in (("torch", torch), ("mindspore", mindspore)):
        if module is None:
            monkeypatch.delitem(sys.modules, name, raising=False)
        else:
            monkeypatch.setitem(sys.modules, name, module)
    assert torch_on_mindspore() is expected


NEIGHBOURS = """
import json, sys
import mindspore as ms
from msprobe.mindspore import PrecisionDebugger

debugger = PrecisionDebugger(dump_path="dump", level="L1")
def step():
    debugger.start()
    ms.ops.relu(ms.Tensor([1.0, -1.0]))
    debugger.stop()
    debugger.step()

step()
assert "torch" not in sys.modules, "MindSpore alone had PyTorch imported"
import torch
step()
for n in range(2):
    dump = json.load(open(f"dump/step{n}/rank/dump.json"))
    assert (dump["framework"], list(dump["data"])) == ("mindspore", ["Functional.relu.0.forward"]), dump
"""


@pytest.mark.skipif(find_spec("mindspore") is None, reason="MindSpore is not installed")
@pytest.mark.skipif(
    find_spec("torch") is None or find_spec("msadapter") is not None, reason="torch is not PyTorch here"
)
def test_pytorch_beside_mindspore_is_neither_imported_nor_taken_for_a_layer(tmp_path):
    done = subprocess.run([sys.executable, "-c", NEIGHBOURS], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
