"""Which steps are measured, into which files, and what else a monitor writes; with PyTorch, for it starts quickly."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch
from by_numpy import holds, named
from preloaded import python
from torch_training import batch, network, train

from msprobe.base.errors import UsageError
from msprobe.pytorch import TrainerMon

pytestmark = pytest.mark.torch


def monitored(path, start=0, **options):
    net = network()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    monitor = TrainerMon(path)
    monitor.set_monitor(net, optimizer, start_iteration=start, **options)
    return monitor, net, optimizer


def steps(rows, kind="grad_reduced"):
    return sorted({int(row["step"]) for row in rows.get(kind, ())})


@pytest.mark.parametrize(
    ("settings", "start", "expected"),
    [
        ({}, 0, [0, 1, 2, 3, 4, 5]),
        ({"start_step": 3}, 0, [3, 4, 5]),
        ({"step_interval": 2}, 0, [0, 2, 4]),
        ({"start_step": 1, "step_interval": 2}, 0, [1, 3, 5]),
        ({"collect_times": 2}, 0, [0, 1]),
        ({"collect_times": 0}, 0, []),
        ({"module_ranks": [0]}, 0, [0, 1, 2, 3, 4, 5]),
        ({"module_ranks": [1]}, 0, []),
        ({"start_step": 12}, 10, [12, 13, 14, 15]),
    ],
)
def test_the_steps_that_are_measured(settings, start, expected, configured, written):
    _, net, optimizer = monitored(configured(wg_distribution=True, xy_distribution=True, **settings), start)
    train(net, optimizer, 6)
    assert steps(written()) == steps(written(), "actv") == expected


def test_hooks_are_gone_when_all_steps_are_collected(configured):
    monitor, net, optimizer = monitored(configured(wg_distribution=True, xy_distribution=True, collect_times=1))
    train(net, optimizer, 2)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in net.modules())
    assert not any(parameter._backward_hooks for parameter in net.parameters())
    monitor.stop()
    assert not optimizer._optimizer_step_pre_hooks


def test_a_file_holds_as_many_steps_as_are_wished(configured, tmp_path):
    _, net, optimizer = monitored(configured(wg_distribution=True, step_count_per_record=4))
    train(net, optimizer, 6)
    (folder,) = (tmp_path / "out").iterdir()
    names = sorted(path.name for path in folder.glob("grad_reduced*"))
    assert names == ["grad_reduced_0-3.csv", "grad_reduced_4-7.csv"]
    assert os.stat(folder / names[0]).st_mode & 0o777 == 0o640


def test_columns_are_those_of_the_settings(configured, tmp_path):
    _, net, optimizer = monitored(configured(wg_distribution=True, xy_distribution=True, ops=["max", "norm"]))
    train(net, optimizer)
    (folder,) = (tmp_path / "out").iterdir()
    assert (folder / "grad_reduced_0-0.csv").read_text().splitlines()[0] == "vpp_stage,name,step,max,norm,shape,dtype"
    head = (folder / "actv_0-0.csv").read_text().splitlines()[0]
    assert head == "vpp_stage,name,step,micro_step,max,norm,shape,dtype"


def test_eps_is_the_threshold_of_zeros(configured, written):
    _, net, optimizer = monitored(configured(param_distribution=True, eps=0.25))
    weight = net[0].weight.detach().numpy().copy()
    train(net, optimizer)
    row = named(written()["param_origin"], "0.weight", 0)
    assert holds(row, weight, 0.25)
    assert 0 < float(row["zeros"]) < 1


def test_ndigits_is_the_number_of_decimals(configured, written):
    _, net, optimizer = monitored(configured(param_distribution=True, ndigits=2, ops=["norm"]))
    norm = float(net[1].weight.detach().norm())  # 2.449...
    train(net, optimizer)
    assert named(written()["param_origin"], "1.weight", 0)["norm"] == f"{norm:.2f}"


def test_statistics_may_be_changed_while_the_training_runs(configured, tmp_path, written):
    monitor, net, optimizer = monitored(configured(wg_distribution=True, ops=["norm"]))
    train(net, optimizer)
    monitor.ops = ["max", "min"]
    train(net, optimizer, start=1)
    rows = written()["grad_reduced"]
    assert "max" not in rows[0]
    assert set(rows[-1]) >= {"max", "min"}
    assert monitor.ops == ("max", "min")


def test_another_process_goes_on_in_the_same_folder(configured, tmp_path, written):
    monitor, net, optimizer = monitored(configured(wg_distribution=True, step_count_per_record=10))
    train(net, optimizer, 2)
    monitor.stop()
    (folder,) = (tmp_path / "out").iterdir()
    when = folder.name.partition("-rank")[0]
    _, net, optimizer = monitored(
        configured(wg_distribution=True, step_count_per_record=10, append_output=[when, when]), 2
    )
    train(net, optimizer, 2, start=2)
    assert [path.name for path in (tmp_path / "out").iterdir()] == [folder.name]
    assert steps(written()) == [0, 1, 2, 3]
    text = (folder / "grad_reduced_0-9.csv").read_text()
    assert text.count("vpp_stage") == 1


def test_the_structure_is_written_and_the_training_ends(configured, tmp_path):
    _, net, optimizer = monitored(configured(print_struct=True))
    with pytest.raises(RuntimeError, match="exit after first monitor step when print model struct"):
        train(net, optimizer, 3)
    found = json.loads((tmp_path / "out" / "module_struct" / "rank0" / "module_struct.json").read_text())
    assert list(found) == ["0:0", "0:1", "0:2", "0:3"]
    assert found["0:3"] == {
        "input": {"config": "tuple[1]", "0": "size=[5, 6], dtype=torch.float32"},
        "output": {"config": "tensor", "tensor": "size=[5, 3], dtype=torch.float32"},
        "input_grad": {"config": "tuple[1]", "0": "size=[5, 6], dtype=torch.float32"},
        "output_grad": {"config": "tuple[1]", "0": "size=[5, 3], dtype=torch.float32"},
    }


def test_the_stack_of_every_module_is_written_once(configured, written):
    _, net, optimizer = monitored(configured(xy_distribution=True, stack_info=True))
    train(net, optimizer, 2)
    rows = written()["stack_info"] if "stack_info" in written() else written()["stack"]
    assert [row["module_name"] for row in rows] == ["0:0", "0:1", "0:2", "0:3"]
    assert all("torch_training.py" in row["stack_info"] and "in train" in row["stack_info"] for row in rows)


def test_the_api_gives_what_would_be_written(configured, tmp_path):
    monitor, net, optimizer = monitored(
        configured(wg_distribution=True, xy_distribution=True, format="api", ops=["norm", "max"])
    )
    gradients = {}

    def keep(_):
        gradients.update({name: p.grad.clone() for name, p in net.named_parameters()})
        unreduced = monitor.generate_wgrad_metrics()[1]
        assert set(unreduced) == {f"0:{name}/rank0/grad_unreduced" for name in gradients}

    train(net, optimizer, after_backward=keep)
    reduced, unreduced = monitor.generate_wgrad_metrics()
    for name, gradient in gradients.items():
        found = reduced[f"0:{name}/rank0/grad_reduced"]
        assert found["norm"] == pytest.approx(float(gradient.norm()), rel=1e-5)
        assert found["max"] == pytest.approx(float(gradient.max()), rel=1e-6)
        assert unreduced[f"0:{name}/rank0/grad_unreduced"] == found
    forward, backward = monitor.generate_xy_metrics()
    assert forward["0:0.input:0/rank0/actv"]["max"] == pytest.approx(float(batch(0).max()), rel=1e-6)
    assert "0:3.output:0/rank0/actv_grad" in backward
    assert not (tmp_path / "out").exists()


def test_tensorboard_gets_every_statistic(configured, tmp_path):
    struct = pytest.importorskip("struct")
    event_pb2 = pytest.importorskip("tensorboardX.proto.event_pb2")
    _, net, optimizer = monitored(configured(wg_distribution=True, format="tensorboard", ops=["norm"]))
    norms = []
    train(net, optimizer, 2, after_backward=lambda _: norms.append(float(net[0].weight.grad.norm())))
    (file,) = (tmp_path / "out").rglob("events.out.tfevents.*")
    data, found = file.read_bytes(), {}
    while data:
        (size,) = struct.unpack("<Q", data[:8])
        event = event_pb2.Event.FromString(data[12 : 12 + size])
        found.update({(value.tag, event.step): value.simple_value for value in event.summary.value})
        data = data[16 + size :]
    for step, norm in enumerate(norms):
        assert found["0:0.weight/rank0/grad_reduced_norm", step] == pytest.approx(norm, rel=1e-5)
    assert not list((tmp_path / "out").rglob("*.csv"))


def test_the_switch_begins_with_the_next_step_and_turns_itself_off(configured, monkeypatch, written, logged):
    monkeypatch.setenv("DYNAMIC_MONITOR", "True")
    path = configured(wg_distribution=True, start_step=100, collect_times=2)
    _, net, optimizer = monitored(path)
    train(net, optimizer, 2)
    assert not written()
    path.write_text(json.dumps({"wg_distribution": True, "dynamic_on": True, "format": "nonsense"}))
    train(net, optimizer, 1, start=2)
    assert any("format" in line for line in logged())
    path.write_text(json.dumps({"wg_distribution": True, "dynamic_on": True, "start_step": 100, "collect_times": 2}))
    train(net, optimizer, 6, start=3)
    assert steps(written()) == [4, 5]
    assert json.loads(path.read_text())["dynamic_on"] is False
    assert not any(parameter._backward_hooks for parameter in net.parameters())


def test_an_alert_starts_a_dump_of_the_next_steps(configured, tmp_path):
    rules = {"rules": [{"rule_name": "AnomalyNan", "args": {"threshold": 1e3}}], "dump": True}
    on_alert = {"level": "mix", "task": "statistics", "steps": 2}
    monitor, net, optimizer = monitored(configured(wg_distribution=True, alert=rules, on_alert=on_alert))
    for step in range(6):
        (net(batch(step)).square().mean() * (1e6 if step == 2 else 1)).backward()
        optimizer.step()
        optimizer.zero_grad()
    monitor.stop()
    dumps = sorted(path.parent.parent.name for path in (tmp_path / "out").rglob("dump.json"))
    assert dumps == ["step3", "step4"]
    found = json.loads((tmp_path / "out" / "anomaly_detected" / "rank0" / "anomaly.json").read_text())
    assert {entry["step"] for entry in found.values()} == {2}


def test_wrong_starts_are_refused(configured):
    with pytest.raises(UsageError, match="start_iteration"):
        monitored(configured(wg_distribution=True), -1)


def test_nothing_turned_on_is_said(configured, logged):
    monitored(configured())
    assert any("does not enable any measurement" in line for line in logged())


def test_a_folder_that_cannot_be_written_stops_nothing(configured, tmp_path, logged):
    (tmp_path / "out").write_text("a file is in the way")
    _, net, optimizer = monitored(configured(wg_distribution=True))
    plain = network()
    expected = train(plain, torch.optim.AdamW(plain.parameters(), 1e-2), 3)
    assert train(net, optimizer, 3) == expected
    assert sum("could not be measured" in line for line in logged()) == 1


KILLED = """
import os, sys, torch
sys.path.append(sys.argv[1])
from torch_training import network, train
from msprobe.pytorch import TrainerMon
net = network()
optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
TrainerMon(sys.argv[2]).set_monitor(net, optimizer)
for step in range(10**6):
    train(net, optimizer, start=step)
    os.write(1, b"%d\\n" % step)
"""


@pytest.mark.sample(2)
@pytest.mark.parametrize("lines", [3, 50, *range(100, 118)])
def test_no_finished_step_is_lost_in_a_kill(lines, configured, tmp_path, written):
    path = configured(wg_distribution=True, param_distribution=True, step_count_per_record=64)
    here = str(Path(__file__).parent)
    child = subprocess.Popen([python("torch", "torch._dynamo"), "-c", KILLED, here, path], stdout=subprocess.PIPE)
    seen = [int(child.stdout.readline()) for _ in range(lines)]
    child.kill()
    seen += [int(line) for line in child.stdout.read().splitlines()]
    child.stdout.close()
    child.wait()
    rows = written()
    for kind in ("grad_unreduced", "grad_reduced", "param_origin", "param_updated"):
        assert steps(rows, kind)[: len(seen)] == seen
        for step in (seen[0], seen[-1]):
            assert sum(int(row["step"]) == step for row in rows[kind]) == 6


@pytest.mark.parametrize(
    ("squashes", "names"),
    [
        (True, {"layers.0.weight", "layers.0.bias", "head.weight", "head.bias"}),
        (False, {"body.layers.0.weight", "body.layers.0.bias", "head.weight", "head.bias"}),
    ],
)
def test_names_are_short_unless_that_is_turned_off(squashes, names, configured, written):
    net = torch.nn.ModuleDict(
        {
            "body": torch.nn.ModuleDict({"layers": torch.nn.ModuleList([torch.nn.Linear(4, 4)])}),
            "head": torch.nn.Linear(4, 1),
        }
    )
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    TrainerMon(configured(wg_distribution=True, squash_name=squashes)).set_monitor(net, optimizer)
    net["head"](net["body"]["layers"][0](batch(0))).sum().backward()
    optimizer.step()
    assert {row["name"] for row in written()["grad_reduced"]} == names
