"""Steps that do not go as usual: updates that are skipped, settings that change, monitors that cannot begin."""

import json

import numpy as np
import pytest
import torch
from by_numpy import holds, named
from kept_training import Net, Training, batch

from msprobe.base.errors import UsageError
from msprobe.core.monitor_v2.trainer import TrainerMonitorV2
from msprobe.pytorch import TrainerMon

pytestmark = pytest.mark.torch

KINDS = {"wg_distribution": True, "param_distribution": True, "xy_distribution": True}


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1)


def monitored(path, **options):
    training = Training(sgd)
    monitor = TrainerMon(path)
    monitor.set_monitor(training.net, training.optimizer, **options)
    return monitor, training


def steps(rows, kind="grad_reduced"):
    return [int(row["step"]) for row in rows.get(kind, ()) if row["name"] in ("fc1.weight", "fc1.output")]


# ---- updates ---------------------------------------------------------------------------------------------------------


def test_a_skipped_update_is_no_step_and_the_next_has_its_own_numbers(configured, written):
    """A loss scaler leaves out the update where a gradient is not finite."""
    _, training = monitored(configured(**KINDS))
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    kept = []
    for number in range(3):
        loss = training.net(batch(number)).square().mean() * (float("inf") if number == 1 else 1.0)
        scaler.scale(loss).backward()
        unscaled = training.gradients()
        scaler.unscale_(training.optimizer)
        if number != 1:
            kept.append((unscaled, training.gradients()))
        scaler.step(training.optimizer)
        scaler.update()
        training.optimizer.zero_grad()
    rows = written()
    assert steps(rows) == [0, 1]
    for step, (unscaled, gradients) in enumerate(kept):
        assert all(holds(named(rows["grad_unreduced"], name, step), array) for name, array in unscaled.items())
        assert all(holds(named(rows["grad_reduced"], name, step), array) for name, array in gradients.items())
    assert steps(rows, "actv") == [0, 1, 1], "the forward of the skipped update is a micro step of the next one"


def test_what_was_not_refreshed_is_not_written_again(configured, written):
    _, training = monitored(configured(**KINDS, mv_distribution=True))
    training.step(0)
    training.optimizer.step()  # without gradients
    training.step(1)
    rows = written()
    for kind in ("actv", "actv_grad", "grad_unreduced", "grad_reduced"):
        assert sorted(set(steps(rows, kind))) == [0, 2], kind
    assert steps(rows, "param_origin") == steps(rows, "param_updated") == [0, 1, 2]


def test_an_update_that_fails_is_no_step(configured, written):
    class Fails(torch.optim.SGD):
        fails = True

        def step(self, closure=None):
            if self.fails:
                raise ArithmeticError("the training's own")
            return super().step(closure)

    training = Training(lambda parameters: Fails(parameters, lr=0.1))
    TrainerMon(configured(**KINDS)).set_monitor(training.net, training.optimizer)
    training.backward(0)
    with pytest.raises(ArithmeticError, match="the training's own"):
        training.optimizer.step()
    training.optimizer.fails = False
    training.optimizer.zero_grad()
    training.step(1)
    rows = written()
    assert steps(rows) == [0]
    assert holds(named(rows["grad_reduced"], "fc1.weight", 0), training.kept[0]["grad_reduced"]["fc1.weight"])


# ---- statistics that change ------------------------------------------------------------------------------------------


def test_other_statistics_count_from_the_step_that_is_under_way_in_the_same_folder(configured, written, tmp_path):
    monitor, training = monitored(configured(**KINDS, ops=["norm"], step_count_per_record=10, stack_info=True))
    monitor.ops = ["norm", "mean"]
    monitor.ops = ["norm"]
    training.step(0)
    training.backward(1)
    monitor.ops = ["max", "min"]
    training.update()
    (folder,) = (tmp_path / "out").iterdir()
    names = sorted(path.name for path in folder.glob("grad_unreduced*"))
    assert names == ["grad_unreduced_0-9.1.csv", "grad_unreduced_0-9.csv"]
    heads = [(folder / name).read_text().splitlines()[0] for name in names]
    assert heads == [f"vpp_stage,name,step,{ops},shape,dtype" for ops in ("max,min", "norm")]
    last = [row for row in written()["grad_unreduced"] if row["step"] == "1"]
    assert {row["name"]: pytest.approx(float(row["max"]), rel=1e-5) for row in last} == {
        name: float(array.max()) for name, array in training.kept[1]["grad_unreduced"].items()
    }
    assert (folder / "stack_info.csv").exists()


def test_the_api_gives_nothing_of_a_step_that_was_not_measured(configured, tmp_path):
    monitor, training = monitored(configured(**KINDS, format="api", step_interval=2, local=True))
    for step in range(4):
        training.step(step)
        found = (*monitor.generate_wgrad_metrics(), *monitor.generate_xy_metrics())
        assert [bool(each) for each in found] == [step % 2 == 0] * 4
    training.backward(4)
    reduced, unreduced = monitor.generate_wgrad_metrics()
    assert reduced == {}, "the update has not begun"
    expected = float(np.linalg.norm(training.gradients()["fc2.weight"]))
    assert unreduced["0:fc2.weight/rank0/grad_unreduced"]["norm"] == pytest.approx(expected, rel=1e-5)
    assert not (tmp_path / "out").exists()


def test_asking_in_a_step_takes_nothing_from_it(configured):
    monitor, training = monitored(configured(local=True, format="api"))
    training.backward(0)
    assert monitor.generate_wgrad_metrics() == ({}, {})
    training.update()
    norms = [row.values for row in monitor._latest["local"] if row.name == "grad_norm"]
    assert len(norms) == 1


# ---- monitors that cannot begin --------------------------------------------------------------------------------------


def test_a_monitor_that_could_not_begin_leaves_no_hook_and_can_begin_anew(configured, written):
    path = configured(**KINDS, targets={"none of them": {}})
    training, monitor = Training(sgd), TrainerMon(path)
    with pytest.raises(UsageError, match="no name in targets"):
        monitor.set_monitor(training.net, training.optimizer)
    assert not training.optimizer._optimizer_step_pre_hooks
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in training.net.modules())
    other = Training(sgd)
    torch.nn.Module.add_module(other.net, "none of them", torch.nn.Identity())
    monitor.set_monitor(other.net, other.optimizer)
    with pytest.raises(UsageError, match="already has a model"):
        monitor.set_monitor(other.net, other.optimizer)


def test_a_second_monitor_that_could_not_begin_can_begin_anew(tmp_path):
    path = tmp_path / "v2.json"
    path.write_text(json.dumps({"output_dir": str(tmp_path / "out"), "monitors": {"module": {"enabled": False}}}))
    net, monitor = torch.nn.Module(), TrainerMonitorV2(path)
    for _ in range(2):
        with pytest.raises(UsageError, match="no name"):
            monitor.start(net)
    monitor.start(Net())


def test_sections_have_each_their_own_threshold(tmp_path):
    path = tmp_path / "v2.json"
    eps = {"weight_grad": 0.05, "param": 0.5, "module": 1.0}
    section = {name: {"enabled": True, "ops": ["zeros"], "eps": value} for name, value in eps.items()}
    path.write_text(json.dumps({"output_dir": str(tmp_path / "out"), "monitors": section}))
    training, monitor = Training(sgd), TrainerMonitorV2(path)
    monitor.start(training.net, training.optimizer)
    training.step(0)
    monitor.stop()
    kept = training.kept[0]
    of = {
        "weight_grad": ("fc1.weight,reduced", kept["grad_reduced"]["fc1.weight"]),
        "param": ("fc1.weight,param_origin", kept["param_origin"]["fc1.weight"]),
        "module": ("fc1.input.0,forward,0", batch(0).numpy()),
    }
    for name, (row, array) in of.items():
        text = (tmp_path / "out" / "rank_0" / f"{name}_step0-0.csv").read_text()
        (line,) = [line for line in text.splitlines() if f",{row}," in line]
        expected = (np.abs(array) < eps[name]).mean()
        assert 0 < expected < 1
        assert float(line.rpartition(",")[2]) == pytest.approx(expected, abs=1e-6)


# ---- the dynamic switch ----------------------------------------------------------------------------------------------


@pytest.fixture
def switched(configured, monkeypatch):
    """A training whose monitor waits for its file; `(path, training, write)`."""
    monkeypatch.setenv("DYNAMIC_MONITOR", "True")
    path = configured(**KINDS)
    monitor, training = monitored(path)
    numbers = iter(range(100))

    def write(**settings):
        path.write_text(json.dumps({**KINDS, "dynamic_on": True, "ops": ["norm"], "#": next(numbers)} | settings))

    def plain(**settings):
        write(**settings)
        contents = json.loads(path.read_text())
        del contents["#"]
        path.write_text(json.dumps(contents) + " " * next(numbers))  # another size at each time

    return monitor, training, plain


def hooks(training):
    return sum(len(module._forward_hooks) for module in training.net.modules())


def test_nothing_is_hooked_before_the_switch_is_turned_on(switched, written):
    _, training, write = switched
    assert hooks(training) == 0
    write(dynamic_on=False)
    training.step(0)
    assert hooks(training) == 0
    write()
    training.step(1)
    assert hooks(training) > 0
    training.step(2)
    assert steps(written()) == [2]


@pytest.mark.parametrize(
    "wrong",
    [{"format": "xml"}, {"targets": {"none of them": {}}}, {"unknown": 1}, {"alert": {"rules": [{"rule_name": "?"}]}}],
)
def test_a_file_that_cannot_be_meant_keeps_what_was(wrong, switched, written, logged):
    _, training, write = switched
    write(step_interval=2)
    training.step(0)
    training.step(1)
    write(**wrong)
    for number in range(2, 6):
        training.step(number)
    assert steps(written()) == [1, 3, 5]
    assert sum("the settings remain unchanged" in line for line in logged()) == 1


def test_a_file_that_cannot_be_meant_is_not_turned_on(switched, written, logged):
    _, training, write = switched
    write(targets={"none of them": {}})
    training.step(0)
    training.step(1)
    assert hooks(training) == 0
    write()
    training.step(2)
    training.step(3)
    assert steps(written()) == [3]


def test_what_is_written_into_the_file_counts_from_the_next_step(switched, written, tmp_path):
    _, training, write = switched
    write(xy_distribution=False)
    training.step(0)
    training.step(1)
    write(wg_distribution=False)
    training.step(2)
    training.step(3)
    rows = written()
    assert steps(rows) == [1, 2]
    assert sorted(set(steps(rows, "actv"))) == [3]
    assert steps(rows, "param_origin") == [1, 2, 3]


def test_the_file_says_false_when_all_steps_are_collected_and_may_say_true_again(switched, written, tmp_path):
    _, training, write = switched
    for number in range(0, 6, 3):
        write(collect_times=1)
        training.step(number)
        assert hooks(training) > 0
        training.step(number + 1)
        assert hooks(training) == 0
        text = (tmp_path / "monitor.json").read_text()
        assert json.loads(text) == {**KINDS, "dynamic_on": False, "ops": ["norm"], "collect_times": 1}
        assert '\n  "dynamic_on": false' in text
        training.step(number + 2)
    assert steps(written()) == [1, 4]


def test_a_file_that_is_gone_keeps_what_was(switched, written, tmp_path):
    _, training, write = switched
    write()
    training.step(0)
    (tmp_path / "monitor.json").unlink()
    training.step(1)
    training.step(2)
    assert steps(written()) == [1, 2]
