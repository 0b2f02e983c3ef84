"""What is detached or frozen on one side only is a difference, although that side merely lacks a gradient."""

import json

import mindspore as ms
import numpy as np
import pytest
import torch
from mindspore import Parameter, Tensor, nn, ops
from one_step import ended  # beside this file

from msprobe.cli import main

pytestmark = [pytest.mark.mindspore, pytest.mark.torch]

ROWS, WIDTH = 4, 6
LAYERS = ("first", "second", "teacher")


class Net(nn.Cell):
    """Its mask needs no gradient, and MindSpore computes one; its teacher is not trained."""

    def __init__(self, frozen=(), scaled_by=None):
        super().__init__()
        self.first, self.second, self.teacher = (nn.Dense(WIDTH, WIDTH) for _ in LAYERS)
        self.scale = Parameter(Tensor(scale() if scaled_by is None else scaled_by), name="scale")
        for parameter in [*self.teacher.get_parameters(), *(p for n in frozen for p in self[n].get_parameters())]:
            parameter.requires_grad = False

    def __getitem__(self, name):
        return getattr(self, name)

    def construct(self, x):
        x = self.first(x)
        mask = ops.gt(x, 0.0).astype(ms.float32)
        mask = mask * ops.sigmoid(self.teacher(ops.stop_gradient(x)))
        return (self.second(mask * x) * self.scale).square().mean()


class Original(torch.nn.Module):
    """`detached` names what it detaches that the port does not."""

    def __init__(self, detached=(), frozen=(), scaled_by=None):
        super().__init__()
        self.first, self.second, self.teacher = (torch.nn.Linear(WIDTH, WIDTH) for _ in LAYERS)
        self.scale = torch.nn.Parameter(torch.from_numpy(scale())) if scaled_by is None else scaled_by
        self.detached = detached
        for name in ("teacher", *frozen):
            getattr(self, name).requires_grad_(False)

    def of(self, name, x):
        return x.detach() if name in self.detached else x

    def forward(self, x):
        x = self.of("first", self.first(x))
        mask = (x > 0.0).to(x.dtype)
        with torch.no_grad():
            taught = torch.sigmoid(self.teacher(x))
        mask = mask * taught
        return (self.second(mask * x) * self.of("scale", self.scale)).square().mean()


def scale():
    return np.random.default_rng(2).standard_normal(WIDTH).astype(np.float32)


def weights():
    rng = np.random.default_rng(5)
    return {
        name: (rng.standard_normal((WIDTH, WIDTH)).astype(np.float32), rng.standard_normal(WIDTH).astype(np.float32))
        for name in LAYERS
    }


def batch():
    return np.random.default_rng(8).standard_normal((ROWS, WIDTH)).astype(np.float32)


def port(folder, **choices):
    from msprobe.mindspore import PrecisionDebugger

    net = Net(**choices)
    for name, (weight, bias) in weights().items():
        net[name].weight.set_data(Tensor(weight))
        net[name].bias.set_data(Tensor(bias))
    debugger = PrecisionDebugger(dump_path=str(folder), level="mix", task="statistics")
    debugger.start(net)
    ms.value_and_grad(net, None, net.trainable_params())(Tensor(batch()))
    return ended(debugger, folder)


def original(folder, **choices):
    from msprobe.pytorch import PrecisionDebugger

    net = Original(**choices)
    with torch.no_grad():
        for name, (weight, bias) in weights().items():
            getattr(net, name).weight.copy_(torch.from_numpy(weight))
            getattr(net, name).bias.copy_(torch.from_numpy(bias))
    debugger = PrecisionDebugger(dump_path=str(folder), level="mix", task="statistics")
    debugger.start(net)
    net(torch.from_numpy(batch())).backward()
    return ended(debugger, folder)


def compare(target, golden, out):
    """Exit code, and name, kind and reason of the first wrong call."""
    code = main(["compare", "-tp", str(target), "-gp", str(golden), "-o", str(out), "--format", "json"])
    found = json.loads(next(out.glob("*.json")).read_text())["first_wrong"]
    return code, *((found[0][key] for key in ("name", "kind", "reason")) if found else ())


def test_what_needs_no_gradient_on_either_side_is_no_difference(tmp_path):
    assert compare(port(tmp_path / "port"), original(tmp_path / "original"), tmp_path / "report") == (0,)


@pytest.mark.parametrize(
    ("detached", "named", "gradient"),
    [("scale", "Tensor.__mul__.2.backward", "output.1"), ("first", "Cell.second.Dense.backward.0", "output.0")],
)
def test_what_only_the_original_detaches_is_named(tmp_path, detached, named, gradient):
    golden = original(tmp_path / "original", detached=(detached,))
    code, name, kind, reason = compare(port(tmp_path / "port"), golden, tmp_path / "report")
    assert (code, name, kind) == (1, named, "computes differently")
    assert f"{gradient} is a tensor Float32" in reason
    assert "golden None" in reason


def test_a_layer_that_only_the_original_freezes_is_named(tmp_path):
    golden = original(tmp_path / "original", frozen=("second",))
    code, name, kind, reason = compare(port(tmp_path / "port"), golden, tmp_path / "report")
    assert (code, name, kind) == (1, "Cell.second.Dense.backward.0", "structure differs")
    assert reason.startswith("only the target has gradients of its parameters")


def test_a_layer_that_only_the_port_freezes_is_named(tmp_path):
    target = port(tmp_path / "port", frozen=("second",))
    code, name, kind, reason = compare(target, original(tmp_path / "original"), tmp_path / "report")
    assert (code, name, kind) == (1, "Module.second.Linear.parameters_grad", "structure differs")
    assert reason.startswith("only the golden has gradients of its parameters")


def test_a_layer_that_both_freeze_is_no_difference(tmp_path):
    target, golden = port(tmp_path / "port", frozen=("second",)), original(tmp_path / "original", frozen=("second",))
    assert compare(target, golden, tmp_path / "report") == (0,)


def test_a_number_in_the_place_of_a_parameter_is_named(tmp_path):
    """The parameter holds nothing but ones until it is trained."""
    ones = np.ones(WIDTH, np.float32)
    target = port(tmp_path / "port", scaled_by=ones)
    code, name, kind, reason = compare(target, original(tmp_path / "original", scaled_by=1.0), tmp_path / "report")
    assert (code, name, kind) == (1, "Tensor.__mul__.2.forward", "argument differs")
    assert "is a tensor Float32[6], golden 1.0" in reason
