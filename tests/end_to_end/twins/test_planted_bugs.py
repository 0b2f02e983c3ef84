"""Porting bugs, compared for real: a clean twin has no difference, and each bug is named as its file says."""

import json
import re
from pathlib import Path

import make
import pytest
import truth

from msprobe.cli import main

pytestmark = [pytest.mark.mindspore, pytest.mark.torch, pytest.mark.part(12)]

BUGS = make.bugs()
# In statistics a transposed weight and an exchanged one look alike, and much else is harder: tensors show more.
BY_TENSORS = ("transposed-weight", "heads-tiled", "layer-norm-eps", "gate-and-up-swapped", "gelu-erf")
CASES = [(bug, "statistics") for bug in BUGS] + [(bug, "tensor") for bug in BY_TENSORS]
PORTED_OTHERWISE = [(net, "scrambled+reordered") for net in truth.nets()]
PORTED_OTHERWISE += [(net, "fused_qkv") for net, variants in truth.nets().items() if "fused_qkv" in variants]

# Where the layer stands that one side alone has.
LAYERS = {
    ("gpt", "extra_layer"): "blocks.1",
    ("gpt", "missing_layer"): "h.1",
    ("llama", "extra_layer"): "layers.0",
    ("llama", "missing_layer"): "layers.0",
    ("resnet", "extra_layer"): "stage1.1",
    ("resnet", "missing_layer"): "layer1.0",
    ("vit", "extra_layer"): "encoder.2",
    ("vit", "missing_layer"): "blocks.0",
}


def compare(target, golden, out, capsys, step=0):
    """Exit code, last line of standard output, and the `first_wrong` of the JSON."""
    sides = ["-tp", f"{target}/step{step}", "-gp", f"{golden}/step{step}"]
    code = main(["compare", *sides, "-o", str(out), "--format", "json"])
    found = json.loads(next(out.glob("*.json")).read_text())["first_wrong"]
    lines = [line for line in capsys.readouterr().out.splitlines() if line and not line.startswith("Try: ")]
    return code, lines[-1], found


@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize("net", truth.nets())
def test_a_clean_twin_has_no_difference(net, task, twins, tmp_path, capsys):
    target, golden = twins.pair(net, steps=2, task=task)
    for step in (0, 1):
        code, line, found = compare(target, golden, tmp_path / str(step), capsys, step)
        assert (code, found) == (0, []), line
        assert re.match(r"no difference( beyond rounding)?: [1-9]\d* pairs judged, \d+ unjudged", line)


@pytest.mark.sample(5)
@pytest.mark.parametrize(("net", "variant"), PORTED_OTHERWISE)
def test_neither_names_nor_order_nor_fusing_is_a_difference(net, variant, twins, tmp_path, capsys):
    code, line, found = compare(*twins.pair(net, variant), tmp_path, capsys)
    assert (code, found) == (0, []), line


@pytest.mark.parametrize("settings", [{"level": "L0"}, {"level": "L1"}, {"summary": "md5"}], ids=str)
@pytest.mark.parametrize("net", ["gpt", "lstm"])
def test_a_clean_twin_has_no_difference_at_any_level(net, settings, twins, tmp_path, capsys):
    code, line, found = compare(*twins.pair(net, **settings), tmp_path, capsys)
    assert (code, found) == (0, []), line


@pytest.mark.parametrize(("net", "variant"), LAYERS)
def test_a_layer_too_many_is_named(net, variant, twins, tmp_path, capsys):
    code, line, found = compare(*twins.pair(net, variant), tmp_path, capsys)
    assert code == 1
    assert re.search(rf" in {re.escape(LAYERS[net, variant])}\b.*: structure differs: ", line), line
    assert found[0]["kind"] == "structure differs"


@pytest.mark.sample(8)
@pytest.mark.parametrize(("bug", "task"), CASES, ids=[f"{b}-{t}" for b, t in CASES])
def test_the_planted_bug_is_named(bug, task, twins, tmp_path, capsys):
    expected = BUGS[bug] | (BUGS[bug].get(task) or {})
    net, step = expected["net"], expected.get("step", 0)
    target = twins.dump(net, "mindspore", bug=bug, steps=step + 1, task=task)
    golden = twins.dump(net, "pytorch", steps=2, task=task)
    code, line, found = compare(target, golden, tmp_path, capsys, step)
    assert code == 1, line
    assert line.startswith("first wrong call: ")
    named = found[0]
    assert any(re.fullmatch(pattern, named["name"]) for pattern in expected["names"]), line
    assert any(named["kind"].startswith(kind) for kind in expected["kinds"]), line
    assert Path(named["file"]).name == f"{net}.py", line


def test_a_bug_that_shows_in_the_second_step_does_not_in_the_first(twins, tmp_path, capsys):
    target = twins.dump("resnet", "mindspore", bug="batch-norm-momentum", steps=2)
    code, line, found = compare(target, twins.dump("resnet", "pytorch", steps=2), tmp_path, capsys, step=0)
    assert (code, found) == (0, []), line
