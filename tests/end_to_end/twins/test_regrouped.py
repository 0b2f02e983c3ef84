"""Layers that are one here and several there: no difference by themselves, and a fault in a part is found."""

import json

import pytest

torch = pytest.importorskip("torch", reason="the networks are PyTorch's")

import regrouped  # noqa: E402  # beside this file, which is no package; it needs torch

from msprobe.cli import main  # noqa: E402
from msprobe.pytorch import PrecisionDebugger  # noqa: E402

pytestmark = [pytest.mark.mindspore, pytest.mark.torch, pytest.mark.part(10)]

WAYS = [*((one,) for one in regrouped.REWRITES), ("gate_up", "conv", "kv")]

FAULTS = {
    "weight": ("attention", "parameters differ"),
    "scale": ("attention", "argument differs"),
    "gate": ("mlp", ("structure differs", "computes differently")),
}
"""Where a fault is, and its kind."""

NO_SLICES = ("interleaved", "weight", "tensor")
"""The elements show that the parts are no slices of the whole, so that no parameters are compared."""


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    """Folder of the collected steps, made once for each way to write the network, fault, task and level."""
    made = {}

    def dump(rewrites, fault, task, level):
        key = rewrites, fault, task, level
        if key not in made:
            made[key] = tmp_path_factory.mktemp("dump")
            debugger = PrecisionDebugger(dump_path=str(made[key]), level=level, task=task, step=[0, 1, 2])
            regrouped.train(debugger, rewrites, fault)
            PrecisionDebugger._known.clear()
        return made[key]

    return dump


@pytest.mark.sample(4)
@pytest.mark.parametrize("task", ["tensor", "statistics"])
@pytest.mark.parametrize("level", ["mix", "L0"])
@pytest.mark.parametrize("rewrites", WAYS, ids="-".join)
@pytest.mark.parametrize("is_target", [True, False], ids=["target", "golden"])
def test_other_groups_of_layers_are_no_difference(is_target, rewrites, level, task, dumps, tmp_path, capsys):
    sides = [dumps(rewrites, "", task, level), dumps((), "", task, level)]
    code = main(["compare", *map(str, sides if is_target else sides[::-1]), "-o", str(tmp_path)])
    lines = capsys.readouterr().out.strip().splitlines()
    # A convolution may round as its parts do, depending on the processor.
    assert lines[-1].startswith(("no difference: ", "no difference beyond rounding: ")), lines[-1]
    assert code == 0


@pytest.mark.sample(4)
@pytest.mark.parametrize("task", ["tensor", "statistics"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("rewrites", WAYS, ids="-".join)
def test_a_fault_in_a_part_heads_the_answer(rewrites, fault, task, dumps, tmp_path, capsys):
    sides = [dumps((), fault, task, "mix"), dumps(rewrites, "", task, "mix")]
    code = main(["compare", *map(str, sides), "-o", str(tmp_path), "--format", "json", "--step", "0"])
    found = json.loads(next(tmp_path.rglob("compare_result*.json")).read_text())
    (first,), (cell, kinds) = found["first_wrong"], FAULTS[fault]
    assert code == 1, capsys.readouterr().out
    assert first["cell"].startswith(cell), first
    assert first["kind"].startswith("structure differs" if (*rewrites, fault, task) == NO_SLICES else kinds), first


@pytest.mark.sample(3)
@pytest.mark.parametrize("task", ["tensor", "statistics"])
@pytest.mark.parametrize("rewrites", WAYS, ids="-".join)
def test_a_part_that_is_not_trained_is_found(rewrites, task, dumps, tmp_path, capsys):
    code = main(
        ["compare", *(str(dumps(*side, task, "mix")) for side in (((), "frozen"), (rewrites, ""))), "-o", str(tmp_path)]
    )
    answers = [line for line in capsys.readouterr().out.splitlines() if line.startswith("first wrong call: ")]
    assert code == 1
    assert " in attention" in answers[-1]
