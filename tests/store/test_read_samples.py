"""`store/reader.py` on dumps of the other tool."""

import csv

import numpy as np
import openpyxl
import pytest
from leaves import rows

from msprobe.base.errors import DumpError
from msprobe.store.reader import load_tensor, read
from msprobe.store.record import Record, Statistics

# Calls and leaves of each sample, counted with a few lines of plain json.
SIZES = {
    "8.1.1": {"ms_L0_stat": (8, 20), "ms_L1_stat": (12, 33), "pt_mix_stat": (26, 72), "task_structure_mix": (0, 0)},
    "26.2.0": {"ms_L0_stat": (8, 20), "ms_L1_stat": (12, 33), "pt_mix_stat": (20, 54), "task_structure_mix": (0, 0)},
}
for sizes in SIZES.values():
    sizes.update({f"{side}_mix_{kind}": (20, 53) for side in ("ms", "msp") for kind in ("md5", "stat", "tensor")})
SAMPLES = [(version, name) for version, sizes in SIZES.items() for name in sizes]


@pytest.mark.parametrize(("version", "name"), SAMPLES)
def test_dumps_of_the_other_tool_are_read_whole(samples, version, name):
    dump = read(samples / version / "dumps" / name / "step0", structure=True)
    assert (len(dump.calls), len(rows(dump))) == SIZES[version][name]
    assert dump.format_version == 0
    assert (dump.step, dump.rank) == (0, 0)
    assert dump.framework == ("pytorch" if name.startswith("pt") else "mindspore")


def table_names(path):
    if path.suffix == ".csv":
        return [row[0] for row in csv.reader(path.read_text().splitlines())][1:]
    return [row[0] for row in openpyxl.load_workbook(path).active.values][1:]


@pytest.mark.parametrize("version", SIZES)
@pytest.mark.parametrize("kind", ["stat", "md5", "tensor"])
def test_rows_have_the_names_and_the_order_of_the_other_tools_table(samples, version, kind):
    (table,) = (samples / version / "compare" / f"MS_MS_same_mix_{kind}").glob("compare_result.*")
    dump = read(samples / version / "dumps" / f"ms_mix_{kind}" / "step0")
    assert [record.name for record in rows(dump)] == table_names(table)


def test_a_sample_in_detail(samples):
    dump = read(samples / "8.1.1/dumps/ms_mix_tensor/step0/rank/dump.json")
    assert (dump.task, dump.level) == ("tensor", "mix")
    call = dump.calls[0]
    assert (call.name, call.parent) == ("Primitive.dense.Dense.0.forward", "Cell.fc1.Linear.forward.0")
    assert len(call.stack) == 17
    assert call.stack[0].endswith("line 924, in construct, \n x = self.dense(x, self.weight, self.bias)")
    assert call.records[1] == Record(
        name="Primitive.dense.Dense.0.forward.input.1",
        part="input",
        path=("1",),
        kind="tensor",
        type="mindspore.Tensor",
        dtype="Float32",
        shape=(32, 16),
        statistics=Statistics(0.17504319548606873, -0.1554069221019745, 0.003038613125681877, 1.1764150857925415),
        file="Primitive.dense.Dense.0.forward.input.1.npy",
    )
    assert dump.construct["Cell.fc1.Linear.forward.0"] is None
    # Its own reader and numpy's agree on every tensor.
    folder = samples / "8.1.1/dumps/ms_mix_tensor/step0/rank/dump_tensor_data"
    named = [record for record in rows(dump) if record.file]
    assert len(named) == 52
    for record in named:
        array = load_tensor(dump, record)
        assert array.shape == record.shape
        assert array.tobytes() == np.load(folder / record.file).tobytes()


def test_digests_are_read(samples):
    dump = read(samples / "26.2.0/dumps/msp_mix_md5/step0")
    assert dump.calls[0].records[0].digest == "cb3d93ed"


def test_null_gradients_are_rows(samples):
    dump = read(samples / "8.1.1/dumps/ms_mix_stat/step0")
    (record,) = next(call.records[-1:] for call in dump.calls if call.name == "Cell.fc1.Linear.backward.0")
    assert record == Record("Cell.fc1.Linear.backward.0.output.0", "output", ("0",), "null", "")


def test_a_structure_dump_has_no_records_and_says_so(samples):
    path = samples / "8.1.1/dumps/task_structure_mix/step0"
    with pytest.raises(DumpError, match=r"`structure` and contains no records; collect again with task `statistics`"):
        read(path)
    assert len(read(path, structure=True).construct) == 18
