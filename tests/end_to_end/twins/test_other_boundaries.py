"""A port whose blocks end at other steps than the original's, and that says a tensor of zeros as a number."""

import json

import mindspore as ms
import numpy as np
import pytest
import torch
from mindspore import Parameter, Tensor, mint, nn, ops
from one_step import ended  # beside this file

from msprobe.cli import main
from msprobe.compare.counterparts.search import find_counterparts
from msprobe.store.reader import read

pytestmark = [pytest.mark.mindspore, pytest.mark.torch]

ROWS, WIDTH, MORE = 4, 6, 3
WHOLE = WIDTH + MORE


class Grow(nn.Cell):
    """Gives the new features alone; its dense layer has the activation."""

    def __init__(self, activation):
        super().__init__()
        self.fc = nn.Dense(WIDTH, MORE, activation=activation)

    def construct(self, x):
        return self.fc(x)


class Encoder(nn.Cell):
    def __init__(self):
        super().__init__()
        self.body = nn.SequentialCell(nn.Dense(WHOLE, WHOLE), nn.Tanh(), nn.Dense(WHOLE, WHOLE))
        self.out = nn.Dense(WHOLE, WHOLE)

    def construct(self, x):
        return self.out(self.body(x))


class Net(nn.Cell):
    """Its encoder runs twice; what it sums begins with a number."""

    def __init__(self, activation="relu", begin=0):
        super().__init__()
        self.grow, self.encoder, self.begin = Grow(activation), Encoder(), begin

    def construct(self, x):
        x = ops.concat((x, self.grow(x)), axis=1)
        mask = ops.gt(x, 0.0).astype(ms.float32)
        total = self.begin
        total = total + mask * self.encoder(x)
        total = total + self.encoder(ops.tanh(x))
        return (total + mint.zeros((ROWS, WHOLE))).square().mean()


class OriginalGrow(torch.nn.Module):
    """Gives old and new features."""

    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(WIDTH, MORE)

    def forward(self, x):
        return torch.cat([x, torch.relu(self.fc(x))], 1)


class OriginalEncoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.act = torch.nn.Linear(WHOLE, WHOLE), torch.nn.Tanh()
        self.second, self.last = torch.nn.Linear(WHOLE, WHOLE), torch.nn.Linear(WHOLE, WHOLE)

    def forward(self, x):
        return self.last(self.second(self.act(self.first(x))))


class Original(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.grow, self.encoder = OriginalGrow(), OriginalEncoder()

    def forward(self, x):
        x = self.grow(x)
        mask = (x > 0.0).to(x.dtype)
        total = torch.zeros(ROWS, WHOLE)
        total = total + mask * self.encoder(x)
        total = total + self.encoder(torch.tanh(x))
        return (total + torch.zeros(ROWS, WHOLE)).square().mean()


def weights():
    """Weight and bias of each layer, in the order in which both sides declare them."""
    rng = np.random.default_rng(5)
    for inputs, outputs in ((WIDTH, MORE), *[(WHOLE, WHOLE)] * 3):
        yield (rng.standard_normal((outputs, inputs)) / np.sqrt(inputs)).astype(np.float32)
        yield rng.standard_normal(outputs).astype(np.float32)


def batch():
    return np.random.default_rng(8).standard_normal((ROWS, WIDTH)).astype(np.float32)


def port(folder, **choices):
    """The dump of a step of the port."""
    from msprobe.mindspore import PrecisionDebugger

    net = Net(**choices)
    for parameter, value in zip(net.trainable_params(), weights(), strict=True):
        parameter.set_data(Tensor(value))
    debugger = PrecisionDebugger(dump_path=str(folder), level="mix", task="statistics")
    debugger.start(net)
    ms.value_and_grad(net, None, net.trainable_params())(Tensor(batch()))
    return ended(debugger, folder)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """The dump of a step of the original."""
    from msprobe.pytorch import PrecisionDebugger

    net, folder = Original(), tmp_path_factory.mktemp("original")
    with torch.no_grad():
        for parameter, value in zip(net.parameters(), weights(), strict=True):
            parameter.copy_(torch.from_numpy(value))
    debugger = PrecisionDebugger(dump_path=str(folder), level="mix", task="statistics")
    debugger.start(net)
    net(torch.from_numpy(batch())).backward()
    return ended(debugger, folder)


def compare(target, golden, out, capsys):
    """Exit code, last line of standard output, and the `first_wrong` of the JSON."""
    code = main(["compare", "-tp", str(target), "-gp", str(golden), "-o", str(out), "--format", "json"])
    found = json.loads(next(out.glob("*.json")).read_text())["first_wrong"]
    lines = [line for line in capsys.readouterr().out.splitlines() if line and not line.startswith("Try: ")]
    return code, lines[-1], found


def test_blocks_that_end_elsewhere_are_no_difference(original, tmp_path, capsys):
    target = port(tmp_path / "port")
    code, line, found = compare(target, original, tmp_path / "report", capsys)
    assert (code, found) == (0, []), line
    mine, theirs = (read(folder / "rank", structure=True) for folder in (target, original))
    pairs = {(mine.calls[p.target].name, theirs.calls[p.golden].name) for p in find_counterparts(mine, theirs).calls}
    assert pairs >= {
        ("Cell.grow.fc.Dense.forward.0", "Module.grow.fc.Linear.forward.0"),  # one has its activation inside
        ("Primitive.relu.ReLU.0.forward", "Torch.relu.0.forward"),
        ("Functional.concat.0.forward", "Torch.cat.0.forward"),  # behind the block, and inside
        (
            "Cell.encoder.Encoder.forward.0",
            "Module.encoder.OriginalEncoder.forward.0",
        ),  # with a sequence in it; without
        ("Cell.encoder.Encoder.forward.1", "Module.encoder.OriginalEncoder.forward.1"),
    }
    assert ("Primitive.relu.ReLU.0.forward", "Functional.linear.0.forward") not in pairs


def test_an_activation_that_lacks_is_named(original, tmp_path, capsys):
    code, line, found = compare(port(tmp_path / "port", activation=None), original, tmp_path / "report", capsys)
    assert code == 1
    assert (found[0]["name"], found[0]["kind"]) == ("Torch.relu.0.forward", "structure differs"), line


def test_a_sum_that_begins_with_another_number_is_named(original, tmp_path, capsys):
    code, line, found = compare(port(tmp_path / "port", begin=1), original, tmp_path / "report", capsys)
    assert code == 1
    assert (found[0]["name"], found[0]["kind"]) == ("Tensor.__radd__.0.forward", "argument differs"), line


class Gate(nn.Cell):
    """Its activation is a cell, where the original calls a function."""

    def __init__(self, activation):
        super().__init__()
        self.weight, self.act = Parameter(Tensor(next(weights())), name="weight"), activation

    def construct(self, x):
        return self.act(ops.matmul(x, self.weight.T))


class OriginalGate(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.from_numpy(next(weights())))

    def forward(self, x):
        return torch.tanh(torch.matmul(x, self.weight.T))


class Gated(nn.Cell):
    def __init__(self, activation):
        super().__init__()
        self.gate = Gate(activation)

    def construct(self, x):
        return self.gate(x)


class OriginalGated(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = OriginalGate()

    def forward(self, x):
        return self.gate(x)


def only_cells(framework, net, value, folder):
    """The dump of a forward run in which nothing but cells was recorded."""
    debugger = framework.PrecisionDebugger(dump_path=str(folder), level="L0", task="statistics")
    debugger.start(net)
    net(value)
    return ended(debugger, folder)


@pytest.mark.parametrize(("activation", "expected"), [(nn.Tanh, None), (nn.Sigmoid, "Cell.gate.Gate.forward.0")])
def test_a_cell_inside_a_block_does_not_excuse_the_block(tmp_path, capsys, activation, expected):
    from msprobe import mindspore, pytorch

    target = only_cells(mindspore, Gated(activation()), Tensor(batch()), tmp_path / "port")
    golden = only_cells(pytorch, OriginalGated(), torch.from_numpy(batch()), tmp_path / "original")
    code, line, found = compare(target, golden, tmp_path / "report", capsys)
    assert (code, found[0]["name"] if found else None) == (0 if expected is None else 1, expected), line
