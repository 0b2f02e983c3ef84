"""`y * weight` in one framework, `weight * y` in the other: which operand is which, forward and backward."""

import numpy as np
import pytest

from msprobe.compare.locate import wording
from msprobe.compare.locate.find import locate
from msprobe.compare.run import compare

GENERATOR = np.random.default_rng(11)
X, W1, A, B, W2, Y = (
    GENERATOR.normal(size=shape).astype(np.float32) for shape in ((3, 4), (5, 4), (3, 5), (3, 5), (2, 5), (3, 2))
)
SCALE = GENERATOR.normal(size=5).astype(np.float32)
MODES = ["statistics", "tensor"]


class Side:
    """One side, call by call; `side(ms, pt)` is what this side has."""

    def __init__(self, builder, tensor, framework, mode):
        self.build = builder(framework, mode=mode, framework=framework)
        self.build.extra["format_version"] = 1
        self.is_ms = framework == "mindspore"
        self.tensor = lambda array, source="": tensor(array, source, dtype=self("Float32", "torch.float32"))

    def __call__(self, ms, pt):
        return ms if self.is_ms else pt

    def layer(self, name, argument, result, weight):
        """A layer; what it gives, as what takes it says where it comes from."""
        name = f"{self('Cell', 'Module')}.{name}.{self('Dense', 'Linear')}.forward.0"
        self.build.call(
            name, [self.tensor(argument)], [self.tensor(result)], parameters={"weight": self.tensor(weight)}
        )
        return f"call {name}.output.0"

    def call(self, ms, pt, operands, result, gradients=(), **more):
        """A call whose operands PyTorch takes in the other order, and its backward call."""
        name = self(ms, pt)
        inputs = [arguments if not isinstance(arguments, tuple) else self.tensor(*arguments) for arguments in operands]
        turned = self(slice(None), slice(None, None, -1))
        self.build.call(f"{name}.0.forward", inputs[turned], [self.tensor(result)], **more)
        if gradients:
            handed_back = [self.tensor(gradient) for gradient in gradients][turned]
            self.build.call(f"{name}.0.backward", [self.tensor(result)], handed_back)
        return f"call {name}.0.forward.output.0"


@pytest.fixture
def compared(builder, tensor):
    """`compared(fill)`: both sides as `fill(side)` writes them, and what is found."""

    def make(fill, mode="statistics", *, is_ms_target=True):
        sides = [Side(builder, tensor, framework, mode) for framework in ("mindspore", "pytorch")]
        for side in sides:
            fill(side)
        dumps = [side.build.dump() for side in sides]
        comparison = compare(*(dumps if is_ms_target else reversed(dumps)))
        return comparison, locate(comparison)

    return make


def places(comparison, call, part="input"):
    """The golden's place of each of the target's records of a part of a call."""
    (found,) = (c for c in comparison.pairs if c.target is not None and c.target.name == call)
    return {p.target.path[0]: p.golden.path[0] for p in found.pairs if p.target and p.golden and p.target.part == part}


CROSSED = {"0": "1", "1": "0"}
STRAIGHT = {"0": "0", "1": "1"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("is_ms_target", [True, False])
def test_shapes_tell_a_weight_from_what_it_scales(compared, mode, is_ms_target):
    def fill(side):
        made = side.layer("a", X, A, W1)
        weight = (SCALE, side("parameter norm.weight", "parameter ln.weight"))
        side.call("Tensor.__mul__", "Tensor.__mul__", [(A, made), weight], A * SCALE, [B, SCALE * 2])
        side.layer("b", A * SCALE, Y, W2)

    comparison, located = compared(fill, mode, is_ms_target=is_ms_target)
    assert places(comparison, "Tensor.__mul__.0.forward") == CROSSED
    assert places(comparison, "Tensor.__mul__.0.backward", "output") == CROSSED
    assert located.findings == ()
    assert comparison.is_clean


def test_origin_tells_operands_of_one_shape_even_where_one_is_wrong(compared):
    """The second layer's result is so wrong on one side that its values are nearer to the first's."""

    def fill(side):
        first = side.layer("a", X, A, W1)
        wrong = side(A * np.float32(1.01), B)
        second = side.layer("b", X[::-1].copy(), wrong, W1 * 2)
        side.call("Tensor.__add__", "Torch.add", [(A, first), (wrong, second)], A + wrong, [Y, Y * 3])

    comparison, located = compared(fill)
    assert places(comparison, "Tensor.__add__.0.forward") == CROSSED
    assert places(comparison, "Tensor.__add__.0.backward", "output") == CROSSED
    assert located.first.name == "Cell.b.Dense.forward.0"
    assert not any(f.name == "Tensor.__add__.0.forward" for f in located.findings)


def test_a_parameter_is_the_parameter_though_it_differs(compared):
    def fill(side):
        made = side.layer("a", X, A, W1)
        gate = B * np.float32(side(1.5, 1))
        side.call("Functional.mul", "Torch.mul", [(A, made), (gate, side("parameter g", "parameter gate"))], A * gate)
        side.layer("b", A * gate, Y, W2)

    comparison, located = compared(fill)
    assert places(comparison, "Functional.mul.0.forward") == CROSSED
    assert located.first.kind.name == "parameters differ"
    assert "1 parameter differs: g" in wording.reason(located.first)


@pytest.mark.parametrize("mode", MODES)
def test_values_tell_where_nothing_else_does(compared, mode):
    def fill(side):
        side.layer("a", X, A, W1)
        side.call("Functional.maximum", "Torch.maximum", [(A,), (B,)], np.maximum(A, B), [A * 2, B * 3])
        side.layer("b", np.maximum(A, B), Y, W2)

    comparison, located = compared(fill, mode)
    assert places(comparison, "Functional.maximum.0.forward") == CROSSED
    assert places(comparison, "Functional.maximum.0.backward", "output") == CROSSED
    assert located.findings == ()
    assert comparison.is_clean


def test_where_nothing_tells_each_operand_stays_at_its_place(compared):
    def fill(side):
        side.layer("a", X, A, W1)
        inputs = side([(A * 3,), (B * 3,)], [(A,), (B,)])
        side.call("Tensor.__mul__", "Tensor.__mul__", inputs, A * B)

    comparison, _ = compared(fill)
    assert places(comparison, "Tensor.__mul__.0.forward") == STRAIGHT


def test_a_number_may_stand_before_what_it_scales(compared, value):
    def fill(side):
        made = side.layer("a", X, A, W1)
        side.call("Functional.mul", "Torch.mul", [value(2.0), (A, made)], A * 2)
        side.layer("b", A * 2, Y, W2)

    comparison, located = compared(fill)
    assert places(comparison, "Functional.mul.0.forward") == CROSSED
    assert located.findings == ()
    assert comparison.is_clean


@pytest.mark.parametrize(
    ("ms", "pt", "more"), [("Tensor.__sub__", "Tensor.__sub__", {}), ("Mint.add", "Torch.add", {"alpha": 2})]
)
def test_where_the_order_matters_it_is_a_difference(compared, value, ms, pt, more):
    def fill(side):
        made = side.layer("a", X, A, W1)
        other = side.layer("b", X[::-1].copy(), B, W1 * 2)
        kwargs = {name: value(message) for name, message in more.items()}
        side.call(ms, pt, [(A, made), (B, other)], side(A - B, B - A), kwargs=kwargs)

    comparison, located = compared(fill)
    assert places(comparison, f"{ms}.0.forward").items() >= STRAIGHT.items()
    assert located.first.name == f"{ms}.0.forward"
    assert "swapped" in wording.reason(located.first)


def test_a_parameter_at_another_place_is_named_once_and_as_the_target_calls_it(compared):
    def fill(side):
        made = side.layer("a", X, A, W1)
        weight = (B * np.float32(side(2, 1)), side("parameter norm.weight", "parameter ln.weight"))
        side.call("Tensor.__sub__", "Tensor.__sub__", [(A, made), weight], A - B)

    _, located = compared(fill)
    assert "1 parameter differs: norm.weight" in wording.reason(located.first)
