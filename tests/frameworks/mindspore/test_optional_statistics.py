"""Optional statistics and layouts of a MindSpore training, in PyNative mode."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn, ops

from msprobe.store.reader import load_tensor, read

pytestmark = pytest.mark.mindspore

EXTRA = ["zeros", "underflow:bf16", "underflow:e5m2", "saturated:hif8"]


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc, self.act = nn.Dense(6, 5), nn.ReLU()

    def construct(self, x):
        x = self.act(self.fc(x))
        y = ops.mul(x.swapaxes(0, 1)[1:], 1e5)
        z = ops.cast(y * 1e-10, ms.float16).astype(ms.float32) + ops.cast(y, ms.bfloat16).astype(ms.float32)
        return z.sum() + (y > 1).sum()


def collected(collecting, task, **section):
    ms.set_seed(3)
    np.random.seed(3)
    net = Net()
    gradient = ms.value_and_grad(net, None, net.trainable_params())
    debugger = collecting({"task": task, task: section}, level="mix")
    debugger.start(net)
    gradient(ms.Tensor(np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6)))
    debugger.stop()
    debugger.step()
    return read(debugger._settings.dump_path / "step0")


def expected(array):
    """The shares by numpy's own float64 arithmetic."""
    magnitudes, found = np.abs(array.astype(np.float64)), {"zeros": float(np.count_nonzero(array == 0) / array.size)}
    if array.dtype.kind == "f":
        found["underflow:bf16"] = float(np.count_nonzero(magnitudes < 2.0**-126) / array.size)
        found["underflow:e5m2"] = float(np.count_nonzero(magnitudes < 2.0**-14) / array.size)
        found["saturated:hif8"] = float(np.count_nonzero(magnitudes >= 32768) / array.size)
    return found


def test_every_record_has_the_shares_of_its_tensor(collecting):
    dump = collected(collecting, "tensor", extra=EXTRA)
    alone = collected(collecting, "statistics", extra=EXTRA)
    records = [record for call in dump.calls for record in call.records if record.kind == "tensor"]
    assert len(records) > 20
    for record in records:
        assert dict(record.shares) == expected(load_tensor(dump, record)), record.name
    assert any(dict(record.shares).get("saturated:hif8", 0) > 0 for record in records)
    assert [record.shares for record in records] == [
        record.shares for call in alone.calls for record in call.records if record.kind == "tensor"
    ]


def test_layouts(collecting):
    dump = collected(collecting, "statistics", layout=True)
    records = [record for call in dump.calls for record in call.records if record.kind == "tensor"]
    assert all(record.layout for record in records)
    found = {record.name: record.layout for record in records}
    assert found["Cell.fc.Dense.forward.0.output.0"] == ((5, 1), 0)
    (view,) = {record.layout for record in records if record.name == "Functional.mul.0.forward.input.0"}
    assert view == ((1, 5), 1), "row 1 of the transpose of rows of 5"
