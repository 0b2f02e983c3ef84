"""`grad_unreduced` and `grad_norm` hold what goes into the reduction: the gradients of all micro steps of an update."""

import math

import numpy as np
import pytest
import torch
from by_numpy import holds, named
from kept_training import Net, Training, batch
from torch import nn

from msprobe.base.errors import UsageError
from msprobe.monitor.backend import Backend
from msprobe.pytorch import TrainerMon

pytestmark = pytest.mark.torch

MICRO, STEPS = 3, 3


def sgd(parameters):
    return torch.optim.SGD(parameters, 0.05)


def sums(net, numbers):
    """What the gradients of batches add up to, in float64, on a copy of the network that no monitor sees."""
    plain = Net().double()
    plain.load_state_dict(net.state_dict())
    parameters = dict(plain.named_parameters())
    loss = sum(plain(batch(number).double()).square().mean() for number in numbers)
    return {n: g.numpy() for n, g in zip(parameters, torch.autograd.grad(loss, parameters.values()), strict=True)}


def norm(arrays):
    return math.sqrt(sum(float((a**2).sum()) for a in arrays.values()))


def checked(rows, expected, count=STEPS):
    """Every row of `grad_unreduced` and every norm of `local` is that of the sums."""
    unreduced, local = rows["grad_unreduced"], [row for row in rows["local"] if row["name"] == "grad_norm"]
    assert (len(unreduced), len(local)) == (count * len(expected[0]), count)
    for step, arrays in enumerate(expected):
        assert all(holds(named(unreduced, name, step), array) for name, array in arrays.items())
        assert float(named(local, "grad_norm", step)["value"]) == pytest.approx(norm(arrays), rel=1e-5)


class Kept:
    """Gradients stay in `.grad`; `clears` says how they are cleared after an update."""

    def __init__(self, training, *, clears=None):
        self.training, self.clears = training, clears

    def after_backward(self):
        pass

    def before_update(self):
        pass

    def after_update(self):
        for parameter in self.training.net.parameters():
            if self.clears == "zeros":
                parameter.grad.zero_()
            else:
                parameter.grad = None


class Zeroed(Kept):
    def __init__(self, training):
        super().__init__(training, clears="zeros")


class MainGrad(Kept):
    """As Megatron does it: a hook of the node that accumulates adds `.grad` to `main_grad`, and drops it."""

    def __init__(self, training):
        super().__init__(training)
        self.nodes = []
        for parameter in training.net.parameters():
            parameter.main_grad = torch.zeros_like(parameter, dtype=torch.float32)
            node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
            node.register_hook(self.taking(parameter))
            self.nodes.append(node)

    @staticmethod
    def taking(parameter):
        def take(*_):
            parameter.main_grad.add_(parameter.grad)
            parameter.grad = None

        return take

    def before_update(self):
        for parameter in self.training.net.parameters():
            parameter.grad = parameter.main_grad.clone()

    def after_update(self):
        super().after_update()
        for parameter in self.training.net.parameters():
            parameter.main_grad.zero_()


class MainGradByEarlierHook(MainGrad):
    """The buffer is filled before the monitor looks."""

    def __init__(self, training):
        Kept.__init__(self, training)
        for parameter in training.net.parameters():
            parameter.main_grad = torch.zeros_like(parameter)
            parameter.register_post_accumulate_grad_hook(self.taking(parameter))


class MainGradByLoop(MainGrad):
    """The buffer is filled after each backward; `.grad` is cleared in place."""

    def __init__(self, training):
        Kept.__init__(self, training)
        for parameter in training.net.parameters():
            parameter.main_grad = torch.zeros_like(parameter)

    def after_backward(self):
        for parameter in self.training.net.parameters():
            parameter.main_grad.add_(parameter.grad)
            parameter.grad.zero_()


class Buffers(Kept):
    """Buffers of the training's own, which no other code can know."""

    def __init__(self, training):
        super().__init__(training)
        self.held = {}

    def after_backward(self):
        for parameter in self.training.net.parameters():
            self.held[parameter] = self.held.get(parameter, 0) + parameter.grad
            parameter.grad = None

    def before_update(self):
        for parameter, gradient in self.held.items():
            parameter.grad = gradient
        self.held = {}


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("way", [Kept, Zeroed, MainGrad, MainGradByEarlierHook, MainGradByLoop, Buffers])
def test_the_gradients_of_all_micro_steps_are_added_up(way, each, configured, written):
    training = Training(sgd)
    accumulates = way(training)
    monitor = TrainerMon(configured(wg_distribution=True, monitor_mbs_grad=each))
    monitor.set_monitor(training.net, training.optimizer, grad_acc_steps=MICRO if way is Buffers else None)
    expected, own = [], []
    for step in range(STEPS):
        numbers = [10 * step + micro for micro in range(MICRO)]
        expected.append(sums(training.net, numbers))
        own.append([sums(training.net, [number]) for number in numbers])
        for number in numbers:
            training.backward(number)
            accumulates.after_backward()
        accumulates.before_update()
        reduced = training.gradients()
        assert all(np.allclose(reduced[name], array, atol=1e-5) for name, array in expected[-1].items())
        training.optimizer.step()
        accumulates.after_update()
    monitor.stop()
    rows = written()
    if not each:
        return checked(rows, expected)
    local = [float(row["value"]) for row in rows["local"] if row["name"] == "grad_norm"]
    assert local == pytest.approx([norm(arrays) for arrays in expected], rel=1e-5)
    for step, of_step in enumerate(own):
        for micro, arrays in enumerate(of_step):
            assert all(holds(named(rows["grad_unreduced"], n, step, micro), a) for n, a in arrays.items())
    return None


def test_gradients_that_are_not_cleared_go_into_the_next_update(configured, written):
    """A forgotten `zero_grad` shows in the unreduced gradients: the reduction receives it."""
    training = Training(sgd)
    TrainerMon(configured(wg_distribution=True)).set_monitor(training.net, training.optimizer)
    expected, before = [], None
    for number in range(3):
        added = sums(training.net, [number])
        before = added if before is None else {name: before[name] + array for name, array in added.items()}
        expected.append(before)
        training.backward(number)
        training.optimizer.step()
    checked(written(), expected)


@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("given", [None, MICRO])
def test_micro_steps_of_a_skipped_update_are_not_in_the_next_one(given, set_to_none, configured, written):
    training = Training(sgd)
    monitor = TrainerMon(configured(wg_distribution=True))
    monitor.set_monitor(training.net, training.optimizer, grad_acc_steps=given)
    expected = []
    for step in range(4):
        numbers = [10 * step + micro for micro in range(MICRO)]
        if step != 1:
            expected.append(sums(training.net, numbers))
        for number in numbers:
            training.backward(number)
        if step != 1:
            training.optimizer.step()
        training.optimizer.zero_grad(set_to_none)
    checked(written(), expected)


def test_gradients_by_autograd_grad_are_added_up(configured, written):
    """The parameters' `.grad` has those of the update before, which are not part of the sum."""
    training = Training(sgd)
    TrainerMon(configured(wg_distribution=True)).set_monitor(training.net, training.optimizer)
    parameters, expected = list(training.net.parameters()), []
    for step in range(STEPS):
        numbers = [10 * step + micro for micro in range(MICRO)]
        expected.append(sums(training.net, numbers))
        found = [torch.autograd.grad(training.loss(training.net(batch(number))), parameters) for number in numbers]
        for parameter, gradients in zip(parameters, zip(*found, strict=True), strict=True):
            parameter.grad = sum(gradients)
        training.optimizer.step()
    checked(written(), expected)


def test_a_parameter_that_some_micro_steps_leave_out_has_the_sum_of_the_others(configured, written):
    """As an expert that gets no token."""

    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.experts = nn.ModuleList(nn.Linear(4, 4, bias=False) for _ in range(2))

        def forward(self, x, which):
            return self.experts[which](x)

    net = Experts()
    optimizer = sgd(net.parameters())
    TrainerMon(configured(wg_distribution=True)).set_monitor(net, optimizer, grad_acc_steps=3)
    for which, number in ((0, 0), (1, 1), (1, 2)):
        net(batch(number), which).sum().backward()
    optimizer.step()
    for which, numbers in enumerate(((0,), (1, 2))):
        expected = np.stack([sum(batch(number).sum(0).numpy() for number in numbers)] * 4)
        assert holds(named(written()["grad_unreduced"], f"experts.{which}.weight", 0), expected)


def test_low_precision_is_added_up_as_the_training_does_it(configured, written):
    training = Training(sgd, net=Net().bfloat16(), loss=lambda y: y.float().square().mean())
    TrainerMon(configured(wg_distribution=True)).set_monitor(training.net, training.optimizer)
    for number in range(2):
        training.loss(training.net(batch(number).bfloat16())).backward()
    kept = training.gradients()
    training.optimizer.step()
    rows = written()["grad_unreduced"]
    assert all(holds(named(rows, name, 0), array) for name, array in kept.items())
    assert {row["dtype"] for row in rows} == {"torch.bfloat16"}


@pytest.mark.parametrize("wrong", [0, -1, 2.5, True, "3"])
def test_a_wrong_number_of_micro_steps_is_refused(wrong, configured):
    training = Training(sgd)
    with pytest.raises(UsageError, match="grad_acc_steps"):
        TrainerMon(configured(wg_distribution=True)).set_monitor(training.net, training.optimizer, grad_acc_steps=wrong)


def test_cleared_gradients_without_a_number_of_micro_steps_are_logged(configured, logged):
    training = Training(sgd)
    TrainerMon(configured(wg_distribution=True)).set_monitor(training.net, training.optimizer)
    accumulates = Buffers(training)
    for number in range(2):
        training.backward(number)
        accumulates.after_backward()
    accumulates.before_update()
    training.optimizer.step()
    assert sum("pass grad_acc_steps" in line for line in logged()) == 1


@pytest.mark.parametrize("way", [Kept, MainGrad, Buffers])
def test_on_a_device_the_sums_are_computed_there(way, configured, written, monkeypatch):
    """The device is the processor here: what is measured by the framework has the same numbers."""
    monkeypatch.setattr(Backend, "check", lambda self, *_: setattr(self, "on_device", True))
    training = Training(sgd)
    accumulates = way(training)
    TrainerMon(configured(wg_distribution=True)).set_monitor(training.net, training.optimizer, grad_acc_steps=2)
    expected = sums(training.net, range(2))
    for number in range(2):
        training.backward(number)
        accumulates.after_backward()
    accumulates.before_update()
    training.optimizer.step()
    checked(written(), [expected], 1)
