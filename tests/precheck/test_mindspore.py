"""Kernels of MindSpore, healthy and faulty, collected and checked. Needs MindSpore and torch."""

import csv
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from preloaded import python

pytest.importorskip("mindspore", reason="its kernels are run")
pytest.importorskip("torch", reason="it computes in float64")

from msprobe.cli import main  # behind the skips

pytestmark = pytest.mark.mindspore

BENCH = Path(__file__).parents[2] / "benchmarks" / "precheck"
SAMPLE = (7, 17, 36)
"""A product that sums up in float16, a scale in bfloat16, a gradient of equal rows."""

PROGRAM = """
import json, sys
import mindspore, numpy as np
from mindspore import Tensor, mint, nn, ops
from msprobe.mindspore import PrecisionDebugger

mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
folder = sys.argv[1]
with open(f"{folder}/config.json", "w") as file:
    json.dump({"task": "statistics", "dump_path": f"{folder}/dump", "level": "L1"}, file)
rng = np.random.default_rng(1)
x, w = (Tensor(rng.standard_normal(shape).astype(np.float32)) for shape in ((6, 8), (8, 5)))
indices = Tensor(np.array([5, 0, 3], np.int32))


def function(x, w):
    y = mint.nn.functional.softmax(mint.matmul(x, w), -1)
    y = ops.gather(mint.mul(y, y[..., :1]), indices, 0)
    return mint.sum(ops.cumsum(y.exp(), 0))


debugger = PrecisionDebugger(config_path=f"{folder}/config.json")
debugger.start()
mindspore.value_and_grad(function, (0, 1))(x, w)
debugger.stop()
debugger.step()
"""


def test_calls_of_mindspore_are_executed_on_drawn_inputs(tmp_path, capsys):
    done = subprocess.run([python("mindspore"), "-c", PROGRAM, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    out = tmp_path / "out"
    assert main(["multi_run_ut", "-api_info", str(tmp_path / "dump/step0"), "-o", str(out), "--workers", "1"]) == 0
    assert capsys.readouterr().out.endswith("first wrong output: none\n")
    [file] = out.glob("*result*.csv")
    with file.open(encoding="utf-8-sig", newline="") as stream:
        found = {row["API Name"]: row for row in csv.DictReader(stream)}
    for name in ("Mint.matmul.0", "MintFunctional.softmax.0", "Functional.gather.0", "Tensor.exp.0", "Mint.mul.0"):
        assert [found[name][f"{side} Test Success"] for side in ("Forward", "Backward")] == ["pass", "pass"], name


def test_faulty_kernels_are_found_at_their_output(tmp_path):
    command = [python("mindspore"), str(BENCH / "plant.py"), str(tmp_path), "--numbers", *map(str, SAMPLE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    faults, run = _module("faults"), _module("run")
    for number in SAMPLE:
        wrong, _, _ = run.judged(tmp_path / f"{number:02d}" / "step0")
        name = f"{faults.FAULTS[number].stem}.0.{faults.FAULTS[number].where}"
        assert [each.name for each in wrong] == [name]


def _module(name):
    spec = importlib.util.spec_from_file_location(f"precheck_{name}", BENCH / f"{name}.py")
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made
    spec.loader.exec_module(made)
    return made
