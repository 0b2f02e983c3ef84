"""What the probe records is what `GradComparator` compares, of PyTorch, of MindSpore, and of both."""

import csv

import mindspore as ms
import numpy as np
import pytest
import torch
from mindspore import Parameter, Tensor, nn

from msprobe import GradComparator
from msprobe.frameworks.mindspore.debugger import PrecisionDebugger as OfMindSpore
from msprobe.frameworks.pytorch.debugger import PrecisionDebugger as OfPyTorch

pytestmark = [pytest.mark.mindspore, pytest.mark.torch]

SHAPES = {"a.weight": (7, 5), "b.bias": (11,)}
STEPS = 4


@pytest.fixture(autouse=True)
def _pynative():
    ms.set_context(mode=ms.PYNATIVE_MODE)


def gradients(seed):
    rng = np.random.default_rng(seed)
    return [{n: rng.standard_normal(s).astype(np.float32) for n, s in SHAPES.items()} for _ in range(STEPS)]


def of_torch(folder, found):
    parameters = [(name, torch.nn.Parameter(torch.zeros(shape))) for name, shape in SHAPES.items()]
    optimizer = torch.optim.Adam(parameters)
    debugger = OfPyTorch(task="grad_probe", dump_path=str(folder))
    debugger.monitor(optimizer)
    for step in found:
        for name, parameter in parameters:
            parameter.grad = torch.tensor(step[name])
        optimizer.step()
    debugger._retire()


def of_mindspore(folder, found, jit):
    optimizer = nn.SGD([Parameter(Tensor(np.zeros(s), ms.float32), name=n) for n, s in SHAPES.items()], 0.1)
    debugger = OfMindSpore(task="grad_probe", dump_path=str(folder))
    debugger.monitor(optimizer)

    def call(one, other):
        return optimizer((one, other))

    call = ms.jit(call) if jit else call
    for step in found:
        call(*(Tensor(each) for each in step.values()))
    debugger.stop()
    debugger._retire()


WRITERS = {
    "pytorch": of_torch,
    "pynative": lambda folder, found: of_mindspore(folder, found, False),
    "jit": lambda folder, found: of_mindspore(folder, found, True),
}


@pytest.mark.parametrize("one", WRITERS)
@pytest.mark.parametrize("other", WRITERS)
def test_similarities_of_recorded_runs(one, other, tmp_path):
    first, second = gradients(1), gradients(2)
    WRITERS[one](tmp_path / "one", first)
    WRITERS[other](tmp_path / "other", second)
    GradComparator.compare_distributed(tmp_path / "one", tmp_path / "other", tmp_path / "out")
    with open(tmp_path / "out" / "rank0" / "similarities.csv", encoding="utf-8") as file:
        rows = {row[0]: row[1:] for row in csv.reader(file)}
    assert list(rows) == ["step", *SHAPES, "summary"]
    for step in range(STEPS):
        same = {name: (first[step][name] > 0) == (second[step][name] > 0) for name in SHAPES}
        for name, each in same.items():
            assert float(rows[name][step]) == each.mean()
        pooled = np.concatenate([each.ravel() for each in same.values()])
        assert float(rows["summary"][step]) == pytest.approx(pooled.mean(), abs=1e-15)


def test_signs_that_torch_saved(tmp_path):
    of_torch(tmp_path / "one", gradients(1))
    of_torch(tmp_path / "other", gradients(1))
    for path in (tmp_path / "other").rglob("*.npy"):
        torch.save(torch.tensor(np.load(path)), path.with_name(f"{path.name.removesuffix('.npy')}.pt"))
        path.unlink()
    GradComparator.compare_distributed(tmp_path / "one", tmp_path / "other", tmp_path / "out")
    with open(tmp_path / "out" / "rank0" / "similarities.csv", encoding="utf-8") as file:
        assert [row[1:] for row in csv.reader(file)][1:] == [["1.0"] * STEPS] * 3
