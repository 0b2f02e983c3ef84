"""A step whose parameters have drifted: no call has equal inputs, and the two runs differ by noise all the same."""

import numpy as np
import pytest

from msprobe.compare.core.limits import BUILT_IN, EXACT
from msprobe.compare.core.noise import State
from msprobe.compare.locate.find import locate
from msprobe.compare.run import compare
from msprobe.compare.updates.explained import Updates
from msprobe.store.reader import read

pytestmark = pytest.mark.torch

RANDOM = np.random.default_rng(7)
GIVEN = RANDOM.standard_normal((16, 32)).astype(np.float32)
WEIGHT = RANDOM.standard_normal((32, 32)).astype(np.float32)
MEAN = np.linspace(1, 2, 32, dtype=np.float32)


@pytest.fixture
def judged(builder, tensor, tmp_path):
    """`judged(drift, of_mean)`: weights and a running mean of a step that are so far apart, as shares of themselves."""
    pytest.importorskip("torch", reason="calls are replayed")

    def run(side, drift, of_mean, factor, step, is_noisy):
        build = builder(side, mode="tensor")
        build.folder = tmp_path / side / f"step{step}" / "rank"
        build.extra["run"] = {"step": step}
        signs = np.where(np.arange(WEIGHT.size).reshape(WEIGHT.shape) % 2, 1, -1)
        weight = (WEIGHT * (1 + drift * signs)).astype(np.float32)
        mean = (MEAN * (1 + of_mean)).astype(np.float32)
        hidden = (GIVEN @ weight).astype(np.float32)
        hidden[3] *= factor
        inputs = [tensor(GIVEN, "leaf"), tensor(weight, "parameter up.weight")]
        build.call("Mint.matmul.0.forward", inputs, [tensor(hidden)])
        arguments = [tensor(hidden, "call Mint.matmul.0.forward.output.0")]
        build.call(
            "Cell.norm.Norm.forward.0", arguments, [tensor(hidden - mean)], parameters={"moving_mean": tensor(mean)}
        )
        if is_noisy:  # the same sums, on the target side in another order
            order = slice(None, None, -1 if side == "target" else 1)
            inputs = [tensor(GIVEN, "leaf"), tensor(WEIGHT, "parameter down.weight")]
            build.call("Mint.matmul.1.forward", inputs, [tensor((GIVEN[:, order] @ WEIGHT[order]).astype(np.float32))])
        return read(build.write())

    def make(drift, of_mean, factor=1.0, limits=BUILT_IN, step=3, is_noisy=False):
        updates = Updates(limits=limits)
        target, golden = run("target", drift, of_mean, factor, step, is_noisy), run("golden", 0, 0, 1.0, step, is_noisy)
        comparison = compare(target, golden, settle=updates.settle, limits=limits)
        return comparison, updates.completed(locate(comparison), comparison)

    return make


def state(comparison, name):
    row = next(n for n in range(len(comparison.grades)) if comparison.pairs.pair(n).record.name == name)
    return State(int(comparison.noise.states[row]))


def test_where_weights_have_drifted_a_running_mean_may_too(judged):
    comparison, located = judged(1e-4, 1e-6)
    assert state(comparison, "Cell.norm.Norm.forward.0.parameters.moving_mean") is State.NOISE
    assert not comparison.noise.is_exact
    assert not located.findings


def test_before_the_first_update_no_weight_has_drifted(judged):
    comparison, located = judged(1e-4, 1e-6, step=0, is_noisy=True)
    assert not comparison.noise.is_exact
    assert state(comparison, "Mint.matmul.0.forward.input.1") is State.DIVERGENT
    assert located.first.name == "Mint.matmul.0.forward"


def test_a_running_mean_that_is_far_apart_is_named(judged):
    comparison, located = judged(1e-4, 1e-2)
    assert state(comparison, "Cell.norm.Norm.forward.0.parameters.moving_mean") is State.DIVERGENT
    assert located.first.name == "Cell.norm.Norm.forward.0"


def test_a_wrong_call_is_named_among_drifted_weights(judged):
    comparison, located = judged(1e-4, 0, factor=1.01)
    assert located.first.name == "Mint.matmul.0.forward"
    assert state(comparison, "Mint.matmul.0.forward.output.0") is State.DIVERGENT


def test_where_weights_are_equal_to_the_bit_a_running_mean_is_too(judged):
    comparison, located = judged(0, 1e-6)
    assert state(comparison, "Cell.norm.Norm.forward.0.parameters.moving_mean") is State.DIVERGENT
    assert located.first.name == "Cell.norm.Norm.forward.0"


def test_by_exact_limits_drifted_weights_are_named(judged):
    comparison, located = judged(1e-4, 1e-6, limits=EXACT)
    assert comparison.noise.is_exact
    assert located.first.name == "Mint.matmul.0.forward"
