"""Whatever collects, the code that inductor made runs as without it, and the trained bits are the same."""

import json
import subprocess
import sys

import pytest
import torch
import torch._dynamo

pytestmark = pytest.mark.torch

compiled_training = pytest.importorskip("compiled_training", reason="needs the compiler of torch.compile")
LATE, TOOLS, WAYS, train = (getattr(compiled_training, name) for name in ("LATE", "TOOLS", "WAYS", "train"))


@pytest.fixture(autouse=True)
def _anew(tmp_path, monkeypatch):
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path / "monitor"))
    yield
    torch._dynamo.reset()


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """The outcome of each training without the debugger, and one that is not compiled."""
    known = {}

    def outcome(way, late=False):
        if (way, late) not in known:
            known[way, late] = train(way, "nothing", tmp_path_factory.mktemp("bare"), late)
        return known[way, late]

    return outcome


@pytest.mark.turns("compiled", 2)
@pytest.mark.filterwarnings("ignore")  # the compiler's own
@pytest.mark.parametrize("tool", [tool for tool in TOOLS if tool != "nothing"])
@pytest.mark.parametrize("way", WAYS)
def test_compiled_training_is_bit_identical_with_the_tool(way, tool, bare, tmp_path):
    lines, runs = bare(way)
    assert runs >= 2 * compiled_training.STEPS, "inductor's code runs, forward and backward"
    assert train(way, tool, tmp_path) == (lines, runs)
    assert collected(tmp_path) == expected(way, tool)


def collected(folder):
    """Which parts of a tool have written what they have measured."""
    of_debugger = [file for file in (folder / "dump").rglob("*") if file.is_file() and file.name != "run.jsonl"]
    of_monitor = list((folder / "monitor").rglob("*.csv"))
    return {part for part, files in (("debugger", of_debugger), ("monitor", of_monitor)) if files}


def expected(way, tool):
    """All of them, except where only the modules inside of a network are asked for that is compiled as a whole."""
    parts = {"monitor" if key == "monitor" else "debugger" for key in TOOLS[tool]}
    return parts - {"monitor"} if tool == "monitor, xy" and way.startswith("whole") else parts


@pytest.mark.turns("compiled", 2)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("tool", [tool for tool in TOOLS if tool != "nothing"])
@pytest.mark.parametrize("way", LATE)
def test_training_that_is_compiled_while_it_is_collected_is_bit_identical(way, tool, bare, tmp_path):
    lines, runs = bare(way, late=True)
    assert (lines, runs) == bare(way)
    assert train(way, tool, tmp_path, late=True) == (lines, runs)
    assert collected(tmp_path) == expected(way, tool)


@pytest.mark.turns("compiled", 2)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("tool", ["mix, dispatch", "grad_probe", "monitor, all"])
@pytest.mark.parametrize("way", ["optimizer", "step with its backward"])
def test_what_is_compiled_around_the_network_is_bit_identical(way, tool, tmp_path):
    """The optimizer's step, and a step of the training as a whole: hooks of the tool would be compiled with them."""
    (tmp_path / "bare").mkdir()
    lines, runs = train(f"compiled {way}", "nothing", tmp_path / "bare")
    assert runs >= compiled_training.STEPS
    assert train(f"compiled {way}", tool, tmp_path) == (lines, runs)


@pytest.mark.filterwarnings("ignore")
def test_start_inside_of_compiled_code_is_refused(tmp_path):
    """In a process of its own: the compiler is loaded there behind the debugger."""
    program = """
import torch
from torch import nn
from msprobe.pytorch import PrecisionDebugger
net, debugger = nn.Linear(2, 2), PrecisionDebugger(dump_path="dump", level="mix")

@torch.compile(backend="eager")
def step(x):
    debugger.start(net)
    return net(x).sum()

try:
    step(torch.ones(1, 2))
except Exception as cause:
    print(type(cause).__name__, cause)
debugger.start(net)
net(torch.ones(1, 2))
debugger.stop()
debugger.step()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=240, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith("UsageError start(): called inside code compiled by torch.compile")
    names = json.loads((tmp_path / "dump/step0/rank/dump.json").read_text())["data"]
    assert "Functional.linear.0.forward" in names


@pytest.mark.turns("compiled", 2)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", LATE)
def test_bits_tell_compiled_code_from_the_frameworks_kernels(way, bare, tmp_path):
    """Otherwise the tests above could not fail."""
    with torch.compiler.set_stance("force_eager"):
        lines, runs = train(way, "nothing", tmp_path)
    assert runs == 0
    assert lines != bare(way)[0]
