"""A sample of `benchmarks/checks`: real trainings, a fault of each kind is named and clean ones are left alone."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from preloaded import python

from msprobe.cli import main

pytestmark = [pytest.mark.mindspore, pytest.mark.torch]

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "checks"


@pytest.fixture(scope="module")
def benchmark():
    spec = spec_from_file_location("checks_run", BENCHMARK / "run.py")  # other benchmarks have a run.py, too
    run = module_from_spec(spec)
    sys.modules["checks_run"] = run
    spec.loader.exec_module(run)
    run.PYTHON = {"pytorch": python("torch", "torch._dynamo"), "mindspore": python("mindspore")}
    return run


@pytest.mark.parametrize("case", [("gpt", 1, "tensor"), ("perceptron", 2, "statistics"), ("ms_conv", 1, "tensor")])
def test_a_clean_run_is_left_alone(case, benchmark, tmp_path):
    net, ranks, task = case
    assert case in benchmark.CLEAN
    assert benchmark.checked(tmp_path, net, "", ranks, task) == []


@pytest.mark.parametrize(
    "fault",
    ["clip on one rank", "missing all_reduce", "detached", "mask side", "uninitialised buffer (MindSpore)"],
)
def test_a_fault_is_named(fault, benchmark, tmp_path):
    net, ranks, task, expected = {**benchmark.FAULTS, **benchmark.LATER}[fault]
    found = benchmark.checked(tmp_path, net, fault.partition(" (")[0], ranks, task)
    assert set(found) & set(expected)


@pytest.mark.parametrize("net", ["perceptron", "ms_perceptron"])
def test_a_frozen_layer_is_listed_and_no_violation(net, benchmark, tmp_path, capsys):
    assert benchmark.checked(tmp_path, net, "frozen layer", 1, "statistics") == []
    assert main(["check", str(tmp_path / "run"), "--only", "gradients"]) == 0
    assert "frozen, as the training says (requires_grad): second.weight, second.bias" in capsys.readouterr().out
