"""Which of several differences heads the answer: the earliest in execution order, if it has consequences."""

import numpy as np
import pytest

from msprobe.compare.locate.find import locate
from msprobe.compare.run import compare

GENERATOR = np.random.default_rng(11)
X, K, MASK = (GENERATOR.normal(size=(6, 8)).astype(np.float32) for _ in range(3))
W, V = (GENERATOR.uniform(0.5, 1.5, size=8).astype(np.float32) for _ in range(2))
SQUARE = GENERATOR.normal(size=(8, 8)).astype(np.float32)


class Chain:
    """One side, call by call; every call knows which calls made its inputs."""

    def __init__(self, build, tensor, *, is_target):
        self.build, self._tensor, self.is_target = build, tensor, is_target

    def call(self, name, inputs, *outputs, parent=None):
        """Write a call of a function; `inputs` are arrays with the sources that they have."""
        made = [self._tensor(array, source) for array, source in inputs]
        self.build.call(f"{name}.forward", made, [self._tensor(array) for array in outputs], parent=parent)
        return [(array, f"call {name}.forward.output.{n}") for n, array in enumerate(outputs)]


@pytest.fixture
def named(builder, tensor):
    """`named(fill)`: the calls that are named, of two sides as `fill(chain)` writes them, by statistics."""

    def make(fill):
        dumps = []
        for side in ("target", "golden"):
            build = builder(side, level="L1")
            fill(Chain(build, tensor, is_target=side == "target"))
            dumps.append(build.dump())
        return [finding.name for finding in locate(compare(*dumps)).findings]

    return make


def scaled(chain, number, x, scale, *, wrong):
    """A product with a scale, to which the target adds one before; and the shape of what comes out."""
    factor = (scale, "leaf")
    if chain.is_target and wrong:
        (factor,) = chain.call(f"Mint.add.{number}", [factor], scale + 1)
    (product,) = chain.call(f"Mint.mul.{number}", [x, factor], (x[0] * factor[0]).astype(np.float32))
    chain.call(f"Mint.shape.{number}", [product])
    return product


def test_a_call_that_returns_no_tensor_does_not_show_that_a_difference_dies_out(named):
    """The first of two faults has as much effect as the second, although its result's shape is taken besides."""

    def fill(chain):
        product = scaled(chain, 0, (X, "leaf"), W, wrong=True)
        (bent,) = chain.call("Mint.tanh.0", [product], np.tanh(product[0]))
        product = scaled(chain, 1, bent, V, wrong=True)
        chain.call("Mint.sum.0", [product], product[0].sum(axis=1))

    assert named(fill)[:2] == ["Mint.add.0.forward", "Mint.add.1.forward"]


def test_a_selection_that_differs_is_no_rounding(named):
    """By statistics two masks of as many elements are one; what is masked is far greater than what is left."""
    masks = [np.triu(np.ones((8, 8), bool), 1), np.tril(np.ones((8, 8), bool), -1)]

    def fill(chain):
        mask = masks[not chain.is_target]
        masked = np.where(mask, np.float32(-1e9), SQUARE)
        (found,) = chain.call("Mint.masked_fill.0", [(SQUARE, "leaf"), (mask, "leaf")], masked)
        powers = np.exp(masked - masked.max(axis=1, keepdims=True))
        (weights,) = chain.call("Mint.softmax.0", [found], powers / powers.sum(axis=1, keepdims=True))
        chain.call("Mint.matmul.0", [weights, (SQUARE, "leaf")], weights[0] @ SQUARE)
        for number in range(3):
            chain.call(f"Mint.tanh.{number}", [(SQUARE, "leaf")], np.tanh(SQUARE))

    assert named(fill)[0] == "Mint.masked_fill.0.forward"
