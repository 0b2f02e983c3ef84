"""Harmless rewrites within one framework: no finding by themselves, and a real fault after them heads the answer."""

import json

import pytest

torch = pytest.importorskip("torch", reason="the networks are PyTorch's")

import rewritten  # noqa: E402  # beside this file, which is no package; it needs torch

from msprobe.cli import main  # noqa: E402
from msprobe.pytorch import PrecisionDebugger  # noqa: E402

pytestmark = [pytest.mark.mindspore, pytest.mark.torch, pytest.mark.part(9)]

TASKS = ("tensor", "statistics")

ALL = ("fused", "formula", "mask", "keywords")

ROUNDING = [(one,) for one in rewritten.REWRITES] + [ALL, ("fused", "plus_zero", "mask")]

EXPECTED = {
    "scale": ("blocks.1.attention", "argument differs"),
    "eps": ("blocks.1", ("argument differs", "computes differently", "structure differs")),
    "gelu": ("blocks.1", "argument differs"),
    "dropped": ("blocks.1", ("structure differs", "code between")),
    "doubled": ("blocks.1", "structure differs"),
    "key": ("blocks.1.attention", "parameters differ"),
}
"""Where a fault is, and its kind; the epsilon of a formula is an argument of an addition that only one side makes."""


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    """Folder of a collected step, made once for each way to write the network, fault and task."""
    made = {}

    def dump(rewrites=(), fault="", task="tensor", level="mix", steps=1):
        key = rewrites, fault, task, level, steps
        if key not in made:
            made[key] = tmp_path_factory.mktemp("dump")
            debugger = PrecisionDebugger(dump_path=str(made[key]), level=level, task=task, step=[*range(steps)])
            rewritten.train(debugger, rewrites, fault, steps)
            PrecisionDebugger._known.clear()
        return made[key]

    return dump


def compare(target, golden, out, capsys):
    """Exit code, last line, and the table's object without its rows."""
    code = main(["compare", "-tp", str(target), "-gp", str(golden), "-o", str(out), "--format", "json"])
    found = json.loads(next(out.rglob("compare_result*.json")).read_text())
    return code, capsys.readouterr().out.strip().splitlines(), found


@pytest.mark.sample(5)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("rewrites", ROUNDING, ids="-".join)
@pytest.mark.parametrize("is_target", [True, False], ids=["target", "golden"])
def test_a_rewrite_alone_is_no_difference(rewrites, task, is_target, dumps, tmp_path, capsys):
    sides = [dumps(rewrites, task=task), dumps(task=task)]
    code, lines, found = compare(*(sides if is_target else sides[::-1]), tmp_path, capsys)
    assert lines[-1].startswith("no difference"), lines[-1]
    assert (code, found["first_wrong"], found["next_beginnings"]) == (0, [], [])
    if rewrites != ("keywords",):
        assert found["harmless_structure"]
        assert {one["side"] for one in found["harmless_structure"]} >= {"target" if is_target else "golden"}
        assert any("structure differs without consequence: " in line for line in lines)


@pytest.mark.sample(3)
@pytest.mark.parametrize("level", ["mix", "L0"])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("is_target", [True, False], ids=["target", "golden"])
def test_a_rewrite_is_no_difference_after_updates(is_target, task, level, dumps, tmp_path, capsys):
    """Updates of the key's bias are arbitrary, as its gradient is rounding error: a tensor here, a part of it there."""
    sides = [dumps(rewrites, task=task, level=level, steps=3) for rewrites in (("fused",), ())]
    code = main(["compare", *map(str, sides if is_target else sides[::-1]), "-o", str(tmp_path)])
    lines = capsys.readouterr().out.strip().splitlines()
    assert lines[-1].startswith("no difference beyond rounding: "), lines[-1]
    assert code == 0


@pytest.mark.sample(6)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("fault", rewritten.FAULTS)
@pytest.mark.parametrize("rewrites", ROUNDING, ids="-".join)
def test_a_fault_after_a_rewrite_heads_the_answer(rewrites, fault, task, dumps, tmp_path, capsys):
    code, lines, found = compare(dumps(rewrites, fault, task), dumps(task=task), tmp_path, capsys)
    (first,) = found["first_wrong"]
    cell, kinds = EXPECTED[fault]
    assert code == 1
    assert first["cell"].startswith(cell), lines[-1]
    assert first["kind"].startswith(kinds), lines[-1]
