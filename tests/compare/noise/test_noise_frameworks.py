"""MindSpore against PyTorch, judged along the dataflow: pairs of dumps of small programs computed with numpy, which are
written differently, drift by rounding, or have a fault."""

from importlib.util import find_spec
from math import erf, sqrt

import numpy as np
import pytest

from msprobe.compare.core.noise import Sign, State
from msprobe.compare.core.reason import Cause, Why
from msprobe.compare.locate.find import locate
from msprobe.compare.noise.pairs import nearest_layout
from msprobe.compare.run import compare
from msprobe.findings.catalogue import comparison as kinds

without_torch = pytest.mark.skipif(find_spec("torch") is not None, reason="with torch, calls are executed again")

RANDOM = np.random.default_rng(5)
X, W, V, U = (RANDOM.standard_normal(shape).astype(np.float32) for shape in ((12, 16), (16, 16), (16, 16), (16, 8)))


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(erf)(x.astype(np.float64) / sqrt(2)))


def gelu_by_tanh(x):
    wide = x.astype(np.float64)
    return 0.5 * wide * (1 + np.tanh(sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class Program:
    """Writes one side's calls, results computed in float32; MindSpore's products are added up from the last term."""

    def __init__(self, build, tensor, value):
        self.build, self.tensor, self.value = build, tensor, value
        self.is_ms = build.framework == "mindspore"
        self.counts = {}

    def leaf(self, array):
        return array, "leaf"

    def parameter(self, array, name):
        return array, f"parameter {name}"

    def call(self, name, result, *arguments, parent=None, extra=(), **fields):
        """A call of `Mint` or `Torch`; gives its result with its source."""
        number = self.counts[name] = self.counts.get(name, -1) + 1
        full = f"{'Mint' if self.is_ms else 'Torch'}.{name}.{number}.forward"
        result = np.asarray(result, np.float32)
        inputs = [self.tensor(*each) if isinstance(each, tuple) else self.value(each) for each in arguments]
        values = {key: self.value(each) for key, each in fields.items()}
        self.build.call(full, inputs, [result, *extra], kwargs=values, parent=parent)
        return result, f"call {full}.output.0"

    def product(self, a, b):
        found = a[0][:, ::-1].copy() @ b[0][::-1].copy() if self.is_ms else a[0] @ b[0]
        return self.call("matmul", found, a, b)


@pytest.fixture
def compared(builder, tensor, value):
    """`compared(fill, mode)`: `fill(program)` writes each side; the comparison and what was located in it."""

    def make(fill, mode="tensor"):
        sides = []
        for side, framework in (("target", "mindspore"), ("golden", "pytorch")):
            build = builder(side, mode=mode, level="L1", framework=framework)
            fill(Program(build, tensor, value))
            sides.append(build.dump())
        comparison = compare(*sides)
        return comparison, locate(comparison)

    return make


def row_of(comparison, name):
    return next(n for n in range(len(comparison.grades)) if comparison.pairs.pair(n).record.name == name)


def state_of(comparison, name):
    return State(comparison.noise.states[row_of(comparison, name)])


@pytest.fixture
def _replaying():
    """Calls are replayed by torch."""
    pytest.importorskip("torch", reason="calls are replayed")


def layers(side, activation=np.tanh, name="tanh", weight=W):
    h = side.product(side.leaf(X), side.parameter(weight, "first.weight"))
    h = side.call(name, activation(h[0]), h)
    h = side.product(h, side.parameter(V, "second.weight"))
    h = side.call("softmax", softmax(h[0]), h, dim=-1)
    side.product(h, side.parameter(U, "head.weight"))


def test_two_programs_that_round_differently_are_clean(compared):
    comparison, located = compared(layers)
    assert comparison.is_clean
    assert not located.findings
    assert not comparison.noise.differs().any()


def scaled_before(side):
    """A scale of the keys on one side, of the scores on the other."""
    q = side.product(side.leaf(X), side.parameter(W, "first.weight"))
    if side.is_ms:
        q = side.call("mul", q[0] * np.float32(0.25), q, 0.25)
    s = side.product(q, side.parameter(V, "second.weight"))
    if not side.is_ms:
        s = side.call("div", s[0] / np.float32(4), s, 4.0)
    s = side.call("softmax", softmax(s[0]), s, dim=-1)
    side.product(s, side.parameter(U, "head.weight"))


def test_what_is_written_differently_and_comes_to_the_same_dies_out(compared):
    comparison, located = compared(scaled_before)
    assert not located.findings
    assert comparison.is_clean
    assert state_of(comparison, "Mint.matmul.1.forward.output.0") is State.HARMLESS
    assert state_of(comparison, "Mint.softmax.0.forward.output.0") is State.NOISE
    place = next(n for n in range(len(comparison.pairs)) if comparison.pairs.name(n) == "Mint.mul.0.forward")
    assert comparison.explained[place].why is Why.COMPARED_LATER


def without_scale(side):
    q = side.product(side.leaf(X), side.parameter(W, "first.weight"))
    s = side.product(q, side.parameter(V, "second.weight"))
    if not side.is_ms:
        s = side.call("div", s[0] / np.float32(4), s, 4.0)
    s = side.call("softmax", softmax(s[0]), s, dim=-1)
    side.product(s, side.parameter(U, "head.weight"))


def test_a_call_that_is_missing_is_named_where_a_difference_comes_of_it(compared):
    comparison, located = compared(without_scale)
    assert [(f.name, f.kind) for f in located.findings] == [("Torch.div.0.forward", kinds.STRUCTURE)]
    assert not comparison.is_clean
    assert state_of(comparison, "Mint.softmax.0.forward.input.0") is State.DIVERGENT
    assert state_of(comparison, "Mint.softmax.0.forward.output.0") is State.PROPAGATED


def test_another_function_in_its_place(compared):
    def fill(side):
        layers(side, *((lambda x: np.maximum(x, 0), "relu") if side.is_ms else (np.tanh, "tanh")))

    _, located = compared(fill)
    assert [(f.name, f.kind) for f in located.findings] == [("Mint.relu.0.forward", kinds.STRUCTURE)]


@pytest.mark.torch
@pytest.mark.usefixtures("_replaying")
def test_another_function_of_the_same_name_is_no_precision_class(compared):
    # By their own residuals both compute in float32; all of them are off by as much as half precision would be.
    def fill(side):
        h = side.leaf(X)
        expected = {"approximate": "tanh"} if side.is_ms else {}
        for n, weight in enumerate((W, V, W)):
            h = side.product(h, side.parameter(weight, f"{n}.weight"))
            h = side.call("gelu", (gelu_by_tanh if side.is_ms else gelu)(h[0]), h, **expected)
        side.product(h, side.parameter(U, "head.weight"))

    comparison, located = compared(fill)
    assert located.findings[0].name == "Mint.gelu.0.forward"
    evidence = comparison.noise.evidence[row_of(comparison, "Mint.gelu.0.forward.output.0")]
    assert evidence.sign is Sign.OTHER_FUNCTION
    assert not comparison.noise.classes


def large(side, off):
    """Four layers of tanh with the inputs of one of them so large that a kernel is off near one; by `off` there."""
    h = side.leaf(X)
    for n, (weight, gain) in enumerate(((W, 0.3), (V, 0.3), (W, 4.0), (V, 0.3))):
        h = side.product(h, side.parameter(weight * np.float32(gain), f"{n}.weight"))
        exact = np.tanh(h[0].astype(np.float64))
        is_near_one = (np.abs(h[0]) > 3) & (np.abs(h[0]) < 5)
        h = side.call("tanh", exact - (off * np.sign(exact) * is_near_one if side.is_ms else 0.0), h)
    side.product(h, side.parameter(U, "head.weight"))


@pytest.mark.torch
@pytest.mark.usefixtures("_replaying")
@pytest.mark.parametrize(("off", "names"), [(7e-5, []), (5e-4, ["Mint.tanh.2.forward"])])
def test_a_kernel_that_approximates_tanh_is_no_wrong_call(compared, off, names):
    _, located = compared(lambda side: large(side, off))
    assert [finding.name for finding in located.findings] == names


def test_a_wrong_parameter_is_named_and_carried_by_calls_of_one_side(compared):
    def fill(side):
        wrong = np.array(W)
        wrong[3] *= np.float32(1.01)
        weight = wrong if side.is_ms else W
        h = side.product(side.leaf(X), side.parameter(weight, "first.weight"))
        if side.is_ms:  # the target adds a tensor of zeros, the golden none
            h = side.call("add", h[0] + np.float32(0), h, 0.0)
        h = side.call("tanh", np.tanh(h[0]), h)
        side.product(h, side.parameter(V, "second.weight"))

    comparison, located = compared(fill)
    assert [(f.name, f.kind) for f in located.findings] == [("Mint.matmul.0.forward", kinds.PARAMETERS)]
    assert state_of(comparison, "Mint.tanh.0.forward.output.0") is State.PROPAGATED


def test_an_output_that_nobody_uses_may_be_none(compared):
    def fill(side):
        h = side.product(side.leaf(X), side.parameter(W, "first.weight"))
        weights = None if side.is_ms else softmax(h[0])
        h = side.call("softmax", softmax(h[0]), h, dim=-1, extra=(weights,))
        side.product(h, side.parameter(U, "head.weight"))

    comparison, located = compared(fill)
    assert not located.findings
    assert comparison.is_clean
    assert comparison.unjudged[Cause.HARMLESS] == 1


def test_a_call_at_the_end_that_nothing_follows_leaves_the_question_open(compared):
    def fill(side):
        h = side.product(side.leaf(X), side.parameter(W, "first.weight"))
        if side.is_ms:
            side.call("exp", np.exp(h[0]), h)

    comparison, located = compared(fill)
    assert not located.findings
    assert not comparison.is_clean


def test_of_two_siblings_that_hold_each_other_s_weights_the_paths_tell_which_is_which(builder, tensor):
    sides = []
    for side, framework, kind in (("target", "mindspore", "Cell"), ("golden", "pytorch", "Module")):
        build = builder(side, mode="tensor", level="L0", framework=framework)
        layer = "Dense" if kind == "Cell" else "Linear"
        keys, values = (V, W) if kind == "Cell" else (W, V)
        k, v = (f"{kind}.net.{name}.{layer}.forward.0" for name in ("k", "v"))
        for name, weight in ((k, keys), (v, values)):
            build.call(name, [tensor(X, "leaf")], [X @ weight.T], parameters={"weight": weight}, parent=None)
        inputs = [tensor(X @ keys.T, f"call {k}.output.0"), tensor(X @ values.T, f"call {v}.output.0")]
        build.call(f"{kind}.net.mix.Mix.forward.0", inputs, [(X @ keys.T) * np.tanh(X @ values.T)])
        sides.append(build.dump())
    located = locate(compare(*sides))
    assert located.first.kind is kinds.PARAMETERS
    assert (located.first.name, located.first.evidence.names) == ("Cell.net.k.Dense.forward.0", ("net.k.weight",))
    assert located.first.evidence.total == 2


LONG = RANDOM.standard_normal((300, 16)).astype(np.float32)


def attention(side, error=0.0):
    """Attention to 300 positions, by four calls of the target: the values average out, an error that all positions have
    in common does not."""
    cell = f"{'Cell' if side.is_ms else 'Module'}.net.attention.Attention.forward.0"
    values = LONG + np.float32(1.1e-6) if side.is_ms else LONG
    q = side.product(side.leaf(X), side.parameter(W, "q.weight"))
    k = side.product(side.leaf(LONG), side.parameter(V, "k.weight"))
    v = side.call("matmul", values, side.leaf(LONG), side.parameter(np.eye(16, dtype=np.float32), "v.weight"))
    scores = np.float32(1e-4) * q[0] @ k[0].T
    found = softmax(scores) @ v[0]
    if side.is_ms:
        h = side.call("matmul", scores, q, k, parent=cell)
        h = side.call("softmax", softmax(scores), h, dim=-1, parent=cell)
        h = side.call("bmm", found + np.float32(error), h, v, parent=cell)
        h = side.call("reshape", h[0], h, 12, parent=cell)
    else:
        h = side.call("scaled_dot_product_attention", found, q, k, v, scale=1e-4, parent=cell)
    side.build.call(cell, [side.tensor(*each) for each in (q, k, v)], [h[0]])
    side.call("neg", -h[0], h)


@without_torch
@pytest.mark.parametrize(("error", "names"), [(0.0, []), (1e-4, ["Mint.reshape.0.forward"])])
def test_each_of_several_calls_of_one_side_may_amplify_a_difference(error, names, compared):
    _, located = compared(lambda side: attention(side, error))
    assert [finding.name for finding in located.findings] == names


def frequencies(side, number):
    """Frequencies of positions, which are constants, as a column by a different call of each side."""
    t = side.call("arange", np.arange(16, dtype=np.float32), 16)
    t = side.call("div", t[0] / np.float32(number), t, number)
    t = side.call("exp", np.exp(t[0]), t)
    t = side.call("expand_dims" if side.is_ms else "narrow", t[0][None], t, 0)
    h = side.call("mul", X * t[0], side.leaf(X), t)
    side.product(h, side.parameter(W, "first.weight"))


def test_a_constant_that_calls_of_one_side_only_move_is_the_cause_of_what_differs_after_them(compared):
    comparison, located = compared(lambda side: frequencies(side, 64.0 if side.is_ms else 63.0))
    assert [(f.name, f.kind) for f in located.findings] == [("Mint.div.0.forward", kinds.ARGUMENT)]
    assert state_of(comparison, "Mint.mul.0.forward.input.1") is State.PROPAGATED


@without_torch
@pytest.mark.parametrize("function", ["sin", "cos"])
@pytest.mark.parametrize("error", [0.0, 0.01])
def test_the_relative_error_of_an_angle_is_the_absolute_one_of_its_argument(function, error, compared):
    angles = RANDOM.uniform(30, 60, (16, 16))

    def fill(side):
        received = angles * (1 + 1e-6 * side.is_ms)  # 5e-5 of the results
        h = side.call("add", received, side.leaf(angles), 0.0)
        h = side.call(function, getattr(np, function)(received) + error * side.is_ms, h)
        side.product(h, side.parameter(W, "first.weight"))

    _, located = compared(fill)
    assert [finding.name for finding in located.findings] == [f"Mint.{function}.0.forward"] * bool(error)


def test_a_difference_does_not_end_at_a_cell_whose_inner_calls_are_not_compared(compared):
    def fill(side):
        scaled_before(side)  # with a difference that has no effect
        cell = f"{'Cell' if side.is_ms else 'Module'}.net.layer.{'Dense' if side.is_ms else 'Linear'}.forward.0"
        axis = 1 if side.is_ms else 0
        h = side.call("flip", np.flip(X, axis), side.leaf(X), axis)
        product = h[0] @ V
        if side.is_ms:  # the golden's calls inside are not recorded
            inner = side.call("mm", product, h, side.parameter(V, "layer.weight"), parent=cell)
            side.call("add", product, inner, 0.0, parent=cell)
        side.build.call(cell, [side.tensor(*h)], [product], parameters={"weight": V})
        side.call("neg", -product, (product, f"call {cell}.output.0"))

    comparison, located = compared(fill)
    assert (located.first.name, located.first.kind) == ("Mint.flip.0.forward", kinds.ARGUMENT)
    assert state_of(comparison, "Cell.net.layer.Dense.forward.0.output.0") is State.PROPAGATED


@pytest.mark.parametrize("mode", ["tensor", "statistics"])
def test_a_product_of_exchanged_operands_is_no_evidence_that_they_have_no_effect(mode, compared):
    def fill(side):
        q = side.product(side.leaf(X), side.parameter(W, "q.weight"))
        k = side.product(side.leaf(X), side.parameter(V, "k.weight"))
        left, right = (k, q) if side.is_ms else (q, k)
        right = side.call("transpose", right[0].T, right)
        s = side.call("matmul", left[0] @ right[0], left, right)  # transposed, by statistics the same
        masked = np.where(np.tri(12, dtype=bool), s[0], np.float32(-1e4))
        if side.is_ms:
            s = side.call("masked_fill", masked, s, -1e4)
        else:
            s = side.call("add", masked, s, side.leaf(np.where(np.tri(12), 0, -1e4).astype(np.float32)))
        s = side.call("softmax", softmax(masked), s, dim=-1)
        side.product(s, side.parameter(U[:12], "head.weight"))

    _, located = compared(fill, mode)
    assert located.first.name == "Mint.transpose.0.forward"


class TestLayouts:
    def test_axes_in_another_order_are_one_tensor(self):
        x = RANDOM.standard_normal((12, 2, 8))
        assert nearest_layout(x, x.transpose(1, 0, 2) + 0.5) == pytest.approx(0.5 * sqrt(x.size))
        assert nearest_layout(x, x.transpose(1, 0, 2)) == 0

    def test_elements_in_order_are_one_tensor(self):
        x = RANDOM.standard_normal((4, 6))
        assert nearest_layout(x, x.reshape(2, 2, 6, 1)) == 0

    def test_a_reshape_in_place_of_a_transpose_is_none(self):
        x = RANDOM.standard_normal((12, 2, 8))
        apart = nearest_layout(x.reshape(2, 12, 8), x.transpose(1, 0, 2))
        assert apart == pytest.approx(np.linalg.norm(x.reshape(2, 12, 8) - x.transpose(1, 0, 2)))
        assert apart > np.linalg.norm(x) / 2

    def test_a_row_is_no_column(self):
        assert nearest_layout(np.arange(8)[None, :], np.arange(8)[:, None]) == float("inf")

    def test_another_number_of_elements_is_infinitely_far(self):
        assert nearest_layout(np.zeros(3), np.zeros(4)) == float("inf")


@pytest.mark.torch
@pytest.mark.usefixtures("_replaying")
@pytest.mark.parametrize(("padding", "names"), [(3, [0, 1]), (0, [])])
def test_an_argument_of_one_side_has_an_effect_if_equal_inputs_give_another_result(
    padding, names, builder, tensor, value
):
    """Each side is executed again with its own arguments, so that neither residual shows it."""
    visible = np.tri(8, dtype=bool)
    masked = visible & ((np.arange(8) >= padding) | np.eye(8, dtype=bool))
    sides = []
    for side in ("target", "golden"):
        build = builder(side, mode="tensor", level="L1", framework="pytorch")
        for number in range(2):
            q, k, v = RANDOM_HEADS[number]
            shown = visible if side == "target" else masked
            scores = np.where(shown, q @ k.swapaxes(-1, -2) / sqrt(8), -np.inf)
            found = (softmax(scores) @ v).astype(np.float32)
            kwargs = {"is_causal": value(True)} if side == "target" else {"attn_mask": tensor(masked, "leaf")}
            call = f"Functional.scaled_dot_product_attention.{number}.forward"
            build.call(call, [tensor(each, "leaf") for each in (q, k, v)], [found], kwargs=kwargs)
            build.call(f"Functional.relu.{number}.forward", [tensor(found, f"call {call}.output.0")], [found * 2])
        sides.append(build.dump())
    located = locate(compare(*sides))
    calls = [f"Functional.scaled_dot_product_attention.{number}.forward" for number in names]
    assert [(finding.name, finding.kind) for finding in located.findings] == [(call, kinds.ARGUMENT) for call in calls]


RANDOM_HEADS = RANDOM.standard_normal((2, 3, 1, 1, 8, 8)).astype(np.float32)
