"""Primitive objects that cells hold: their names and numbers, and gradients that are their own."""

import gc
import weakref

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops

from msprobe.frameworks.mindspore.autograd import HAS_NODES
from msprobe.store.reader import load_tensor, read

pytestmark = pytest.mark.mindspore

rng = np.random.default_rng(7)
X = Tensor(rng.standard_normal((2, 4)).astype(np.float32))


class B(nn.Cell):
    """As in the worked example of names: a Dense and a relu."""

    def __init__(self):
        super().__init__()
        self.d = nn.Dense(4, 4)

    def construct(self, x):
        return ops.relu(self.d(x))


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.b1, self.b2 = B(), B()

    def construct(self, x):
        return ops.mean(ops.exp(self.b2(self.b1(x))))


def step(debugger, net, *inputs):
    debugger.start(net)
    out = ms.value_and_grad(net, None, net.trainable_params())(*inputs)
    debugger.stop()
    debugger.step()
    return out


def dense(n):
    """What one Dense records: its primitives, in the order of its construct."""
    return [f"Primitive.{p}.{n}.forward" for p in ("shape_op.Shape", "matmul.MatMul", "bias_add.BiasAdd")]


def test_a_net_of_layers_gives_the_names_of_the_worked_example(collecting, dumped):
    debugger = collecting(level="mix")
    step(debugger, Net(), X)
    dump = dumped(debugger)
    forward = [name for name in dump.data if "forward" in name]
    assert forward == [
        *dense(0),
        "Cell.b1.d.Dense.forward.0",
        "Functional.relu.0.forward",
        "Cell.b1.B.forward.0",
        *dense(1),
        "Cell.b2.d.Dense.forward.0",
        "Functional.relu.1.forward",
        "Cell.b2.B.forward.0",
        "Functional.exp.0.forward",
        "Functional.mean.0.forward",
    ]
    assert dump.construct["Primitive.matmul.MatMul.1.forward"] == "Cell.b2.d.Dense.forward.0"
    assert dump.construct["Primitive.matmul.MatMul.1.backward"] == "Cell.b2.d.Dense.backward.0"
    assert [n for n in dump.data if n.startswith("Primitive.") and "backward" in n] == [
        "Primitive.bias_add.BiasAdd.1.backward",
        "Primitive.matmul.MatMul.1.backward",
        "Primitive.bias_add.BiasAdd.0.backward",
        "Primitive.matmul.MatMul.0.backward",
    ]


def test_at_l1_primitives_are_seen_when_the_model_is_given(collecting, dumped):
    net = Net()
    names = {}
    for model in (net, None):
        debugger = collecting(level="L1")
        debugger.start(model)
        net(X)
        debugger.stop()
        debugger.step()
        names[model is net] = list(dumped(debugger).data)
    functions = [f"Functional.{n}.forward" for n in ("relu.0", "relu.1", "exp.0", "mean.0")]
    assert names[False] == functions
    assert names[True] == [*dense(0), functions[0], *dense(1), *functions[1:]]


def test_at_l0_primitives_are_not_seen(collecting, dumped):
    debugger = collecting(level="L0")
    step(debugger, Net(), X)
    assert not [name for name in dumped(debugger).data if name.startswith("Primitive.")]


class Operands(nn.Cell):
    """One primitive of two operands whose shapes differ, and one whose gradients are of three shapes."""

    def __init__(self):
        super().__init__()
        self.a = Parameter(Tensor(rng.standard_normal((5, 4)).astype(np.float32)), name="a")
        self.b = Parameter(Tensor(rng.standard_normal(3).astype(np.float32)), name="b")
        self.kernel = Parameter(Tensor(rng.standard_normal((2, 1, 3, 2)).astype(np.float32)), name="kernel")
        self.matmul, self.bias_add = ops.MatMul(transpose_a=True), ops.BiasAdd()
        self.conv = ops.Conv2D(out_channel=2, kernel_size=(3, 2), pad_mode="valid")

    def construct(self, x):
        y = self.bias_add(self.matmul(self.a, x), self.b)
        y = self.conv(ops.reshape(y, (1, 1, 4, 3)), self.kernel)
        return ops.sum(ops.tanh(y))


@pytest.mark.parametrize(
    ("name", "primitive"),
    [
        ("Primitive.matmul.MatMul.0", ops.MatMul(transpose_a=True)),
        ("Primitive.bias_add.BiasAdd.0", ops.BiasAdd()),
        ("Primitive.conv.Conv2D.0", ops.Conv2D(out_channel=2, kernel_size=(3, 2), pad_mode="valid")),
    ],
)
def test_gradients_are_the_primitives_own_in_the_order_of_its_arguments(name, primitive, collecting, dumped):
    net, debugger = Operands(), collecting(level="mix", task="tensor")
    debugger.start(net)
    ms.value_and_grad(net, 0, net.trainable_params())(Tensor(rng.standard_normal((5, 3)).astype(np.float32)))
    debugger.stop()
    debugger.step()
    dump = read(dumped(debugger).folder)
    calls = {call.name: call for call in dump.calls}

    def arrays(call, part):
        return [load_tensor(dump, record) for record in calls[call].records if f".{part}." in record.name]

    inputs = [Tensor(a) for a in arrays(f"{name}.forward", "input")]
    sent = [Tensor(a) for a in arrays(f"{name}.backward", "input")]
    expected = ms.vjp(lambda *args: primitive(*args), *inputs)[1](*sent)
    gradients = arrays(f"{name}.backward", "output")
    assert [g.shape for g in gradients] == [i.shape for i in inputs]
    for g, e in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(g, e.asnumpy(), rtol=1e-5, atol=1e-6)
    if HAS_NODES:
        entry = dumped(debugger).data[f"{name}.backward"]
        assert not any("gradient" in record for record in entry["output"])


def test_primitives_inside_a_recorded_function_are_not_recorded(collecting, dumped):
    class Root(nn.Cell):
        def __init__(self):
            super().__init__()
            self.exp = ops.Exp()

        def construct(self, x):
            return self.exp(x)

    net, debugger = Root(), collecting(level="L1")
    real = ops.relu
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ops, "relu", lambda x: real(net.exp(x)))
        debugger.start(net)
        ops.relu(net(X))
        debugger.stop()
    debugger.step()
    assert list(dumped(debugger).data) == ["Primitive.exp.Exp.0.forward", "Functional.relu.0.forward"]


def test_one_object_goes_by_the_first_attribute_and_objects_of_one_attribute_share_a_number(collecting, dumped):
    shared = ops.Exp()

    class Leaf(nn.Cell):
        def __init__(self, name):
            super().__init__()
            setattr(self, name, shared)
            self.tanh = ops.Tanh()
            self.name = name

        def construct(self, x):
            return self.tanh(getattr(self, self.name)(x))

    net, debugger = nn.SequentialCell(Leaf("first"), Leaf("second")), collecting(level="L1")
    debugger.start(net)
    net(X)
    debugger.stop()
    debugger.step()
    expected = ["first.Exp.0", "tanh.Tanh.0", "first.Exp.1", "tanh.Tanh.1"]
    assert list(dumped(debugger).data) == [f"Primitive.{name}.forward" for name in expected]


def test_the_classes_are_themselves_again_and_the_model_is_let_go(collecting):
    net, debugger = Net(), collecting(level="mix")
    owners = {next(c for c in type(p).__mro__ if "__call__" in vars(c)) for p in (net.b1.d.matmul, net.b1.d.bias_add)}
    before = {owner: vars(owner)["__call__"] for owner in owners}
    debugger.start(net)
    assert all(vars(owner)["__call__"] is not call for owner, call in before.items())
    net(X)
    debugger.stop()
    assert all(vars(owner)["__call__"] is call for owner, call in before.items())
    debugger.step()
    watched = weakref.ref(net)
    del net
    gc.collect()
    assert watched() is None
    assert debugger._collectors.python._functions._primitives._stems == {}


def test_results_are_the_same_to_the_bit(collecting):
    net, debugger = Net(), collecting(level="mix")
    bare = ms.value_and_grad(net, None, net.trainable_params())(X)
    seen = step(debugger, net, X)
    np.testing.assert_array_equal(bare[0].asnumpy(), seen[0].asnumpy())
    for a, b in zip(bare[1], seen[1], strict=True):
        np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())
