"""Code that is traced in a collected step, with every operation dispatched to the collector as well.

The cases run in a process of their own, under a time limit: what is wrong here may never return.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch

LIMIT = 240

PROGRAM = """
import json, sys, warnings
warnings.simplefilter("ignore")
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
with torch.no_grad():
    for number, parameter in enumerate(net.parameters()):
        parameter.copy_(torch.linspace(-1, 1, parameter.numel()).view_as(parameter) * (number + 1))
x = torch.linspace(-1, 1, 6).view(2, 3)
parameters = dict(net.named_parameters())

def loss(parameters, x):
    return torch.func.functional_call(net, parameters, (x,)).square().sum()

def early():
    from torch.export import export
    return export

export = early()

def fake():
    from torch._subclasses.fake_tensor import FakeTensorMode
    with FakeTensorMode():
        return list(nn.Linear(3, 2)(torch.ones(5, 3)).shape)

def checkpointed():
    with torch.enable_grad():
        checkpoint(net, x.clone().requires_grad_(), use_reentrant=False).sum().backward()
    return [each.grad.tolist() for each in net.parameters()]

CASES = {
    "export": lambda: torch.export.export(net, (x,)).graph_module.code,
    "export, imported before": lambda: export(net, (x,)).graph_module.code,
    "export, strict": lambda: torch.export.export(net, (x,), strict=True).graph_module.code,
    "export, dynamic": lambda: str(torch.export.export(net, (x,), dynamic_shapes=({0: torch.export.Dim("n")},))),
    "exported program": lambda: torch.export.export(net, (x,)).run_decompositions().module()(x).tolist(),
    "script": lambda: torch.jit.script(net).code,
    "trace": lambda: torch.jit.trace(net, x).code,
    "make_fx": lambda: made(lambda x: net(x).sum(), pre_dispatch=False),
    "make_fx, before dispatch": lambda: made(lambda x: net(x).sum(), pre_dispatch=True),
    "make_fx, symbolic": lambda: made(lambda x: net(x).sum(), tracing_mode="symbolic", _allow_non_fake_inputs=True),
    "fx": lambda: torch.fx.symbolic_trace(net).code,
    "vmap": lambda: torch.func.vmap(lambda x: net(x).sin().sum())(x).tolist(),
    "grad": lambda: [each.tolist() for each in torch.func.grad(loss)(parameters, x).values()],
    "vmap of grad": lambda: str(torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)),
    "jacrev": lambda: torch.func.jacrev(net)(x).tolist(),
    "jvp": lambda: [each.tolist() for each in torch.func.jvp(net, (x,), (torch.ones_like(x),))],
    "functional_call": lambda: loss(parameters, x).item(),
    "functionalize": lambda: torch.func.functionalize(lambda x: net(x).add_(1))(x).tolist(),
    "checkpoint": checkpointed,
    "fake tensors": fake,
}

def made(function, **options):
    from torch.fx.experimental.proxy_tensor import make_fx
    return make_fx(function, **options)(x).code

def equal(bare):
    found = []
    for name, case in CASES.items():
        net.zero_grad()
        if case() == bare[name]:
            found.append(name)
        print("ran", name, flush=True)
    net.zero_grad()
    return found

level, dispatch, folder = sys.argv[1:]
bare = {}
for name, case in CASES.items():
    bare[name] = case()
    net.zero_grad()
steady = equal(bare)  # what is named by a count of the process is not
from msprobe.pytorch import PrecisionDebugger
with open(folder + "/config.json", "w") as file:
    settings = {"task": "statistics", "dump_path": folder + "/dump", "level": level, "dispatch": dispatch == "dispatch"}
    json.dump(settings, file)
debugger = PrecisionDebugger(folder + "/config.json")
results = []
for step in range(2):
    debugger.start(net)
    results.append(equal(bare))
    net(x).sum().backward()
    debugger.stop()
    debugger.step()
results.append(equal(bare))
print("RESULT", json.dumps([steady, *results]))
"""


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", ["mix, dispatch", "L1, dispatch", "mix", "L0"])
def test_what_is_traced_is_as_without_the_debugger(how, tmp_path):
    level, _, dispatch = how.partition(", ")
    command = [sys.executable, "-c", PROGRAM, level, dispatch, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, f"{done.stdout[-300:]}{done.stderr[-3000:]}"
    steady, *collected = json.loads(done.stdout.partition("RESULT")[2])
    assert len(steady) >= 18
    assert collected == [steady] * 3
    for step in range(2):
        dump = json.loads(Path(tmp_path, "dump", f"step{step}", "rank", "dump.json").read_text())
        assert not [each for each in dump.get("missing", []) if each["name"] == "step"], "collecting failed"
        names = set(dump["data"])
        if level != "L1":
            assert any(name.startswith("Module.2.Linear.backward") for name in names), "what is not traced is recorded"
        if dispatch:
            assert any(name.startswith("Aten.addmm") for name in names)
