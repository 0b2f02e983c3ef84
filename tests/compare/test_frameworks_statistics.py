"""Two frameworks by statistics alone: what their laws, and what a kernel may round, say of a call."""

import numpy as np
import pytest
from two_frameworks import W1, W2, H, R, X, Y, noisy, verdict  # beside this file, which is no package

from msprobe.compare.locate import wording

JOINED = np.concatenate([H, R], axis=1)
W3 = np.random.default_rng(3).normal(size=(2, 10)).astype(np.float32)
MASKED = np.triu(np.ones((3, 5), bool), 2)


def softmax(scores):
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
    return (shifted / shifted.sum(axis=1, keepdims=True)).astype(np.float32)


def cat(side, parts):
    """Two layers whose results are joined, and what takes that."""
    t = side.tensor
    side.dense("a", X, H, W1)
    side.dense("b", X * 2, R, W1)
    made = {id(H): side("Cell.a.Dense", "Module.a.Linear"), id(R): side("Cell.b.Dense", "Module.b.Linear")}
    inputs = [t(part, source=f"call {made[id(part)]}.forward.0.output.0") for part in parts]
    name = side("Mint.cat.0.forward", "Torch.cat.0.forward")
    joined = np.concatenate(parts, axis=1)
    side.build.call(name, [inputs], [t(joined)], kwargs={"dim": side.value(1)})
    last = side("Cell.c.Dense.forward.0", "Module.c.Linear.forward.0")
    inputs = t(joined, source=f"call {name}.output.0")
    side.build.call(last, [inputs], [t(joined @ W3.T)], parameters={"weight": t(W3)})


@pytest.fixture
def sides(written, value):
    """As `written`, with `side.value`."""

    def make(fill, **options):
        def filled(side):
            side.value = value
            fill(side)

        return written(filled, **options)

    return make


def test_parts_that_are_joined_in_another_order_are_named_although_all_statistics_agree(sides):
    _, located = sides(lambda side: cat(side, (R, H) if side.is_ms else (H, R)))
    assert located.first.name == "Mint.cat.0.forward"


def test_parts_that_are_joined_in_one_order_are_no_difference(sides):
    comparison, located = sides(lambda side: cat(side, (H, R)))
    assert (located.findings, comparison.is_clean) == ((), True)


def masked(side, mask, weak=0.0):
    """Scores, a mask that is added to them, softmax, and what takes that; `weak`: what is left where it masks."""
    t = side.tensor
    side.dense("a", X, H, W1)
    scores = noisy(H) if side.is_ms else H
    made = side("Cell.a.Dense.forward.0", "Module.a.Linear.forward.0")
    added = np.where(MASKED, np.float32(mask), np.float32(0))
    name, total = "Tensor.__add__.0.forward", (scores + added).astype(np.float32)
    inputs = [t(scores, source=f"call {made}.output.0"), t(added, source="leaf")]
    side.build.call(name, inputs, [t(total)])
    weights = softmax(total) if not weak else softmax(np.where(MASKED, scores + np.float32(weak), scores))
    axis = {side("axis", "dim"): side.value(-1)}
    inputs = [t(total, source=f"call {name}.output.0")]
    side.build.call("Functional.softmax.0.forward", inputs, [t(weights)], kwargs=axis)
    inputs = [t(weights, source="call Functional.softmax.0.forward.output.0")]
    last = side("Cell.b.Dense.forward.0", "Module.b.Linear.forward.0")
    side.build.call(last, inputs, [t(weights @ W2.T)], parameters={"weight": t(W2)})


def test_a_mask_of_another_value_that_dies_out_is_harmless(sides):
    comparison, located = sides(lambda side: masked(side, -65504.0 if side.is_ms else -3.4e38))
    assert (located.findings, comparison.is_clean) == ((), True)
    assert verdict(comparison, "Tensor.__add__.0.forward.input.1").cause.name == "HARMLESS"


def test_a_mask_that_is_too_weak_is_named(sides):
    _, located = sides(lambda side: masked(side, -2.0, weak=-2.0) if side.is_ms else masked(side, -3.4e38))
    assert located.first.name == "Tensor.__add__.0.forward"


@pytest.mark.parametrize(("is_by_keyword", "kind"), [(False, "computes differently"), (True, "argument differs")])
def test_a_position_that_one_framework_alone_has_is_no_argument_that_differs(sides, is_by_keyword, kind):
    """The signatures of two frameworks differ; a keyword says which argument it is."""

    def fill(side):
        side.dense("a", X, H, W1)
        made = side("Cell.a.Dense.forward.0", "Module.a.Linear.forward.0")
        inputs = [side.tensor(H, source=f"call {made}.output.0")]
        kwargs = {}
        if not side.is_ms:
            inputs += [] if is_by_keyword else [side.value(5)]
            kwargs = {"approximate": side.value("tanh")} if is_by_keyword else {}
        made = np.tanh(H) * np.float32(1.2 if side.is_ms else 1)
        side.build.call("Functional.gelu.0.forward", inputs, [side.tensor(made)], kwargs=kwargs)

    _, located = sides(fill)
    assert (located.first.name, wording.kind(located.first)) == ("Functional.gelu.0.forward", kind)


@pytest.mark.parametrize(("wrong", "clean"), [(0.0, True), (0.05, False)])
def test_the_gradient_of_a_bias_that_cancels_out_is_held_against_what_it_adds_up(sides, wrong, clean):
    """Columns of the incoming gradient add up to zero: what is left is rounding, and differs by its whole size."""
    incoming = (R - R.mean(axis=0)).astype(np.float32)
    rounding = np.random.default_rng(1).normal(size=(2, 5)).astype(np.float32) * np.float32(1e-7)

    def fill(side):
        t, ms = side.tensor, side.is_ms
        bias = rounding[0 if ms else 1] + np.float32(wrong * ms) * np.abs(incoming).max(axis=0)
        name = side("Primitive.dense.Dense.0", "Functional.linear.0")
        inputs = [t(X), t(W1), t(W1[:, 0], source=side("parameter a.bias", "parameter a.bias"))]
        side.build.call(f"{name}.forward", inputs, [t(H)])
        back = [t(incoming @ W1), t(incoming.T @ X), t(bias)]
        side.build.call(f"{name}.backward", [t(incoming)], back)

    comparison, located = sides(fill)
    assert comparison.is_clean == clean
    assert [f.name for f in located.findings] == ([] if clean else ["Primitive.dense.Dense.0.backward"])


def test_what_follows_agrees(sides):
    """The same network as above without a fault and with rounding: nothing begins."""
    comparison, located = sides(lambda side: side.dense("a", X, noisy(Y) if side.is_ms else Y, W1))
    assert (located.findings, comparison.is_clean) == ((), True)
