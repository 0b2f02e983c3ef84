"""`save_grad`: the gradient that flows back to a tensor, in a graph, under `@jit` and in plain Python."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops

from msprobe.mindspore import save, save_grad

pytestmark = [pytest.mark.mindspore, pytest.mark.part(4)]


def floats(*values):
    return Tensor(np.array(values, np.float32))


class Product(nn.Cell):
    """b * (x * y)^2; its gradient for z = x * y is 2 b z."""

    def __init__(self, folder):
        super().__init__()
        self.folder = str(folder)

    def construct(self, x, y, b):
        z = save_grad(self.folder, "z", x * y)
        return (b * z * z).sum()


class Differentiating(nn.Cell):
    """The gradient is taken inside."""

    def __init__(self, net):
        super().__init__()
        self.net, self.gradient = net, ops.GradOperation(get_all=True)

    def construct(self, x, y, b):
        return self.gradient(self.net)(x, y, b)[0]


X, Y, B = floats(1, 2, 3), floats(2, 3, 4), floats(1, 1, -1)
BY_X = [8.0, 36.0, -96.0]

WAYS = {
    "grad": lambda net: ms.grad(net),
    "value_and_grad": lambda net: lambda *given: ms.value_and_grad(net, 0)(*given)[1],
    "GradOperation": lambda net: ops.GradOperation()(net),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_gradient_is_saved_and_passed_on(way, mode, saved):
    gradient = WAYS[way](mode.ready(Product(saved.folder)))
    assert gradient(X, Y, B).asnumpy().tolist() == BY_X
    assert saved.values() == {("z_grad", 0): [4.0, 12.0, -24.0]}
    (record,) = saved.records()
    assert record["data_name"] == "z_grad_float32_0.npy"


def test_a_gradient_that_is_taken_inside_of_a_cell(mode, saved):
    net = mode.ready(Differentiating(Product(saved.folder)))
    assert net(X, Y, B).asnumpy().tolist() == BY_X
    assert saved.values() == {("z_grad", 0): [4.0, 12.0, -24.0]}


def test_a_jit_function_around_the_gradient(saved):
    gradient = ms.value_and_grad(Product(saved.folder), 0)

    @ms.jit
    def run(x, y, b):
        return gradient(x, y, b)

    assert run(X, Y, B)[1].asnumpy().tolist() == BY_X
    assert saved.values() == {("z_grad", 0): [4.0, 12.0, -24.0]}


class Typed(nn.Cell):
    def __init__(self, folder):
        super().__init__()
        self.folder = str(folder)

    def construct(self, x, y):
        return save_grad(self.folder, "x", x) * y


@pytest.mark.parametrize("value", [[4.0, 5.0], 6.0, np.zeros((0, 2))], ids=["vector", "scalar", "empty"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_every_type_and_shape_that_has_a_gradient(dtype, value, mode, saved):
    x, y = (Tensor(value, getattr(ms, dtype)) for _ in range(2))
    net = mode.ready(Typed(saved.folder))
    assert ms.grad(net)(x, y).dtype == y.dtype
    (record,) = saved.records()
    array = saved.array(record)
    assert array.dtype == ("float32" if dtype == "bfloat16" else dtype)
    assert array.shape == y.shape
    assert array.tolist() == np.asarray(value).tolist()


class Loop(nn.Cell):
    """Three times x = 2 x, then the sum of squares: for the last x the gradient is 2 x, then 4 x', 8 x''."""

    def __init__(self, folder):
        super().__init__()
        self.folder = str(folder)

    def construct(self, x):
        for _ in range(3):
            x = x * 2
            save(self.folder, "x", x)
            x = save_grad(self.folder, "x", x)
        return (x * x).sum()


def test_a_gradient_has_the_number_of_its_forward_call(mode, saved):
    assert ms.grad(mode.ready(Loop(saved.folder)))(floats(1)).asnumpy().tolist() == [128.0]
    assert saved.values() == {
        **{("x", 0): [2.0], ("x", 1): [4.0], ("x", 2): [8.0]},
        **{("x_grad", 0): [64.0], ("x_grad", 1): [32.0], ("x_grad", 2): [16.0]},
    }
    assert [r["count"] for r in saved.records()] == [0, 1, 2, 2, 1, 0]


class Turning(nn.Cell):
    """A loop and a branch that depend on values."""

    def __init__(self, folder):
        super().__init__()
        self.folder = str(folder)

    def construct(self, x, n):
        i = Tensor(0, ms.int32)
        while i < n:
            x = save_grad(self.folder, "x", x * x)
            i = i + 1
        if x.sum() > 0:  # noqa: SIM108
            x = save_grad(self.folder, "positive", x * 3)
        else:
            x = save_grad(self.folder, "negative", x * 5)
        return x.sum()


def test_loops_and_branches_that_depend_on_values(saved):
    ms.set_context(mode=ms.GRAPH_MODE)
    graph = ms.grad(Turning(saved.folder))(floats(2), Tensor(2, ms.int32))
    assert graph.asnumpy().tolist() == [96.0]
    assert saved.values() == {("positive_grad", 0): [1.0], ("x_grad", 1): [3.0], ("x_grad", 0): [24.0]}


def test_under_jit_the_framework_runs_such_a_forward_a_second_time(saved):
    """The gradients belong to the second one."""
    net = Turning(saved.folder)
    net.construct = ms.jit(net.construct)
    assert ms.grad(net)(floats(2), Tensor(2, ms.int32)).asnumpy().tolist() == [96.0]
    assert saved.values() == {("positive_grad", 1): [1.0], ("x_grad", 3): [3.0], ("x_grad", 2): [24.0]}


class Shared(nn.Cell):
    """y = x w, saved before its gradient is."""

    def __init__(self, folder):
        super().__init__()
        self.folder = str(folder)
        self.weight = Parameter(floats(2, 3), name="weight")

    def construct(self, x):
        y = x * self.weight
        save(self.folder, "y", y)
        return save_grad(self.folder, "y", y)


class Twice(nn.Cell):
    def __init__(self, folder):
        super().__init__()
        self.layer = Shared(folder)

    def construct(self, x):
        x = self.layer(self.layer(x))
        return (x * x).sum()


SHARED = {
    **{("y", 0): [2.0, 6.0], ("y", 1): [4.0, 18.0]},
    **{("y_grad", 0): [16.0, 108.0], ("y_grad", 1): [8.0, 36.0]},
}


def test_a_shared_cell(mode, saved):
    """sum (x w w)^2 = 16 + 324; by w: 4 x^2 w^3."""
    net = mode.ready(Twice(saved.folder))
    loss, (by_weight,) = ms.value_and_grad(net, None, net.trainable_params())(floats(1, 2))
    assert (loss.asnumpy().item(), by_weight.asnumpy().tolist()) == (340.0, [32.0, 432.0])
    assert saved.values() == SHARED


def test_a_cell_that_trains_one_step(mode, saved):
    net = Twice(saved.folder)
    train = mode.ready(nn.TrainOneStepCell(net, nn.SGD(net.trainable_params(), 0.125)))
    assert train(floats(1, 2)).asnumpy().item() == 340.0
    assert saved.values() == SHARED
    assert net.layer.weight.asnumpy().tolist() == [2 - 32 / 8, 3 - 432 / 8]


def test_a_recomputed_cell(mode, saved):
    """In a graph it is saved once; where Python runs, and under `@jit`, the second run of its forward saves too."""
    net = Twice(saved.folder)
    net.layer.recompute()
    net = mode.ready(net)
    loss, (by_weight,) = ms.value_and_grad(net, None, net.trainable_params())(floats(1, 2))
    assert (loss.asnumpy().item(), by_weight.asnumpy().tolist()) == (340.0, [32.0, 432.0])
    if mode.name == "graph":
        assert saved.values() == SHARED
        return
    values = list(saved.values().items())
    assert dict(values[:2]) == {k: v for k, v in SHARED.items() if k[0] == "y"}
    assert sorted(v for (name, _), v in values[2:] if name == "y") == [[2.0, 6.0], [4.0, 18.0]]
    assert [v for (name, _), v in values if name == "y_grad"] == [[8.0, 36.0], [16.0, 108.0]]


class Constant(nn.Cell):
    def __init__(self, folder):
        super().__init__()
        self.folder = str(folder)

    def construct(self, x):
        unused = save_grad(self.folder, "unused", x)  # noqa: F841
        return save_grad(self.folder, "x", x).sum()


def test_a_constant_gradient_is_saved_in_every_run_and_a_result_that_is_not_used_has_none(mode, saved):
    gradient = ms.grad(mode.ready(Constant(saved.folder)))
    for _ in range(2):
        assert gradient(floats(5, 6)).asnumpy().tolist() == [1.0, 1.0]
    assert saved.values() == {("x_grad", 0): [1.0, 1.0], ("x_grad", 1): [1.0, 1.0]}


# ---- the training stays as it was ----------------------------------------------------------------------------------


class Network(nn.Cell):
    """Layers that are used twice, saved at every turn, or not at all."""

    def __init__(self, folder):
        super().__init__()
        dice = np.random.default_rng(0)
        self.first, self.last = (
            nn.Dense(6, 6, Tensor(dice.standard_normal((6, 6)), ms.float32), "zeros") for _ in range(2)
        )
        self.norm = nn.LayerNorm((6,))
        self.scale = Parameter(Tensor(dice.standard_normal(6), ms.float32), name="scale")
        self.folder = folder

    def construct(self, x):
        for _ in range(2):
            y = self.look("scaled", x * self.scale)
            y = self.look("norm", self.norm(y))
            y = self.look("tanh", ops.tanh(self.first(y)))
            x = self.look("sum", x + self.look("attention", ops.softmax(ops.matmul(y, y.T)) @ y))
        return self.look("loss", ops.square(self.last(x)).mean())

    def look(self, name, x):
        if self.folder:
            save(self.folder, name, x)
            x = save_grad(self.folder, name, x)
        return x


def train(folder, mode, inside):
    net = Network(folder)
    if not inside:
        net = mode.ready(net)
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    gradient = ms.value_and_grad(net, None, optimizer.parameters)
    if inside and mode.name == "jit":
        gradient = jitted(gradient)
    bits = []
    for step in range(3):
        loss, gradients = gradient(Tensor(np.sin(np.arange(24).reshape(4, 6) + step), ms.float32))
        optimizer(gradients)
        bits += [each.asnumpy().tobytes() for each in (loss, *gradients, *net.get_parameters())]
    return bits


def jitted(gradient):
    @ms.jit
    def run(x):
        return gradient(x)

    return run


@pytest.mark.parametrize("inside", [False, True], ids=["gradient outside", "gradient inside"])
def test_no_bit_of_the_training_changes(inside, mode, saved):
    assert train("", mode, inside) == train(str(saved.folder), mode, inside)
    assert len(saved.records()) == 3 * 2 * 11


class Plain(Network):
    """Only operators for which the framework takes the same kernel wherever it runs."""

    def construct(self, x):
        for _ in range(2):
            x = self.look("scaled", x * self.scale)
            x = self.look("product", ops.matmul(x, self.first.weight))
            x = self.look("tanh", ops.tanh(x))
        return self.look("loss", ops.square(x).mean())


def test_values_are_bit_equal_between_the_modes(saved, tmp_path):
    results = []
    for name, mode in (("graph", ms.GRAPH_MODE), ("pynative", ms.PYNATIVE_MODE)):
        ms.set_context(mode=mode)
        saved.folder = tmp_path / name
        net = Plain(str(saved.folder))
        ms.value_and_grad(net, None, net.trainable_params())(Tensor(np.sin(np.arange(24).reshape(4, 6)), ms.float32))
        results.append({(r["name"], r["count"]): saved.array(r).tobytes() for r in saved.records()})
    assert results[0] == results[1]
    assert len(results[0]) == 2 * 7


@pytest.mark.pipeline
def test_an_error_of_the_training_reaches_it(saved):
    with pytest.raises((RuntimeError, IndexError)):
        save(str(saved.folder), "x", ops.gather(X, Tensor([0, 9]), 0))
