"""Optional statistics and layouts of a PyTorch training: in the records of every format, and in a comparison."""

import csv

import numpy as np
import pytest
import torch

from msprobe.cli import main
from msprobe.store.reader import load_tensor, read

pytestmark = pytest.mark.torch

EXTRA = ["zeros", "underflow:e4m3", "saturated:fp16"]


def collected(collecting, scale, **settings):
    torch.manual_seed(3)
    net = torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.ReLU())
    debugger = collecting(settings, level="mix")
    debugger.start(net)
    x = torch.linspace(-1, 1, 48).reshape(8, 6).t() * scale
    out = net(x)
    (torch.mul(out.t()[1:, 2:], 1e5).half().float() + torch.arange(4) + (out[:4].t()[1:, :4] > 0)).sum().backward()
    debugger.stop()
    debugger.step()
    return debugger._settings.dump_path


def expected(array):
    """The shares by numpy's own float64 arithmetic."""
    magnitudes, found = np.abs(array.astype(np.float64)), {"zeros": float(np.count_nonzero(array == 0) / array.size)}
    if array.dtype.kind == "f":
        found["underflow:e4m3"] = float(np.count_nonzero(magnitudes < 0.015625) / array.size)
        found["saturated:fp16"] = float(np.count_nonzero(magnitudes >= 65504) / array.size)
    return found


def tensors(dump):
    return [record for call in read(dump / "step0").calls for record in call.records if record.kind == "tensor"]


@pytest.mark.parametrize("digest", ["statistics", "md5", "crc32c"])
def test_every_record_has_the_shares_of_its_tensor(collecting, digest):
    section = {"extra": EXTRA, "summary_mode": digest}
    saved = collected(collecting, 1.0, task="tensor", tensor=section)
    dump = read(saved / "step0")
    records = tensors(saved)
    seen = set()
    for record in records:
        shares = dict(record.shares)
        assert shares == expected(load_tensor(dump, record)), record.name
        seen |= {name for name, share in shares.items() if 0 < share < 1}
    assert seen == set(EXTRA), "each of them is neither 0 nor 1 somewhere"
    alone = tensors(collected(collecting, 1.0, task="statistics", statistics=section))
    assert [(each.name, each.statistics, each.shares) for each in alone] == [
        (each.name, each.statistics, each.shares) for each in records
    ]


@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize("form", ["packed", "columnar"])
def test_all_formats_hold_the_same(collecting, form, task):
    if form == "columnar":
        pytest.importorskip("pyarrow", reason="the format is written through it; install msprobe-ms[columnar]")
    section = {"extra": EXTRA, "layout": True}
    one, other = (collected(collecting, 1.0, task=task, format=each, **{task: section}) for each in ("json", form))
    json, others = tensors(one), tensors(other)
    assert [(each.name, each.shares, each.layout) for each in json] == [
        (each.name, each.shares, each.layout) for each in others
    ]
    assert any(each.layout for each in json)


def test_layouts(collecting):
    dump = read(collected(collecting, 1.0, task="statistics", statistics={"layout": True}) / "step0")
    found = {record.name: record.layout for call in dump.calls for record in call.records if record.layout}
    assert found["Torch.mul.0.forward.input.0"] == ((1, 6), 13), "row 1 and column 2 of a transpose of rows of 6"
    assert found["Torch.mul.0.forward.output.0"].storage_offset == 0
    assert str(found["Torch.mul.0.forward.input.0"]) == "stride [1, 6], offset 13"


def test_nothing_is_written_that_is_not_asked_for(collecting):
    dump = collected(collecting, 1.0, task="statistics")
    text = (dump / "step0" / "rank" / "dump.json").read_text()
    assert not any(word in text for word in ('"extra"', '"layout"', '"zeros"', '"stride"', "storage_offset"))


def test_a_comparison_shows_both_sides_and_judges_nothing_by_them(collecting, tmp_path):
    section = {"extra": ["zeros"], "layout": True}
    target = collected(collecting, 1.0, task="statistics", statistics=section)
    golden = collected(collecting, 1.0, task="statistics")
    out = tmp_path / "out"
    assert main(["compare", "-tp", str(target), "-gp", str(golden), "-o", str(out), "--format", "csv"]) == 0
    (table,) = out.rglob("*.csv")
    with table.open(encoding="utf-8-sig") as file:
        rows = {row["NPU Name"]: row for row in csv.DictReader(file)}
    row = rows["Torch.mul.0.forward.input.0"]
    assert (row["NPU layout"], row["Bench layout"], row["Verdict"]) == ("stride [1, 6], offset 13", "", "pass")
    shares = {record.name: dict(record.shares)["zeros"] for record in tensors(target)}
    assert float(row["NPU zeros"]) == shares["Torch.mul.0.forward.input.0"] > 0
    assert row["Bench zeros"] == ""
    assert {row["Verdict"] for row in rows.values()} == {"pass"}
