"""TrainerMonitorV2: the files and columns of the second form, by hand."""

import csv
import json

import pytest
import torch
from torch_training import batch, network, train

from msprobe.base.errors import UsageError
from msprobe.core.monitor_v2.trainer import TrainerMonitorV2

pytestmark = pytest.mark.torch

OPS = ["norm", "min", "max", "mean", "nans"]


@pytest.fixture
def sections(tmp_path):
    def make(**settings):
        path = tmp_path / "v2.json"
        path.write_text(json.dumps({"output_dir": str(tmp_path / "out"), **settings}))
        return path

    return make


def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def monitored(path, **start):
    net = network()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    monitor = TrainerMonitorV2(path, "pytorch")
    monitor.start(net, optimizer, **start)
    return monitor, net, optimizer


def everything(**module):
    section = {"enabled": True, "ops": OPS}
    names = ("weight_grad", "optimizer", "param")
    return {"monitors": {"module": {"ops": OPS, **module}, **{name: section for name in names}}}


def test_the_files_have_the_columns_and_names_of_the_second_form(sections, tmp_path):
    monitor, net, optimizer = monitored(sections(**everything()))
    gradients = {}

    def keep(_):
        gradients.update((name, parameter.grad.clone()) for name, parameter in net.named_parameters())

    train(net, optimizer, 2, after_backward=keep)
    monitor.stop()
    folder = tmp_path / "out" / "rank_0"
    assert sorted(path.name for path in folder.iterdir()) == [
        *("module_step0-0.csv", "module_step1-1.csv", "optimizer_step1-1.csv"),
        *("param_step0-0.csv", "param_step1-1.csv", "weight_grad_step0-0.csv", "weight_grad_step1-1.csv"),
    ]
    heads = {path.name.partition("_step")[0]: path.read_text().splitlines()[0] for path in folder.iterdir()}
    plain = "vpp_stage,step,module_name,scope,norm,min,max,mean,nans"
    assert heads == {
        "module": plain.replace("scope", "scope,micro_step"),
        **dict.fromkeys(("weight_grad", "optimizer", "param"), plain),
    }
    rows = table(folder / "module_step1-1.csv")
    forward = [row["module_name"] for row in rows if row["scope"] == "forward"]
    assert forward == [f"{i}.{side}.0" for i in range(4) for side in ("input", "output")]
    backward = {row["module_name"] for row in rows if row["scope"] == "backward"}
    assert backward >= {"3.grad_output.0", "3.grad_input.0", "0.grad_output.0"}
    assert float(rows[0]["max"]) == pytest.approx(float(batch(10).max()), abs=1e-6)
    rows = table(folder / "weight_grad_step1-1.csv")
    assert [row["scope"] for row in rows].count("unreduced") == [row["scope"] for row in rows].count("reduced") == 6
    for row in rows:
        assert float(row["norm"]) == pytest.approx(float(gradients[row["module_name"]].norm()), rel=1e-4)
    scopes = {row["scope"] for row in table(folder / "param_step1-1.csv")}
    assert scopes == {"param_origin", "param_updated"}
    names = {row["module_name"] for row in table(folder / "optimizer_step1-1.csv")}
    assert "0.weight.exp_avg" in names
    assert "0.weight.exp_avg_sq" in names


def test_modules_are_chosen_by_a_part_of_their_name(sections, tmp_path):
    _, net, optimizer = monitored(sections(monitors={"module": {"targets": ["3"]}}))
    train(net, optimizer)
    rows = table(tmp_path / "out" / "rank_0" / "module_step0-0.csv")
    assert {row["module_name"].partition(".")[0] for row in rows} == {"3"}
    assert [path.name for path in (tmp_path / "out" / "rank_0").iterdir()] == ["module_step0-0.csv"]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"start_step": 1, "stop_step": 4}, [1, 2, 3]),
        ({"step_interval": 2}, [0, 2, 4]),
        ({"collect_times": 2}, [0, 1]),
        ({"rank": [1]}, []),
        ({"rank": 0, "stop_step": 1}, [0]),
    ],
)
def test_the_steps_that_are_measured(settings, expected, sections, tmp_path):
    _, net, optimizer = monitored(sections(monitors={"module": {}}, **settings))
    train(net, optimizer, 5)
    files = (tmp_path / "out").rglob("module_step*.csv")
    assert sorted(int(row["step"]) for path in files for row in table(path)[:1]) == expected


def test_steps_are_the_users_where_the_optimizer_is_not_patched(sections, tmp_path):
    monitor, net, optimizer = monitored(sections(monitors={"module": {}}, patch_optimizer_step=False))
    for step in range(2):
        train(net, optimizer, 2, start=2 * step)
        monitor.step()
    rows = [table(path) for path in sorted((tmp_path / "out" / "rank_0").iterdir())]
    assert [{row["step"] for row in of_file} for of_file in rows] == [{"0"}, {"1"}]
    assert {row["micro_step"] for row in rows[0]} == {"0", "1"}


def test_without_an_optimizer_modules_are_measured(sections, tmp_path):
    monitor = TrainerMonitorV2(sections(monitors={"module": {"ops": OPS}}))
    net = network()
    monitor.start(net)
    out = net(batch(0))
    monitor.step()
    monitor.stop()
    row = table(tmp_path / "out" / "rank_0" / "module_step0-0.csv")[-1]
    assert row["module_name"] == "3.output.0"
    assert float(row["norm"]) == pytest.approx(float(out.detach().norm()), rel=1e-5)
    monitor.start(net)
    with pytest.raises(UsageError, match="call stop"):
        monitor.start(net)


def test_unreduced_gradients_of_every_micro_step(sections, tmp_path):
    section = {"enabled": True, "ops": ["norm"], "monitor_mbs_grad": True}
    _, net, optimizer = monitored(sections(monitors={"module": {"enabled": False}, "weight_grad": section}))
    train(net, optimizer, micro=2)
    rows = table(tmp_path / "out" / "rank_0" / "weight_grad_step0-0.csv")
    unreduced = [row for row in rows if row["scope"] == "unreduced"]
    assert sorted({row["micro_step"] for row in unreduced}) == ["0", "1"]
    assert len(unreduced) == 12
