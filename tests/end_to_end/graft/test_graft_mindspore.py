"""`msprobe graft` around a real training with MindSpore: planted faults are proven, clean runs have none."""

import json

import pytest
from grafted import collect, estimate, graft

pytestmark = [pytest.mark.mindspore, pytest.mark.slow, pytest.mark.turns("graft", 5)]

TRAINING = "gpt_mindspore.py"
VALUES = "values_mindspore.py"


@pytest.fixture(scope="module")
def golden(made_once):
    """The dump of the training without a change."""
    return made_once("graft-mindspore", lambda folder: collect(folder, "mindspore", TRAINING, "")) / "dump"


@pytest.mark.parametrize(
    ("change", "name"), [("eps", "Primitive.layer_norm.LayerNorm.3.forward"), ("scale", "Tensor.__mul__.0.forward")]
)
def test_a_fault_is_proven_and_closes_the_whole_gap(golden, tmp_path, change, name):
    target = collect(tmp_path / "target", "mindspore", TRAINING, change)
    code, found, log = graft(target, golden, "mindspore", TRAINING, change, tmp_path)
    assert code == 1, log
    (finding,) = found["findings"]
    assert (finding["code"], finding["place"]["name"]) == ("MSP871", name)
    assert finding["fields"]["closed"] == pytest.approx(1.0)
    assert found["details"]["rest"]["share"] == pytest.approx(0.0)
    assert found["details"]["runs"] == 1
    code, found, log = estimate(target, golden, tmp_path)
    assert code == 1, log
    assert [(each["code"], each["place"]["name"]) for each in found["findings"]] == [("MSP874", name)]
    assert found["details"]["grafts"][0]["estimate"]["gradients"] == [27, 27]


def test_equal_runs_have_nothing_to_prove(golden, tmp_path):
    target = collect(tmp_path / "target", "mindspore", TRAINING, "plain")
    code, found, log = graft(target, golden, "mindspore", TRAINING, "plain", tmp_path)
    assert code == 0, log
    assert found["findings"] == []
    assert found["details"]["gap"] == {"loss": 0.0, "gradients": 0.0, "updates": 0.0}
    assert found["details"]["runs"] == 0


def test_a_training_that_is_never_updated(golden, tmp_path):
    target = collect(tmp_path / "target", "mindspore", TRAINING, "still")
    _, found, log = graft(target, golden, "mindspore", TRAINING, "still", tmp_path)
    (finding,) = found["findings"]
    assert finding["code"] == "MSP871", log
    assert finding["fields"]["what"] == ["update"]
    assert finding["place"]["step"] == 1


def test_a_training_that_fails_is_no_proof(golden, tmp_path):
    target = collect(tmp_path / "target", "mindspore", TRAINING, "eps")
    code, _, log = graft(target, golden, "mindspore", TRAINING, "fails", tmp_path)
    assert code == 2
    assert "ended with exit code 1" in log


def test_the_runs_and_the_page_are_kept(golden, tmp_path):
    target = collect(tmp_path / "target", "mindspore", TRAINING, "eps")
    _, found, log = graft(target, golden, "mindspore", TRAINING, "eps", tmp_path, "-o", "runs", "--html", "proof.html")
    proof = tmp_path / "runs" / "proof.json"
    assert found["files"] == {"runs": str(tmp_path / "runs"), "page": "proof.html", "proof": str(proof)}, log
    assert json.loads(proof.read_text()) == found
    assert (tmp_path / "proof.html").is_file()
    kept = tmp_path / "runs" / "run_1"
    assert {each.name for each in kept.iterdir()} == {"plan.json", "settings.json", "dump"}
    assert (kept / "dump" / "step0").is_dir()


GIVEN = {
    "data": ("Primitive.shape_op.Shape.0.forward", ["inputs"]),
    "dropout": ("Primitive.dropout.Dropout.0.forward", ["forward", "backward"]),
    "running": ("Primitive.bn_infer.BatchNorm.0.forward", ["parameters"]),
    "table": ("Tensor.__mul__.0.forward", ["inputs"]),
    "mask": ("Functional.masked_fill.0.forward", ["inputs"]),
}
"""By a change of a value that no recorded call computes: the call at which it is proven, and the values that are
replaced. The last three are buffers: running statistics, two tables of rotary positions, and a mask."""


@pytest.fixture(scope="module")
def unchanged(made_once):
    """The dump of the training whose values are changed, without a change."""
    return made_once("graft-values-mindspore", lambda folder: collect(folder, "mindspore", VALUES, "")) / "dump"


@pytest.mark.parametrize("change", GIVEN)
def test_a_value_that_no_call_computes_is_proven(unchanged, tmp_path, change):
    target = collect(tmp_path / "target", "mindspore", VALUES, change)
    _, found, log = graft(target, unchanged, "mindspore", VALUES, change, tmp_path)
    finding = found["findings"][0]
    assert (finding["code"], finding["place"]["name"]) == ("MSP871", GIVEN[change][0]), log
    assert finding["fields"]["what"] == GIVEN[change][1]
    assert {each["code"] for each in found["findings"]} == {"MSP871"}, "no gap remains"
    assert found["details"]["rest"]["share"] == pytest.approx(0.0)
