"""Recomputation: the second run is marked and stands where the first stood; values and training stay what they are.

The kinds of the framework: a cell set to `recompute()`, `mindspore.recompute(cell, ...)`, and with
`use_reentrant=False` the kind by hooks on saved tensors, which ends its second run early.
"""

import gc
import weakref

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops

from msprobe.frameworks.mindspore.autograd import HAS_NODES

pytestmark = pytest.mark.mindspore

X = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
HAS_HOOKS = "use_reentrant" in (nn.Cell.recompute.__doc__ or "")
KINDS = ["set", "called"] + (["hooks"] if HAS_HOOKS else [])


class Scale(nn.Cell):
    def __init__(self, by):
        super().__init__()
        self.w = Parameter(Tensor(np.full(4, by, np.float32)), name="w")

    def construct(self, x):
        return ops.mul(ops.tanh(x), self.w)


class Block(nn.Cell):
    def __init__(self):
        super().__init__()
        self.a, self.b = Scale(1.5), Scale(0.5)

    def construct(self, x):
        return self.b(self.a(x)) + x


class Body(nn.Cell):
    """A block within a cell that goes on after it; `kind` says how the block is recomputed."""

    def __init__(self, kind):
        super().__init__()
        self.block, self.kind = Block(), kind
        if kind == "set":
            self.block.recompute()
        elif kind == "hooks":
            self.block.recompute(use_reentrant=False)

    def construct(self, x):
        y = ms.recompute(self.block, x) if self.kind == "called" else self.block(x)
        return ops.exp(y * 0.1)


class Net(nn.Cell):
    def __init__(self, kind):
        super().__init__()
        self.body = Body(kind)

    def construct(self, x):
        return ops.sum(self.body(x * 2.0))


def train(net, x=X):
    return ms.value_and_grad(net, 0, net.trainable_params())(Tensor(x))


def collect(debugger, net, times=1):
    debugger.start(net)
    results = [train(net) for _ in range(times)]
    debugger.stop()
    debugger.step()
    return results[0]


def arrays(result):
    if isinstance(result, Tensor):
        return [result.asnumpy()]
    return [a for each in result for a in arrays(each)]


def load(dump, name):
    return np.load(dump.folder / "dump_tensor_data" / f"{name}.npy")


def recomputed(dump):
    """Cell calls that are marked as a second run."""
    return {n for n, e in dump.data.items() if e.get("is_recompute") and n.startswith("Cell.")}


FIRST = {"Cell.body.block.a.Scale.{0}.0", "Cell.body.block.b.Scale.{0}.0", "Cell.body.block.Block.{0}.0"}
SECOND = {"Cell.body.block.a.Scale.{0}.1", "Cell.body.block.b.Scale.{0}.1"}


@pytest.mark.parametrize("level", ["L0", "mix"])
@pytest.mark.parametrize("kind", KINDS)
def test_exactly_the_second_run_is_marked(kind, level, collecting, dumped):
    debugger = collecting(level=level)
    collect(debugger, Net(kind))
    dump = dumped(debugger)
    marked = recomputed(dump)
    assert {n.format("forward") for n in SECOND} <= marked
    assert not marked & {n.format(d) for n in FIRST for d in ("forward", "backward")}
    assert not [n for n in dump.data if n.startswith("Cell.body.Body") and dump.data[n].get("is_recompute")]
    assert all(e.get("is_recompute", True) is True for e in dump.data.values()), "true or absent"
    assert "missing" not in dump.dump


@pytest.mark.parametrize("kind", KINDS)
def test_apis_of_the_second_run_are_marked_and_no_others(kind, collecting, dumped):
    debugger = collecting(level="mix")
    collect(debugger, Net(kind))
    dump = dumped(debugger)
    stems = ("Functional.tanh.", "Functional.mul.", "Functional.exp.", "Functional.sum.")
    marked = {
        n for n, e in dump.data.items() if n.startswith(stems) and n.endswith("forward") and e.get("is_recompute")
    }
    assert {"Functional.tanh.2.forward", "Functional.tanh.3.forward", "Functional.mul.2.forward"} <= marked
    assert marked <= {f"Functional.{api}.{n}.forward" for api in ("tanh", "mul") for n in (2, 3)}


@pytest.mark.parametrize("level", ["L0", "mix"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_second_run_stands_inside_the_call_that_enclosed_the_first(kind, level, collecting, dumped):
    debugger = collecting(level=level)
    collect(debugger, Net(kind))
    construct = dumped(debugger).construct
    second = {n: p for n, p in construct.items() if n in {s.format("forward") for s in SECOND}}
    assert len(second) == 2
    for name, parent in second.items():
        above = []
        while parent is not None:
            above.append(parent)
            parent = construct[parent]
        assert above[-1] == "Cell.body.Body.forward.0", name
        assert above[0].startswith("Cell.body.block.Block.forward."), name
    for name in ("Cell.body.block.a.Scale.forward.0", "Cell.body.block.b.Scale.forward.0"):
        assert construct[name] == "Cell.body.block.Block.forward.0"
    assert construct["Cell.body.block.Block.forward.0"] == "Cell.body.Body.forward.0"


@pytest.mark.parametrize("level", ["L0", "mix"])
@pytest.mark.parametrize("kind", KINDS)
def test_backward_calls_are_nested_like_brackets(kind, level, collecting, dumped):
    debugger = collecting(level=level)
    collect(debugger, Net(kind))
    dump = dumped(debugger)
    order = {n: i for i, n in enumerate(dump.data)}
    backwards = [n for n in dump.data if ".backward" in n]
    assert "Cell.body.Body.backward.0" in backwards
    for name in backwards:
        parent = dump.construct[name]
        assert parent is None or ".backward" in parent, name
        if parent in order:
            assert order[name] < order[parent], f"{parent} ended before {name} inside it"
    assert dump.construct["Cell.body.Body.backward.0"] is None
    inner = [n for n in backwards if n.startswith("Cell.body.block.a.Scale")]
    assert len(inner) == 1, "one of the two runs has the backward"


@pytest.mark.parametrize("level", ["L0", "mix"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_blocks_gradients_are_its_vjp(kind, level, collecting, dumped):
    if kind == "called" and not HAS_NODES:
        pytest.skip("hooks on tensors, all that MindSpore 2.7.0 has, are silent at the edges of a differentiated block")
    debugger, net = collecting(level=level, task="tensor"), Net(kind)
    collect(debugger, net)
    dump, plain = dumped(debugger), Block()
    name = next(n for n in dump.data if n.startswith("Cell.body.block.Block.backward"))
    incoming, x = load(dump, f"{name}.input.0"), X * 2
    _, vjp = ms.vjp(plain, Tensor(x))
    expected = vjp(Tensor(incoming))
    expected = (expected[0] if isinstance(expected, tuple) else expected).asnumpy()
    np.testing.assert_allclose(load(dump, f"{name}.output.0"), expected, rtol=1e-5, atol=1e-7)
    # by hand, in float64: loss = sum(exp(0.1 y)), y = 0.5 tanh(1.5 tanh(x)) + x
    x = x.astype(np.float64)
    a = 1.5 * np.tanh(x)
    y = 0.5 * np.tanh(a) + x
    up = 0.1 * np.exp(0.1 * y)
    np.testing.assert_allclose(incoming, up, rtol=1e-5)
    inside = up * 0.5 * (1 - np.tanh(a) ** 2)
    np.testing.assert_allclose(
        load(dump, f"{name}.output.0"), inside * 1.5 * (1 - np.tanh(x) ** 2) + up, rtol=1e-4, atol=1e-6
    )
    cell = next(n for n in dump.data if n.startswith("Cell.body.block.a.Scale.backward"))
    np.testing.assert_allclose(load(dump, f"{cell}.input.0"), inside, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_parameter_gradients_are_those_that_the_training_gets(kind, collecting, dumped):
    debugger, net = collecting(level="L0", task="tensor"), Net(kind)
    _, (_, gradients) = collect(debugger, net)
    dump = dumped(debugger)
    for cell, gradient in zip(("a", "b"), gradients, strict=True):
        stem = f"Cell.body.block.{cell}.Scale.parameters_grad"
        assert [n for n in dump.data if n.startswith(stem)] == [stem]
        np.testing.assert_array_equal(load(dump, f"{stem}.w"), gradient.asnumpy())


@pytest.mark.parametrize("level", ["L0", "mix"])
@pytest.mark.parametrize("kind", KINDS)
def test_training_has_the_bits_that_it_has_without_us(kind, level, collecting):
    plain = arrays(train(Net(kind)))
    ours = arrays(collect(collecting(level=level), Net(kind)))
    assert [a.tobytes() for a in ours] == [a.tobytes() for a in plain]


@pytest.mark.parametrize("kind", KINDS)
def test_two_micro_batches_each_have_their_second_run_in_their_own_place(kind, collecting, dumped):
    debugger, net = collecting(level="L0"), Net(kind)
    collect(debugger, net, times=2)
    dump = dumped(debugger)
    assert "missing" not in dump.dump
    marked = {n for n in recomputed(dump) if n.startswith("Cell.body.block.a.Scale.forward")}
    assert marked == {"Cell.body.block.a.Scale.forward.1", "Cell.body.block.a.Scale.forward.3"}
    at = {n: dump.data[n].get("at") for n in dump.data if n.startswith("Cell.body.block.a.Scale.forward")}
    assert at == {f"Cell.body.block.a.Scale.forward.{n}": None if n < 2 else {"micro_step": 1} for n in range(4)}


class TwoForwards(nn.Cell):
    """Both forwards run before the one backward, so that second runs come in the opposite order."""

    def __init__(self, kind):
        super().__init__()
        self.net = Net(kind)

    def construct(self, x):
        return self.net(x) + self.net(x + 1.0) * 3.0


@pytest.mark.parametrize("kind", KINDS)
def test_second_runs_in_the_opposite_order_find_the_call_that_enclosed_their_first(kind, collecting, dumped):
    debugger, net = collecting(level="L0", task="tensor"), TwoForwards(kind)
    collect(debugger, net)
    dump = dumped(debugger)
    assert "missing" not in dump.dump
    for number in range(4):
        name = f"Cell.net.body.block.a.Scale.forward.{number}"
        assert bool(dump.data[name].get("is_recompute")) == (number >= 2)
    for second, first in ((2, 1), (3, 0)):
        name = f"Cell.net.body.block.a.Scale.forward.{second}"
        twin = f"Cell.net.body.block.a.Scale.forward.{first}"
        np.testing.assert_array_equal(load(dump, f"{name}.input.0"), load(dump, f"{twin}.input.0"))
        parent = dump.construct[name]
        while not parent.startswith("Cell.net.body.Body"):
            parent = dump.construct[parent]
        assert parent == f"Cell.net.body.Body.forward.{first}"


class Nested(nn.Cell):
    """A recomputed cell inside a recomputed cell."""

    def __init__(self, reentrant):
        super().__init__()
        self.outer = Body("set" if reentrant else "hooks")
        self.outer.recompute() if reentrant else self.outer.recompute(use_reentrant=False)

    def construct(self, x):
        return ops.sum(self.outer(x * 2.0))


@pytest.mark.parametrize("reentrant", [True, False] if HAS_HOOKS else [True])
def test_a_recomputed_cell_inside_a_recomputed_cell(reentrant, collecting, dumped):
    plain = arrays(train(Nested(reentrant)))
    debugger = collecting(level="L0")
    ours = arrays(collect(debugger, Nested(reentrant)))
    assert [a.tobytes() for a in ours] == [a.tobytes() for a in plain]
    dump = dumped(debugger)
    assert "missing" not in dump.dump
    runs = [n for n in dump.data if n.startswith("Cell.outer.block.a.Scale.forward")]
    assert [bool(dump.data[n].get("is_recompute")) for n in sorted(runs)] == [False] + [True] * (len(runs) - 1)
    assert len(runs) >= 2
    for name in runs:
        parent = name
        while dump.construct[parent] is not None:
            parent = dump.construct[parent]
        assert parent.startswith("Cell.outer.Body.forward."), name


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_the_first_run_is_kept_alive(kind, collecting):
    """Recomputation is there to free what is between a block's cells; a collection must not hold it."""
    watched = []

    class Watching(Scale):
        def construct(self, x):
            inner = ops.tanh(x)
            watched.append(weakref.ref(inner))
            return ops.mul(inner, self.w)

    debugger, net = collecting(level="L0"), Net(kind)
    net.body.block.a = Watching(1.5)
    alive = []

    def loss(x):
        out = net(x)
        gc.collect()
        alive.append(sum(ref() is not None for ref in watched))
        return out

    debugger.start(net)
    ms.value_and_grad(loss, 0, net.trainable_params())(Tensor(X))
    debugger.stop()
    debugger.step()
    assert alive == [0]
    gc.collect()
    assert sum(ref() is not None for ref in watched) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_run_after_stop_is_not_recorded_and_disturbs_nothing(kind, collecting, dumped):
    debugger, net = collecting(level="L0"), Net(kind)

    def loss(x):
        out = net(x)
        debugger.stop()
        return out

    plain = arrays(train(Net(kind)))
    debugger.start(net)
    ours = arrays(ms.value_and_grad(loss, 0, net.trainable_params())(Tensor(X)))
    debugger.step()
    assert [a.tobytes() for a in ours] == [a.tobytes() for a in plain]
    assert recomputed(dumped(debugger)) == set()
    debugger.start(net)
    train(net)
    debugger.stop()
    debugger.step()
    assert "Cell.body.block.a.Scale.forward.1" in recomputed(dumped(debugger, 1))


@pytest.mark.parametrize("kind", KINDS)
def test_a_forward_without_a_backward_leaves_later_steps_alone(kind, collecting, dumped):
    debugger, net = collecting(level="L0"), Net(kind)
    debugger.start(net)
    net(Tensor(X))
    train(net)
    debugger.stop()
    debugger.step()
    dump = dumped(debugger)
    marked = {n for n in recomputed(dump) if n.startswith("Cell.body.block.a.Scale.forward")}
    assert marked == {"Cell.body.block.a.Scale.forward.2"}
    parent = "Cell.body.block.a.Scale.forward.2"
    while not parent.startswith("Cell.body.Body"):
        parent = dump.construct[parent]
    assert parent == "Cell.body.Body.forward.1"


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_run_stands_with_the_first_run_whose_inputs_it_gets(kind, collecting, dumped):
    """Of two forwards only the first has a backward; a cell set to recompute is run again on its latest inputs."""
    debugger, net = collecting(level="L0", task="tensor"), Net(kind)
    debugger.start(net)
    ms.grad(lambda x: net(x) + ops.stop_gradient(net(x + 1.0)))(Tensor(X))
    debugger.stop()
    debugger.step()
    dump = dumped(debugger)
    second = "Cell.body.block.a.Scale.forward.2"
    assert dump.data[second]["is_recompute"] is True
    body = second
    while not body.startswith("Cell.body.Body"):
        body = dump.construct[body]
    twin = f"Cell.body.block.a.Scale.forward.{body[-1]}"
    np.testing.assert_array_equal(load(dump, f"{second}.input.0"), load(dump, f"{twin}.input.0"))
    assert dump.data[second].get("at") == dump.data[twin].get("at")


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_in_a_second_run_reaches_the_training_and_leaves_later_ones_whole(kind, collecting, dumped):
    class Fragile(Scale):
        runs = 0

        def construct(self, x):
            Fragile.runs += 1
            if Fragile.runs == 2:
                raise ValueError("not again")
            return super().construct(x)

    debugger, net = collecting(level="L0"), Net(kind)
    net.body.block.b = Fragile(0.5)
    debugger.start(net)
    with pytest.raises(Exception, match="not again"):
        train(net)
    train(net)
    debugger.stop()
    debugger.step()
    dump = dumped(debugger)
    entry = dump.data["Cell.body.block.b.Fragile.forward.1"]
    assert (entry["is_recompute"], entry["missing"]) == (True, ["output"])
    assert {m["cause"] for m in dump.dump["missing"]} == {"the call raised ValueError: not again"}
    assert "is_recompute" not in dump.data["Cell.body.block.b.Fragile.forward.2"]
    assert dump.data["Cell.body.block.b.Fragile.forward.3"]["is_recompute"] is True
    assert dump.construct["Cell.body.Body.forward.1"] is None
