"""An agent follows a fault planted in trainings of MindSpore and PyTorch: it lists, compares, explains and looks."""

import math
import subprocess

import pytest
from preloaded import python

pytestmark = [pytest.mark.mindspore, pytest.mark.torch]

TORCH = """
import sys
import torch
from msprobe.pytorch import PrecisionDebugger

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)

    def forward(self, x):
        h = self.linear(x)
        h = torch.mul(h, float(sys.argv[2]))
        return torch.sum(h)

net = Net()
with torch.no_grad():
    net.linear.weight.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    net.linear.bias.copy_(torch.tensor([0.5, -0.5]))
debugger = PrecisionDebugger(dump_path=sys.argv[1], level="mix", task="statistics")
debugger.start(net)
net(torch.tensor([[1.0, 2.0], [3.0, 4.0]])).backward()
debugger.stop()
debugger.step()
"""
MINDSPORE = """
import sys
import mindspore as ms
from mindspore import mint, nn
from msprobe.mindspore import PrecisionDebugger

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.linear = mint.nn.Linear(2, 2)

    def construct(self, x):
        h = self.linear(x)
        h = mint.mul(h, float(sys.argv[2]))
        return mint.sum(h)

net = Net()
net.linear.weight.set_data(ms.Tensor([[1.0, 2.0], [3.0, 4.0]], ms.float32))
net.linear.bias.set_data(ms.Tensor([0.5, -0.5], ms.float32))
debugger = PrecisionDebugger(dump_path=sys.argv[1], level="mix", task="statistics")
debugger.start(net)
ms.value_and_grad(net, None, net.trainable_params())(ms.Tensor([[1.0, 2.0], [3.0, 4.0]], ms.float32))
debugger.stop()
debugger.step()
"""
PROGRAMS = {"mindspore": MINDSPORE, "torch": TORCH}
FRAMEWORKS = {"mindspore": "mindspore", "torch": "pytorch"}
LINE = "float(sys.argv[2])"

LINEAR = (5.5, 10.5, 11.5, 24.5)
"""x W^T + b, by hand: 1 + 4 + 0.5, 3 + 8 - 0.5, 3 + 8 + 0.5, 9 + 16 - 0.5."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """`runs / "torch" / "1.0"`: the run of a framework with a factor."""
    folder = tmp_path_factory.mktemp("runs")
    for framework, program in PROGRAMS.items():
        script = folder / f"{framework}_training.py"
        script.write_text(program)
        for factor in ("1.0", "2.0"):
            subprocess.run(
                [python(framework), script, folder / framework / factor, factor], check=True, capture_output=True
            )
    return folder


def statistics(values):
    return {
        "max": max(values),
        "min": min(values),
        "mean": pytest.approx(sum(values) / len(values), rel=1e-6),
        "norm": pytest.approx(math.sqrt(sum(value**2 for value in values)), rel=1e-6),
    }


def of_part(call, part):
    return next(record for record in call["records"] if record["part"] == part and record["kind"] == "tensor")


@pytest.mark.parametrize(("target", "golden"), [("torch", "torch"), ("mindspore", "mindspore"), ("mindspore", "torch")])
def test_an_agent_finds_a_factor_of_two(agent, runs, target, golden):
    sides = {"target": (target, "2.0"), "golden": (golden, "1.0")}
    paths = {side: str(runs / framework / factor) for side, (framework, factor) in sides.items()}
    listed = {run["path"]: run for run in agent("list_runs", folder=str(runs))["runs"]}
    for side, path in paths.items():
        run = listed[path]
        assert (run["framework"], run["task"], run["level"]) == (FRAMEWORKS[sides[side][0]], "statistics", "mix")
        assert run["steps"] == [0]

    document = agent("compare", **paths)
    assert (document["state"], document["first_is_cause"]) == ("differs", True)
    finding, place = document["findings"][0], document["findings"][0]["place"]
    lines = PROGRAMS[target].splitlines()
    assert place["file"] == str(runs / f"{target}_training.py")
    assert place["line"] == next(number for number, line in enumerate(lines, 1) if LINE in line)
    assert place["code"] == lines[place["line"] - 1].strip()
    assert agent("explain", code=finding["code"])["name"] == finding["kind"] == "argument differs"

    call = agent("look_at_call", dump=paths["target"], name=place["name"], step=place["step"])
    assert (call["file"], call["line"], call["code"]) == (place["file"], place["line"], place["code"])
    assert [record["value"] for record in call["records"] if record["kind"] == "value"] == [2.0]
    given, made = of_part(call, "input"), of_part(call, "output")
    assert {key: made[key] for key in statistics(LINEAR)} == statistics([2 * value for value in LINEAR])
    assert {key: given[key] for key in statistics(LINEAR)} == statistics(LINEAR)

    # One call earlier: the layer, which agrees.
    (producer,) = given["producers"]
    earlier = agent("look_at_call", dump=paths["target"], name=producer)
    assert earlier["position"] < call["position"]
    assert of_part(earlier, "output")["max"] == max(LINEAR)

    if target == golden:
        trusted = agent("look_at_call", dump=paths["golden"], name=place["name"])
        assert {key: of_part(trusted, "output")[key] for key in statistics(LINEAR)} == statistics(LINEAR)


@pytest.mark.parametrize("framework", PROGRAMS)
def test_an_incoming_gradient_leads_to_the_call_that_made_it(agent, runs, framework):
    """The gradient of the sum is 1 in each of four elements, that of the product the factor."""
    path = str(runs / framework / "2.0")
    forward = next(
        name
        for name in agent.refused("look_at_call", dump=path, name=".mul.").partition("did you mean: ")[2].split(", ")
        if name.endswith("forward")
    )
    call = agent("look_at_call", dump=path, name=agent("look_at_call", dump=path, name=forward)["counterpart"])
    gradient = of_part(call, "input")
    assert {key: gradient[key] for key in ("max", "min", "norm")} == {"max": 1.0, "min": 1.0, "norm": 2.0}
    assert {key: of_part(call, "output")[key] for key in ("max", "min")} == {"max": 2.0, "min": 2.0}
    (producer,) = gradient["producers"]
    made = agent("look_at_call", dump=path, name=producer)
    assert ".sum." in made["name"]
    assert made["name"].endswith("backward")
    assert call["line"] == next(n for n, line in enumerate(PROGRAMS[framework].splitlines(), 1) if LINE in line)
