"""`msprobe gate` around a real training with MindSpore: no edit of the script, faults named, harmless changes green."""

import json
from pathlib import Path

import pytest
from gates import check, last_line, record

pytestmark = [pytest.mark.mindspore, pytest.mark.slow, pytest.mark.turns("gate", 5)]

TRAINING = Path(__file__).with_name("gpt_mindspore.py")


@pytest.fixture(scope="module")
def golden(made_once):
    """The golden of the training without a change."""
    return made_once("gate-mindspore", lambda folder: record(folder, "mindspore", TRAINING)) / "gpt.golden"


def test_a_golden_is_small(golden):
    assert golden.stat().st_size <= 1_000_000


@pytest.mark.parametrize("change", ["", "order"])
def test_only_rounding_is_green(golden, tmp_path, change):
    done = check(golden, "mindspore", TRAINING, change, tmp_path)
    assert (done.returncode, last_line(done).split(":")[1]) == (0, " green"), done.stdout


# The epsilon is an attribute of the primitive, which is not among its arguments.
@pytest.mark.parametrize(("change", "kind"), [("scale", "structure differs"), ("eps", "computes differently")])
def test_a_fault_is_red_and_named(golden, tmp_path, change, kind):
    done = check(golden, "mindspore", TRAINING, change, tmp_path)
    assert done.returncode == 1
    found = json.loads((tmp_path / "answer.json").read_text())["findings"][0]
    assert found["kind"] == kind
    assert ("mul" if change == "scale" else "layer_norm") in found["place"]["name"].lower()
    assert Path(found["place"]["file"]).name == "gpt_mindspore.py"


def test_a_training_without_updates_did_not_train(golden, tmp_path):
    assert check(golden, "mindspore", TRAINING, "still", tmp_path).returncode == 3
