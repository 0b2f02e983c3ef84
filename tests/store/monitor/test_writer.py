"""The tables of a monitor as they are written: columns, numbers, files that go on, folders of processes."""

import os
import stat
import time
from datetime import datetime, timedelta, timezone

import pytest

from msprobe.store.monitor import layout
from msprobe.store.monitor.scoped_writer import ScopedWriter
from msprobe.store.monitor.writer import Row, RowWriter, numbers_text

OPERATIONS = ("min", "max", "norm", "mean", "nans", "zeros")


def texts_of(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_the_columns_and_lines_of_the_reference(tmp_path):
    writer = RowWriter(tmp_path / "run", OPERATIONS, 6, 1, "csv")
    actv = Row(0, "0.input", 0, [0.0, 7.0, 11.832159566, 3.5, 0.0, 0.125], "(2, 4)", "Float32")
    grad = Row(0, "0.weight", None, [-0.2945951, 0.903275, 1.909546, 0.3488174, 0.0, 0.0], "(3, 4)", "Float32")
    writer.write(0, {"actv": [actv], "grad_reduced": [grad], "grad_unreduced": [grad], "other": []})
    writer.write(1, {"grad_unreduced": [grad._replace(micro_step=3)], "local": [Row(0, "loss", 1, [2.5])]})
    line = '-0.294595,0.903275,1.909546,0.348817,0.0,0.0,"(3, 4)",Float32\n'
    assert texts_of(tmp_path / "run") == {
        "actv_0-0.csv": "vpp_stage,name,step,micro_step,min,max,norm,mean,nans,zeros,shape,dtype\n"
        '0,0.input,0,0,0.0,7.0,11.83216,3.5,0.0,0.125,"(2, 4)",Float32\n',
        "grad_reduced_0-0.csv": "vpp_stage,name,step,min,max,norm,mean,nans,zeros,shape,dtype\n0,0.weight,0," + line,
        "grad_unreduced_0-0.csv": "vpp_stage,name,step,min,max,norm,mean,nans,zeros,shape,dtype\n0,0.weight,0," + line,
        "grad_unreduced_1-1.csv": "vpp_stage,name,step,micro_step,min,max,norm,mean,nans,zeros,shape,dtype\n"
        "0,0.weight,1,3," + line,
        "local_1-1.csv": "vpp_stage,name,step,micro_step,value\n0,loss,1,1,2.5\n",
    }
    for path in (tmp_path / "run").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_the_columns_of_the_second_form(tmp_path):
    folder = layout.scoped_folder(tmp_path, 3)
    writer = ScopedWriter(folder, {"weight_grad": ["norm"], "module": ["min", "max"]}, 6, 100)
    gradient = Row(1, "fc.weight", None, [0.5])
    for step in (199, 200):
        writer.write(step, {"grad_unreduced": [gradient], "grad_reduced": [gradient._replace(values=[1.5])]})
    writer.write(200, {"actv": [Row(0, "fc.input.0", 2, [None, 3.0])]})
    lines = "1,{0},fc.weight,unreduced,0.5\n1,{0},fc.weight,reduced,1.5\n"
    assert folder.name == "rank_3"
    assert texts_of(folder) == {
        "weight_grad_step100-199.csv": "vpp_stage,step,module_name,scope,norm\n" + lines.format(199),
        "weight_grad_step200-299.csv": "vpp_stage,step,module_name,scope,norm\n" + lines.format(200),
        "module_step200-299.csv": "vpp_stage,step,module_name,scope,micro_step,min,max\n"
        "0,200,fc.input.0,forward,2,nan,3.0\n",
    }


@pytest.mark.parametrize(
    ("digits", "value", "text"),
    [
        (6, 11.832159566, "11.83216"),
        (6, 7.0, "7.0"),
        (6, 0.0, "0.0"),
        (6, -0.2945951, "-0.294595"),
        (6, 1.23456789e-9, "1.23457e-09"),
        (6, 1.2e-8, "1.2e-08"),
        (6, 123456789.123456789, "123456789.123457"),
        (6, 1e300, "1e+300"),
        (6, 3e-310, "3e-310"),
        (2, 1.005e-5, "1e-05"),
        (1, 12.36, "12.4"),
        (20, 0.1, "0.10000000000000001"),
        (20, 1.1, "1.1"),
        (6, float("nan"), "nan"),
        (6, float("inf"), "inf"),
        (6, float("-inf"), "-inf"),
        (6, None, "nan"),
    ],
)
def test_a_number_keeps_its_significant_digits(digits, value, text):
    assert numbers_text(digits)([value]) == text


def test_a_row_is_one_line_whatever_its_name(tmp_path):
    writer = RowWriter(tmp_path, ["norm"], 6, 10)
    writer.write(0, {"param_origin": [Row(0, 'a,"b"\nc\r\0\ud800', None, [1.0], "(1,)", "Float32")]})
    assert texts_of(tmp_path)["param_origin_0-9.csv"].splitlines()[1:] == [
        '0,"a,""b""\\nc\\r\\0\\ud800",0,1.0,"(1,)",Float32'
    ]


def test_values_that_do_not_fit_the_columns_are_refused(tmp_path):
    with pytest.raises(ValueError, match="w: 1 values for 2 statistics"):
        RowWriter(tmp_path, ["norm", "max"], 6, 1).write(0, {"actv": [Row(0, "w", 0, [1.0])]})


@pytest.mark.parametrize("torn", [9, 20, 52, 59])
def test_the_next_run_cuts_a_torn_line(tmp_path, torn):
    """Killed in the header, at its end and in lines: the whole lines stay."""
    path = tmp_path / "param_origin_0-9.csv"
    header = "vpp_stage,name,step,norm,shape,dtype\n"
    first = "0,a,0,1.0,(),F\n"
    path.write_text((header + first + "0,b,0,2.0,(),F\n")[:torn])
    writer = RowWriter(tmp_path, ["norm"], 6, 10)
    writer.write(1, {"param_origin": [Row(0, "a", None, [3.0], "()", "F")]})
    assert path.read_text() == header + (first if torn >= len(header + first) else "") + "0,a,1,3.0,(),F\n"


def test_other_columns_go_into_a_file_beside(tmp_path):
    row = Row(0, "a", None, [3.0], "()", "F")
    RowWriter(tmp_path, ["norm"], 6, 10).write(1, {"param_origin": [row]})
    before = (tmp_path / "param_origin_0-9.csv").read_bytes()
    for step in (2, 3):
        RowWriter(tmp_path, ["max"], 6, 10).write(step, {"param_origin": [row]})
    RowWriter(tmp_path, ["min"], 6, 10).write(4, {"param_origin": [row]})
    assert (tmp_path / "param_origin_0-9.csv").read_bytes() == before
    assert (tmp_path / "param_origin_0-9.1.csv").read_text() == (
        "vpp_stage,name,step,max,shape,dtype\n0,a,2,3.0,(),F\n0,a,3,3.0,(),F\n"
    )
    assert (tmp_path / "param_origin_0-9.2.csv").read_text().startswith("vpp_stage,name,step,min")
    assert all(layout.FILE.match(name) for name in os.listdir(tmp_path))


def test_a_full_disk_is_raised_and_leaves_whole_lines(tmp_path):
    """/dev/full stands in the place of the file: the system refuses each write."""
    writer = RowWriter(tmp_path, ["norm"], 6, 10)
    writer.write(1, {"param_origin": [Row(0, "a", None, [3.0], "()", "F")]})
    before = (tmp_path / "param_origin_0-9.csv").read_bytes()
    (open_file,) = writer._files._open.values()
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, open_file.number)
    os.close(full)
    with pytest.raises(OSError, match="No space left"):
        writer.write(2, {"param_origin": [Row(0, "a", None, [4.0], "()", "F")]})
    writer.write(3, {"param_origin": [Row(0, "a", None, [5.0], "()", "F")]})
    assert (tmp_path / "param_origin_0-9.csv").read_bytes() == before + b"0,a,3,5.0,(),F\n"


def test_a_step_of_a_large_model_is_cheap(tmp_path):
    """300 parameters with 6 statistics: about 1 ms on a machine of 2020; the bound is generous."""
    writer = RowWriter(tmp_path, OPERATIONS, 6, 1000)
    values = [[0.001234567 * i, -3.5e-7 * i, i * 1.7, 0.1, 0.0, 0.5] for i in range(300)]
    rows = [Row(0, f"layers.{i}.weight", None, values[i], "(4, 4)", "Float32") for i in range(300)]
    best = float("inf")
    for step in range(20):
        start = time.perf_counter()
        writer.write(step, {"grad_reduced": rows})
        best = min(best, time.perf_counter() - start)
    assert best < 0.005


def test_a_folder_is_named_by_the_time_in_shanghai(tmp_path):
    now = datetime(2026, 12, 3, 21, 34, 40, tzinfo=timezone(timedelta(hours=8))).timestamp()
    made = [layout.new_folder(tmp_path / "a" / "b", 7, now) for _ in range(2)]
    assert made[0] != made[1]
    for folder in made:
        assert folder.is_dir()
        assert folder.name.startswith("Dec03_21-34-40-rank7-")
        assert len(folder.name) == len("Dec03_21-34-40-rank7-") + 8


def test_the_newest_folder_of_the_rank_and_time_is_continued(tmp_path):
    for name in (
        *("Nov30_10-00-00-rank0-aaaaaaaa", "Dec01_10-00-00-rank0-bbbbbbbb", "Dec01_10-00-00-rank1-cccccccc"),
        *("Dec31_23-00-00-rank0-dddddddd", "Jan01_01-00-00-rank0-eeeeeeee", "other-rank0-ffffffff"),
    ):
        (tmp_path / name).mkdir()
    (tmp_path / "Dec02_10-00-00-rank0-99999999").write_text("no folder")

    def found(rank, start, end):
        folder = layout.find_folder(tmp_path, rank, start, end)
        return folder and folder.name[-8:]

    assert found(0, "Nov30_10-00-00", "Dec02_23-59-59") == "bbbbbbbb"
    assert found(0, "Nov30_10-00-00", "Dec01_09-59-59") == "aaaaaaaa"
    assert found(1, "Nov30_10-00-00", "Dec02_23-59-59") == "cccccccc"
    assert found(2, "Nov30_10-00-00", "Dec02_23-59-59") is None
    assert found(0, "Dec01_00-00-00", "Jan02_00-00-00") == "eeeeeeee"  # over the end of the year
    assert found(0, "Dec01_00-00-00", "Jan01_00-59-59") == "dddddddd"
    assert layout.find_folder(tmp_path / "none", 0, "Dec01_00-00-00", "Dec02_00-00-00") is None
    with pytest.raises(ValueError, match="Dec03_21-34-40"):
        found(0, "2026-12-01", "Dec02_00-00-00")
