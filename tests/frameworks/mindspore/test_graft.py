"""Task `graft` with MindSpore in PyNative mode: values of a golden run in the place of those of a training.

As in `tests/frameworks/pytorch/test_graft.py`, which has the errors at start, the plans and the dump: nothing of those
depends on the framework.
"""

import json

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops

from msprobe.base.errors import UsageError
from msprobe.frameworks.mindspore.debugger import PrecisionDebugger
from msprobe.store.graft_plan import GoldenValue, GraftedCall, GraftedStep, GraftPlan, write_plan

pytestmark = [pytest.mark.mindspore, pytest.mark.part(2)]

ALL = ["forward", "backward", "inputs", "incoming", "parameters", "update"]
STEPS = 3


def dense(inputs, outputs, seed):
    weights = np.random.default_rng(seed).standard_normal((outputs, inputs)).astype(np.float32)
    return nn.Dense(inputs, outputs, weight_init=Tensor(weights), bias_init="zeros")


class Faulty(nn.Cell):
    """A factor between the parts of the nets: 1 in the golden run."""

    factor = 1.0

    def wrong(self, x):
        return x * self.factor


class Plain(Faulty):
    """Residual connections; a weight that two calls use."""

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down, self.head = nn.LayerNorm((8,)), dense(8, 16, 1), dense(16, 8, 2), dense(8, 1, 3)

    def construct(self, x):
        x = x + self.down(ops.gelu(self.wrong(self.up(self.norm(x)))))
        x = x + ops.softmax(x) * ops.sigmoid(x)
        x = self.down(self.up(x)) + x
        return self.head(x).square().mean()


class InPlace(Faulty):
    """Tensors are changed in place, also through a view."""

    def __init__(self):
        super().__init__()
        self.a, self.b = dense(8, 8, 1), dense(8, 8, 2)

    def construct(self, x):
        y = self.wrong(self.a(x))
        y.add_(Tensor(1.0))
        y[:, 0] = y[:, 1] * 2.0
        y.mul_(Tensor(0.5 * self.factor))
        return (self.b(y) + ops.sin(y) + y * ops.exp(y)).square().mean()


class Gives(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = dense(8, 8, 4)
        self.factor = 1.0

    def construct(self, x):
        y = self.fc(x) * self.factor
        return y, [ops.sin(y), None], {"cos": ops.cos(y)}


class Structured(Faulty):
    """A cell that returns a tuple, a list and a dict; views of one tensor."""

    def __init__(self):
        super().__init__()
        self.gives, self.qkv = Gives(), dense(8, 24, 5)

    def construct(self, x):
        self.gives.factor = self.factor
        y, (sin, _), named = self.gives(x)
        q, k, v = self.wrong(self.qkv(x)).reshape(-1, 3, 8).unbind(1)
        scores = ops.softmax(ops.matmul(q, k.transpose(1, 0)), -1)
        return (ops.matmul(scores, v) + y * sin + named["cos"]).square().mean()


class Dropped(Faulty):
    """The mask of the dropout differs where there is a fault."""

    def __init__(self):
        super().__init__()
        self.a, self.drop, self.b = dense(8, 8, 1), nn.Dropout(p=0.5), dense(8, 1, 2)

    def construct(self, x):
        return self.b(self.drop(self.wrong(self.a(x)))).square().mean()


NETS = [Plain, InPlace, Structured, Dropped]


def train(make, debugger=None, factor=1.0, steps=STEPS, micro=1):
    """Train a net; return the bits of each step's losses, gradients and parameters."""
    ms.set_seed(0 if factor == 1.0 else 7)
    net = make()
    net.set_train()
    net.factor = factor
    weights = net.trainable_params()
    optimizer = nn.Adam(weights, 0.05)
    forward = ms.value_and_grad(net, None, weights)
    batches = np.random.default_rng(1).standard_normal((steps, micro, 4, 8)).astype(np.float32)
    found = []
    for step in range(steps):
        if debugger is not None:
            debugger.start(net)
        losses, total = [], None
        for batch in batches[step]:
            loss, gradients = forward(Tensor(batch))
            losses.append(loss.asnumpy().tobytes())
            total = gradients if total is None else tuple(a + b for a, b in zip(total, gradients, strict=True))
        if debugger is not None:
            debugger.stop()
        optimizer(total)
        if debugger is not None:
            debugger.step()
        bits = [each.asnumpy().tobytes() for each in total]
        found.append((losses, bits, [each.asnumpy().tobytes() for each in weights]))
    return found


@pytest.fixture
def golden(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def make_dump(make, level="mix", **how):
        train(make, PrecisionDebugger(task="tensor", level=level, dump_path=tmp_path / "golden"), **how)
        return tmp_path / "golden"

    return make_dump


@pytest.fixture
def grafted(tmp_path):
    numbers, made = iter(range(100)), []

    def make_debugger(golden, level="mix", **section):
        number = next(numbers)
        path = tmp_path / f"config{number}.json"
        contents = {"task": "graft", "level": level, "dump_path": str(tmp_path / f"grafted{number}")}
        path.write_text(json.dumps({**contents, "graft": {"golden": str(golden), **section}}))
        made.append(PrecisionDebugger(path))
        return made[-1]

    yield make_debugger
    for debugger in made:
        debugger.stop()
        debugger.step()


def counts(tmp_path, step=0):
    return json.loads((tmp_path / f"grafted0/step{step}/rank/dump.json").read_text())["run"]["grafted"]


@pytest.mark.pipeline
@pytest.mark.parametrize("micro", [1, 2])
@pytest.mark.parametrize("make", NETS)
def test_a_run_in_which_everything_is_grafted_equals_the_golden_bitwise(make, micro, golden, grafted, tmp_path):
    how = {"micro": micro, "steps": 2 if make is Dropped else STEPS}  # from the sixth launch on it draws by threads
    without = train(make, **how)
    assert train(make, factor=1.5, **how) != without, "the fault has an effect"
    folder = golden(make, **how)
    assert train(make, grafted(folder, calls="*", what=ALL), 1.5, **how) == without
    found = counts(tmp_path)
    assert found["values"] > found["changed"] > 0
    assert found["skipped"] == 0


def test_a_run_without_a_fault_is_not_changed(golden, grafted, tmp_path):
    folder = golden(Plain)
    assert train(Plain, grafted(folder, calls="*", what=ALL)) == train(Plain)
    found = counts(tmp_path)
    assert (found["changed"], found["skipped"]) == (0, 0)
    assert found["values"] > 50


class Inner(Plain):
    """A cell with everything inside, whose caller only computes the loss."""

    def construct(self, x):
        return x + self.down(ops.gelu(self.wrong(self.up(self.norm(x)))))


class Outer(Faulty):
    def __init__(self):
        super().__init__()
        self.inner, self.head = Inner(), dense(8, 1, 3)

    def construct(self, x):
        self.inner.factor = self.factor
        return self.head(self.inner(x)).square().mean()


@pytest.mark.parametrize("level", ["L0", "L1"])
def test_cells_or_functions_alone_are_enough(level, golden, grafted):
    folder = golden(Outer, level)
    assert train(Outer, grafted(folder, level, calls="*", what=ALL), 1.5) == train(Outer)


class Times(nn.Cell):
    """y = (w + shift) x, z = factor * y, and the loss is the sum of z * z. Without a shift, the product takes w."""

    factor, shift = 3.0, 0.0

    def __init__(self):
        super().__init__()
        self.w = Parameter(Tensor(np.array([1.0, 2.0], np.float32)), name="w")

    def construct(self, x):
        w = self.w + self.shift if self.shift else self.w
        z = ops.mul(ops.mul(w, x), Tensor(self.factor, ms.float32))
        return ops.sum(ops.mul(z, z))


X = np.array([5.0, 7.0], np.float32)


def run_once(debugger, factor=3.0, x=X, w=(1.0, 2.0), shift=0.0):
    net = Times()
    net.factor, net.shift = factor, shift
    net.w.set_data(Tensor(np.array(w, np.float32)))
    forward = ms.value_and_grad(net, None, [net.w])
    debugger.start(net)
    loss, (gradient,) = forward(Tensor(x))
    debugger.stop()
    debugger.step()
    return float(loss), gradient.asnumpy().tolist(), net


@pytest.fixture
def times(tmp_path, monkeypatch):
    """The golden: z = 3 w x = [15, 42], loss 225 + 1764 = 1989."""
    monkeypatch.chdir(tmp_path)
    loss, gradient, _ = run_once(PrecisionDebugger(task="tensor", level="mix", dump_path=tmp_path / "golden"))
    assert (loss, gradient) == (1989.0, [2 * 15.0 * 3 * 5, 2 * 42.0 * 3 * 7])
    return tmp_path / "golden"


MUL = "Functional.mul.1"


def test_a_result_has_the_value_of_the_golden_and_the_derivative_of_the_target(times, grafted):
    loss, gradient, _ = run_once(grafted(times, calls=[MUL], what=["forward"]), factor=2.0)
    assert (loss, gradient) == (1989.0, [2 * 15.0 * 2 * 5, 2 * 42.0 * 2 * 7])


def test_a_gradient_is_that_of_the_golden_and_the_result_is_not(times, grafted):
    """z = 2 w x = [10, 28]; the golden's gradient of y is 2 z 3 = [90, 252]."""
    loss, gradient, _ = run_once(grafted(times, calls=[MUL], what=["backward"]), factor=2.0)
    assert (loss, gradient) == (100.0 + 784.0, [90.0 * 5, 252.0 * 7])


def test_an_arriving_gradient_is_that_of_the_golden(times, grafted):
    _, gradient, _ = run_once(grafted(times, calls=["Functional.mul.0"], what=["incoming"]), factor=2.0)
    assert gradient == [90.0 * 5, 252.0 * 7]


def test_inputs_are_replaced_for_the_call_only_and_parameters_are_not(times, grafted):
    """With x = [5, 7] of the golden in the place of [1, 1], and the own w = [2, 2]: z = 3 w x = [30, 42]."""
    debugger = grafted(times, calls=["Functional.mul.0"], what=["inputs"])
    loss, gradient, net = run_once(debugger, x=np.ones(2, np.float32), w=[2.0, 2.0])
    assert loss == 900.0 + 1764.0
    assert gradient == [2 * 30.0 * 3 * 5, 2 * 42.0 * 3 * 7]
    assert net.w.asnumpy().tolist() == [2.0, 2.0]


def test_an_input_that_is_a_parameter_in_the_golden_alone_is_replaced(times, grafted):
    debugger = grafted(times, calls=["Functional.mul.0"], what=["inputs"])
    loss, gradient, net = run_once(debugger, shift=1.0)
    assert (loss, gradient) == (1989.0, [2 * 15.0 * 3 * 5, 2 * 42.0 * 3 * 7])
    assert net.w.asnumpy().tolist() == [1.0, 2.0]


def test_parameters_are_written_when_the_step_begins(times, grafted):
    loss, _, net = run_once(grafted(times, calls=["w"], what=["parameters"]), w=[2.0, 2.0])
    assert loss == 1989.0
    assert net.w.asnumpy().tolist() == [1.0, 2.0]


class Repeated(nn.Cell):
    """y = w x, z = y as often as `times`, and the loss is the sum of z * z."""

    def __init__(self, times):
        super().__init__()
        self.w, self.times = Parameter(Tensor(np.array([1.0, 2.0], np.float32)), name="w"), times

    def construct(self, x):
        return ops.sum(ops.square(ops.tile(self.w * x, (self.times,))))


def run_repeated(times, debugger):
    net = Repeated(times)
    forward = ms.value_and_grad(net, None, [net.w])
    debugger.start(net)
    loss, (gradient,) = forward(Tensor(X))
    debugger.stop()
    debugger.step()
    return float(loss), gradient.asnumpy().tolist()


def test_a_result_of_another_shape_is_replaced_if_a_plan_says_so(tmp_path, monkeypatch, grafted):
    """y = [5, 14]; the loss is 2 (25 + 196), the gradient of y 2 * 2 y, and that of w 4 y x."""
    monkeypatch.chdir(tmp_path)
    folder, (forward, backward) = tmp_path / "golden", ("Functional.tile.0.forward", "Functional.tile.0.backward")
    assert run_repeated(2, PrecisionDebugger(task="tensor", level="mix", dump_path=folder))[0] == 442.0
    result = {forward: GraftedCall(forward, {"output.0": GoldenValue("output.0", is_resized=True)})}
    both = {**result, backward: GraftedCall(backward, {"output.0": GoldenValue("output.0")})}
    for calls, gradient in ((result, [0.0, 0.0]), (both, [4 * 5.0 * 5, 4 * 14.0 * 7])):
        write_plan(tmp_path / "plan.json", GraftPlan(str(folder), {0: GraftedStep(calls, {})}))
        debugger = grafted(tmp_path / "plan.json", calls="*", what=["forward", "backward"])
        assert run_repeated(1, debugger) == (442.0, gradient)


class Transposed(nn.Cell):
    """y = factor * x w of a weight of shape (3, 2), where PyTorch has a linear layer with one of (2, 3)."""

    factor = 2.0

    def __init__(self):
        super().__init__()
        self.w = Parameter(Tensor(np.zeros((3, 2), np.float32)), name="w")

    def construct(self, x):
        return ops.sum(ops.square(ops.matmul(x, self.w) * self.factor))


def test_the_golden_may_be_of_pytorch(tmp_path, monkeypatch, grafted):
    """y = x w' = [[8, 26]], the loss is 64 + 676, and the gradient of w' is 2 y x."""
    torch = pytest.importorskip("torch", reason="the golden is of this framework")

    from msprobe import pytorch

    monkeypatch.chdir(tmp_path)
    x = np.array([[1.0, 2.0, 3.0]], np.float32)
    golden = pytorch.PrecisionDebugger(task="tensor", level="mix", dump_path=tmp_path / "golden")
    net = torch.nn.Linear(3, 2, bias=False)
    net.weight.data = torch.arange(6.0).reshape(2, 3)
    golden.start(net)
    torch.nn.functional.linear(torch.tensor(x), net.weight).square().sum().backward()
    golden.stop()
    golden.step()
    assert net.weight.grad.tolist() == [[16.0, 32.0, 48.0], [52.0, 104.0, 156.0]]

    linear, matmul = "Functional.linear.0", "Functional.matmul.0"
    square = "Functional.square.0"
    transposed = GoldenValue("output.1", permute=(1, 0))
    calls = {
        "Tensor.__mul__.0.forward": GraftedCall(f"{linear}.forward", {"output.0": GoldenValue("output.0")}),
        f"{square}.backward": GraftedCall("Tensor.square.0.backward", {"output.0": GoldenValue("output.0")}),
        f"{matmul}.backward": GraftedCall(f"{linear}.backward", {"output.1": transposed}),
    }
    parameters = {"w": GoldenValue("weight", permute=(1, 0))}
    write_plan(tmp_path / "plan.json", GraftPlan(str(tmp_path / "golden"), {0: GraftedStep(calls, parameters)}))
    cell = Transposed()
    debugger = grafted(tmp_path / "plan.json", calls="*", what=["forward", "backward", "parameters"])
    forward = ms.value_and_grad(cell, None, [cell.w])
    debugger.start(cell)
    loss, (gradient,) = forward(Tensor(x))
    debugger.stop()
    debugger.step()
    assert float(loss) == 64.0 + 676.0
    assert gradient.asnumpy().tolist() == net.weight.grad.T.tolist()
    assert cell.w.asnumpy().tolist() == net.weight.T.tolist()


def test_graph_mode_is_refused(times, grafted):
    debugger = grafted(times, calls="*")
    ms.set_context(mode=ms.GRAPH_MODE)
    with pytest.raises(UsageError, match="graft"):
        debugger.start(Times())
