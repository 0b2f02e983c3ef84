"""The framework's own operations, one by one, also those of backward and those inside recorded calls."""

import json

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops, utils

from msprobe.base.errors import UsageError
from msprobe.frameworks.mindspore import collecting as framework

pytestmark = pytest.mark.mindspore

rng = np.random.default_rng(3)
X = Tensor(rng.standard_normal((2, 4)).astype(np.float32))
needed = pytest.mark.skipif(not framework.HAS_DISPATCH, reason="MindSpore tells of its operations from 2.9 on")


class Inner(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(Tensor(rng.standard_normal((4, 3)).astype(np.float32)), name="w")

    def construct(self, x):
        return ops.relu(ops.matmul(x, self.w))


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def construct(self, x):
        return ops.sum(ops.softmax(self.inner(x), -1) * 2.0)


@pytest.fixture
def dispatching(tmp_path, collecting):
    """Makes debuggers that record operations."""

    def make(**settings):
        config = tmp_path / "config.json"
        config.write_text(json.dumps({"dump_path": "x", "dispatch": True}))
        return collecting(config_path=str(config), **settings)

    return make


def step(debugger, net):
    debugger.start(net)
    out = ms.value_and_grad(net, 0, net.trainable_params())(X)
    debugger.stop()
    debugger.step()
    return out


@needed
def test_operations_are_recorded_inside_functions_and_in_backward(dispatching, dumped):
    net, debugger = Net(), dispatching(level="mix")
    step(debugger, net)
    dump = dumped(debugger)
    parents = {name: parent for name, parent in dump.construct.items() if name.startswith("Dispatch.")}
    assert parents["Dispatch.MatMulExt.0.forward"] == "Functional.matmul.0.forward"
    assert parents["Dispatch.ReLU.0.forward"] == "Functional.relu.0.forward"
    assert dump.construct["Functional.relu.0.forward"] == "Cell.inner.Inner.forward.0"
    of_backward = [name for name in parents if "Grad" in name or "Backward" in name]
    assert of_backward
    order = list(dump.data)
    assert order.index(of_backward[0]) > order.index("Functional.sum.0.forward")
    assert all(parents[name] is None for name in of_backward)
    assert not [name for name in dump.data if name.startswith("Dispatch.") and name.endswith("backward")]


@needed
def test_arguments_and_results_are_those_of_the_operation(dispatching, dumped):
    net, debugger = Net(), dispatching(level="mix", task="tensor")
    step(debugger, net)
    dump = dumped(debugger)
    entry = dump.data["Dispatch.MatMulExt.0.forward"]
    tensors = [r for r in [*entry["input_args"], *entry["output"]] if r and "data_name" in r]
    x, w, y = (np.load(dump.folder / "dump_tensor_data" / r["data_name"]) for r in tensors)
    np.testing.assert_array_equal(x, X.asnumpy())
    np.testing.assert_array_equal(w, net.inner.w.asnumpy())
    np.testing.assert_allclose(y, x @ w, rtol=1e-5)


@needed
def test_an_older_kind_of_operation_gives_its_own_arguments(dispatching, dumped):
    class Root(nn.Cell):
        def __init__(self):
            super().__init__()
            self.bias_add = ops.BiasAdd()

        def construct(self, x):
            return self.bias_add(x, ops.ones(4))

    debugger = dispatching(level="L1")
    debugger.start()
    Root()(X)
    debugger.stop()
    debugger.step()
    entry = dumped(debugger).data["Dispatch.BiasAdd.0.forward"]
    assert [r["shape"] for r in entry["input_args"] if r["type"] == "mindspore.Tensor"] == [[2, 4], [4]]


@needed
@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_other_records_and_every_bit_are_as_without(level, dispatching, collecting, dumped):
    net = Net()
    bare = ms.value_and_grad(net, 0, net.trainable_params())(X)
    plain, with_operations = collecting(level=level), dispatching(level=level)
    step(plain, net)
    seen = step(with_operations, net)
    assert bare[0].asnumpy() == seen[0].asnumpy()
    for a, b in zip((bare[1][0], *bare[1][1]), (seen[1][0], *seen[1][1]), strict=True):
        np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())
    names = [name for name in dumped(with_operations).data if not name.startswith("Dispatch.")]
    assert names == list(dumped(plain).data)


@needed
def test_after_stop_the_mode_is_left(dispatching):
    debugger = dispatching(level="L1")
    before = framework.dispatch_depth()
    debugger.start()
    assert framework.dispatch_depth() == before + 1
    debugger.stop()
    assert framework.dispatch_depth() == before
    debugger.step()


@needed
def test_a_mode_of_the_users_own_stays_when_ours_is_to_be_left_below_it(dispatching, dumped):
    seen = []

    class Mine(utils.MsDispatchMode):
        def __ms_dispatch__(self, func, args, kwargs=None):
            seen.append(func.name)
            return func(*args)

    debugger = dispatching(level="L1")
    before = framework.dispatch_depth()
    debugger.start()
    with Mine():
        debugger.stop()
        ops.relu(X)
        assert seen == ["ReLU"]
    ops.relu(X)
    debugger.start()
    ops.exp(X)
    debugger.stop()
    assert framework.dispatch_depth() == before
    debugger.step()
    names = [name for name in dumped(debugger).data if name.startswith("Dispatch.")]
    assert names == ["Dispatch.Exp.0.forward"], "between stop and start nothing"


@pytest.mark.skipif(framework.HAS_DISPATCH, reason="only MindSpore before 2.9 refuses")
def test_an_older_framework_is_refused_at_every_start(dispatching):
    debugger = dispatching(level="L1")
    for _ in range(2):
        with pytest.raises(UsageError, match=r"dispatch needs MindSpore 2\.9 or newer, and this is 2\.[78]"):
            debugger.start()
