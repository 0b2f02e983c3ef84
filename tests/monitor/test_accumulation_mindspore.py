"""MindSpore: `grad_unreduced` and `grad_norm` hold the gradients of all micro steps that the training adds up."""

import csv

import mindspore as ms
import numpy as np
import pytest
from by_numpy import holds, named
from mindspore import Tensor, nn, ops
from test_mindspore import OPTIMIZERS, Net, Training, batch

from msprobe.mindspore import TrainerMon

pytestmark = pytest.mark.mindspore

MICRO = 3


@pytest.fixture(autouse=True)
def _pynative():
    ms.set_context(mode=ms.PYNATIVE_MODE)


class Accumulating(Training):
    """`held` is what the training itself adds up, and what its optimizer receives."""

    def __init__(self, way="list", net=None):
        super().__init__(OPTIMIZERS["nn.SGD"], net=net)
        self.way, self.expected = way, []

    def micro_steps(self, numbers):
        held = None
        for number in numbers:
            gradients = self.gradient(batch(number))[1]
            if held is None:
                held = [ms.Parameter(g) for g in gradients] if self.way == "assign_add" else list(gradients)
            elif self.way == "assign_add":
                for total, gradient in zip(held, gradients, strict=True):
                    ops.assign_add(total, gradient)
            elif self.way == "in place":
                for total, gradient in zip(held, gradients, strict=True):
                    total.assign_value(total + gradient)
            else:
                held = [a + b for a, b in zip(held, gradients, strict=True)]
        return tuple(Tensor(each) for each in held)

    def update(self, numbers):
        held = self.micro_steps(numbers)
        self.expected.append({p.name: g.asnumpy().copy() for p, g in zip(self.optimizer.parameters, held, strict=True)})
        self.optimizer(held)


def checked(rows, expected):
    assert len(rows["grad_unreduced"]) == sum(map(len, expected))
    for step, arrays in enumerate(expected):
        assert all(holds(named(rows["grad_unreduced"], name, step), array) for name, array in arrays.items())
        total = np.sqrt(sum((a.astype(np.float64) ** 2).sum() for a in arrays.values()))
        assert float(named(rows["local"], "grad_norm", step)["value"]) == pytest.approx(total, rel=1e-5)


def lost(folder):
    return [row for path in folder.rglob("lost.csv") for row in csv.DictReader(path.read_text().splitlines())]


@pytest.mark.parametrize("given", [None, MICRO])
@pytest.mark.parametrize("way", ["list", "assign_add", "in place"])
def test_the_gradients_of_all_micro_steps_are_added_up(way, given, configured, written, tmp_path):
    training = Accumulating(way)
    monitor = TrainerMon(configured(wg_distribution=True))
    monitor.set_monitor(training.net, training.optimizer, grad_acc_steps=given)
    for step in range(3):
        training.update([10 * step + micro for micro in range(MICRO)])
    monitor.stop()
    checked(written(), training.expected)
    assert not lost(tmp_path / "out")


def test_of_one_micro_step_the_gradient_is_whole_whatever_came_before(configured, written, tmp_path):
    """As after a batch that an exception ended between its backward and its update."""
    training = Accumulating()
    monitor = TrainerMon(configured(wg_distribution=True))
    monitor.set_monitor(training.net, training.optimizer)
    for numbers in ([0, 1], [10], [20]):
        training.update(numbers)
    monitor.stop()
    checked(written(), training.expected)
    assert not lost(tmp_path / "out")


def test_each_micro_step_has_its_own_and_the_norm_is_that_of_the_sum(configured, written):
    training = Accumulating()
    TrainerMon(configured(wg_distribution=True, monitor_mbs_grad=True)).set_monitor(training.net, training.optimizer)
    training.update(range(MICRO))
    rows = written()
    assert {row["micro_step"] for row in rows["grad_unreduced"]} == {"0", "1", "2"}
    for name, array in training.expected[0].items():
        added = sum(float(named(rows["grad_unreduced"], name, 0, micro)["mean"]) for micro in range(MICRO))
        assert added == pytest.approx(float(array.mean()), abs=2e-6)
    total = np.sqrt(sum((a.astype(np.float64) ** 2).sum() for a in training.expected[0].values()))
    assert float(named(rows["local"], "grad_norm", 0)["value"]) == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize("given", [1, MICRO])
def test_with_a_number_of_micro_steps_those_of_skipped_updates_are_left_out(given, configured, written, tmp_path):
    training = Accumulating()
    TrainerMon(configured(wg_distribution=True)).set_monitor(training.net, training.optimizer, grad_acc_steps=given)
    training.micro_steps(range(50, 50 + given))
    training.micro_steps(range(60, 60 + given))
    training.update(range(given))
    training.update(range(10, 10 + given))
    training.micro_steps(range(70, 70 + given))
    training.update(range(20, 20 + given))
    checked(written(), training.expected)
    assert not lost(tmp_path / "out")


def test_an_update_that_was_skipped_without_a_number_of_micro_steps_is_noted_and_not_guessed(
    configured, written, tmp_path
):
    training = Accumulating()
    TrainerMon(configured(wg_distribution=True)).set_monitor(training.net, training.optimizer)
    training.update([0])
    training.micro_steps([50])
    training.update([1])
    training.update([2])
    training.update([3])
    rows = written()
    assert {row["step"] for row in rows["grad_unreduced"]} == {"0", "2", "3"}
    assert {row["step"] for row in rows["local"]} == {"0", "2", "3"}
    assert {row["step"] for row in rows["grad_reduced"]} == {"0", "1", "2", "3"}
    for step in (0, 2, 3):
        for name, array in training.expected[step].items():
            assert holds(named(rows["grad_unreduced"], name, step), array)
    noted = lost(tmp_path / "out")
    assert [row["step"] for row in noted] == ["1"]
    assert all("grad_acc_steps" in row["reason"] for row in noted)


def test_a_first_update_that_was_skipped_for_overflow_is_noted(configured, written, tmp_path):
    """A loss scaler begins with a scale that is too great: the first gradients are not finite."""
    training = Accumulating()
    TrainerMon(configured(wg_distribution=True)).set_monitor(training.net, training.optimizer)
    scaled = ms.value_and_grad(
        lambda x: training.net(x).square().mean() * float("inf"), None, training.optimizer.parameters
    )
    scaled(batch(0))
    training.update([1])
    rows = written()
    assert "grad_unreduced" not in rows
    assert len(rows["grad_reduced"]) == 6
    assert [row["step"] for row in lost(tmp_path / "out")] == ["0"]


def test_a_gradient_that_is_not_finite_and_reaches_the_optimizer_is_written(configured, written, tmp_path):
    training = Accumulating()
    TrainerMon(configured(wg_distribution=True)).set_monitor(training.net, training.optimizer)
    training.net.fc2.bias.set_data(Tensor([np.nan, 0.0, 0.0], ms.float32))
    training.update(range(MICRO))
    rows = written()
    for kind in ("grad_unreduced", "grad_reduced"):
        assert named(rows[kind], "fc1.weight", 0)["nans"] == "24.0"
    assert np.isnan(float(named(rows["local"], "grad_norm", 0)["value"]))
    assert not lost(tmp_path / "out")


def test_a_tied_parameter_has_the_sum_of_its_uses_and_of_the_micro_steps(configured, written):
    class Tied(nn.Cell):
        def __init__(self):
            super().__init__()
            self.fc = nn.Dense(4, 4, has_bias=False)
            self.set_train()

        def construct(self, x):
            return self.fc(ops.relu(self.fc(x)))

    training = Accumulating(net=Tied())
    TrainerMon(configured(wg_distribution=True)).set_monitor(training.net, training.optimizer)
    for step in range(2):
        training.update([10 * step + micro for micro in range(MICRO)])
    checked(written(), training.expected)


def test_the_same_training_has_the_same_bits_with_and_without(configured):
    def run(monitored):
        training = Accumulating("in place", net=Net())
        if monitored:
            TrainerMon(configured(wg_distribution=True)).set_monitor(training.net, training.optimizer)
        for step in range(3):
            training.update([10 * step + micro for micro in range(MICRO)])
        return [parameter.asnumpy().tobytes() for parameter in training.net.get_parameters()]

    assert run(True) == run(False)
