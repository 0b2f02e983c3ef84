"""Dropouts by numpy, right and wrong. Needs neither framework."""

import numpy as np
import pytest

from msprobe.precheck.chance import chance_of
from msprobe.precheck.check import judged_call
from msprobe.precheck.judge import Reason, Status
from msprobe.replay.recorded import RecordedCall
from msprobe.replay.references import Given

X = np.random.default_rng(1).standard_normal((40, 50)).astype(np.float32)


@pytest.fixture
def call(leaf, dump):
    """A dropout of X: `call(y, p)`; with a gradient that of the backward, whose incoming gradient is all ones."""

    def make(y, p=0.3, gradient=None, stem="Mint.dropout", args=None, x=X):
        x, y = leaf(x), leaf(y)
        made = RecordedCall(f"{stem}.0.forward", stem, "api", "mindspore", False, args or (x, p), {}, {}, {("0",): y})
        if gradient is None:
            return made
        ones, gradient = leaf(np.ones_like(y.array)), leaf(gradient)
        pairs = ((made.args[0], gradient),)
        return RecordedCall(
            *(f"{stem}.0.backward", stem, "api", "mindspore", True, made.args, {}, {}, made.outputs),
            *({("0",): ones}, pairs),
        )

    return make


def dropped(p=0.3, scale=None, rate=None, x=X, seed=2):
    """x with a share `rate` set to 0, the rest times `scale`."""
    kept = np.random.default_rng(seed).random(x.shape) >= (p if rate is None else rate)
    return (x * kept * np.float32(1 / (1 - p) if scale is None else scale)).astype(x.dtype), kept


def reason(call):
    judgement = judged_call(call, "backward" if call.is_backward else "forward", is_recorded=True).outputs[0].judgement
    return None if judgement.status is Status.PASS else judgement.reason


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [({}, None), ({"rate": 0.2}, Reason.RATE), ({"scale": 1.0}, Reason.KEPT), ({"scale": 1.4292}, Reason.KEPT)],
)
def test_rate_and_scale_are_those_of_p(call, wrong, expected):
    assert reason(call(dropped(**wrong)[0])) is expected


def test_half_precision_may_round_the_scale_and_the_product(call):
    x = X.astype(np.float16)
    y, kept = dropped(x=x)
    y = np.where(kept, x * np.float16(1 / 0.7), np.float16(0))
    assert reason(call(y, x=x)) is None
    assert reason(call(np.where(kept, y * np.float16(1.01), np.float16(0)), x=x)) is Reason.KEPT


def test_a_gradient_is_dropped_where_the_output_was(call):
    y, kept = dropped()
    gradient = kept / np.float32(0.7)
    assert reason(call(y, gradient=gradient)) is None
    other = dropped(seed=3)[1] / np.float32(0.7)
    assert reason(call(y, gradient=other)) is Reason.MASK
    assert reason(call(y, gradient=gradient * np.float32(1.001))) is Reason.KEPT


def test_a_probability_that_is_not_recorded_follows_from_the_scale(call, leaf):
    right, wrong = (dropped(rate=rate)[0] for rate in (0.3, 0.4))
    found = [reason(call(y, stem="Primitive.drop.Dropout")) for y in (right, wrong)]
    assert found == [None, Reason.RATE]


def test_channels_are_dropped_as_one(call):
    x = np.random.default_rng(4).standard_normal((20, 30, 4, 4)).astype(np.float32)
    kept = np.random.default_rng(5).random((20, 30, 1, 1)) >= 0.5
    assert reason(call((x * kept * 2).astype(np.float32), 0.5, stem="Functional.dropout2d", x=x)) is None


def test_a_few_elements_say_nothing_of_the_rate(call):
    x = X[0, :40]
    assert reason(call(x * np.float32(2), 0.5, x=x)) is None


@pytest.mark.parametrize("args", [{"p": 0.0}, {"args": "off"}])
def test_a_dropout_that_is_off_is_none(call, leaf, args):
    made = call(X, **args) if args != {"args": "off"} else call(X, args=(leaf(X), 0.5, False))
    assert chance_of(made) is None
    assert isinstance(made.args[0], Given)
