"""`msprobe graft` around a training of two ranks: each reads the golden values of its own rank."""

import pytest
from grafted import collect, graft

pytestmark = [pytest.mark.torch, pytest.mark.ranks, pytest.mark.slow, pytest.mark.turns("graft", 5)]

TRAINING = "ranks_torch.py"


@pytest.fixture(scope="module")
def golden(made_once):
    """The dump of the training without a change."""
    return made_once("graft-ranks-torch", lambda folder: collect(folder, "torch", TRAINING, "")) / "dump"


@pytest.mark.parametrize(
    ("change", "name"),
    [("leaky", "Functional.leaky_relu.0.forward"), ("second rank", "Tensor.__mul__.0.forward")],
)
def test_a_fault_of_all_ranks_or_of_one_is_proven(golden, tmp_path, change, name):
    target = collect(tmp_path / "target", "torch", TRAINING, change)
    assert {path.name for path in (target / "step0").iterdir()} == {"rank0", "rank1"}
    code, found, log = graft(target, golden, "torch", TRAINING, change, tmp_path)
    assert code == 1, log
    assert [(each["code"], each["place"]["name"]) for each in found["findings"]] == [("MSP871", name)]
    assert found["details"]["rest"] == {"loss": 0.0, "gradients": 0.0, "updates": 0.0, "share": 0.0}
    assert found["details"]["runs"] == 1
