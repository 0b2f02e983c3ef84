"""`msprobe compare --explain CALL`: the chain of one call, as lines and as data."""

import json
from collections import defaultdict

import numpy as np
import pytest

from msprobe.cli import main
from msprobe.compare.locate.find import locate
from msprobe.compare.run import compare
from msprobe.compare.units.calls import UnitCalls
from msprobe.compare.units.details import OfComparison
from msprobe.store.reader import read


@pytest.fixture
def recorded(builder, tensor, tmp_path):
    """`recorded("target", factor=1.03)` writes a product, a sum and a tanh; one row of the product is too large."""

    def make(side, mode="statistics", factor=1.0, steps=(0,), more=False, noise=0.0):
        random = np.random.default_rng(5)
        x, w = (random.standard_normal(shape).astype(np.float32) for shape in ((16, 32), (32, 32)))
        b = random.standard_normal(32).astype(np.float32)
        for step in steps:
            made = builder(side, mode=mode, level="L1")
            made.folder = tmp_path / side / f"step{step}" / "rank"
            made.extra["step"] = step
            product = x @ w
            if step == steps[-1]:
                product[3] *= factor
            product = (product * (1 + noise * random.standard_normal(product.shape))).astype(np.float32)
            total = product + b
            made.call("Mint.matmul.0.forward", [tensor(x, "leaf"), tensor(w, "parameter up.weight")], [product])
            made.call(
                "Mint.add.0.forward",
                [tensor(product, "call Mint.matmul.0.forward.output.0"), tensor(b, "leaf")],
                [total],
            )
            made.call("Mint.tanh.0.forward", [tensor(total, "call Mint.add.0.forward.output.0")], [np.tanh(total)])
            if more:
                made.call("Mint.relu.0.forward", [tensor(x, "leaf")], [np.maximum(x, 0)])
            made.write()
        return tmp_path / side

    return make


def explained(capsys, target, golden, call, *options):
    code = main(["compare", str(target), str(golden), "--explain", call, *options])
    captured = capsys.readouterr()
    return code, captured.out.splitlines(), captured.err


def record(capsys, target, golden, call, place, *options):
    """The data of one record of a call."""
    code, lines, _ = explained(capsys, target, golden, call, "--json", *options)
    assert code == 0
    (found,) = (one for one in json.loads("\n".join(lines))["details"]["explained"]["records"] if one["place"] == place)
    return found


def test_what_begins_and_what_is_inherited(recorded, capsys):
    sides = recorded("target", factor=3.0), recorded("golden")
    begins = record(capsys, *sides, "Mint.matmul.0.forward", "output.0")
    assert (begins["verdict"], begins["state"], begins["rule"]) == ("error", "divergent", "amplification")
    assert begins["evidence"]["differs_by"] > begins["evidence"]["explained"] > 0
    assert begins["related"] == [{"name": "Mint.add.0.forward", "state": "propagated", "verdict": "error"}]
    received = record(capsys, *sides, "Mint.add.0.forward", "input.0")
    assert (received["state"], received["rule"], received["origin"]) == ("propagated", "producers", "call")
    (made,) = received["related"]
    assert made == {"name": "Mint.matmul.0.forward.output.0", "state": "divergent", "verdict": "error"}
    constant = record(capsys, *sides, "Mint.add.0.forward", "input.1")
    assert [constant[key] for key in ("verdict", "rule", "origin", "distance")] == ["pass", "equal", "leaf", 0]
    assert record(capsys, *sides, "Mint.matmul.0.forward", "input.1")["origin"] == "parameter"
    total = record(capsys, *sides, "Mint.add.0.forward", "output.0")
    assert (total["rule"], total["evidence"]["statistic"]) == ("identity", "mean")
    assert total["evidence"]["residual"] < total["evidence"]["limit"] == 1e-6
    assert total["otherwise"] == "wrong above 1e-06"


def test_the_lines_of_a_call(recorded, capsys):
    code, lines, _ = explained(capsys, recorded("target", factor=3.0), recorded("golden"), "Mint.add.0.forward")
    assert code == 0
    call = "Mint.add.0.forward"
    assert lines[0] == f"{call} in the root, step 0, rank 0: paired with {call} by name (compared by statistics)"
    assert "    from: Mint.matmul.0.forward.output.0 (divergent, error)" in lines
    assert "    from: outside all recorded calls: a constant or an input of the run" in lines
    assert "    used by: Mint.tanh.0.forward (propagated, error)" in lines
    (rule,) = (line for line in lines if "an identity between the statistics of the call" in line)
    assert rule.endswith("the call itself is correct, the difference is inherited from its inputs")


def test_by_how_much_a_tolerance_is_exceeded(recorded, capsys):
    """The standard of float32 is 1.3e-6 of the golden and 1e-5, `docs/en/how-to/comparing/compare.md`."""
    sides = recorded("target", factor=3.0), recorded("golden")
    found = record(capsys, *sides, "Mint.matmul.0.forward", "output.0", "--noise", "exact")
    random = np.random.default_rng(5)
    x, w = (random.standard_normal(shape).astype(np.float32) for shape in ((16, 32), (32, 32)))
    product = x @ w
    most = max(
        abs(3 * statistic(product[3]) - statistic(product)) / (1.3e-6 * abs(statistic(product)) + 1e-5)
        for statistic in (np.max, np.min)
    )
    assert (found["verdict"], found["rule"]) == ("error", "tolerance")
    assert found["excess"] == pytest.approx(most, rel=1e-3)
    assert found["otherwise"] == f"would pass if the difference were {1 / most:.3g} times as large"


@pytest.mark.torch
def test_a_replayed_call_has_its_residuals(recorded, capsys):
    pytest.importorskip("torch", reason="calls are replayed")
    sides = recorded("target", "tensor", factor=1.03, noise=1e-7), recorded("golden", "tensor")
    wrong = record(capsys, *sides, "Mint.matmul.0.forward", "output.0")
    assert (wrong["state"], wrong["rule"]) == ("divergent", "replay")
    assert wrong["evidence"]["residual"] > 1e-3 > 1e-6 > wrong["evidence"]["golden_residual"]
    inherited = record(capsys, *sides, "Mint.add.0.forward", "output.0")
    assert (inherited["state"], inherited["rule"]) == ("propagated", "replay")
    assert inherited["evidence"]["residual"] < inherited["evidence"]["limit"] == 1e-5
    assert inherited["otherwise"] == "wrong above 1e-05"


def test_of_several_steps_the_first_that_does_not_pass(recorded, capsys):
    sides = recorded("target", factor=3.0, steps=(0, 1)), recorded("golden", steps=(0, 1))
    code, lines, _ = explained(capsys, *sides, "Mint.matmul.0.forward")
    assert code == 0
    assert ", step 1, rank 0" in lines[0]
    assert lines[1].startswith("  1 other comparisons (step 0")
    code, lines, _ = explained(capsys, *sides, "Mint.matmul.0.forward", "--steps", "0")
    assert ", step 0, rank 0" in lines[0]


def test_a_call_of_one_side(recorded, capsys):
    sides = recorded("target", more=True), recorded("golden")
    code, lines, _ = explained(capsys, *sides, "Mint.relu.0.forward")
    assert code == 0
    assert lines[0].endswith(": only the target makes this call (compared by statistics)")
    found = record(capsys, *sides, "Mint.relu.0.forward", "output.0")
    assert (found["verdict"], found["golden"]) == ("unjudged", "")
    assert found["cause"] in ("unmatched", "rewritten")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("Mint.matmul.7.forward", "did you mean: Mint.matmul.0.forward"),
        ("matmul", "did you mean: Mint.matmul.0.forward"),
        ("nothing_alike_at_all", "there are: Mint.matmul.0.forward, Mint.add.0.forward, Mint.tanh.0.forward"),
    ],
)
def test_a_call_that_does_not_exist(recorded, capsys, call, words):
    sides = recorded("target"), recorded("golden")
    code, lines, error = explained(capsys, *sides, call)
    assert (code, lines) == (2, [])
    assert words in error


def test_a_record_names_its_call_and_nothing_is_written(recorded, capsys, tmp_path, monkeypatch):
    sides = recorded("target", factor=1.03), recorded("golden")
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    code, lines, _ = explained(capsys, *sides, "Mint.matmul.0.forward.output.0")
    assert code == 0
    assert lines[0].startswith("Mint.matmul.0.forward in the root, step 0")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_step_in_which_the_call_cannot_show_a_fault_is_passed_over(builder, tmp_path, capsys):
    """In step 0 only the memory differs that the call overwrites; in step 1 its result is wrong."""
    call = "Tensor.zero_.0.forward"
    for side, memory, results in (("target", 7.0, (0.0, 5.0)), ("golden", 3.0, (0.0, 0.0))):
        for step, result in enumerate(results):
            made = builder(side)
            made.folder = tmp_path / side / f"step{step}" / "rank"
            made.extra["step"] = step
            made.call(call, [memory], [result]).write()
    sides = tmp_path / "target", tmp_path / "golden"
    assert ", step 1, rank 0" in explained(capsys, *sides, call)[1][0]
    memory = record(capsys, *sides, call, "input.0", "--steps", "0")
    assert (memory["verdict"], memory["cause"]) == ("unjudged", "unused")


@pytest.mark.parametrize(
    ("option", "flag"),
    [
        (("--html",), "--html"),
        (("--format", "csv"), "--format"),
        (("-o", "elsewhere"), "--output"),
        (("-s",), "--stack"),
    ],
)
def test_options_that_write_files_are_refused(recorded, capsys, option, flag):
    code, lines, error = explained(capsys, recorded("target"), recorded("golden"), "Mint.matmul.0.forward", *option)
    assert (code, lines) == (2, [])
    assert f"--explain writes no files: omit {flag}, or" in error


def test_ranks_that_are_merged_are_refused(recorded, capsys):
    sides = recorded("target"), recorded("golden")
    code, _, error = explained(capsys, *sides, "Mint.matmul.0.forward", "--rank-size", "2", "--tp", "2")
    assert code == 2
    assert "--explain and --rank-size cannot be combined" in error


def test_the_page_has_the_same_decisions(recorded, capsys):
    target, golden = recorded("target", factor=3.0), recorded("golden")
    _, lines, _ = explained(capsys, target, golden, "Mint.add.0.forward")
    expected = defaultdict(list)  # by place: rule, numbers, and the condition for another verdict
    place = ""
    for line in lines[1:]:
        label, _, text = line.strip().partition(": ")
        if not line.startswith("    "):
            place = label
        elif label in ("rule", "numbers", "otherwise"):
            expected[place].append(text)
    dumps = [read(side / "step0" / "rank" / "dump.json") for side in (target, golden)]
    comparison = compare(*dumps)
    at = next(at for at in range(len(comparison.pairs)) if comparison.pairs.name(at) == "Mint.add.0.forward")
    (details,) = OfComparison(comparison, locate(comparison), UnitCalls.of_pairs(comparison.pairs, "dump"))([at])
    found = {record.place: [str(line) for line in record.decision] for record in details.records}
    assert found == {**expected, "input.1": []}  # equal: nothing to explain
    assert {record.place: record.state for record in details.records} == {
        "input.0": "propagated",
        "input.1": "",
        "output.0": "propagated",
    }
