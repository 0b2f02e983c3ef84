"""A training with PyTorch, collected in all formats: the same records, tensors, comparison and bits."""

import numpy as np
import pytest
import torch
from small_model import Mlp, step

from msprobe.cli import main
from msprobe.store.reader import load_tensor, read

pytestmark = pytest.mark.torch

pytest.importorskip("pyarrow", reason="the format is written through it; install msprobe-ms[columnar]")


def collected(collecting, form, dtype=torch.float32):
    torch.manual_seed(3)
    net = Mlp().to(dtype)
    debugger = collecting({"task": "tensor", "format": form, "tensor": {"summary_mode": "md5"}})
    out = step(debugger, net, torch.linspace(-1, 1, 12).reshape(3, 4).to(dtype))
    bits = [out.detach().float().numpy().tobytes(), *(p.grad.float().numpy().tobytes() for p in net.parameters())]
    return debugger._settings.dump_path, bits


@pytest.mark.parametrize("form", ["columnar", "packed"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_all_formats_hold_the_same(dtype, form, collecting, tmp_path):
    (json, bits), (other_form, same_bits) = (collected(collecting, each, dtype) for each in ("json", form))
    assert bits == same_bits
    assert not list(other_form.rglob("*.npy"))
    one, other = read(json / "step0"), read(other_form / "step0")
    assert list(one.calls) == list(other.calls)
    assert one.construct == other.construct
    with_files = [record for call in one.calls for record in call.records if record.file]
    assert len(with_files) > 10
    for record in with_files:
        ours, theirs = load_tensor(other, record), load_tensor(one, record)
        assert (ours.dtype, ours.shape, ours.tobytes()) == (theirs.dtype, theirs.shape, theirs.tobytes())
    assert main(["compare", "-tp", str(other_form), "-gp", str(json), "-o", str(tmp_path / "out")]) == 0


def test_what_the_user_saves_is_columnar_too(collecting):
    debugger = collecting({"task": "tensor", "format": "columnar"}, level="debug")
    debugger.save(torch.tensor([1.0, 2.0]), "x")
    debugger.step()
    dump = read(debugger._settings.dump_path / "step0")
    (record,) = dump.calls[0].records
    np.testing.assert_array_equal(load_tensor(dump, record), np.float32([1, 2]))
    assert sorted(p.name for p in (debugger._settings.dump_path / "step0" / "rank").iterdir()) == [
        *("debug.parquet", "dump_tensor_data"),
    ]
