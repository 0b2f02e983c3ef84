"""`@jit` code as a boundary: one call from outside, with its own gradients, and nothing inside."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, jit, nn, ops

from msprobe.frameworks.mindspore.autograd import HAS_NODES
from msprobe.frameworks.mindspore.executors import api, tracer
from msprobe.store.reader import load_tensor, read

pytestmark = pytest.mark.mindspore

rng = np.random.default_rng(11)
X, Y = (Tensor(rng.standard_normal((2, 4)).astype(np.float32)) for _ in range(2))


@jit
def scaled(x, y, by=1.5):
    return ops.tanh(x) * y * by + ops.matmul(x, ops.transpose(y, (1, 0))).sum()


@jit
def pair(x):
    return ops.exp(x * 0.1), ops.sin(x)


@jit
def nothing():
    return ops.ones((2, 2))


class Jitted(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(Tensor(rng.standard_normal((4, 4)).astype(np.float32)), name="w")

    @jit
    def construct(self, x):
        return ops.matmul(ops.relu(x), self.w)


class Plain:
    @jit
    def method(self, x):
        return x + 1.0


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.jitted = Jitted()

    def construct(self, x, y):
        first, second = pair(scaled(self.jitted(ops.cos(x)), y, by=0.5))
        return ops.sum(first * second + Plain().method(second))


def collected(debugger, work, model=None):
    """The result of `work`, run while the debugger collects."""
    debugger.start(model)
    result = work()
    debugger.stop()
    debugger.step()
    return result


def test_calls_of_compiled_code_are_one_record_each(collecting, dumped):
    net = Net()
    for level in ("L1", "mix"):
        debugger = collecting(level=level)
        collected(debugger, lambda: net(X, Y), net)
        names = [name for name in dumped(debugger).data if not name.startswith("Cell.")]
        assert names == [
            "Functional.cos.0.forward",
            "Jit.Jitted.0.forward",
            "Jit.scaled.0.forward",
            "Jit.pair.0.forward",
            "Tensor.__mul__.0.forward",
            "Jit.method.0.forward",
            "Tensor.__add__.0.forward",
            "Functional.sum.0.forward",
        ]
    dump = dumped(debugger)
    assert dump.construct["Jit.Jitted.0.forward"] == "Cell.jitted.Jitted.forward.0"
    assert dump.construct["Jit.scaled.0.forward"] is None


def test_arguments_and_results_are_those_of_the_call_without_the_owner(collecting, dumped):
    net, debugger = Net(), collecting(level="L1")
    collected(debugger, lambda: net(X, Y))
    data = dumped(debugger).data
    cell, scaled_ = data["Jit.Jitted.0.forward"], data["Jit.scaled.0.forward"]
    assert [record["Max"] for record in cell["input_args"]] == [float(np.cos(X.asnumpy()).max())]
    assert [record["shape"] for record in scaled_["input_args"][:2]] == [[2, 4], [2, 4]]
    assert scaled_["input_args"][2] == {"type": "float", "value": 0.5}
    assert len(data["Jit.pair.0.forward"]["output"]) == 2
    assert len(data["Jit.method.0.forward"]["input_args"]) == 1


def test_a_call_without_arguments_is_recorded(collecting, dumped):
    debugger = collecting(level="L1")
    collected(debugger, nothing)
    entry = dumped(debugger).data["Jit.nothing.0.forward"]
    assert entry["input_args"] == []
    assert entry["output"][0]["Mean"] == 1.0


def test_at_l0_compiled_code_is_only_a_cell(collecting, dumped):
    net, debugger = Net(), collecting(level="L0")
    collected(debugger, lambda: net(X, Y), net)
    assert list(dumped(debugger).data) == ["Cell.jitted.Jitted.forward.0"]


@pytest.mark.skipif(not HAS_NODES, reason="MindSpore 2.7.0 has no autograd nodes: only accumulated gradients there")
@pytest.mark.parametrize(("stem", "function"), [("Jit.scaled", scaled), ("Jit.pair", pair), ("Jit.Jitted", None)])
def test_the_backward_is_the_calls_own_contribution(stem, function, collecting, dumped):
    net, debugger = Net(), collecting(level="L1", task="tensor")
    collected(debugger, lambda: ms.grad(net, (0, 1))(X, Y))
    dump = read(dumped(debugger).folder)
    calls = {call.name: call for call in dump.calls}

    def arrays(direction, part):
        records = calls[f"{stem}.0.{direction}"].records
        return [load_tensor(dump, r) for r in records if f".{part}." in r.name and r.file]

    inputs, sent = ([Tensor(a) for a in arrays(*which)] for which in (("forward", "input"), ("backward", "input")))
    keywords = {"by": 0.5} if stem == "Jit.scaled" else {}
    run = function or net.jitted
    expected = ms.vjp(lambda *a: run(*a, **keywords), *inputs)[1](tuple(sent) if len(sent) > 1 else sent[0])
    expected = expected if isinstance(expected, tuple) else (expected,)
    gradients = arrays("backward", "output")
    assert len(gradients) == len(inputs)
    for g, e in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(g, e.asnumpy(), rtol=1e-5, atol=1e-6)
    own = [record for record in dumped(debugger).data[f"{stem}.0.backward"]["output"] if record]
    assert not any("gradient" in record for record in own)


@pytest.mark.parametrize("level", ["L1", "mix"])
def test_results_and_gradients_are_the_same_to_the_bit_compiled_or_from_the_cache(level, collecting):
    net = Net()
    gradient = ms.value_and_grad(net, (0, 1), net.trainable_params())
    debugger = collecting(level=level)
    first = collected(debugger, lambda: gradient(X, Y), net)  # compiles while the collection is open
    again = collected(debugger, lambda: gradient(X, Y), net)
    bare = gradient(X, Y)
    for seen in (first, again):
        assert seen[0].asnumpy() == bare[0].asnumpy()
        for a, b in zip((*seen[1][0], *seen[1][1]), (*bare[1][0], *bare[1][1]), strict=True):
            np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())


def other_capture(mode, collecting, dumped):
    """The forward calls recorded in three steps of a function captured in another way, results compared to the bit."""

    def work(x, y):
        return ops.sum(ops.tanh(x) * y + ops.relu(y))

    plain = ms.value_and_grad(work, (0, 1))(X, Y)
    captured = ms.value_and_grad(jit(work, capture_mode=mode), (0, 1))
    debugger = collecting(level="L1")
    names = []
    for step in range(3):
        seen = collected(debugger, lambda: captured(X, Y))
        assert seen[0].asnumpy() == plain[0].asnumpy()
        for a, b in zip(seen[1], plain[1], strict=True):
            np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())
        names.append([name for name in dumped(debugger, step).data if "forward" in name])
    return names


def test_of_traced_code_nothing_is_recorded_neither_while_tracing_nor_later(collecting, dumped, monkeypatch):
    # the framework wants the source of every caller, which `python -m pytest` has not
    monkeypatch.setattr(tracer, "_get_caller_lines", lambda: ([__file__], [1]))
    assert other_capture("trace", collecting, dumped) == [[], [], []]


def test_what_would_be_captured_from_bytecode_is_recorded_call_by_call(collecting, dumped):
    names = ["Functional.tanh", "Tensor.__mul__", "Functional.relu", "Tensor.__add__", "Functional.sum"]
    assert other_capture("bytecode", collecting, dumped) == [[f"{name}.0.forward" for name in names]] * 3


def test_the_executor_is_itself_again_after_stop(collecting):
    before = vars(api._JitExecutor)["__call__"]
    debugger = collecting(level="L1")
    debugger.start()
    assert vars(api._JitExecutor)["__call__"] is not before
    debugger.stop()
    assert vars(api._JitExecutor)["__call__"] is before
    debugger.step()


def test_a_compilation_that_fails_leaves_the_collection_in_place(collecting, dumped, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the framework leaves its analysis here

    @jit
    def broken(x):
        return ops.matmul(x, ops.ones((3, 3)))

    debugger = collecting(level="L1")
    debugger.start()
    with pytest.raises((RuntimeError, ValueError), match="shape"):
        broken(X).asnumpy()
    ops.relu(X)
    debugger.stop()
    debugger.step()
    data = dumped(debugger).data
    assert data["Jit.broken.0.forward"]["missing"] == ["output"]
    assert "Functional.relu.0.forward" in data


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_a_compiled_step_with_its_gradients_inside_is_compiled_without_our_hooks(level, collecting, dumped):
    net = nn.Dense(2, 1, weight_init="ones", bias_init="zeros")

    class Root(nn.Cell):
        def __init__(self):
            super().__init__()
            self.layer = net

        def construct(self, x):
            return self.layer(x).sum()

    root = Root()
    gradient = ms.value_and_grad(root, None, root.trainable_params())

    @ms.jit
    def whole(x):
        loss, gradients = gradient(x)
        return loss, gradients[0]

    debugger = collecting(level=level)
    x = Tensor([[1.0, 2.0]], ms.float32)
    for _ in range(2):
        debugger.start(root)
        loss, slope = whole(x)
        outside = gradient(x)[1]
        debugger.stop()
        debugger.step()
        assert (loss.asnumpy(), slope.asnumpy().tolist()) == (3.0, [[1.0, 2.0]])
        assert outside[0].asnumpy().tolist() == [[1.0, 2.0]]
    if level != "L1":  # the hooks are there again for what Python differentiates
        assert dumped(debugger, 1).data["Cell.layer.Dense.parameters_grad"]["weight"][0]["Max"] == 2.0
