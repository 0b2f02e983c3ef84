"""Backward records: the gradient that came in, and the call's own contribution, against `mindspore.vjp` and by hand."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops

pytestmark = pytest.mark.mindspore

X = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)


def load(folder, name):
    return np.load(folder / "dump_tensor_data" / f"{name}.npy")


def collect(debugger, net, *inputs, wrt=None):
    """One step; the gradient with respect to the inputs at `wrt` and every parameter."""
    is_cell = isinstance(net, nn.Cell)
    debugger.start(net if is_cell else None)
    weights = net.trainable_params() if is_cell else None
    grads = ms.value_and_grad(net, wrt, weights)(*inputs)
    debugger.stop()
    debugger.step()
    return grads


@pytest.mark.parametrize(
    ("stem", "call"),
    [
        ("Functional.exp", lambda x: ops.exp(x)),
        ("Functional.gelu", lambda x: ops.gelu(x)),
        ("Functional.softmax", lambda x: ops.softmax(x, -1)),
        ("Functional.matmul", lambda x: ops.matmul(x, Tensor(X.T))),
        ("Tensor.__mul__", lambda x: x * 3.0),
        ("Tensor.__getitem__", lambda x: x[1:3]),
        ("Functional.log_softmax", lambda x: ops.log_softmax(x)),
    ],
)
def test_api_backward_is_the_vjp_of_that_call(stem, call, collecting, dumped):
    def root(x):
        y = x * 1.5 + x * 0.5  # x has users besides the call
        return ops.sum(call(y) * 2.0) + ops.sum(y * 7.0)

    debugger = collecting(level="L1", task="tensor")
    collect(debugger, root, Tensor(X), wrt=0)
    dump = dumped(debugger)
    name = f"{stem}.{2 if stem == 'Tensor.__mul__' else 0}"
    y, incoming = load(dump.folder, f"{name}.forward.input.0"), load(dump.folder, f"{name}.backward.input.0")
    _, vjp = ms.vjp(call, Tensor(y))
    expected = vjp(Tensor(incoming))
    expected = (expected[0] if isinstance(expected, tuple) else expected).asnumpy()
    got = load(dump.folder, f"{name}.backward.output.0")
    if stem in ("Functional.exp", "Tensor.__mul__", "Functional.matmul", "Functional.softmax"):
        np.testing.assert_array_equal(got, expected)  # one primitive: bit-equal
    else:
        np.testing.assert_allclose(got, expected, rtol=2e-6, atol=1e-7)
    assert "gradient" not in dump.data[f"{name}.backward"]["output"][0]


class Captures(nn.Cell):
    """Multiplies by a tensor made outside from the same input, which must not count as this cell's contribution."""

    def construct(self, x):
        return x * 3.0 + self.side


class Around(nn.Cell):
    def __init__(self):
        super().__init__()
        self.inner = Captures()

    def construct(self, x):
        y = ops.exp(x)
        self.inner.side = y * 7.0
        return ops.sum(self.inner(y))


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_a_captured_tensor_is_not_the_cells_contribution(level, collecting, dumped):
    debugger = collecting(level=level, task="tensor")
    collect(debugger, Around(), Tensor(X), wrt=0)
    folder = dumped(debugger).folder
    np.testing.assert_array_equal(load(folder, "Cell.inner.Captures.backward.0.output.0"), np.full_like(X, 3.0))


class Norm(nn.Cell):
    def __init__(self):
        super().__init__()
        self.g = Parameter(Tensor(np.linspace(0.5, 1.5, 6, dtype=np.float32)), name="g")

    def construct(self, x):
        return x * ops.rsqrt(ops.mean(ops.square(x), -1, True) + 1e-5) * self.g


class Residual(nn.Cell):
    def __init__(self):
        super().__init__()
        self.norm, self.same = Norm(), nn.Identity()

    def construct(self, x):
        y = x * 2.0
        return ops.sum(ops.square(self.same(y) + self.norm(y)))


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_a_cell_that_uses_its_input_three_times_gets_the_sum_of_its_own_uses(level, collecting, dumped):
    debugger = collecting(level=level, task="tensor")
    net = Residual()
    collect(debugger, net, Tensor(X), wrt=0)
    dump = dumped(debugger)
    incoming = load(dump.folder, "Cell.norm.Norm.backward.0.input.0")
    _, vjp = ms.vjp(net.norm, Tensor(X * 2))
    expected = vjp(Tensor(incoming))
    expected = (expected[0] if isinstance(expected, tuple) else expected).asnumpy()
    got = load(dump.folder, "Cell.norm.Norm.backward.0.output.0")
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    assert "gradient" not in dump.data["Cell.norm.Norm.backward.0"]["output"][0]
    # by hand, in float64: d/dy of y * r * g with r = (mean(y^2) + eps)^-1/2
    y, g, up = 2 * X.astype(np.float64), np.linspace(0.5, 1.5, 6), incoming.astype(np.float64)
    r = (np.mean(y**2, -1, keepdims=True) + 1e-5) ** -0.5
    by_hand = up * g * r - y * r**3 * np.mean(up * g * y, -1, keepdims=True)
    np.testing.assert_allclose(got, by_hand, rtol=1e-4, atol=1e-5)


def test_a_tensor_that_passes_through_is_marked_as_accumulated(collecting, dumped):
    debugger = collecting(level="L0", task="tensor")
    collect(debugger, Residual(), Tensor(X), wrt=0)
    dump = dumped(debugger)
    entry = dump.data["Cell.same.Identity.backward.0"]
    assert entry["input"][0]["gradient"] == entry["output"][0]["gradient"] == "accumulated"
    total = load(dump.folder, "Cell.norm.Norm.backward.0.output.0") + load(
        dump.folder, "Cell.norm.Norm.backward.0.input.0"
    )
    np.testing.assert_allclose(load(dump.folder, "Cell.same.Identity.backward.0.output.0"), total, rtol=1e-5, atol=1e-5)


def test_the_same_tensor_twice_in_one_call_has_a_gradient_for_each_place(collecting, dumped):
    def root(x):
        y = ops.exp(x)
        return ops.sum(ops.div(y, y) + ops.mul(y, y))

    debugger = collecting(level="L1", task="tensor")
    collect(debugger, root, Tensor(X), wrt=0)
    folder, y = dumped(debugger).folder, np.exp(X)
    np.testing.assert_allclose(load(folder, "Functional.div.0.backward.output.0"), 1 / y, rtol=1e-5)
    np.testing.assert_allclose(load(folder, "Functional.div.0.backward.output.1"), -1 / y, rtol=1e-5)
    for place in (0, 1):
        np.testing.assert_allclose(load(folder, f"Functional.mul.0.backward.output.{place}"), y, rtol=1e-5)


class Scaled(nn.Cell):
    """A wrong gradient on purpose: ten times the right one."""

    def construct(self, x):
        return x * 2.0

    def bprop(self, x, out, dout):
        return (dout * 20.0,)


class HasOwnGradient(nn.Cell):
    def __init__(self):
        super().__init__()
        self.scaled = Scaled()

    def construct(self, x):
        return ops.sum(self.scaled(ops.exp(x)))


def test_a_cell_with_its_own_bprop_records_forward_and_its_bprops_result(collecting, dumped):
    debugger = collecting(level="L0", task="tensor")
    collect(debugger, HasOwnGradient(), Tensor(X), wrt=0)
    folder = dumped(debugger).folder
    np.testing.assert_array_equal(load(folder, "Cell.scaled.Scaled.backward.0.input.0"), np.ones_like(X))
    np.testing.assert_array_equal(load(folder, "Cell.scaled.Scaled.backward.0.output.0"), np.full_like(X, 20.0))
    np.testing.assert_allclose(load(folder, "Cell.scaled.Scaled.forward.0.output.0"), 2 * np.exp(X), rtol=1e-5)


class Helper(nn.Cell):
    def construct(self, x):
        return ops.neg(ops.neg(x))


class CallsInItsBackward(nn.Cell):
    """Its `bprop` calls functions and another cell."""

    def __init__(self):
        super().__init__()
        self.helper = Helper()

    def construct(self, x):
        return ops.exp(x)

    def bprop(self, x, out, dout):
        return (ops.mul(self.helper(dout), out),)


class RunsTwice(nn.Cell):
    def __init__(self):
        super().__init__()
        self.inner = nn.SequentialCell([CallsInItsBackward()])

    def construct(self, x):
        return ops.sum(self.inner(ops.sin(self.inner(x))))


BACK = "Cell.inner.0.CallsInItsBackward.backward"
HELP = "Cell.inner.0.helper.Helper.forward"


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_what_a_bprop_calls_stands_in_that_backward(level, collecting, dumped):
    net, bare = RunsTwice(), ms.grad(RunsTwice())(Tensor(X)).asnumpy()
    for task in ("statistics", "tensor"):
        debugger = collecting(level=level, task=task)
        _, (got, _) = collect(debugger, net, Tensor(X), wrt=0)
        np.testing.assert_array_equal(got.asnumpy(), bare)
        dump = dumped(debugger)
        assert dump.missing == []
        apis = [name for name in dump.names if name.startswith("Functional.") and "forward" in name]
        # exp, sin, exp, sum of the forward; neg, neg, mul of each of two backwards, the last call's first
        counted = {"exp": 2, "sin": 1, "sum": 1, "neg": 4, "mul": 2} if level != "L0" else {}
        assert sorted(apis) == sorted(f"Functional.{k}.{i}.forward" for k, n in counted.items() for i in range(n))
        if level == "L1":
            assert dump.construct == {}
            continue
        # the second call runs back first, and its helper is called first
        assert {HELP + f".{i}": dump.construct[HELP + f".{i}"] for i in (0, 1)} == {
            HELP + ".0": BACK + ".1",
            HELP + ".1": BACK + ".0",
        }
        assert [dump.construct[f"{BACK}.{i}"] for i in (0, 1)] == [
            f"Cell.inner.SequentialCell.backward.{i}" for i in (0, 1)
        ]
        assert dump.names.index(HELP + ".0") < dump.names.index(BACK + ".1") < dump.names.index(BACK + ".0")
        if level == "mix":
            assert [dump.construct[f"Functional.mul.{i}.forward"] for i in (0, 1)] == [BACK + ".1", BACK + ".0"]
            assert [dump.construct[f"Functional.neg.{i}.forward"] for i in range(4)] == [
                *(HELP + ".0", HELP + ".0"),
                *(HELP + ".1", HELP + ".1"),
            ]
        assert "bprop" in vars(CallsInItsBackward)
        assert not hasattr(CallsInItsBackward.bprop, "__wrapped__"), "what was replaced is back"
        assert set(dump.construct.values()) - {None} <= set(dump.construct)


def test_gradients_arrive_after_stop_until_step(collecting, dumped):
    """`start; forward; stop; backward; step`, as `value_and_grad` runs it when the user stops inside the function."""
    debugger = collecting(level="mix", task="tensor")
    net = Residual()

    def root(x):
        out = net(x)
        debugger.stop()
        return out * 2.0

    debugger.start(net)
    ms.value_and_grad(root, 0)(Tensor(X))
    debugger.step()
    data = dumped(debugger).data
    assert "Cell.norm.Norm.backward.0" in data
    assert "Functional.square.1.backward" in data
    assert not any(n.startswith("Tensor.__mul__.3") for n in data), "the call after stop is not recorded"


def test_parameter_gradients_are_what_value_and_grad_gives(collecting, dumped):
    debugger = collecting(level="L0", task="tensor")
    net = Residual()
    _, (_, grads) = collect(debugger, net, Tensor(X), wrt=0)
    dump = dumped(debugger)
    np.testing.assert_array_equal(load(dump.folder, "Cell.norm.Norm.parameters_grad.g"), grads[0].asnumpy())
    assert [len(v) for v in dump.data["Cell.norm.Norm.parameters_grad"].values()] == [1]


class FusedResidual(nn.Cell):
    """Gives a function of its input, and the input itself."""

    def construct(self, x):
        return ops.tanh(x), x


class UsesFused(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fused = FusedResidual()

    def construct(self, x):
        y, rest = self.fused(x * 1.5)
        return ops.sum(y + rest * 10.0)


def test_an_input_passed_beside_a_result_keeps_both_gradients(collecting, dumped):
    debugger = collecting(level="L0", task="tensor")
    collect(debugger, UsesFused(), Tensor(X), wrt=0)
    dump = dumped(debugger)
    entry = dump.data["Cell.fused.FusedResidual.backward.0"]
    assert [r.get("gradient", "own") for r in entry["input"]] == ["own", "accumulated"]
    assert [r.get("gradient", "own") for r in entry["output"]] == ["accumulated"]
    assert "missing" not in dump.dump
    total = 10 + (1 - np.tanh(1.5 * X.astype(np.float64)) ** 2)
    np.testing.assert_allclose(load(dump.folder, "Cell.fused.FusedResidual.backward.0.input.1"), total, rtol=1e-4)


class Two(nn.Cell):
    """The second result is made of the first, as a pooled sequence is."""

    def construct(self, x):
        y = x * 2.0
        return y, y * 100.0


class UsesTwo(nn.Cell):
    def __init__(self):
        super().__init__()
        self.two = Two()

    def construct(self, x):
        a, b = self.two(x * 1.5)
        return ops.sum(a + b)


def test_a_result_that_the_call_uses_itself_has_its_gradient_marked(collecting, dumped):
    debugger = collecting(level="L0")
    collect(debugger, UsesTwo(), Tensor(X), wrt=0)
    entry = dumped(debugger).data["Cell.two.Two.backward.0"]
    seen = [(r["Max"], r.get("gradient", "own")) for r in (*entry["input"], *entry["output"])]
    assert seen == [(101.0, "accumulated"), (1.0, "own"), (202.0, "own")]


class NormBeside(nn.Cell):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm((6,))

    def construct(self, x):
        return x * 10.0 + self.norm(x)


def test_a_gradient_that_nobody_wants_is_not_shown_in_part(collecting, dumped):
    """Only the weights' gradients are asked for; the norm's kernel computes its input's all the same."""
    debugger, net = collecting(level="L0"), nn.SequentialCell(NormBeside())
    debugger.start(net)
    ms.value_and_grad(lambda x: ops.sum(net(x)), None, net.trainable_params())(Tensor(X))
    debugger.stop()
    debugger.step()
    assert dumped(debugger).data["Cell.0.NormBeside.backward.0"]["output"] == [None]


def test_a_second_backward_over_a_call_leaves_its_record_and_file_alone(collecting, dumped):
    class Root(nn.Cell):
        def __init__(self):
            super().__init__()
            self.inner = nn.Tanh()

        def construct(self, x):
            return ops.sum(self.inner(x))

    debugger, net = collecting(level="L0", task="tensor"), Root()
    debugger.start(net)
    ms.grad(lambda x: ops.sum(ms.grad(net)(x) ** 2))(Tensor(X))
    debugger.stop()
    debugger.step()
    dump = dumped(debugger)
    record = dump.data["Cell.inner.Tanh.backward.0"]["input"][0]
    assert record["Max"] == float(np.load(dump.folder / "dump_tensor_data" / record["data_name"]).max())
