"""Calls that draw random numbers: other numbers are not another computation, nor the other way round."""

import numpy as np
import pytest

from msprobe.compare.locate import wording
from msprobe.compare.locate.find import locate
from msprobe.compare.locate.random_numbers import drawing
from msprobe.compare.run import compare
from msprobe.compare.tables.console import lines

MODES = ["statistics", "tensor"]
X = np.random.default_rng(1).normal(size=(64, 64)).astype(np.float32)
DROPOUT, RAND = "Functional.dropout.0.forward", "Torch.rand.0.forward"


def dropped(seed, p=0.25, scale=1.0, x=X):
    kept = np.random.default_rng(seed).random(x.shape) >= p
    return (np.where(kept, x / np.float32(1 - p), 0) * np.float32(scale)).astype(np.float32)


@pytest.fixture
def answer(builder, tensor, value):
    """`answer(mode, name, inputs, outputs)`: the findings of two runs of a call, with a tanh behind it."""

    def make(mode, name, inputs, outputs, frameworks=("pytorch", "pytorch"), after=np.tanh, level="mix", **keywords):
        dumps = []
        for side, framework, output in zip(("target", "golden"), frameworks, outputs, strict=True):
            dtype = "torch.float32" if framework == "pytorch" else "Float32"
            build = builder(side, mode=mode, framework=framework, level=level)
            build.extra["format_version"] = 1
            given = [tensor(one, "leaf", dtype=dtype) if isinstance(one, np.ndarray) else value(one) for one in inputs]
            build.call(name, given, [tensor(output, dtype=dtype)], kwargs={k: value(v) for k, v in keywords.items()})
            one = tensor(output, f"call {name}.output.0", dtype=dtype)
            behind = after(output) if side == "target" else np.tanh(output)
            build.call(
                "Torch.tanh.0.forward" if framework == "pytorch" else "Mint.tanh.0.forward",
                [one],
                [tensor(behind, dtype=dtype)],
            )
            dumps.append(build.dump())
        comparison = compare(*dumps)
        return comparison, locate(comparison).findings

    return make


@pytest.mark.parametrize("mode", MODES)
class TestOtherNumbers:
    def test_dropout_with_another_mask_is_a_random_operation(self, answer, mode):
        comparison, (first, *others) = answer(mode, DROPOUT, [X, 0.25, True], [dropped(1), dropped(2)])
        assert (first.name, first.kind.name) == (DROPOUT, "random operation")
        assert wording.reason(first).startswith("fix seeds with seed_all or set p=0; output.0 differs (")
        assert not others
        assert not comparison.is_clean

    def test_a_layer_is_one_too(self, answer, mode):
        name = "Module.blocks.0.drop.Dropout.forward.0"
        _, (first, *_) = answer(mode, name, [X], [dropped(1), dropped(2)], level="L0")
        assert (first.name, first.kind.name) == (name, "random operation")

    def test_a_generator_has_no_p(self, answer, mode):
        outputs = [np.random.default_rng(seed).random((64, 64)).astype(np.float32) for seed in (1, 2)]
        _, (first, *_) = answer(mode, RAND, [64, 64], outputs)
        assert (first.name, first.kind.name) == (RAND, "random operation")
        assert wording.reason(first).startswith("fix seeds with seed_all; output.0 differs (")

    def test_seeds_do_not_help_between_two_frameworks(self, answer, mode):
        frameworks = "mindspore", "pytorch"
        _, (first, *_) = answer(mode, DROPOUT, [X, 0.25, True], [dropped(1), dropped(2)], frameworks)
        assert (first.name, first.kind.name) == (DROPOUT, "random operation")
        assert wording.reason(first).startswith("two frameworks draw different numbers from one seed, set p=0; ")


@pytest.mark.parametrize("mode", MODES)
class TestAnotherComputation:
    @pytest.mark.parametrize("off", [[X, 0.0, True], [X, 0.25, False]])
    def test_dropout_that_is_off_draws_nothing(self, answer, mode, off):
        _, (first, *_) = answer(mode, DROPOUT, off, [dropped(1), dropped(2)])
        assert (first.name, first.kind.name) == (DROPOUT, "computes differently")

    def test_dropout_that_is_off_on_one_side(self, answer, mode):
        """A layer in evaluation: its mode is not recorded."""
        _, (first, *_) = answer(mode, "Module.drop.Dropout.forward.0", [X], [dropped(1), X], level="L0")
        assert first.kind.name == "computes differently"

    def test_another_distribution(self, answer, mode):
        draws = [np.random.default_rng(seed).normal(size=(64, 64)).astype(np.float32) for seed in (1, 2)]
        _, (first, *_) = answer(mode, "Torch.randn.0.forward", [64, 64], [draws[0] * np.float32(0.5), draws[1]])
        assert first.kind.name == "computes differently"
        _, (first, *_) = answer(mode, "Torch.randn.0.forward", [64, 64], [draws[0] + np.float32(0.5), draws[1]])
        assert first.kind.name == "computes differently"

    def test_a_function_of_its_inputs(self, answer, mode):
        _, (first, *_) = answer(mode, "Torch.exp.0.forward", [X], [np.exp(X) * np.float32(1.1), np.exp(X)])
        assert first.kind.name == "computes differently"

    @pytest.mark.everywhere
    def test_a_fault_behind_is_the_first_of_the_next(self, answer, mode):
        """The layer behind takes other numbers, and computes something else of them."""
        if mode == "tensor":
            pytest.importorskip("torch", reason="a call on other inputs is judged by executing it again")
        wrong = lambda x: np.tanh(x) * np.float32(1.5)  # noqa: E731
        _, found = answer(mode, DROPOUT, [X, 0.25, True], [dropped(1), dropped(2)], after=wrong)
        assert [one.kind.name for one in found] == ["random operation", "computes differently"]


def test_the_same_mask_with_another_factor_is_another_computation(answer):
    _, (first, *_) = answer("tensor", DROPOUT, [X, 0.25, True], [dropped(1, scale=1.02), dropped(1)])
    assert first.kind.name == "computes differently"


def test_another_share_of_zeros_is_another_computation(answer):
    _, (first, *_) = answer("tensor", "Module.drop.Dropout.forward.0", [X], [dropped(1, 0.1), dropped(2)], level="L0")
    assert first.kind.name == "computes differently"


def test_random_numbers_are_listed_behind_faults(builder, tensor, value):
    """Of several calls that differ for themselves, other draws come last."""
    dumps = []
    for seed, side in enumerate(("target", "golden")):
        build = builder(side, mode="tensor", framework="pytorch")
        build.extra["format_version"] = 1
        for n in range(3):
            given = tensor(X, "leaf", dtype="torch.float32")
            output = tensor(dropped(10 * n + seed), dtype="torch.float32")
            build.call(f"Functional.dropout.{n}.forward", [given, value(0.25), value(True)], [output])
        given = tensor(X, "leaf", dtype="torch.float32")
        build.call("Torch.exp.0.forward", [given], [tensor(np.exp(X) * (1 + seed), dtype="torch.float32")])
        dumps.append(build.dump())
    comparison = compare(*dumps)
    printed = [line for line in lines(comparison, locate(comparison), 10) if line.startswith(("  also", "first"))]
    assert [line.split(" in ")[0] for line in printed] == [
        "  also: Torch.exp.0.forward",
        "  also: Functional.dropout.1.forward",
        "  also: Functional.dropout.2.forward",
        "first wrong call: Functional.dropout.0.forward",
    ]


# Each framework's names, with arguments as calls record them.
DRAWING = [
    ("pytorch", "Torch.rand", [2, 3]),
    ("pytorch", "Torch.bernoulli", [X]),
    ("pytorch", "Tensor.uniform_", [X, 0.0, 1.0]),
    ("pytorch", "Functional.alpha_dropout", [X, 0.5, True]),
    ("pytorch", "Functional.scaled_dot_product_attention", [X, X, X, None, 0.1]),
    ("mindspore", "Mint.randn", [2, 3]),
    ("mindspore", "MintFunctional.dropout", [X, 0.5, True]),
    ("mindspore", "Functional.dropout", [X, 0.5, True]),
    ("mindspore", "Primitive.dropout.Dropout", [X]),
    ("mindspore", "Primitive.standard_normal.StandardNormal", [[2, 3]]),
    ("mindspore", "Primitive.uniform_real.UniformReal", [[2, 3]]),
    ("mindspore", "Functional.laplace", [[2, 3], 0.0, 1.0]),
    ("mindspore", "Functional.multinomial", [X, 3]),
]
FOLLOWING = [
    ("pytorch", "Functional.scaled_dot_product_attention", [X, X, X, None, 0.0]),
    ("pytorch", "Torch.normalize", [X]),
    ("mindspore", "MintFunctional.dropout", [X, 0.5, False]),
    ("mindspore", "Functional.lgamma", [X]),
    ("mindspore", "Primitive.pixel_shuffle.PixelShuffle", [X, 2]),
]


@pytest.mark.parametrize(
    ("framework", "name", "inputs", "draws"),
    [*((*one, True) for one in DRAWING), *((*one, False) for one in FOLLOWING)],
)
def test_which_calls_draw(builder, tensor, value, framework, name, inputs, draws):
    dtype = "torch.float32" if framework == "pytorch" else "Float32"
    given = [
        None if one is None else tensor(one, dtype=dtype) if isinstance(one, np.ndarray) else value(one)
        for one in inputs
    ]
    build = builder("one", framework=framework)
    dump = build.call(f"{name}.0.forward", given, [tensor(X, dtype=dtype)]).dump()
    assert bool(drawing(dump, 0)) is draws
