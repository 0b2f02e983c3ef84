"""Planted faults, collected and compared for real: the last line names the call and the kind of difference."""

import importlib.util
import json
import re
from pathlib import Path

import mindspore as ms
import pytest

from msprobe.cli import main
from msprobe.frameworks.mindspore.debugger import PrecisionDebugger

pytestmark = [pytest.mark.mindspore, pytest.mark.part(3)]

_spec = importlib.util.spec_from_file_location("faults", Path(__file__).parents[1] / "training" / "faults.py")
faults = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(faults)

LEVELS = ("L0", "L1", "mix")
TASKS = ("statistics", "tensor")
COMPUTES, ARGUMENT, OTHER_CALL = "computes differently", "argument differs", "structure differs"
PARAMETERS, INPUTS, CODE = "parameters differ", "run inputs differ", "code between"
PRECISION = "precision differs"

ATTENTION, MLP = "Cell.attention.Attention.forward.0", "Cell.mlp.MLP.forward.0"

# net, fault, and for each level the name and the kind that the definitions give, worked out from
# tests/training/faults.py. A pair of kinds is (statistics, tensor), where statistics cannot see what differs.
FAULTS = [
    (
        "transformer",
        "eps",
        {
            "L0": ("Cell.norm2.Norm.forward.0", COMPUTES),
            "L1": ("Tensor.__add__.2.forward", ARGUMENT),
            "mix": ("Tensor.__add__.2.forward", ARGUMENT),
        },
    ),
    (
        "transformer",
        "scale",
        {
            "L0": (ATTENTION, COMPUTES),
            "L1": ("Functional.mul.0.forward", OTHER_CALL),
            "mix": ("Functional.mul.0.forward", OTHER_CALL),
        },
    ),
    # of a bool tensor statistics hold how many elements are true: another mask of another count is seen
    (
        "transformer",
        "mask",
        {
            "L0": (ATTENTION, COMPUTES),
            "L1": ("Functional.masked_fill.0.forward", ARGUMENT),
            "mix": ("Functional.masked_fill.0.forward", ARGUMENT),
        },
    ),
    # `.T` calls permute
    (
        "transformer",
        "transposed",
        {
            "L0": (ATTENTION, COMPUTES),
            "L1": ("Tensor.permute.0.forward", OTHER_CALL),
            "mix": ("Tensor.permute.0.forward", OTHER_CALL),
        },
    ),
    (
        "transformer",
        "half",
        {
            "L0": (MLP, COMPUTES),
            "L1": ("Tensor.astype.0.forward", PRECISION),
            "mix": ("Tensor.astype.0.forward", PRECISION),
        },
    ),
    (
        "transformer",
        "swapped",
        {
            "L0": (MLP, COMPUTES),
            "L1": ("Functional.sub.0.forward", CODE),
            "mix": ("Functional.sub.0.forward", CODE),
        },
    ),
    # at L1 the framework's dropout layer calls a primitive, which is not recorded: the sum is the first that receives
    (
        "transformer",
        "dropout",
        {
            "L0": ("Cell.drop.Dropout.forward.0", COMPUTES),
            "L1": ("Primitive.dropout.Dropout.0.forward", OTHER_CALL),
            "mix": ("Primitive.dropout.Dropout.0.forward", OTHER_CALL),
        },
    ),
    (
        "transformer",
        "root",
        {
            "L0": (ATTENTION, CODE),
            "L1": ("Tensor.__mul__.2.forward", ARGUMENT),
            "mix": ("Tensor.__mul__.2.forward", ARGUMENT),
        },
    ),
    (
        "transformer",
        "initial weight",
        {
            "L0": (MLP, PARAMETERS),
            "L1": ("Functional.matmul.6.forward", PARAMETERS),
            "mix": ("Functional.matmul.6.forward", PARAMETERS),
        },
    ),
    # the factor is an argument of the third multiplication inside bprop, which runs, and is recorded, during backward
    (
        "clipped",
        "bprop",
        {
            "L0": ("Cell.clip.Clip.backward.0", COMPUTES),
            "L1": ("Tensor.__mul__.2.forward", ARGUMENT),
            "mix": ("Tensor.__mul__.2.forward", ARGUMENT),
        },
    ),
    (
        "perceptron",
        "initial weight",
        {
            "L0": ("Cell.second.Dense.forward.0", PARAMETERS),
            "L1": ("Primitive.matmul.MatMul.1.forward", PARAMETERS),
            "mix": ("Primitive.matmul.MatMul.1.forward", PARAMETERS),
        },
    ),
    (
        "perceptron",
        "batch",
        {
            "L0": ("Cell.first.Dense.forward.0", INPUTS),
            "L1": ("Primitive.shape_op.Shape.0.forward", INPUTS),
            "mix": ("Primitive.shape_op.Shape.0.forward", INPUTS),
        },
    ),
    (
        "clipped",
        "batch",
        {
            "L0": ("Cell.linear.MLP.forward.0", INPUTS),
            "L1": ("Functional.matmul.0.forward", INPUTS),
            "mix": ("Functional.matmul.0.forward", INPUTS),
        },
    ),
]


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    """Folder of a collected training, made once for each net, fault, level and task."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    made = {}

    def dump(net, fault, level, task, copy=0):
        key = (net, fault, level, task, copy)
        if key not in made:
            made[key] = tmp_path_factory.mktemp("dump")
            debugger = PrecisionDebugger(dump_path=str(made[key]), level=level, task=task)
            faults.train(net, debugger, fault, steps=2)
            PrecisionDebugger._known.clear()
        return made[key]

    return dump


def compare(target, golden, out, capsys, step=0):
    """Exit code, last line of standard output, and the `first_wrong` of the JSON."""
    sides = ["-tp", f"{target}/step{step}", "-gp", f"{golden}/step{step}"]
    code = main(["compare", *sides, "-o", str(out), "--format", "json"])
    found = json.loads(next(out.glob("*.json")).read_text())["first_wrong"]
    lines = [line for line in capsys.readouterr().out.splitlines() if line and not line.startswith("Try: ")]
    return code, lines[-1], found


@pytest.mark.sample(16)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("net", "fault", "expected"), FAULTS, ids=[f"{n}-{f}" for n, f, _ in FAULTS])
def test_the_planted_fault_is_named(net, fault, expected, level, task, dumps, tmp_path, capsys):
    target, golden = dumps(net, fault, level, task), dumps(net, None, level, task)
    code, line, found = compare(target, golden, tmp_path / "out", capsys)
    name, kind = expected[level]
    kind = kind if isinstance(kind, str) else kind[TASKS.index(task)]
    assert code == 1
    assert re.match(rf"first wrong call: {re.escape(name)} in [^:]+: {kind}", line), line
    assert (found[0]["name"], found[0]["kind"].startswith(kind)) == (name, True)
    assert found[0]["file"].endswith("faults.py"), line
    assert f"(faults.py:{found[0]['line']})" in line or f"faults.py:{found[0]['line']})" in line


@pytest.mark.sample(4)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("net", list(faults.NETS))
def test_a_clean_pair_has_no_difference(net, level, task, dumps, tmp_path, capsys):
    pair = dumps(net, None, level, task), dumps(net, None, level, task, copy=1)
    for step in (0, 1):
        code, line, found = compare(*pair, tmp_path / str(step), capsys, step)
        assert (code, found) == (0, [])
        assert re.match(r"no difference( beyond rounding)?: [1-9]\d* pairs judged, \d+ unjudged", line)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("level", LEVELS)
def test_another_learning_rate_is_seen_at_the_next_step_as_parameters(level, task, dumps, tmp_path, capsys):
    target, golden = dumps("transformer", "learning rate", level, task), dumps("transformer", None, level, task)
    code, _, _ = compare(target, golden, tmp_path / "0", capsys, step=0)
    assert code == 0
    code, line, found = compare(target, golden, tmp_path / "1", capsys, step=1)
    assert (code, found[0]["kind"], found[0]["step"]) == (1, PARAMETERS, 1)
    assert "learning rate" in line, "says what may have caused it"


def test_the_source_line_is_the_one_with_the_fault(dumps, tmp_path, capsys):
    target, golden = dumps("transformer", "mask", "mix", "statistics"), dumps("transformer", None, "mix", "statistics")
    _, _, found = compare(target, golden, tmp_path, capsys)
    source = Path(faults.__file__).read_text().splitlines()
    assert "ops.masked_fill(scores, self.mask" in source[found[0]["line"] - 1]
    assert found[0]["cell"] == "Cell.attention.Attention.forward.0" or "attention" in found[0]["cell"]
