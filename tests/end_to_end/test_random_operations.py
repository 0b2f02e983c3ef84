"""Two trainings with different seeds, collected for real: the dropout is a random operation, in both frameworks."""

import json

import mindspore as ms
import numpy as np
import pytest
import torch
from mindspore import nn

from msprobe.cli import main
from msprobe.frameworks.mindspore.debugger import PrecisionDebugger as MindSporeDebugger
from msprobe.frameworks.pytorch.debugger import PrecisionDebugger as PyTorchDebugger

pytestmark = [pytest.mark.mindspore, pytest.mark.torch]

X = np.random.default_rng(0).normal(size=(16, 32)).astype(np.float32)
W = np.random.default_rng(1).normal(size=(32, 32)).astype(np.float32) / 6


class OfMindSpore(nn.Cell):
    def __init__(self, p):
        super().__init__()
        self.one, self.two = (nn.Dense(32, 32, ms.Tensor(w), bias_init="zeros") for w in (W, W.T))
        self.drop = nn.Dropout(p=p)

    def construct(self, x):
        return self.two(self.drop(self.one(x))).sum()


class OfPyTorch(torch.nn.Module):
    def __init__(self, p):
        super().__init__()
        self.one, self.two = torch.nn.Linear(32, 32), torch.nn.Linear(32, 32)
        self.drop = torch.nn.Dropout(p)
        for layer, weight in ((self.one, W), (self.two, W.T)):
            layer.weight.data = torch.tensor(np.ascontiguousarray(weight))
            layer.bias.data.zero_()

    def forward(self, x):
        return self.two(self.drop(self.one(x))).sum()


def of_mindspore(path, level, task, seed, p):
    ms.set_seed(seed)
    network = OfMindSpore(p)
    network.set_train()
    debugger = MindSporeDebugger(dump_path=str(path), level=level, task=task)
    debugger.start(model=network)
    ms.value_and_grad(network, None, network.trainable_params())(ms.Tensor(X))
    debugger.stop()
    debugger.step()


def of_pytorch(path, level, task, seed, p):
    torch.manual_seed(seed)
    network = OfPyTorch(p)
    debugger = PyTorchDebugger(dump_path=str(path), level=level, task=task)
    debugger.start(model=network)
    network(torch.tensor(X)).backward()
    debugger.stop()
    debugger.step()


def first(tmp_path, capsys):
    """The exit code, and the first wrong call of `target` against `golden`; None without one."""
    out = tmp_path / "out"
    code = main(
        ["compare", *(str(tmp_path / side) for side in ("target", "golden")), "-o", str(out), "--format", "json"]
    )
    capsys.readouterr()
    found = json.loads(next(out.rglob("compare_result*.json")).read_text())["first_wrong"]
    return code, (found[0] if found else None)


@pytest.mark.parametrize("run", [of_mindspore, of_pytorch])
@pytest.mark.parametrize("level", ["L0", "mix"])
@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_other_seeds_are_named_at_the_dropout(tmp_path, capsys, run, level, task):
    for side, seed in (("target", 1), ("golden", 2)):
        run(tmp_path / side, level, task, seed, 0.25)
    code, found = first(tmp_path, capsys)
    assert (code, found["kind"]) == (1, "random operation")
    assert "dropout" in found["name"].lower()
    assert found["reason"].startswith("fix seeds with seed_all or set p=0; ")


@pytest.mark.parametrize("run", [of_mindspore, of_pytorch])
def test_equal_seeds_are_no_difference(tmp_path, capsys, run):
    for side in ("target", "golden"):
        run(tmp_path / side, "mix", "tensor", 1, 0.25)
    assert first(tmp_path, capsys) == (0, None)


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_between_frameworks_no_seed_helps(tmp_path, capsys, task):
    of_mindspore(tmp_path / "target", "mix", task, 1, 0.25)
    of_pytorch(tmp_path / "golden", "mix", task, 1, 0.25)
    code, found = first(tmp_path, capsys)
    assert (code, found["kind"]) == (1, "random operation")
    assert found["reason"].startswith("two frameworks draw different numbers from one seed, set p=0; ")
