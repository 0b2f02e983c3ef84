"""A training with MindSpore, collected in all formats: the same records, tensors and comparison."""

import sys

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn, ops

from msprobe.base.errors import SettingsError
from msprobe.cli import main
from msprobe.store.reader import load_tensor, read

pytestmark = pytest.mark.mindspore

pytest.importorskip("pyarrow", reason="the format is written through it; install msprobe-ms[columnar]")


class Block(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc1, self.act, self.fc2 = nn.Dense(6, 5), nn.ReLU(), nn.Dense(5, 2)

    def construct(self, x, scale=1.0):
        x = self.act(self.fc1(x)) * scale
        return ops.cast(self.fc2(x), ms.bfloat16), ops.exp(x)


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.block = Block()

    def construct(self, x):
        out, other = self.block(x, scale=0.5)
        return ops.cast(out, ms.float32).sum() + other.mean()


def collected(collecting, form, task="tensor", **section):
    ms.set_seed(3)
    net = Net()
    gradient = ms.value_and_grad(net, None, net.trainable_params())
    debugger = collecting({"task": task, "format": form, task: section})
    debugger.start(net)
    gradient(ms.Tensor(np.linspace(-1, 1, 12, dtype=np.float32).reshape(2, 6)))
    debugger.stop()
    debugger.step()
    return debugger._settings.dump_path


@pytest.mark.parametrize(("form", "mode"), [("columnar", "md5"), ("columnar", "crc32c"), ("packed", "md5")])
def test_all_formats_hold_the_same(form, mode, collecting, tmp_path):
    json, other_form = (collected(collecting, each, summary_mode=mode) for each in ("json", form))
    one, other = read(json / "step0"), read(other_form / "step0")
    assert {path.suffix for path in other_form.rglob("tensors.*")} == {".pack", ".index"}
    assert not list(other_form.rglob("*.npy"))
    digests = [record.digest for call in one.calls for record in call.records]
    assert digests == [record.digest for call in other.calls for record in call.records]
    assert any(digests)
    assert len(one.calls) > 10
    assert list(one.calls) == list(other.calls)
    assert one.construct == other.construct
    assert [one.calls.stack(at) for at in range(len(one.calls))] == [
        other.calls.stack(at) for at in range(len(one.calls))
    ]
    with_files = [record for call in one.calls for record in call.records if record.file]
    assert "BFloat16" in {record.dtype for record in with_files}
    for record in with_files:
        ours, theirs = load_tensor(other, record), load_tensor(one, record)
        assert (ours.dtype, ours.shape, ours.tobytes()) == (theirs.dtype, theirs.shape, theirs.tobytes())
    for target, golden in ((other_form, json), (json, other_form)):
        out = tmp_path / f"out_{target.name}"
        assert main(["compare", "-tp", str(target), "-gp", str(golden), "-o", str(out)]) == 0


@pytest.mark.parametrize("task", ["statistics", "overflow_check"])
def test_other_tasks_write_it_too(task, collecting):
    json, columnar = (collected(collecting, form, task) for form in ("json", "columnar"))
    if task == "statistics":
        assert list(read(json / "step0").calls) == list(read(columnar / "step0").calls)
    assert bool(list(json.rglob("dump.json"))) == bool(list(columnar.rglob("dump.parquet")))
    assert not list(columnar.rglob("*.json"))


def test_without_pyarrow_the_start_says_what_to_install(collecting, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    debugger = collecting({"task": "statistics", "format": "columnar"})
    with pytest.raises(SettingsError, match=r'format "columnar" writes .* pip install .msprobe-ms\[columnar\]'):
        debugger.start(Net())
    with pytest.raises(SettingsError, match=r"msprobe-ms\[columnar\]"):
        collecting({"task": "statistics", "format": "columnar"}, level="debug")
    collected(collecting, "json")
