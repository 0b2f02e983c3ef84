"""Collecting that watches, in trainings with PyTorch: overflows, triggers, exceptions."""

import json

import numpy as np
import pytest
import torch
from torch import nn

pytestmark = pytest.mark.torch

X = torch.linspace(-1, 1, 12).reshape(3, 4)


class Layer(nn.Module):
    """One layer, with a fault behind it."""

    def __init__(self, fault=None):
        super().__init__()
        torch.manual_seed(0)
        self.fc, self.fault = nn.Linear(4, 4), fault

    def forward(self, x):
        x = torch.tanh(self.fc(x))
        return x if self.fault is None else self.fault(x)


def in_place(x):
    """What the layer received from its own linear layer is overwritten."""
    found = x.clone()
    found.div_(0.0)
    return found


def own_input(x):
    """What a module received is overwritten by itself."""
    return x.detach().mul_(float("inf"))


class Overwriting(nn.Module):
    def forward(self, x):
        return own_input(x)


def root(x):
    return torch.sqrt(x * 0.0)


@pytest.fixture
def configured(tmp_path, collecting):
    """Makes a debugger of a task with its section."""

    def make(task, level="mix", **section):
        return collecting({"dump_path": str(tmp_path), "task": task, task: section}, level=level)

    return make


def train(debugger, net, steps=1):
    for _ in range(steps):
        debugger.start(net)
        found = net(X)
        if found.requires_grad:
            found.square().mean().backward()
        debugger.stop()
        debugger.step()


def layers(fault):
    return nn.Sequential(Layer(), fault if isinstance(fault, nn.Module) else Layer(fault), Layer())


@pytest.mark.parametrize(
    ("fault", "level", "name"),
    [
        (lambda x: torch.log(x - 2), "mix", "Torch.log.0.forward"),
        (lambda x: torch.log(x - 2), "L0", "Module.1.Layer.forward.0"),
        (in_place, "mix", "Tensor.div_.0.forward"),
        (in_place, "L0", "Module.1.Layer.forward.0"),
        (root, "L1", "Torch.sqrt.0.backward"),
        (root, "L0", "Module.1.Layer.backward.0"),
    ],
)
def test_the_first_call_that_overflows_ends_the_collection(fault, level, name, configured, dumped):
    debugger = configured("overflow_check", level)
    train(debugger, layers(fault), steps=2)
    dump = dumped(debugger)
    assert dump.names[-1] == name
    assert {passing.rpartition(".")[0] for passing in dump.names[:-1]} <= {"Module.1.fc.Linear.backward"}
    assert dump.missing == []
    for part, is_finite in (("input", True), ("output", False)):
        saved = np.load(dump.folder / "dump_tensor_data" / f"{name}.{part}.0.npy")
        assert np.isfinite(saved).all() == is_finite


def test_what_a_module_overwrote_itself_is_not_written_as_its_input(configured, dumped):
    debugger = configured("overflow_check", "L0")
    train(debugger, layers(Overwriting()))
    dump = dumped(debugger)
    assert dump.names == ["Module.1.Overwriting.forward.0"]
    (given,) = dump.data[dump.names[0]]["input_args"]
    assert "Max" not in given
    assert given["shape"] == [3, 4]
    assert [(each["name"], each["part"]) for each in dump.missing] == [(dump.names[0], "input.0")]


def test_a_value_that_other_code_overwrites_is_looked_at_again(configured, dumped):
    """What was found finite once, and is not any more: numpy writes into a tensor between two recorded calls."""
    debugger = configured("overflow_check", "L1")
    debugger.start()
    with torch.no_grad():
        x = torch.exp(X)
        y = torch.reshape(x, (4, 3))
        y.numpy()[:] = np.nan
        torch.exp(torch.reshape(x, (2, 6)))
    debugger.stop()
    debugger.step()
    dump = dumped(debugger)
    assert dump.names == ["Torch.exp.1.forward"]
    assert json.loads((dump.folder / "findings.json").read_text())["findings"][0]["kind"] == "entered"


def test_a_result_that_was_written_into_an_argument_is_looked_at_again(configured, dumped):
    debugger = configured("overflow_check", "L1")
    debugger.start()
    with torch.no_grad():
        x = torch.exp(X)
        torch.div(x, 0.0, out=x)
    debugger.stop()
    debugger.step()
    assert dumped(debugger).names == ["Torch.div.0.forward"]


def test_a_normalisation_that_spoils_its_own_buffers_made_that_itself(configured, dumped):
    debugger, net = configured("overflow_check", "L1"), nn.Sequential(nn.BatchNorm1d(4))
    debugger.start(net)
    net(X * 3e38)
    debugger.stop()
    debugger.step()
    dump = dumped(debugger)
    (name,) = dump.names
    assert "batch_norm" in name
    assert json.loads((dump.folder / "findings.json").read_text())["findings"][0]["kind"] == "made"


def test_a_trigger_holds_tensors_as_they_were(configured, dumped):
    debugger = configured("statistics", "L1", trigger={"on": ["inf"], "calls": 5})
    debugger.start()
    with torch.no_grad():
        x = torch.ones(3)
        y = torch.exp(x)
        y.fill_(7)
        torch.div(x, 0)
    debugger.stop()
    debugger.step()
    dump = dumped(debugger)
    assert dump.names[-1] == "Torch.div.0.forward"
    saved = np.load(dump.folder / "dump_tensor_data" / "Torch.exp.0.forward.output.0.npy")
    np.testing.assert_allclose(saved, np.exp(np.ones(3)), rtol=1e-6)


def test_an_exception_that_the_training_catches_is_written_and_the_training_goes_on(configured, dumped):
    debugger, net = configured("exception_dump", calls=1), layers(lambda x: x @ torch.ones(7, 7))
    debugger.start(net)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        net(X)
    Layer()(X)
    debugger.stop()
    debugger.step()
    dump = dumped(debugger)
    assert dump.names == ["Torch.ones.0.forward", "Tensor.__matmul__.0.forward", "Module.1.Layer.forward.0"]
    (finding,) = json.loads((dump.folder / "findings.json").read_text())["findings"]
    assert finding["running"] == ["Module.1.Layer.forward.0"]
    assert "in <lambda>" in finding["traceback"]


GRADIENT = torch.full((3, 4), float("nan"))


class Loss(torch.autograd.Function):
    """A loss of the training's own, whose gradient no level records: it was there before."""

    @staticmethod
    def forward(ctx, y):
        return y.detach().sum()

    @staticmethod
    def backward(ctx, gradient):
        return GRADIENT


@pytest.mark.parametrize("nums", [1, -1])
@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_gradients_that_become_nan_outside_are_found(level, nums, configured, dumped, caplog):
    """Also in the first module, whose input needs no gradient, so that its backward returns none."""
    debugger = configured("overflow_check", level, overflow_nums=nums)
    net = torch.nn.Sequential(torch.nn.Linear(4, 4))
    debugger.start(net)
    Loss.apply(net(X)).backward()
    debugger.stop()
    debugger.step()
    dump = dumped(debugger)
    call = "Functional.linear.0.backward" if level == "L1" else "Module.0.Linear.backward.0"
    (finding,) = json.loads((dump.folder / "findings.json").read_text())["findings"]
    assert finding["kind"] == "entered"
    assert finding["place"] == "input.0"
    assert finding["call"] in (call, "Functional.linear.0.backward")
    assert finding["call"] in dump.names
    said = [record.getMessage() for record in caplog.records if finding["call"] in record.getMessage()]
    assert len(said) == 1
    assert "non-finite values entered from outside the collected" in said[0]
    if nums == -1 and level != "L1":
        assert {call, "Module.0.Linear.parameters_grad"} <= set(dump.names), "every entry that is not finite"
        assert dump.data["Module.0.Linear.parameters_grad"]["weight"][0]["nan_count"] == 16
