"""Estimates from dumps of small trainings with MindSpore, whose losses and gradients are known from the trainings."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

from msprobe.frameworks.mindspore.debugger import PrecisionDebugger
from msprobe.graft.offline import estimated
from msprobe.graft.plan import Graft, plan_of
from msprobe.graft.proof import Verdict
from msprobe.graft.propagate import Obstacle, Propagation, Replays
from msprobe.graft.report import answer_of
from msprobe.graft.runs import studied
from msprobe.replay.recorded import Cause

pytestmark = [pytest.mark.mindspore, pytest.mark.torch]


def dense(inputs, outputs, seed):
    weights = np.random.default_rng(seed).standard_normal((outputs, inputs)).astype(np.float32)
    return nn.Dense(inputs, outputs, weight_init=Tensor(weights), bias_init="zeros")


class Net(nn.Cell):
    """A residual block; `eps` is the setting of its norm, `middle` is applied inside of it."""

    def __init__(self, eps=1e-5, middle=None):
        super().__init__()
        self.enter, self.norm, self.up = dense(8, 8, 1), nn.LayerNorm([8], epsilon=eps), dense(8, 16, 2)
        self.down, self.head = dense(16, 8, 3), dense(8, 4, 4)
        self.middle = middle or (lambda x: x)

    def construct(self, x):
        x = self.enter(x)
        x = x + self.down(ops.relu(self.middle(self.up(self.norm(x)))))
        return ops.softmax(self.head(x), -1).square().mean()


class Reversed(nn.Cell):
    """Returns what it is given; its gradient has a factor."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def construct(self, x):
        return ops.mul(x, 1.0)

    def bprop(self, x, out, gradient):
        return (gradient * self.factor,)


@pytest.fixture
def collected(tmp_path, monkeypatch):
    """`collected(name, net)`: the dump, the loss and the gradients of one step of a net."""
    monkeypatch.chdir(tmp_path)

    def made(name, net):
        folder = tmp_path / name
        ms.set_seed(3)
        net.set_train()
        weights = net.trainable_params()
        debugger = PrecisionDebugger(task="tensor", level="mix", dump_path=str(folder))
        debugger.start(net)
        x = Tensor(np.random.default_rng(5).standard_normal((5, 8)).astype(np.float32))
        loss, gradients = ms.value_and_grad(net, None, weights)(x)
        debugger.stop()
        debugger.step()
        found = {weight.name: gradient.asnumpy() for weight, gradient in zip(weights, gradients, strict=True)}
        return folder, float(loss.asnumpy()), found

    return made


def test_a_fault_of_the_forward_is_a_likely_cause(collected):
    golden, loss, gradients = collected("golden", Net())
    target, other, _ = collected("target", Net(eps=1e-2))
    study = studied(target, golden)
    found = estimated(study, None, 8)
    (trial,) = found.trials
    assert (trial.verdict, trial.hypothesis.name) == (Verdict.LIKELY, "Primitive.layer_norm.LayerNorm.0.forward")
    assert trial.closed == pytest.approx(1.0, abs=1e-3)
    assert (trial.estimate.losses, trial.estimate.gradients, trial.estimate.stops) == ((1, 1), (10, 10), ())
    assert answer_of(found).first.kind.code == "MSP874"
    step = study.steps[0]
    done = Propagation(Replays(step), plan_of(study, [trial.hypothesis.graft]).steps[step.step])
    assert abs(other / loss - 1) > 1e-4
    assert done.loss == pytest.approx(loss, rel=1e-5)
    for name, gradient in done.gradients():
        assert np.linalg.norm(gradient - gradients[name]) <= 1e-5 * np.linalg.norm(gradients[name]), name


def test_a_parameter_is_that_of_the_golden_in_all_calls_that_take_it(collected):
    """Also of the norm, whose `astype` returns another tensor, of unknown origin."""
    golden, loss, gradients = collected("golden", Net())
    other = Net()
    other.norm.gamma.set_data(Tensor(np.linspace(0.5, 2.0, 8).astype(np.float32)))
    target, _, _ = collected("target", other)
    study = studied(target, golden)
    graft = Graft(parameters=frozenset({"norm.gamma"}))
    done = Propagation(Replays(study.steps[0]), plan_of(study, [graft]).steps[study.steps[0].step])
    assert done.loss == pytest.approx(loss, rel=1e-5)
    for name, gradient in done.gradients():
        assert np.linalg.norm(gradient - gradients[name]) <= 1e-5 * np.linalg.norm(gradients[name]), name


class Faulty(ms._Function if hasattr(ms, "_Function") else object):
    """The relu of MindSpore, whose gradient has a factor."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return Tensor(np.maximum(x.asnumpy(), 0.0))

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return Tensor(gradient.asnumpy() * np.where(x.asnumpy() > 0.0, np.float32(1.1), np.float32(0.0)))


def test_a_fault_of_the_backward_is_a_likely_cause(collected, monkeypatch):
    golden, loss, _ = collected("golden", Net())
    with monkeypatch.context() as patch:
        patch.setattr(ops, "relu", lambda x: Faulty.apply(x))
        target, same, _ = collected("target", Net())
    assert same == loss
    found = estimated(studied(target, golden), None, 8)
    (trial,) = found.trials
    assert (trial.verdict, trial.hypothesis.name) == (Verdict.LIKELY, "Functional.relu.0.backward")
    assert trial.closed == pytest.approx(1.0, abs=1e-3)
    assert (found.gap.loss, trial.estimate.gradients) == (0.0, (10, 10))


def test_a_gradient_of_code_that_was_not_recorded_is_not_reached(collected):
    """The factor of `bprop` is in no record: the gradients before the cell are not judged."""
    golden, *_ = collected("golden", Net(middle=Reversed(1.0)))
    target, *_ = collected("target", Net(middle=Reversed(1.1)))
    found = estimated(studied(target, golden), None, 8)
    (trial,) = found.trials
    assert (trial.verdict, trial.hypothesis.name) == (Verdict.NOT_JUDGED, "Tensor.__mul__.0.forward")
    assert {stop.reason for stop in trial.estimate.stops} == {Obstacle.GRADIENT}
    assert (trial.estimate.losses, trial.estimate.gradients) == ((1, 1), (4, 10))
    assert (found.proven, found.rest_share) == ((), 1.0)


def test_random_numbers_stop_and_nothing_is_closed(collected):
    golden, *_ = collected("golden", Net(middle=nn.Dropout(p=0.5)))
    target, *_ = collected("target", Net(eps=1e-2, middle=nn.Dropout(p=0.5)))
    found = estimated(studied(target, golden), None, 1)
    (trial,) = found.trials
    assert (trial.verdict, trial.estimate.losses) == (Verdict.NOT_JUDGED, (0, 1))
    assert {stop.reason for stop in trial.estimate.stops} == {Cause.RANDOM}
    assert (found.proven, found.rest_share) == ((), 1.0)
    assert [each.kind.code for each in answer_of(found).findings] == ["MSP877", "MSP876"]
