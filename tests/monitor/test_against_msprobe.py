"""The files of both monitors beside those that mindstudio-probe 26.2.0 wrote of the same training (PyTorch, CPU).

The samples are of `torch_training.train(network(), AdamW, 3, clip=0.5)`. What differs on purpose stands in
`reference/differences.md`: the model itself is no row (its name would be empty), a gradient that does not exist is no
row of NaN, moments are those before the update also in the second form, and numbers have fewer digits there.
"""

import csv
import json
from pathlib import Path

import pytest
import torch
from torch_training import network, train

from msprobe.core.monitor_v2.trainer import TrainerMonitorV2
from msprobe.pytorch import TrainerMon
from msprobe.store.monitor.reader import read_output

pytestmark = pytest.mark.torch

SAMPLES = Path(__file__).parents[1] / "samples" / "monitor" / "26.2.0"
KINDS = (
    "actv",
    "actv_grad",
    "grad_unreduced",
    "grad_reduced",
    "param_origin",
    "param_updated",
    "exp_avg",
    "exp_avg_sq",
)


def training():
    net = network()
    return net, torch.optim.AdamW(net.parameters(), 1e-2)


def rows(path, *key):
    with path.open(newline="") as file:
        table = csv.DictReader(file)
        return {tuple(row[name] for name in key): row for row in table}, table.fieldnames


def equal(ours, theirs, columns):
    for name in columns:
        assert float(ours[name]) == pytest.approx(float(theirs[name]), rel=2e-5, abs=2e-6), (ours["step"], name)


def test_the_first_form_has_the_columns_rows_and_numbers_of_msprobe(configured, tmp_path):
    ops = ["norm", "min", "max", "mean", "zeros", "nans"]
    switches = ("xy_distribution", "wg_distribution", "mv_distribution", "param_distribution")
    net, optimizer = training()
    TrainerMon(configured(ops=ops, **dict.fromkeys(switches, True))).set_monitor(net, optimizer)
    train(net, optimizer, 3, clip=0.5)
    (ours,), (theirs,) = ((tmp_path / "out").iterdir(), (SAMPLES / "v1").iterdir())
    expected = sorted(path.name for path in theirs.iterdir())
    assert [name for name in sorted(path.name for path in ours.iterdir()) if not name.startswith("local")] == expected
    compared = 0
    for name in expected:
        key = ("vpp_stage", "name", "step", "micro_step") if name.startswith("actv") else ("vpp_stage", "name", "step")
        (mine, head), (golden, golden_head) = rows(ours / name, *key), rows(theirs / name, *key)
        assert head == golden_head
        golden = {at: row for at, row in golden.items() if not at[1].startswith(".") and row["norm"] != "nan"}
        assert mine.keys() == golden.keys()
        for at, row in mine.items():
            equal(row, golden[at], ops)
            assert (row["shape"], row["dtype"]) == (golden[at]["shape"], golden[at]["dtype"])
            compared += 1
    assert compared == 3 * (8 + 7 + 6 * 4) + 2 * 2 * 6


def test_the_second_form_has_the_rows_and_numbers_of_msprobe(tmp_path):
    ops = ["min", "max", "mean", "norm", "nans"]
    section = {"enabled": True, "ops": ops}
    path = tmp_path / "v2.json"
    monitors = {"module": section, "weight_grad": section, "optimizer": section, "param": section}
    path.write_text(json.dumps({"framework": "pytorch", "output_dir": str(tmp_path / "out"), "monitors": monitors}))
    net, optimizer = training()
    monitor = TrainerMonitorV2(path, fr="pytorch")
    monitor.start(net, optimizer)
    train(net, optimizer, 3, clip=0.5)
    monitor.stop()
    compared = 0
    for theirs in sorted((SAMPLES / "v2" / "rank_0").iterdir()):
        name = theirs.name.partition("_step")[0]
        if name == "optimizer":
            continue  # moments after the update
        key = ("module_name", "scope")
        (mine, _), (golden, _) = rows(tmp_path / "out" / "rank_0" / theirs.name, *key), rows(theirs, *key)
        golden = {at: row for at, row in golden.items() if not at[0].startswith(".")}
        assert mine.keys() >= golden.keys()
        for at, row in golden.items():
            equal(mine[at], row, ops)
            compared += 1
    assert compared == 3 * (8 + 7 + 6 + 12)


def test_files_of_msprobe_are_read():
    first, second = read_output(SAMPLES / "v1"), read_output(SAMPLES / "v2")
    assert (first.form, second.form) == ("v1", "v2")
    assert set(first.ranks[0].tables) == set(KINDS)
    assert set(second.ranks[0].tables) == set(KINDS) - {"grad_unreduced"}
    for kind in ("grad_reduced", "param_updated"):
        one, two = (output.ranks[0].tables[kind] for output in (first, second))
        assert len(one) == len(two) == 18
        assert one.statistics["norm"].tolist() == pytest.approx(two.statistics["norm"].tolist(), abs=1e-6)
