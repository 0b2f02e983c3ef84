"""The classes of Python that serve where the extensions were not built make the same dump, byte for byte."""

import json

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, mint, nn, ops

from msprobe.cell_dump import backward, gradient, session
from msprobe.cell_dump.describer import Describer
from msprobe.frameworks.mindspore import collecting as framework
from msprobe.store.npy import load_npy
from msprobe.store.writer import Writer

pytestmark = [
    pytest.mark.mindspore,
    pytest.mark.skipif(backward.extension is None, reason="without the extension there is nothing to compare"),
]


class Several(nn.Cell):
    """Containers as arguments and results, one tensor at several places, a result that is an argument."""

    def construct(self, named, extra=None):
        total = named["b"][0] * named["b"][1]["c"] + extra[0] + extra[1]
        return {"both": [named["a"], named["a"]], "sum": total, "n": 3}


class Own(nn.Cell):
    def construct(self, a, b):
        return a * b

    def bprop(self, a, b, out, gradient):
        return ops.mul(gradient, b), ops.mul(gradient, a)


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.weight = Parameter(Tensor(np.linspace(0.1, 1, 16, dtype=np.float32).reshape(4, 4)), name='w"ö')
        self.several, self.own, self.fc = Several(), Own(), nn.Dense(4, 4, weight_init="ones")
        self.again = nn.SequentialCell([nn.Dense(4, 4, weight_init="ones"), nn.Tanh()])
        self.again.recompute()
        self.enclosed = nn.SequentialCell([nn.SequentialCell([nn.Tanh()])])  # one node is the result of three calls

    def construct(self, x):
        y = x * x + self.weight * 2 * self.weight
        a, b, c = ops.unstack(ops.stack([y, y, x]))
        named = self.several({"a": a, "b": [b, {"c": c}]}, extra=(a, a))
        z = named["both"][0] + named["sum"] + self.own(a, b)
        z = self.fc(self.fc(z + self.again(z)))
        z = self.enclosed(ops.transpose(z, (1, 0)) + z)
        most = mint.max(z, dim=1)
        half, _ = ops.split(z, 2)
        z = z.copy()
        z[0] = 1.0
        return ops.sum(half) + most[0].sum() + ops.sum(z)


def written(debugger, dumped):
    """The data and the files of two steps, the second with two backwards of one forward's network."""
    ms.set_seed(1)
    net = Net()
    train = ms.value_and_grad(net, (0,), net.trainable_params())
    x = Tensor(np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4))
    for number in range(2):
        debugger.start(net)
        for factor in range(1, number + 2):
            train(x * factor)
        debugger.stop()
        debugger.step()
    texts = []
    for step in range(2):
        found = dumped(debugger, step)
        texts.append(json.dumps([found.data, found.construct, found.missing]))
        texts.append((found.folder / "stack.json").read_text())
    return texts


@pytest.fixture
def without(monkeypatch):
    """Has Python do everything from when it is called."""

    def leave_out():
        monkeypatch.setattr(session, "extension", None)
        monkeypatch.setattr(session, "new_backward", backward.Backward)
        monkeypatch.setattr(session, "skeletons", backward._skeletons)
        monkeypatch.setattr(framework, "node_gradients", gradient.NodeGradients)

    return leave_out


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
@pytest.mark.parametrize("task", ["statistics", "tensor", "structure"])
def test_python_alone_writes_the_same(collecting, dumped, without, level, task):
    found = []
    for leave_out in (lambda: None, without):
        leave_out()
        found.append(written(collecting(level=level, task=task), dumped))  # one line, for stacks name it
    assert found[0] == found[1]


def test_python_alone_chooses_the_same_calls(collecting, dumped, without):
    """Calls inside a chosen cell are chosen with it, also in the backward, in which the cell begins first."""
    found = []
    for leave_out in (lambda: None, without):
        leave_out()
        found.append(written(collecting({"statistics": {"list": ["Cell.enclosed.SequentialCell"]}}), dumped))
    assert "Cell.enclosed.0.0.Tanh.backward.0" in found[0][0]
    assert found[0] == found[1]


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_packed_tensors_have_the_records_of_npy_files(collecting, dumped, level):
    """Where the kernel makes records, their elements are packed from where they lie."""
    found = []
    for form in ("json", "packed"):
        found.append(written(collecting({"task": "tensor", "format": form}, level=level), dumped))
    assert found[0] == found[1]


def test_bfloat16_is_measured_once_and_packed_from_where_it_lies(collecting, dumped, monkeypatch):
    again = []
    described = Describer.described
    monkeypatch.setattr(Describer, "described", lambda self, *args: (again.append(args), described(self, *args))[1])
    x = ops.cast(Tensor(np.float32([1.5, -2.25])), ms.bfloat16)
    debugger = collecting({"task": "tensor", "format": "packed"}, level="L1")
    debugger.start()
    ops.add(x, x)
    again.clear()  # the first tensor of a dtype and shape is described by Python, which learns how to read it
    ops.add(x, x)
    debugger.stop()
    debugger.step()
    tensors = dumped(debugger).folder / "dump_tensor_data"
    (line,) = [
        line for line in (tensors / "tensors.index").read_text().splitlines() if "add.0.forward.output.0" in line
    ]
    assert line.split("\t")[1:3] == ["bfloat16", "[2]"]
    assert load_npy(tensors / "Functional.add.1.forward.output.0.npy").tolist() == [3.0, -4.5]
    assert again == []


def test_what_fails_while_tensors_are_packed_stands_in_the_dump(collecting, dumped, monkeypatch):
    def broken(*_):
        raise RuntimeError("no room in the pack")

    monkeypatch.setattr(Writer, "elements", broken)
    debugger = collecting({"task": "tensor", "format": "packed"}, level="L1")
    debugger.start()
    assert ops.add(Tensor([1.0]), Tensor([2.0])).asnumpy() == [3.0]
    debugger.stop()
    debugger.step()
    found = dumped(debugger)
    assert {each["cause"] for each in found.missing} == {"RuntimeError: no room in the pack"}
    (entry,) = [entry for name, entry in found.data.items() if name.startswith("Functional.add")]
    assert entry["output"] == [None]


@pytest.mark.parametrize("is_alone", [False, True])
def test_what_fails_in_a_hook_stands_in_the_dump_and_not_in_the_training(
    collecting, dumped, monkeypatch, without, is_alone
):
    def full(*_):
        raise OSError("the disk is full")

    net = nn.Dense(4, 4)
    x = Tensor(np.ones((2, 4), np.float32))
    train = ms.value_and_grad(lambda x: ops.sum(net(x)), None, net.trainable_params())
    alone = train(x)
    if is_alone:
        without()
    debugger = collecting(level="L1")
    debugger.start()
    monkeypatch.setattr(session.Session, "end_backward", full)
    loss, gradients = train(x)
    debugger.stop()
    debugger.step()
    assert np.array_equal(loss.asnumpy(), alone[0].asnumpy())
    assert all(np.array_equal(a.asnumpy(), b.asnumpy()) for a, b in zip(gradients, alone[1], strict=True))
    missing = {tuple(each.values()) for each in dumped(debugger).missing}
    assert missing == {("step", "_contributed", "OSError: the disk is full")}
