"""The whole loop with MindSpore: collect coarsely, diagnose, collect what was proposed, diagnose again."""

import json
import subprocess
from pathlib import Path

import pytest
from preloaded import python

from msprobe.cli import main

pytestmark = pytest.mark.mindspore

DEMO = Path(__file__).parents[2] / "examples" / "demo"

TRAIN = """
import sys

sys.path.insert(0, sys.argv[1])
import mindspore as ms
from mindspore import nn
from network import Transformer, batch

from msprobe.mindspore import PrecisionDebugger

config, dump, fault = sys.argv[2:]
ms.set_context(mode=ms.PYNATIVE_MODE)
network = Transformer(fault)
optimizer = nn.AdamWeightDecay(network.trainable_params(), learning_rate=0.003)
gradient = ms.value_and_grad(network, None, network.trainable_params())
debugger = PrecisionDebugger(config_path=config, dump_path=dump)
for step in range(2):
    debugger.start(network)
    loss, gradients = gradient(*batch(step))
    debugger.stop()
    optimizer(gradients)
    debugger.step()
"""

FIRST = {"task": "statistics", "dump_path": "./dump", "level": "L0", "step": [0, 1]}

FAULTS = {
    # The RMS norm adds 1e-3: an argument of the sum in it.
    "eps": ("Cell.blocks.1.norm2.RMSNorm.forward.0", "blocks.1.norm2", "argument differs"),
    # The target lacks the product that scales the scores.
    "scale": ("Cell.blocks.1.attention.Attention.forward.0", "blocks.1.attention", "structure differs"),
}


def collect(config, dump, fault):
    command = [python("mindspore"), "-c", TRAIN, str(DEMO), str(config), str(dump), fault]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def diagnosed(folder, capsys, *options):
    sides = [str(folder / side) for side in ("target", "golden")]
    code = main(["diagnose", *sides, "--format", "json", "--workers", "1", *options])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.sample(1)
@pytest.mark.parametrize("fault", FAULTS)
def test_the_proposed_collection_names_the_call_that_the_first_one_could_not(fault, tmp_path, capsys):
    cell, inside, kind = FAULTS[fault]
    first, following = tmp_path / "first.json", tmp_path / "next.json"
    first.write_text(json.dumps(FIRST))
    for side, planted in (("target", fault), ("golden", "")):
        collect(first, tmp_path / side / "first", planted)
    code, printed = diagnosed(tmp_path, capsys, "--write-config", str(following))
    place = printed["findings"][0]["place"]
    assert (code, place["name"], place["step"]) == (1, cell, 0)
    assert printed["details"]["next_collection"]["purpose"] == "inside_cell"
    for side, planted in (("target", fault), ("golden", "")):
        collect(following, tmp_path / side / "next", planted)
    code, printed = diagnosed(tmp_path, capsys)
    wrong, place = printed["findings"][0], printed["findings"][0]["place"]
    assert (code, printed["details"]["collection"], place["cell"], wrong["kind"]) == (1, "next", inside, kind)
    assert place["file"].endswith("network.py")
    assert printed["details"]["next_collection"] is None
    # Narrower than the first: one step, and of that what is inside the cell.
    held = json.loads((tmp_path / "target/next/step0/rank/dump.json").read_text())["data"]
    assert all(name.startswith(("Functional.", "Tensor.")) or inside in name for name in held)
    assert not (tmp_path / "target/next/step1").exists()
