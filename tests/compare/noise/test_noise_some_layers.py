"""Products that round to fewer bits in some layers only: those of the MLP of every block, not of the attention."""

import numpy as np
import pytest
from test_noise import bf16, plain, rounded

from msprobe.compare.core.noise import KernelPrecision
from msprobe.compare.locate.find import locate
from msprobe.compare.run import compare

BLOCKS, WIDTH = 3, 32
PRODUCTS = {"attention": 3, "mlp": 2}
MODES = ["statistics", "tensor"]


def fp16(a, b):
    return (a.astype(np.float16).astype(np.float32) @ b.astype(np.float16).astype(np.float32)).astype(np.float32)


def bf16_output(a, b):
    """A kernel that also rounds its result."""
    return rounded(rounded(a) @ rounded(b))


class Blocks:
    """Blocks of an attention of three products and an MLP of two, of the same input, each a cell.

    `products` are by the name of the cell; `change(name, result)` may replace what a product gives.
    """

    def __init__(self, build, tensor, value, products=None, change=None, mode="tensor"):
        self.build, self.tensor = build, tensor
        self.products, self.change = products or {}, change or (lambda _, result: result)
        random = np.random.default_rng(11)
        h = random.standard_normal((24, WIDTH)).astype(np.float32), "leaf"
        for block in range(BLOCKS):
            for part, count in PRODUCTS.items():
                cell = f"Cell.blocks.{block}.{part}.Part.forward.0"
                entered, made = h, []
                for n in range(count):
                    w = (random.standard_normal((WIDTH, WIDTH)) / 6).astype(np.float32)
                    result = self.products.get(part, plain)(h[0], w)
                    made.append(self.call("matmul", result, cell, h, (w, f"parameter blocks.{block}.{part}.w{n}")))
                    if part == "attention":
                        h = self.call("tanh", np.tanh(made[-1][0]), cell, made[-1])
                if part == "mlp":
                    gate = self.call("tanh", np.tanh(made[0][0]), cell, made[0])
                    h = self.call("mul", gate[0] * made[1][0], cell, gate, made[1])
                h = self.call("add", h[0] + entered[0], cell, h, entered)
                build.call(cell, [tensor(*entered)], [tensor(h[0])])

    def call(self, name, result, cell, *inputs):
        self.counts = getattr(self, "counts", {})
        number = self.counts[name] = self.counts.get(name, -1) + 1
        full = f"Mint.{name}.{number}.forward"
        result = self.change(f"{name}.{number}", result).astype(np.float32)
        given = [self.tensor(array, source) for array, source in inputs]
        self.build.call(full, given, [self.tensor(result)], parent=cell)
        return result, f"call {full}.output.0"


@pytest.fixture(params=[pytest.param(mode, marks=pytest.mark.torch) if mode == "tensor" else mode for mode in MODES])
def judged(builder, tensor, value, request):
    """`judged(products={"mlp": bf16})`: the target against the plain network, by tensors and by statistics."""
    if request.param == "tensor":
        pytest.importorskip("torch", reason="calls are executed again by torch")

    def make(**target):
        dumps = []
        for side, settings in (("target", target), ("golden", {})):
            build = builder(side, mode=request.param)
            Blocks(build, tensor, value, **settings)
            dumps.append(build.dump())
        comparison = compare(*dumps)
        return comparison, locate(comparison).findings

    make.mode = request.param
    return make


@pytest.mark.parametrize("product", [bf16, fp16, bf16_output])
@pytest.mark.parametrize("part", ["mlp", "attention"])
def test_the_products_of_one_part_of_every_block_are_a_class(judged, product, part):
    comparison, findings = judged(products={part: product})
    assert findings == ()
    assert comparison.is_clean
    if judged.mode == "tensor":
        (found,) = comparison.noise.classes
        assert (found.side, found.calls) == ("target", BLOCKS * PRODUCTS[part])
        assert found.is_of is (KernelPrecision.HALF if product is fp16 else KernelPrecision.BRAIN)


def row_times(factor, call):
    def change(name, result):
        if name == call:
            result = result.copy()
            result[3] *= np.float32(factor)
        return result

    return change


# Products are counted: 0 to 2 of the attention of the first block, 3 and 4 of its MLP, then those of the next blocks.
@pytest.mark.parametrize("number", [1, 3, 7, 9])
def test_a_wrong_row_is_named_whichever_part_it_is_in(judged, number):
    change = row_times(1.5, f"matmul.{number}")
    _, findings = judged(products={"mlp": bf16}, change=change)
    assert findings[0].name == f"Mint.matmul.{number}.forward"


@pytest.mark.parametrize("number", [3, 4, 8])
def test_one_product_that_rounds_is_no_class(judged, number):
    """The same product of the other blocks does not round."""
    once = lambda name, result: rounded(result) if name == f"matmul.{number}" else result  # noqa: E731
    _, findings = judged(change=once)
    assert findings[0].name == f"Mint.matmul.{number}.forward"
