"""Harmless rewrites between frameworks: no finding by themselves, and a real fault after them heads the answer."""

import json

import pytest

torch = pytest.importorskip("torch", reason="the golden networks are PyTorch's")

import rewritten  # noqa: E402  # beside this file, which is no package; it needs torch
import rewritten_ms  # noqa: E402

from msprobe.cli import main  # noqa: E402
from msprobe.mindspore import PrecisionDebugger as MindSporeDebugger  # noqa: E402
from msprobe.pytorch import PrecisionDebugger as PyTorchDebugger  # noqa: E402

pytestmark = [pytest.mark.mindspore, pytest.mark.torch, pytest.mark.part(9)]

TASKS = ("tensor", "statistics")

WAYS = [
    ((), ()),
    (("fused", "formula", "mask"), ()),
    (("folded", "loss"), ()),
    ((), ("fused", "mask", "loss")),
    ((), ("sdpa",)),
]
"""How the target and the golden are written."""

FAULTS = {
    "scale": ("blocks.1.attention", ("argument differs", "structure differs")),
    "eps": ("blocks.1.norm2", ("argument differs", "computes differently")),
    "gelu": ("blocks.1", "argument differs"),
    "dropped": ("blocks.1", ("structure differs", "code between")),
    "doubled": ("blocks.1", "structure differs"),
    "key": ("blocks.1.attention", "parameters differ"),
    "labels": ("the root", ("structure differs", "argument differs", "code between")),
}
"""Where a fault is, and its kind."""


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    """Folder of a collected step, made once for each framework, way to write the network, fault and task."""
    made = {}

    def dump(network, debugger, task, rewrites, fault="", steps=1):
        key = network, task, rewrites, fault, steps
        if key not in made:
            made[key] = tmp_path_factory.mktemp("dump")
            made_here = debugger(dump_path=str(made[key]), level="mix", task=task, step=[*range(steps)])
            network.train(made_here, rewrites, fault, steps)
            debugger._known.clear()
            debugger._latest = None
        return made[key]

    return dump


@pytest.fixture
def compared(dumps, tmp_path, capsys):
    """Exit code, last line, and the table's object without its rows."""

    def make(target, golden, task, fault=""):
        paths = (
            dumps(rewritten_ms, MindSporeDebugger, task, target, fault),
            dumps(rewritten, PyTorchDebugger, task, golden),
        )
        code = main(["compare", *map(str, paths), "-o", str(tmp_path), "--format", "json", "--workers", "1"])
        found = json.loads(next(tmp_path.rglob("compare_result*.json")).read_text())
        return code, capsys.readouterr().out.strip().splitlines(), found

    return make


@pytest.mark.sample(4)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("target", "golden"), WAYS)
def test_a_rewrite_alone_is_no_difference(target, golden, task, compared):
    code, lines, found = compared(target, golden, task)
    assert lines[-1].startswith("no difference beyond rounding: "), lines[-1]
    assert (code, found["first_wrong"], found["next_beginnings"]) == (0, [], [])


@pytest.mark.sample(2)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("target", "golden"), [(("fused",), ()), ((), ("fused",))], ids=["target", "golden"])
def test_a_rewrite_is_no_difference_after_updates(target, golden, task, dumps, tmp_path, capsys):
    paths = (
        dumps(rewritten_ms, MindSporeDebugger, task, target, steps=3),
        dumps(rewritten, PyTorchDebugger, task, golden, steps=3),
    )
    code = main(["compare", *map(str, paths), "-o", str(tmp_path)])
    lines = capsys.readouterr().out.strip().splitlines()
    assert lines[-1].startswith("no difference beyond rounding: "), lines[-1]
    assert code == 0


@pytest.mark.sample(5)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(("target", "golden"), WAYS)
def test_a_fault_after_a_rewrite_heads_the_answer(target, golden, fault, task, compared):
    code, lines, found = compared(target, golden, task, fault)
    (first,) = found["first_wrong"]
    cell, kinds = FAULTS[fault]
    assert code == 1
    assert first["cell"].startswith(cell), lines[-1]
    assert first["kind"].startswith(kinds), lines[-1]
    assert "is passed on" not in first["reason"], lines[-1]
