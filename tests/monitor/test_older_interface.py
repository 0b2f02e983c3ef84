"""The monitor's interface of msprobe 1.1 to 1.3, on today's engine, in both frameworks."""

import subprocess
import sys

import numpy as np
import pytest

from msprobe.base.errors import SettingsError, UsageError
from msprobe.monitor.trainer import TrainerMon

pytestmark = [pytest.mark.mindspore, pytest.mark.torch]


def torch_training():
    torch = pytest.importorskip("torch", reason="trains with PyTorch")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)

    def step():
        optimizer.zero_grad()
        net(torch.ones(2, 4)).sum().backward()
        optimizer.step()

    return net, optimizer, step


def mindspore_training():
    ms = pytest.importorskip("mindspore", reason="trains with MindSpore")
    ms.set_seed(0)
    net = ms.nn.SequentialCell(ms.nn.Dense(4, 3), ms.nn.Dense(3, 2))
    net.set_train()
    optimizer = ms.nn.SGD(net.trainable_params(), 0.1)
    gradient = ms.value_and_grad(lambda x: net(x).sum(), None, optimizer.parameters)
    x = ms.Tensor(np.ones((2, 4), np.float32))
    return net, optimizer, lambda: optimizer(gradient(x)[1])


TRAININGS = pytest.mark.parametrize("training", [torch_training, mindspore_training])


@pytest.fixture(autouse=True)
def _forget_the_optimizer():
    yield
    TrainerMon._wrapped_optimizer = None


def values(rows):
    return [{key: value for key, value in row.items() if key != "step"} for row in rows]


@TRAININGS
@pytest.mark.parametrize("way", ["by name", "1.1", "wrapped", "wrapped by the class"])
def test_monitor_gnorm_with_ad_writes_what_set_monitor_writes(training, way, configured, written, logged, tmp_path):
    def run(install):
        net, optimizer, step = training()
        monitor = TrainerMon(configured(wg_distribution=True), opt_ty="Megatron_Float16OptimizerWithFloat16Params")
        install(monitor, net, optimizer)
        for _ in range(2):
            step()
        monitor.stop()
        rows = written()["grad_reduced"]
        for folder in (tmp_path / "out").iterdir():
            for file in folder.iterdir():
                file.unlink()
        return rows

    def older(monitor, net, optimizer):
        if way == "by name":
            monitor.monitor_gnorm_with_ad(net, optimizer=optimizer, grad_acc_steps=1)
        elif way == "1.1":
            monitor.monitor_gnorm_with_ad(net, 1, optimizer)
        else:
            (TrainerMon if "class" in way else monitor).set_wrapped_optimizer(optimizer)
            monitor.monitor_gnorm_with_ad(net)

    rows = run(older)
    assert len(rows) == 2 * 4
    notes = [line for line in logged() if "deprecated" in line]
    assert len(notes) == (3 if "wrapped" in way else 2), "each name once"
    assert all("set_monitor(model, optimizer)" in line or "opt_ty" in line for line in notes)
    assert rows == run(lambda monitor, net, optimizer: monitor.set_monitor(net, optimizer))


def test_without_any_optimizer_it_says_what_to_call(configured):
    net, _, _ = torch_training()
    with pytest.raises(UsageError, match=r"use set_monitor\(model, optimizer\)"):
        TrainerMon(configured(wg_distribution=True)).monitor_gnorm_with_ad(net)


@TRAININGS
def test_reload_xy_turns_activations_on_and_off(training, configured, written):
    net, optimizer, step = training()
    monitor = TrainerMon(configured(wg_distribution=True, xy_distribution=False, all_xy=True))
    monitor.set_monitor(net, optimizer)
    step()
    monitor.reload_xy(True)
    step()
    monitor.reload_xy()
    step()
    monitor.stop()
    rows = written()
    assert {row["step"] for row in rows["actv"]} == {"1"}
    assert {row["step"] for row in rows["grad_reduced"]} == {"0", "1", "2"}
    with pytest.raises(SettingsError, match="not a boolean"):
        monitor.reload_xy("yes")


def test_anomaly_analyse_is_todays_anomaly_processor(tmp_path):
    folder = tmp_path / "anomaly_detected" / "rank0"
    folder.mkdir(parents=True)
    (folder / "anomaly.json").write_text("{}")

    def run(name):
        command = [sys.executable, "-m", name, "-d", str(folder.parent), "-o", str(tmp_path / name)]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    old, new = run("msprobe.pytorch.monitor.anomaly_analyse"), run("msprobe.core.monitor.anomaly_processor")
    for done in (old, new):
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("0 of 0 anomalies; ")
    (note,) = (line for line in old.stderr.splitlines() if "deprecated" in line)
    assert "use python -m msprobe.core.monitor.anomaly_processor" in note
