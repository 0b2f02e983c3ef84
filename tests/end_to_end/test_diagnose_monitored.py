"""From two monitors alone to the source line, in each framework: the configuration that a diagnosis ends in is executed
in the same training, and collects the call that is wrong."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from preloaded import python

from msprobe.cli import main

pytestmark = [pytest.mark.mindspore, pytest.mark.torch]

STEP = 25  # from which on the second block multiplies by 1.05

COMMON = """
import os
import sys

import numpy as np

mode, config, out, is_wrong = sys.argv[1:]
generator = np.random.default_rng(3)
weights = [generator.normal(0, 0.3, shape).astype(np.float32) for shape in ((8, 8),) * 4 + ((4, 8),)]
batches = [
    (generator.normal(size=(16, 8)).astype(np.float32), generator.normal(size=(16, 4)).astype(np.float32))
    for _ in range(28)
]
"""

LOOP = """
if mode == "monitor":
    os.environ["MONITOR_OUTPUT_DIR"] = out
    TrainerMon(config).set_monitor(net, optimizer, grad_acc_steps=1)
else:
    debugger = PrecisionDebugger(config_path=config, dump_path=out)
    if mode == "grad_probe":
        debugger.monitor(optimizer)
for step, batch in enumerate(batches):
    if step >= 25 and is_wrong == "True":
        net.blocks[1].scale = 1.05
    if mode == "dump":
        debugger.start(net)
    update = backward(*batch)
    if mode == "dump":
        debugger.stop()
    update()
    if mode == "dump":
        debugger.step()
"""

TRAININGS = {
    "mindspore": COMMON
    + """
import mindspore as ms
from mindspore import nn, ops

from msprobe.mindspore import PrecisionDebugger, TrainerMon

ms.set_context(mode=ms.PYNATIVE_MODE)


def dense(weight):
    return nn.Dense(weight.shape[1], weight.shape[0], weight_init=ms.Tensor(weight), bias_init="zeros")


class Block(nn.Cell):
    def __init__(self, first, second):
        super().__init__()
        self.query, self.out, self.scale = dense(first), dense(second), 1.0

    def construct(self, x):
        return x + self.out(ops.tanh(self.query(x) * self.scale))


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.blocks = nn.CellList([Block(*weights[:2]), Block(*weights[2:4])])
        self.head = dense(weights[4])

    def construct(self, x, y):
        for block in self.blocks:
            x = block(x)
        return ((self.head(x) - y) ** 2).mean()


net = Net()
optimizer = nn.AdamWeightDecay(net.trainable_params(), 1e-3)
gradient = ms.value_and_grad(net, None, optimizer.parameters)


def backward(x, y):
    _, gradients = gradient(ms.Tensor(x), ms.Tensor(y))
    return lambda: optimizer(gradients)
"""
    + LOOP,
    "pytorch": COMMON
    + """
import torch
from torch import nn

from msprobe.pytorch import PrecisionDebugger, TrainerMon


def dense(weight):
    layer = nn.Linear(weight.shape[1], weight.shape[0])
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(weight))
        layer.bias.zero_()
    return layer


class Block(nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.query, self.out, self.scale = dense(first), dense(second), 1.0

    def forward(self, x):
        return x + self.out(torch.tanh(self.query(x) * self.scale))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(*weights[:2]), Block(*weights[2:4])])
        self.head = dense(weights[4])

    def forward(self, x, y):
        for block in self.blocks:
            x = block(x)
        return ((self.head(x) - y) ** 2).mean()


net = Net()
optimizer = torch.optim.AdamW(net.named_parameters(), 1e-3)


def backward(x, y):
    optimizer.zero_grad()
    net(torch.from_numpy(x), torch.from_numpy(y)).backward()
    return optimizer.step
"""
    + LOOP,
}
MODULES = {"mindspore": "mindspore", "pytorch": "torch"}

MONITOR = {
    "targets": {},
    "format": "csv",
    "ops": ["norm", "min", "max", "mean"],
    "all_xy": True,
    **dict.fromkeys(("xy_distribution", "wg_distribution", "param_distribution", "mv_distribution"), True),
}
GRADIENTS = {
    "task": "grad_probe",
    "dump_path": "./gradients",
    "rank": [],
    "step": [],
    "grad_probe": {"grad_level": "L0"},
}


def run(framework, mode, config, folder, tmp_path):
    """The training twice, into `target/FOLDER`, which is wrong, and `golden/FOLDER`."""
    script = tmp_path / f"{framework}.py"
    script.write_text(TRAININGS[framework])
    for side in ("target", "golden"):
        out = tmp_path / side / folder
        out.parent.mkdir(exist_ok=True)
        command = [python(MODULES[framework]), str(script), mode, str(config), str(out), str(side == "target")]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
        assert done.returncode == 0, done.stderr


def diagnosed(tmp_path, capsys, *options):
    assert main(["diagnose", *(str(tmp_path / side) for side in ("target", "golden")), "--workers", "1", *options]) == 1
    return capsys.readouterr().out


@pytest.mark.sample(1)
@pytest.mark.parametrize("framework", TRAININGS)
@pytest.mark.parametrize(("mode", "written"), [("monitor", MONITOR), ("grad_probe", GRADIENTS)])
def test_what_a_diagnosis_of_monitors_proposes_collects_the_wrong_call(framework, mode, written, tmp_path, capsys):
    config, following = tmp_path / "first.json", tmp_path / "next.json"
    config.write_text(json.dumps(written))
    run(framework, mode, config, "monitored", tmp_path)
    page = diagnosed(tmp_path, capsys, "--write-config", str(following))
    assert f" at step {STEP} on rank 0: " in page.splitlines()[1]
    proposed = json.loads(following.read_text())
    assert proposed["step"] == [STEP]
    if mode == "monitor":  # the layer whose input differs, and the block around it
        assert proposed["tensor"]["list"] == [".blocks.1.out.", ".blocks.1."]
    run(framework, "dump", following, "next", tmp_path)
    report = json.loads(diagnosed(tmp_path, capsys, "--format", "json"))
    details = report["details"]
    assert (details["collection"], details["step"], details["monitor"]) == ("next", STEP, None)
    wrong, place = report["findings"][0], report["findings"][0]["place"]
    assert wrong["kind"] == "argument differs"
    assert (Path(place["file"]).name, place["cell"]) == (f"{framework}.py", "blocks.1")
    source = TRAININGS[framework].splitlines()[place["line"] - 1]
    assert source.endswith("(x) * self.scale))")
