"""The fitted settings of the frameworks' own optimizers are those that they were given."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn

from msprobe.compare.locate.finding import Basis, UpdateCause
from msprobe.compare.updates.judgement import Parameter as Judged
from msprobe.compare.updates.judgement import Track, judge

pytestmark = [pytest.mark.mindspore, pytest.mark.torch]

torch = pytest.importorskip("torch")

SHAPES = {"a.weight": (40, 32), "b.weight": (32, 48), "b.bias": (48,)}
STEPS = 3

OPTIMIZERS = {
    "sgd": (lambda p: nn.SGD(p, 0.1, weight_decay=0.01), lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.01)),
    "momentum": (lambda p: nn.Momentum(p, 0.05, 0.9), lambda p: torch.optim.SGD(p, 0.05, momentum=0.9)),
    "adam": (lambda p: nn.Adam(p, 1e-3), lambda p: torch.optim.Adam(p, 1e-3)),
    "adam with l2": (
        lambda p: nn.Adam(p, 1e-3, weight_decay=0.01),
        lambda p: torch.optim.Adam(p, 1e-3, weight_decay=0.01),
    ),
}


def first():
    rng = np.random.default_rng(0)
    return {n: (rng.standard_normal(s) * 0.2).astype(np.float32) for n, s in SHAPES.items()}


def gradients(noise):
    """Of each step; `noise` is relative, and not the same in two runs."""
    rng, rounding = np.random.default_rng(1), np.random.default_rng(2)
    for _ in range(STEPS):
        found = {n: 1e-2 * rng.standard_normal(s) for n, s in SHAPES.items()}
        yield {n: (g + noise * 1e-2 * rounding.standard_normal(g.shape)).astype(np.float32) for n, g in found.items()}


def of_mindspore(make, noise=0.0):
    weights = [Parameter(Tensor(w), name=n) for n, w in first().items()]
    optimizer, found = make(weights), ([], [])
    for step in gradients(noise):
        found[0].append({n: w.asnumpy().copy() for n, w in zip(SHAPES, weights, strict=True)})
        found[1].append(step)
        optimizer(tuple(Tensor(g) for g in step.values()))
    found[0].append({n: w.asnumpy().copy() for n, w in zip(SHAPES, weights, strict=True)})
    return found


def of_torch(make, noise=0.0):
    weights = [torch.nn.Parameter(torch.tensor(w)) for w in first().values()]
    optimizer, found = make(weights), ([], [])
    for step in gradients(noise):
        found[0].append({n: w.detach().numpy().copy() for n, w in zip(SHAPES, weights, strict=True)})
        found[1].append(step)
        for weight, gradient in zip(weights, step.values(), strict=True):
            weight.grad = torch.tensor(gradient)
        optimizer.step()
    found[0].append({n: w.detach().numpy().copy() for n, w in zip(SHAPES, weights, strict=True)})
    return found


def judged(target, golden, at):
    def track(run, name):
        return Track(*(tuple(one[name].astype(np.float64).reshape(-1) for one in side) for side in run))

    norms = [
        tuple(float(np.sqrt(sum((g**2).sum() for g in step.values()))) for step in run[1]) for run in (target, golden)
    ]
    pairs = [Judged(n, n, track(target, n), track(golden, n)) for n in SHAPES]
    return judge(pairs, at, at, norms=(norms[0], norms[1]))


@pytest.fixture(scope="module", autouse=True)
def pynative():
    ms.set_context(mode=ms.PYNATIVE_MODE)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_same_optimizer_of_two_frameworks_makes_no_difference(name):
    ours, theirs = OPTIMIZERS[name]
    target, golden = of_mindspore(ours, noise=5e-3), of_torch(theirs)
    for at in (1, 3):
        found = judged(target, golden, at)
        assert found.agreeing == tuple(SHAPES)
        assert {v.basis for v in found.verdicts} == {Basis.SETTINGS}


def test_adam_weight_decay_of_mindspore_does_not_correct_its_bias():
    target = of_mindspore(lambda p: nn.AdamWeightDecay(p, 1e-3, weight_decay=0.01, eps=1e-8))
    golden = of_torch(lambda p: torch.optim.AdamW(p, 1e-3, weight_decay=0.01), noise=5e-3)
    (found,) = judged(target, golden, 1).differences
    assert (found.cause, found.parameters) == (UpdateCause.BIAS_CORRECTION, tuple(SHAPES))


def test_settings_of_the_frameworks_are_told():
    adam = of_torch(OPTIMIZERS["adam"][1], noise=5e-3)
    (found,) = judged(of_mindspore(lambda p: nn.Adam(p, 1e-3, beta2=0.95)), adam, 2).differences
    assert (found.cause, found.golden) == (UpdateCause.BETA2, pytest.approx(0.999, rel=1e-3))
    assert found.target == pytest.approx(0.95, rel=1e-3)
    sgd = of_torch(OPTIMIZERS["sgd"][1], noise=5e-3)
    (found,) = judged(of_mindspore(lambda p: nn.SGD(p, 0.1)), sgd, 1).differences
    assert (found.cause, found.target) == (UpdateCause.WEIGHT_DECAY, 0)
    assert found.golden == pytest.approx(0.01, rel=1e-3)


def test_weight_decay_is_no_difference_where_its_product_with_the_learning_rate_is_rounded():
    """PyTorch multiplies by 1 - lr * wd in float32: of 2.5e-5 that rounds away up to 0.2 %."""
    target, golden = (
        of_torch(lambda p, lr=lr: torch.optim.AdamW(p, lr, weight_decay=0.1), noise)
        for lr, noise in ((1e-3, 5e-3), (2.5e-4, 0.0))
    )
    (found,) = judged(target, golden, 1).differences
    assert (found.cause, found.factor) == (UpdateCause.LEARNING_RATE, pytest.approx(4, rel=1e-3))
