"""A flow on two ranks: real processes, started by `msrun`, on a CPU."""

import json
from pathlib import Path

import numpy as np
import pytest

pytestmark = [pytest.mark.mindspore, pytest.mark.ranks]

pytest.importorskip("mindspore", reason="msrun starts its ranks")

SCRIPT = Path(__file__).parents[1] / "training" / "flow_ranks.py"


@pytest.mark.turns("ranks", 2)
def test_each_rank_of_a_flow_has_its_own_folders_and_values(tmp_path, msrun):
    msrun(SCRIPT, tmp_path, folder=tmp_path)
    flow = tmp_path / "flow"
    for step in (0, 1):
        for rank in (0, 1):
            place = f"step{step}/rank{rank}"
            greatest = 10.0 * rank + step
            dump = json.loads((flow / "reference_compute_log_prob" / place / "dump.json").read_text())
            assert dump["run"]["rank"] == rank
            assert dump["data"]["Cell.0.ReLU.forward.0"]["output"][0]["Max"] == greatest
            (file,) = (flow / "data" / "ref_log_prob" / place).glob("*.npy")
            assert file.name == f"ref_log_prob_float32_{step}.npy"
            np.testing.assert_array_equal(np.load(file), np.full(3, greatest, np.float32))
            single = json.loads((flow / "data" / "values" / place / "micro_step0" / "values.json").read_text())
            assert single["data"]["max"] == greatest
    for stage in ("reference_compute_log_prob", "data/ref_log_prob", "data/values"):
        assert sorted(p.name for p in (flow / stage / "step0").iterdir()) == ["rank0", "rank1"]
    assert json.loads((flow / "configurations.json").read_text()) == {"reference": {"layers": 1}}
