"""The debugger never changes the training: processes with and without it are compared bit by bit."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TRAINING = Path(__file__).parents[1] / "training"
NETS = ("branching", "shared", "in_place", "dict_outputs", "recomputed", "tied", "own_gradient")
STEPS = 10

# Counted by hand from tests/training/nets.py, for one step: forward and backward calls of cells and of APIs. Where
# backward is less than forward, the reason stands beside it.
EXPECTED = {
    "branching": (7, 7, 25, 25),
    "shared": (3, 3, 12, 12),
    "in_place": (2, 2, 11, 11),
    "dict_outputs": (3, 3, 12, 11),  # tanh of "aux" is used by nobody
    # the second run in backward calls norm and linear and the block's 10 APIs again, and the framework's stop_gradient;
    # the first run has no graph
    "recomputed": (6, 4, 26, 15),
    "tied": (2, 2, 9, 9),
    # doubling's own `bprop` calls `dout * 2` in backward; the multiplication inside the cell with `bprop` has no graph
    "own_gradient": (4, 4, 9, 7),
}


def run(net, *options):
    """Digest of a training in a process of its own."""
    done = subprocess.run(
        [sys.executable, "train.py", net, "--steps", str(STEPS), *options],
        cwd=TRAINING,
        capture_output=True,
        text=True,
        env={**os.environ, "MSPROBE_LOG_LEVEL": "2"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.split()[-1]


@pytest.fixture(scope="module")
def bare():
    """Digest of each bare training, asked for once; two bare runs must agree before anything can be compared."""
    known = {}

    def digest(net, *options):
        key = (net, options)
        if key not in known:
            first, second = run(net, *options), run(net, *options)
            assert first == second, f"{net} is not reproducible without the tool: no control"
            known[key] = first
        return known[key]

    return digest


def counts(step):
    """(forward cells, backward cells, forward APIs, backward APIs) of a step's dump."""
    names = json.loads((step / "rank" / "dump.json").read_text())["data"]
    cells = [n for n in names if n.startswith("Cell.") and "parameters_grad" not in n]
    apis = [n for n in names if not n.startswith("Cell.")]
    return tuple(sum(d in n for n in group) for group in (cells, apis) for d in (".forward", ".backward"))


@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
@pytest.mark.parametrize("net", NETS)
def test_training_is_bit_identical_with_the_debugger(net, level, task, bare, tmp_path):
    assert run(net, "--collect", str(tmp_path), "--level", level, "--task", task) == bare(net)
    forward_cells, backward_cells, forward_apis, backward_apis = EXPECTED[net]
    if level == "L0":
        forward_apis = backward_apis = 0
    if level == "L1":
        forward_cells = backward_cells = 0
    expected = (forward_cells, backward_cells, forward_apis, backward_apis)
    assert [counts(tmp_path / f"step{s}") for s in range(STEPS)] == [expected] * STEPS


@pytest.mark.parametrize("net", ["branching", "in_place"])
def test_training_is_bit_identical_in_the_asynchronous_pipeline(net, bare, tmp_path):
    assert run(net, "--asynchronous", "--collect", str(tmp_path), "--level", "mix") == bare(net, "--asynchronous")
    assert counts(tmp_path / "step9") == EXPECTED[net]


def test_a_full_disk_changes_nothing_but_the_dump(bare, tmp_path):
    """No file may grow beyond 12 kB: every step's journal is refused half-way, and the training does not feel it."""
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, "branching", "--steps", str(STEPS), "--collect", str(tmp_path)],
        cwd=TRAINING,
        capture_output=True,
        text=True,
        env={**os.environ, "MSPROBE_LOG_LEVEL": "2"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split()[-1] == bare("branching")
    said = [line for line in done.stderr.splitlines() if line.startswith("msprobe")]
    assert said
    assert len(said) < 5, "once per cause"
    assert all("Traceback" not in line for line in said)


FULL_DISK = """
import resource, runpy, sys
import mindspore
resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, 12_000))
sys.argv[0] = "train.py"
sys.path.insert(0, ".")
runpy.run_path("train.py", run_name="__main__")
"""
