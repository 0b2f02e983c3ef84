"""Estimates from dumps of small trainings with PyTorch, whose losses and gradients are known from the trainings."""

import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from msprobe.graft.gap import BIT_EQUAL, closure_of_largest
from msprobe.graft.offline import Estimates, estimated
from msprobe.graft.page import page_of
from msprobe.graft.plan import OUTPUTS, Graft, plan_of
from msprobe.graft.proof import Found, Verdict
from msprobe.graft.propagate import Obstacle, Propagation, Replays, Stop
from msprobe.graft.report import answer_of, exit_code, lines
from msprobe.graft.runs import studied
from msprobe.pytorch import PrecisionDebugger
from msprobe.replay.recorded import Cause

pytestmark = pytest.mark.torch


class Net(nn.Module):
    """A residual block; `eps` is the setting of its norm, `middle` is applied inside of it."""

    def __init__(self, eps=1e-5, middle=None, width=8):
        super().__init__()
        self.enter, self.norm = nn.Linear(width, width), nn.LayerNorm(width, eps=eps)
        self.up, self.down, self.head = nn.Linear(width, 16), nn.Linear(16, width), nn.Linear(width, 4)
        self.middle = middle or (lambda x: x)

    def forward(self, x):
        x = self.enter(x)
        x = x + self.down(F.gelu(self.middle(self.up(self.norm(x)))))
        return F.softmax(self.head(x), -1).square().mean()


class Times(nn.Module):
    """y = w * x, z = factor * y, and the loss is the sum of z * z."""

    def __init__(self, factor):
        super().__init__()
        self.w, self.factor = nn.Parameter(torch.tensor([1.0, 2.0])), factor

    def forward(self, x):
        z = torch.mul(torch.mul(self.w, x), self.factor)
        return torch.sum(torch.mul(z, z))


X = torch.tensor([5.0, 7.0])


@pytest.fixture
def collected(tmp_path, monkeypatch):
    """`collected(name, net, x)`: the dump, the loss and the gradients of one step of a net."""
    monkeypatch.chdir(tmp_path)

    def made(name, net, x=None, level="mix"):
        folder = tmp_path / name
        debugger = PrecisionDebugger(task="tensor", level=level, dump_path=str(folder))
        if x is None:
            torch.manual_seed(3)
            x = torch.randn(5, 8)
        debugger.start(net)
        loss = net(x)
        loss.backward()
        debugger.stop()
        debugger.step()
        return folder, float(loss.detach()), {name: p.grad.numpy() for name, p in net.named_parameters()}

    return made


def net(**how):
    torch.manual_seed(1)
    return Net(**how)


def propagated(study, *values, parameters=()):
    """The loss and the gradients that follow from a graft."""
    graft = Graft(frozenset(values), frozenset(parameters))
    found = Propagation(Replays(study.steps[0]), plan_of(study, [graft]).steps.get(0))
    return found.loss, dict(found.gradients())


def test_a_result_has_the_value_of_the_golden_and_the_derivative_of_the_target(collected):
    """z = 3 w x = [15, 42] in the golden; the target multiplies by 2."""
    golden, target = (collected(str(factor), nn.Sequential(Times(factor)), X)[0] for factor in (3.0, 2.0))
    loss, gradients = propagated(studied(target, golden), ("Torch.mul.1.forward", OUTPUTS))
    assert loss == 15.0**2 + 42.0**2
    assert gradients["0.w"].tolist() == [2 * 15.0 * 2 * 5, 2 * 42.0 * 2 * 7]


def test_a_gradient_is_that_of_the_golden_and_the_result_is_not(collected):
    """z = 2 w x = [10, 28]; the golden's gradient of y is 2 z 3 = [90, 252]."""
    golden, target = (collected(str(factor), nn.Sequential(Times(factor)), X)[0] for factor in (3.0, 2.0))
    loss, gradients = propagated(studied(target, golden), ("Torch.mul.1.backward", OUTPUTS))
    assert loss == 100.0 + 784.0
    assert gradients["0.w"].tolist() == [90.0 * 5, 252.0 * 7]


def test_a_parameter_is_that_of_the_golden_in_all_calls_that_take_it(collected):
    golden = net()
    other = net()
    with torch.no_grad():
        other.down.weight[3] *= 1.5
    (dump, loss, gradients), (target, other_loss, _) = collected("golden", golden), collected("target", other)
    found, changed = propagated(studied(target, dump), parameters=["down.weight"])
    assert abs(other_loss / loss - 1) > 1e-5
    assert found == pytest.approx(loss, rel=1e-6)
    for name, gradient in gradients.items():
        assert np.linalg.norm(changed[name] - gradient) <= 1e-5 * np.linalg.norm(gradient), name


def test_without_a_graft_nothing_changes(collected):
    dump, loss, gradients = collected("golden", net())
    other, *_ = collected("target", net(eps=1e-2))
    found, same = propagated(studied(dump, other))
    assert found == pytest.approx(loss, rel=1e-7)
    assert all((same[name] == gradient).all() for name, gradient in gradients.items())


def test_a_fault_of_the_forward_is_a_likely_cause(collected):
    golden, loss, gradients = collected("golden", net())
    target, *_ = collected("target", net(eps=1e-2))
    study = studied(target, golden)
    found = estimated(study, None, 8)
    (trial,) = found.trials
    assert (trial.verdict, trial.hypothesis.name) == (Verdict.LIKELY, "Functional.layer_norm.0.forward")
    assert trial.closed == pytest.approx(1.0, abs=1e-3)
    assert (trial.estimate.losses, trial.estimate.gradients) == ((1, 1), (10, 10))
    assert (trial.estimate.stops, trial.estimate.deviating, trial.estimate.covered) == ((), (), 1.0)
    assert found.gap.updates is None
    answer = answer_of(found)
    assert (answer.state, answer.first.kind.code, answer.first.certainty) == ("differs", "MSP874", "likely")
    assert exit_code(found) == 1
    text = "\n".join(lines(found))
    assert "proven" not in text
    assert re.search(r"layer_norm.0.forward: .* - +100% +likely cause \(estimated\) +\d+ +11 of 11", text)
    (runs,) = page_of(found, "msprobe graft").head.tables
    assert (str(runs.title), runs.rows) == ("estimated runs", 2)
    reached, of_parameter = propagated(study, *trial.hypothesis.graft.values)
    assert reached == pytest.approx(loss, rel=1e-5)
    for name, gradient in gradients.items():
        assert np.linalg.norm(of_parameter[name] - gradient) <= 1e-5 * np.linalg.norm(gradient), name


def planted(monkeypatch, function, forward=1.0, backward=1.0):
    """Replace a function by one whose result and gradient have a factor; the debugger records it like the original."""
    original = getattr(F, function)

    class Faulty(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *args):
            with torch.enable_grad():
                x = args[0].detach().requires_grad_()
                y = original(x, *args[1:]) * forward
            ctx.save_for_backward(x, y)
            ctx.number = len(args)
            return y.detach()

        @staticmethod
        def backward(ctx, gradient):
            x, y = ctx.saved_tensors
            (found,) = torch.autograd.grad(y, x, gradient * backward)
            return (found, *(None,) * (ctx.number - 1))

    monkeypatch.setattr(F, function, lambda *args: Faulty.apply(*args))


def test_a_fault_of_the_backward_is_a_likely_cause(collected, monkeypatch):
    golden, loss, _ = collected("golden", net())
    with monkeypatch.context() as patch:
        planted(patch, "gelu", backward=1.1)
        target, same, _ = collected("target", net())
    assert same == loss
    found = estimated(studied(target, golden), None, 8)
    (trial,) = found.trials
    assert (trial.verdict, trial.hypothesis.name) == (Verdict.LIKELY, "Functional.gelu.0.backward")
    assert trial.closed == pytest.approx(1.0, abs=1e-3)
    assert trial.estimate.gradients == (10, 10)
    assert (found.gap.loss, trial.gap.loss) == (0.0, 0.0)


def test_the_fault_of_a_later_call_stays_when_an_earlier_one_is_grafted(collected, monkeypatch):
    """The golden has neither; what the graft of the norm leaves is the run with the fault of gelu alone."""
    golden, loss, _ = collected("golden", net())
    with monkeypatch.context() as patch:
        planted(patch, "gelu", forward=1.1)
        target, *_ = collected("target", net(eps=1e-3))
        _, with_gelu, _ = collected("gelu", net())
    study = studied(target, golden)
    norm = "Functional.layer_norm.0"
    found, _ = propagated(study, (f"{norm}.forward", OUTPUTS), (f"{norm}.backward", OUTPUTS))
    assert found - loss == pytest.approx(with_gelu - loss, rel=0.02)
    proof = estimated(study, None, 8)
    assert {trial.hypothesis.name for trial in proof.proven} == {f"{norm}.forward", "Functional.gelu.0.forward"}
    assert proof.rest.is_noise(proof.floor)
    assert "Functional.gelu.0.forward" in proof.trials[0].estimate.deviating


class Hidden(torch.autograd.Function):
    """Code that is not recorded."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0].cos()


def test_code_that_was_not_recorded_stops_and_nothing_is_closed(collected):
    golden, *_ = collected("golden", net(middle=Hidden.apply))
    target, *_ = collected("target", net(eps=1e-2, middle=Hidden.apply))
    found = estimated(studied(target, golden), None, 1)
    (trial,) = found.trials
    assert trial.verdict is Verdict.NOT_JUDGED
    assert trial.estimate.losses == (0, 1)
    assert Stop("Functional.gelu.0.forward", Obstacle.INPUT) in trial.estimate.stops
    # The branch around the norm does not depend on the graft; the gradients of what follows do.
    assert (found.proven, found.rest_share) == ((), 1.0)
    assert [each.kind.code for each in answer_of(found).findings] == ["MSP877", "MSP876"]
    assert "Functional.gelu.0.forward was not replayed, an input comes from code that was not recorded" in "\n".join(
        lines(found)
    )


def test_a_gradient_that_passes_code_that_was_not_recorded_is_not_reached(collected, monkeypatch):
    """The fault is after it, so that the loss is reached, and the gradients before it are not."""
    golden, *_ = collected("golden", net(middle=Hidden.apply))
    with monkeypatch.context() as patch:
        planted(patch, "gelu", forward=1.5)
        target, *_ = collected("target", net(middle=Hidden.apply))
    study = studied(target, golden)
    gelu = "Functional.gelu.0"
    loss, gradients = propagated(study, (f"{gelu}.forward", OUTPUTS), (f"{gelu}.backward", OUTPUTS))
    assert isinstance(loss, float)
    reached = {name for name, value in gradients.items() if not isinstance(value, Stop)}
    assert reached == {"head.weight", "head.bias", "down.weight", "down.bias"}
    assert gradients["up.weight"] == Stop("Functional.linear.1.backward", Obstacle.GRADIENT)


class Continued(Net):
    """The last recorded scalar is not the loss: code that is not recorded makes this of it."""

    def forward(self, x):
        return Hidden.apply(super().forward(x) * 3)


def test_a_gradient_that_begins_in_code_that_was_not_recorded_is_not_reached(collected):
    def continued(eps):
        torch.manual_seed(1)
        return Continued(eps)

    golden, *_ = collected("golden", continued(1e-5))
    target, *_ = collected("target", continued(1e-1))
    norm = "Functional.layer_norm.0"
    study = studied(target, golden)
    _, gradients = propagated(study, (f"{norm}.forward", OUTPUTS), (f"{norm}.backward", OUTPUTS))
    assert gradients["head.weight"] == Stop("Tensor.__mul__.0.backward", Obstacle.GRADIENT)


def test_random_numbers_stop(collected):
    def dropped(x):
        torch.manual_seed(5)
        return F.dropout(x, 0.5)

    golden, *_ = collected("golden", net(middle=dropped))
    target, *_ = collected("target", net(eps=1e-2, middle=dropped))
    found = estimated(studied(target, golden), None, 1)
    assert found.trials[0].verdict is Verdict.NOT_JUDGED
    assert {(stop.call, stop.reason) for stop in found.trials[0].estimate.stops} == {
        ("Functional.dropout.0.forward", Cause.RANDOM)
    }


def test_closure_is_that_of_what_was_reached(collected, monkeypatch):
    golden, *_ = collected("golden", net(middle=Hidden.apply))
    with monkeypatch.context() as patch:
        planted(patch, "gelu", forward=1.5)
        target, *_ = collected("target", net(middle=Hidden.apply))
    study = studied(target, golden)
    estimates = Estimates(study, BIT_EQUAL)
    values = frozenset((f"Functional.gelu.0.{way}", OUTPUTS) for way in ("forward", "backward"))
    done = estimates.run([Found(Graft(values), study)], "")
    assert (done.estimate.losses, done.estimate.gradients) == ((1, 1), (4, 10))
    assert closure_of_largest(estimates.gap, done.gap, BIT_EQUAL) == pytest.approx(1.0, abs=1e-3)
    # Of the whole, what was not reached counts as it was recorded.
    unreached = [squares for name, squares in estimates.gap.parts.items() if name not in done.gap.parts]
    total = sum(golden for name, (_, golden) in estimates.gap.parts.items() if name != "loss")
    assert done.gap.gradients == pytest.approx((sum(each for each, _ in unreached) / total) ** 0.5, rel=1e-3)
    assert done.estimate.covered < 1.0


def test_gradients_that_the_graft_replaces_are_no_evidence(collected):
    """Where only modules are recorded, the values between them are not: nothing follows from the graft."""
    golden, *_ = collected("golden", net(), level="L0")
    target, *_ = collected("target", net(eps=1e-2), level="L0")
    found = estimated(studied(target, golden), None, 8)
    (trial,) = found.trials
    assert trial.hypothesis.name == "Module.norm.LayerNorm.forward.0"
    assert (trial.estimate.losses, trial.estimate.covered) == ((0, 0), 0.0)
    assert trial.verdict is Verdict.NOT_JUDGED


def test_the_replay_floor_is_rounding(collected):
    golden, *_ = collected("golden", net())
    target, *_ = collected("target", net(eps=1e-2))
    replayed = Estimates(studied(target, golden), BIT_EQUAL).replay_gap()
    assert 0.0 < replayed.gradients < 1e-6
    assert replayed.loss < 1e-6


def test_a_replay_rounds_to_the_dtype_of_the_record(collected):
    """Only the target rounds to float16: that is the cause, and not a floor of the replay."""
    golden, *_ = collected("golden", net())
    target, *_ = collected("target", net(middle=lambda x: x.half().float()))
    study = studied(target, golden)
    assert Estimates(study, BIT_EQUAL).replay_gap().gradients < 1e-6
    found = estimated(study, None, 8)
    assert [trial.verdict for trial in found.trials] == [Verdict.LIKELY]
    assert found.trials[0].closed == pytest.approx(1.0, abs=1e-2)
    assert "Tensor.half.0.forward" in found.trials[0].hypothesis.name


def test_the_gradient_of_a_shared_weight_is_the_sum_over_both_modules(collected):
    class Shared(nn.Module):
        def __init__(self, eps):
            super().__init__()
            self.words, self.norm, self.out = (
                nn.Embedding(11, 8),
                nn.LayerNorm(8, eps=eps),
                nn.Linear(8, 11, bias=False),
            )
            self.out.weight = self.words.weight

        def forward(self, x):
            ids = x.abs().mul(5).long() % 11
            return F.cross_entropy(self.out(self.norm(self.words(ids[:, :-1]))).flatten(0, 1), ids[:, 1:].flatten())

    def shared(eps):
        torch.manual_seed(1)
        return Shared(eps)

    golden, *_ = collected("golden", shared(1e-5))
    target, *_ = collected("target", shared(1e-1))
    (trial,) = estimated(studied(target, golden), None, 8).trials
    assert (trial.verdict, trial.estimate.stops) == (Verdict.LIKELY, ())
    assert trial.estimate.gradients == (4, 4)  # that of the weight is recorded for both modules
    assert trial.closed == pytest.approx(1.0, abs=1e-3)


def test_an_argument_without_a_gradient_stops_nothing(collected):
    def positive(x):
        return torch.where(x > 0, x, torch.zeros_like(x))

    golden, *_ = collected("golden", net(middle=positive))
    target, *_ = collected("target", net(eps=1e-2, middle=positive))
    found = estimated(studied(target, golden), None, 8)
    (trial,) = found.trials
    assert (trial.verdict, trial.estimate.stops) == (Verdict.LIKELY, ())
    assert trial.estimate.gradients == (10, 10)


def test_equal_runs_have_nothing_to_estimate(collected):
    golden, *_ = collected("golden", net())
    target, *_ = collected("target", net())
    found = estimated(studied(target, golden), None, 8)
    assert (found.is_clean, found.trials, exit_code(found)) == (True, (), 0)
    assert list(lines(found))[-1].startswith("nothing to estimate")
