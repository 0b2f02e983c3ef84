"""Gradients of two runs that differ by rounding: a fault in a backward call among it. Calls are replayed by torch."""

import numpy as np
import pytest

from msprobe.compare.core.noise import KernelPrecision, Sign, State
from msprobe.compare.locate.find import locate
from msprobe.compare.run import compare

pytestmark = pytest.mark.torch

pytest.importorskip("torch", reason="calls are replayed")
LAYERS = 4


def other_order(a, b):
    """The products of a matmul, added up from the last one to the first."""
    return np.ascontiguousarray(a[:, ::-1]) @ np.ascontiguousarray(b[::-1])


def half(a, b):
    """Operands rounded to float16, the sum in float32."""
    return a.astype(np.float16).astype(np.float32) @ b.astype(np.float16).astype(np.float32)


def backpropagate(build, tensor, product=np.matmul, change=None):
    """Layers of matmul and tanh whose output is added to their input, forward and backward, as a dump at level L1.

    Each tensor between layers has two users, so its gradient is a sum of two contributions.
    """
    change = change or (lambda _, result: result)
    random = np.random.default_rng(5)
    weights = [(random.standard_normal((32, 32)) / 6).astype(np.float32) for _ in range(LAYERS)]
    h, source, saved = random.standard_normal((16, 32)).astype(np.float32), "leaf", []

    def call(name, inputs, outputs):
        outputs = [np.asarray(change(name, each), np.float32) for each in outputs]
        build.call(name, inputs, outputs)
        return outputs

    for n, w in enumerate(weights):
        matmul, tanh, add = (f"Mint.{word}.{n}.forward" for word in ("matmul", "tanh", "add"))
        arguments = h, source
        (s,) = call(matmul, [tensor(*arguments), tensor(w, f"parameter {n}.weight")], [product(h, w)])
        (t,) = call(tanh, [tensor(s, f"call {matmul}.output.0")], [np.tanh(s)])
        (h,) = call(add, [tensor(t, f"call {tanh}.output.0"), tensor(*arguments)], [t + h])
        saved.append((arguments[0], t))
        source = f"call {add}.output.0"
    g = random.standard_normal(h.shape).astype(np.float32)
    for n in reversed(range(LAYERS)):
        matmul, tanh, add = (f"Mint.{word}.{n}.backward" for word in ("matmul", "tanh", "add"))
        x, t = saved[n]
        ours, through = call(add, [tensor(g)], [g, g])
        (ours,) = call(tanh, [tensor(ours)], [ours * (1 - t * t)])
        x_gradient, _ = call(matmul, [tensor(ours)], [product(ours, weights[n].T), product(x.T, ours)])
        g = x_gradient + through


@pytest.fixture
def judged(builder, tensor):
    def make(**target):
        sides = []
        for side, settings in (("target", target), ("golden", {})):
            build = builder(side, mode="tensor", level="L1")
            backpropagate(build, tensor, **settings)
            sides.append(build.dump())
        comparison = compare(*sides)
        return comparison, locate(comparison)

    return make


def row_of(comparison, name):
    return next(n for n in range(len(comparison.grades)) if comparison.pairs.pair(n).record.name == name)


@pytest.mark.parametrize("product", [other_order, half])
def test_gradients_that_differ_by_rounding_are_clean(judged, product):
    comparison, located = judged(product=product)
    assert comparison.is_clean
    assert not located.findings
    # A forward output, and the gradients of both operands, in each layer but where bits agree by chance.
    expected = [("target", KernelPrecision.HALF, ("matmul",), 3 * LAYERS)] if product is half else []
    assert [(c.side, c.is_of, c.operations, c.calls) for c in comparison.noise.classes] == expected


@pytest.mark.parametrize(("product", "factor"), [(other_order, 1.001), (half, 1.05)])
@pytest.mark.parametrize("word", ["matmul", "tanh"])
def test_a_wrong_gradient_is_named_and_what_follows_received_it(judged, product, factor, word):
    name = f"Mint.{word}.2.backward"
    comparison, located = judged(product=product, change=lambda n, result: result * (factor if n == name else 1))
    assert not comparison.is_clean
    assert [finding.name for finding in located.findings] == [name]
    row = row_of(comparison, f"{name}.output.0")
    assert comparison.noise.diverging()[row]
    assert comparison.noise.evidence[row].sign is not Sign.NONE
    # The incoming gradient of the layer before is a sum, one part of which is wrong.
    assert comparison.noise.states[row_of(comparison, "Mint.add.1.backward.input.0")] == State.PROPAGATED
    assert comparison.noise.states[row_of(comparison, "Mint.add.2.backward.input.0")] != State.PROPAGATED
    assert comparison.noise.states[row_of(comparison, "Mint.matmul.3.forward.output.0")] == State.NOISE
