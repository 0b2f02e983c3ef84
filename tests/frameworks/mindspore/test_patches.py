"""What is left in the framework: nothing, whenever no collection is open."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, jit, mint, nn, ops

from msprobe.frameworks.mindspore.functions import functions

pytestmark = pytest.mark.mindspore

X = Tensor(np.arange(8, dtype=np.float32).reshape(2, 4))


def attributes():
    """Every attribute that the collector may change, and its code where it has one, as they are now."""
    found = {(owner, name): vars(owner).get(name) for owner, name, _ in functions()}
    found[nn.Cell, "__call__"] = vars(nn.Cell)["__call__"]
    return {place: (value, getattr(value, "__code__", None)) for place, value in found.items()}


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(4, 4)

    def construct(self, x):
        return ops.relu(self.dense(x)) + 1.0


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_after_stop_the_original_objects_are_back(level, collecting):
    debugger, net, before = collecting(level=level), Net(), attributes()
    for _ in range(2):
        debugger.start(net)
        during = attributes()
        net(X)
        debugger.stop()
        after = attributes()
        assert all(a is b for key, value in before.items() for a, b in zip(after[key], value, strict=True))
        assert all("__signature__" not in vars(function) for function, code in after.values() if code is not None)
        debugger.step()
    changed = {key for key, value in during.items() if any(a is not b for a, b in zip(value, before[key], strict=True))}
    assert (nn.Cell, "__call__") in changed  # at L1 the runs of the model are counted
    assert ((ops, "relu") in changed) == (level in ("L1", "mix"))
    assert not net.dense._forward_hook
    assert not net.dense._forward_pre_hook
    assert not net.dense._backward_hook


def test_the_list_covers_the_public_namespaces_and_the_operators():
    stems = {stem for _, _, stem in functions()}
    assert {"Functional.matmul", "Functional.relu", "Functional.cross_entropy", "Functional.split"} <= stems
    assert {"Tensor.__add__", "Tensor.__getitem__", "Tensor.__setitem__", "Tensor.__imul__", "Tensor.sum"} <= stems
    assert {"Mint.add", "Mint.matmul", "MintFunctional.gelu", "Mint.vector_norm", "Mint.log1p"} <= stems
    assert (
        not {"Tensor.asnumpy", "Tensor.item", "Functional.value_and_grad", "Functional.vmap", "Tensor.__init__"} & stems
    )
    assert len(stems) > 1200


@jit
def compiled(x, y):
    return ops.tanh(x) * y + ops.softmax(x)


class Jitted(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(4, 4)

    @jit
    def construct(self, x):
        return ops.relu(self.dense(x)) * 2 + mint.exp(x)


class Mixed(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first, self.jitted = nn.Dense(4, 4), Jitted()

    def construct(self, x):
        return ops.sum(compiled(self.jitted(self.first(x)), x))


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_code_compiled_while_a_collection_is_open_is_not_disturbed(level, collecting, dumped):
    ms.set_seed(3)
    net, debugger = Mixed(), collecting(level=level)
    gradient = ms.value_and_grad(net, None, net.trainable_params())
    relu, call = ops.relu.__code__, nn.Cell.__call__
    debugger.start(net)
    loss, grads = gradient(X)  # compiles
    assert (ops.relu.__code__ is not relu, nn.Cell.__call__ is not call) == (level != "L0", True), "patched again"
    again, _ = gradient(X)  # from the cache
    debugger.stop()
    debugger.step()
    bare, bare_grads = gradient(X)
    assert loss.asnumpy() == again.asnumpy() == bare.asnumpy()
    for a, b in zip(grads, bare_grads, strict=True):
        np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())
    names = [n for n in dumped(debugger).data if n.endswith((".0.forward", ".forward.0"))]
    every = [
        *("Primitive.shape_op.Shape.0.forward", "Primitive.matmul.MatMul.0.forward"),
        *("Primitive.bias_add.BiasAdd.0.forward", "Cell.first.Dense.forward.0"),
        *("Cell.jitted.dense.Dense.forward.0", "Jit.Jitted.0.forward", "Cell.jitted.Jitted.forward.0"),
        *("Jit.compiled.0.forward", "Functional.sum.0.forward"),
    ]
    cells = [name for name in every if name.startswith("Cell.")]
    assert names == {"L0": cells, "L1": [name for name in every if name not in cells], "mix": every}[level]


def test_a_collection_may_be_started_while_somebody_else_replaces_a_function(collecting, dumped):
    original, debugger = ops.relu, collecting(level="L1")
    debugger.start()
    held = ops.relu
    ops.relu = lambda x: held(x)
    debugger.stop()
    ops.relu = held
    debugger.start()
    ops.relu(X)
    debugger.stop()
    debugger.step()
    assert ops.relu is original
    assert list(dumped(debugger).data) == ["Functional.relu.0.forward"]


def test_what_others_replace_between_two_collections_stays_and_is_recorded(collecting, dumped, monkeypatch):
    debugger = collecting(level="L1")
    debugger.start()
    debugger.stop()
    real = ops.relu
    monkeypatch.setattr(ops, "relu", lambda x: real(x) + 10.0)
    mine = ops.relu
    debugger.start()
    out = ops.relu(X)
    debugger.stop()
    debugger.step()
    assert ops.relu is mine
    assert dumped(debugger).data["Functional.relu.0.forward"]["output"][0]["Max"] == float(out.asnumpy().max()) == 17.0
