"""What must hold on every version of MindSpore that is supported: bit-identity, collection, comparison.

The whole suite runs on the newest version; this file runs on the others too. Where versions differ, what each of them
gives is asserted.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import mindspore as ms
import pytest

pytestmark = [pytest.mark.mindspore, pytest.mark.smoke]

TRAINING = Path(__file__).parents[2] / "training"
STEPS = 3
HAS_NODES = tuple(int(part) for part in ms.__version__.split(".")[:3]) >= (2, 7, 1)
"""Since 2.7.1 nodes of the autograd graph can be seen; before, a gradient is the sum over all users of a tensor."""

# Calls of one step, counted by hand from tests/training/nets.py: cells, APIs.
FORWARD = {"branching": (7, 25), "tied": (2, 9)}


def run(*command):
    """Output of a Python process beside the networks."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=TRAINING,
        capture_output=True,
        text=True,
        env={**os.environ, "MSPROBE_LOG_LEVEL": "2"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def train(net, *options):
    """Digest over every bit of a training."""
    return run("train.py", net, "--steps", str(STEPS), *options).split()[-1]


def data_of(dump, step):
    return json.loads((dump / f"step{step}" / "rank" / "dump.json").read_text())["data"]


def counts(data, direction):
    """Cells and APIs among a dump's calls of one direction."""
    names = [name for name in data if f".{direction}" in name]
    cells = [name for name in names if name.startswith("Cell.")]
    return len(cells), len(names) - len(cells)


def tensors(value):
    """The tensor records in a part of an entry, however nested."""
    if isinstance(value, dict) and "shape" in value:
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [record for member in inner for record in tensors(member)]


@pytest.fixture(scope="module")
def bare():
    """Digest of each training without the tool, run twice: if those differ there is nothing to compare with."""
    known = {}

    def digest(net):
        if net not in known:
            first, second = train(net), train(net)
            assert first == second, f"{net} is not reproducible without the tool: no control"
            known[net] = first
        return known[net]

    return digest


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
@pytest.mark.parametrize("net", FORWARD)
def test_training_is_bit_identical_and_every_call_is_recorded(net, level, bare, tmp_path):
    assert train(net, "--collect", str(tmp_path), "--level", level) == bare(net)
    cells, apis = FORWARD[net]
    expected = (0 if level == "L1" else cells, 0 if level == "L0" else apis)
    for step in range(STEPS):
        assert counts(data_of(tmp_path, step), "forward") == expected


def test_no_hook_stays_on_data_and_parameters_behind_a_step(tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"task": "statistics", "level": "mix", "dump_path": str(tmp_path / "dump")}))
    program = (
        "import sys, numpy as np, mindspore as ms\n"
        "from msprobe.mindspore import PrecisionDebugger\n"
        "debugger = PrecisionDebugger(sys.argv[1])\n"
        "net, x = ms.nn.Dense(4, 2), ms.Tensor(np.ones((3, 4), np.float32))\n"
        "gradient = ms.value_and_grad(lambda x: net(x * 2).sum(), 0, net.trainable_params())\n"
        "for _ in range(2):\n"
        "    debugger.start(net)\n"
        "    gradient(x)\n"
        "    debugger.stop()\n"
        "    debugger.step()\n"
        "print([len(tensor.hooks()) for tensor in (x, net.weight, net.bias)])\n"
    )
    assert run("-c", program, str(config)).splitlines()[-1] == "[0, 0, 0]"
    assert sum(counts(data_of(tmp_path / "dump", 1), "backward")) > 0


@pytest.mark.parametrize("net", FORWARD)
def test_every_call_has_a_backward_whose_gradients_say_what_they_are(net, tmp_path):
    train(net, "--collect", str(tmp_path))
    data = data_of(tmp_path, 0)
    assert counts(data, "backward") == FORWARD[net]
    gradients = [r for name, entry in data.items() if ".backward" in name for r in tensors(entry["output"])]
    marked = [r for r in gradients if r.get("gradient") == "accumulated"]
    assert gradients
    assert len(marked) == (0 if HAS_NODES else len(gradients))
    # the gradient of the loss with respect to itself
    (loss,) = data["Functional.mean.0.backward" if net == "tied" else "Functional.mean.2.backward"]["input"]
    assert (loss["Max"], loss["Min"], loss["shape"]) == (1.0, 1.0, [])


COLLECT = """
import sys
import mindspore as ms
import faults
from msprobe.mindspore import PrecisionDebugger

fault, level, dump = sys.argv[1:]
ms.set_context(mode=ms.PYNATIVE_MODE)
faults.train("transformer", PrecisionDebugger(dump_path=dump, level=level), fault or None)
"""


@pytest.mark.parametrize(
    ("level", "result"),
    [
        ("L0", "Cell.norm2.Norm.forward.0 in the root: computes differently: "),
        ("mix", "Tensor.__add__.2.forward in norm2: argument differs: "),
    ],
)
def test_a_clean_pair_is_clean_and_a_planted_fault_is_found(level, result, tmp_path):
    for name, fault in (("golden", ""), ("same", ""), ("faulty", "eps")):
        run("-c", COLLECT, fault, level, str(tmp_path / name))
    codes, last = [], []
    for target in ("same", "faulty"):
        sides = ["-tp", str(tmp_path / target / "step0"), "-gp", str(tmp_path / "golden" / "step0")]
        command = [sys.executable, "-m", "msprobe", "compare", *sides, "-o", str(tmp_path / "report")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        codes.append(done.returncode)
        last.append(done.stdout.splitlines()[-1])
    assert codes == [0, 1]
    assert last[0].startswith("no difference")
    assert last[1].startswith(f"first wrong call: {result}")


def test_the_dump_names_the_version(tmp_path):
    train("tied", "--collect", str(tmp_path))
    header = json.loads((tmp_path / "step0" / "rank" / "dump.json").read_text())
    assert header["run"]["framework"] == f"mindspore {ms.__version__}"
