"""Statistics that stay on the device until they are fetched together; here the same operations run on the CPU."""

import json
import math

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

from msprobe.frameworks.mindspore import collecting as framework
from msprobe.frameworks.mindspore import records

pytestmark = pytest.mark.mindspore

X = Tensor(np.random.default_rng(5).standard_normal((3, 4)).astype(np.float32))


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(4, 2)

    def construct(self, x):
        y = self.dense(x)
        y += 1
        return ops.sum(ops.square(y))


@pytest.fixture
def on_device(monkeypatch):
    monkeypatch.setattr(framework, "DEVICES", ("CPU",))


def test_every_record_has_the_statistics_that_the_host_would_give(on_device, collecting, dumped, monkeypatch):
    net = Net()

    def entries():
        debugger = collecting(level="mix")
        debugger.start(net)
        ms.value_and_grad(net, 0, net.trainable_params())(X)
        debugger.stop()
        debugger.step()
        return dumped(debugger).data

    device_side = entries()
    monkeypatch.undo()
    host_side = entries()
    assert list(device_side) == list(host_side)

    def same(a, b):
        if isinstance(a, dict):
            return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
        if isinstance(a, list):
            return len(a) == len(b) and all(map(same, a, b))
        return a == pytest.approx(b, rel=1e-6) if isinstance(a, float) else a == b

    assert all(same(device_side[name], host_side[name]) for name in host_side)


def test_one_fetch_brings_everything_of_a_step(on_device, collecting, dumped, monkeypatch):
    fetches = []
    real = records.DeviceStatistics.texts
    monkeypatch.setattr(records.DeviceStatistics, "texts", lambda self: fetches.append(len(self._rows)) or real(self))
    debugger = collecting(level="L1")
    debugger.start()
    y = X
    for _ in range(20):
        y = ops.tanh(y)
    assert fetches == [], "nothing is fetched between the calls"
    debugger.stop()
    assert fetches == [40]
    assert len(dumped(debugger).data) == 20
    debugger.step()
    assert fetches == [40]


def test_no_more_than_256_calls_are_held_back(on_device, collecting):
    debugger = collecting(level="L1")
    debugger.start()
    for _ in range(300):
        ops.tanh(X)
    folder = debugger._settings.dump_path / "step0" / "rank"
    written = sum(line.startswith(b"C\t") for line in (folder / "dump.journal").read_bytes().splitlines())
    assert written == 256
    debugger.stop()
    debugger.step()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([3, -7, 2], np.int32), {"Max": 3, "Min": -7, "Mean": -2 / 3, "Norm": math.sqrt(62)}),
        (np.array([True, False]), {"Max": True, "Min": False, "Mean": None, "Norm": None}),
        (np.array([1.0, math.inf], np.float32), {"Max": math.inf, "Min": 1.0, "Mean": math.inf, "Norm": math.inf}),
        (np.float32(-2.5), {"Max": -2.5, "Min": -2.5, "Mean": -2.5, "Norm": 2.5}),
        (np.array([60000, 60000], np.float16), {"Max": 6e4, "Min": 6e4, "Mean": 6e4, "Norm": 6e4 * math.sqrt(2)}),
    ],
)
def test_kinds_of_tensors(values, expected):
    pending = records.DeviceStatistics()
    hole = pending.add(Tensor(values))
    (members,) = pending.texts()
    assert hole == "\x000\x00"
    found = json.loads(f"{{{members}}}")
    assert found == {k: pytest.approx(v, rel=1e-6) if isinstance(v, float) else v for k, v in expected.items()}
    assert all(type(found[k]) is type(v) for k, v in expected.items())


def test_tensors_are_saved_where_statistics_are_on_the_device(on_device, collecting, dumped):
    debugger = collecting({"task": "tensor"}, level="L1")
    debugger.start()
    ops.add(Tensor([1.0]), Tensor([2.0]))
    debugger.stop()
    debugger.step()
    (entry,) = [entry for name, entry in dumped(debugger).data.items() if name.startswith("Functional.add")]
    file = dumped(debugger).folder / "dump_tensor_data" / entry["output"][0]["data_name"]
    assert np.load(file).tolist() == [3.0]


class Compiled(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Dense(4, 4), nn.Dense(4, 2)

    @ms.jit
    def construct(self, x):
        return ops.sum(ops.square(self.second(ops.tanh(self.first(x)))))


class Outer(nn.Cell):
    def __init__(self):
        super().__init__()
        self.inner = Compiled()

    def construct(self, x):
        return self.inner(ops.cos(x))


def test_cells_of_a_graph_stand_in_execution_order_where_statistics_are_on_the_device(
    on_device, collecting, dumped, caplog
):
    net, debugger = Outer(), collecting(level="L0")
    debugger.start(net)
    ms.value_and_grad(net, 0, net.trainable_params())(X)
    debugger.stop()
    debugger.step()
    assert "could not be collected" not in caplog.text
    assert list(dumped(debugger).data) == [
        *("Cell.inner.first.Dense.forward.0", "Cell.inner.second.Dense.forward.0", "Cell.inner.Compiled.forward.0"),
        *("Cell.inner.second.Dense.backward.0", "Cell.inner.first.Dense.backward.0", "Cell.inner.Compiled.backward.0"),
        *("Cell.inner.first.Dense.parameters_grad", "Cell.inner.second.Dense.parameters_grad"),
    ]
