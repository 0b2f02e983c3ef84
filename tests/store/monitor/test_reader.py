"""The tables of a monitor as they are read: the three forms, resumed runs, hostile files, with pyarrow and without."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.base.errors import DumpError
from msprobe.store.monitor import columns
from msprobe.store.monitor.layout import file_name
from msprobe.store.monitor.reader import read_output
from msprobe.store.monitor.table import Target
from msprobe.store.monitor.writer import Row, RowWriter


@pytest.fixture(params=["pyarrow", "csv"])
def parser(request, monkeypatch):
    """Both ways to parse, of which the first one may not be installed."""
    if request.param == "csv":
        monkeypatch.setattr(columns, "arrow", None)
    else:
        pytest.importorskip("pyarrow")


def rows_of(output, kind, statistic, rank=0):
    """(vpp stage, name, step, micro step, value) of each row."""
    table = output.ranks[rank].tables[kind]
    return [
        (table.targets[at].vpp_stage, table.targets[at].name, step, micro, value)
        for at, step, micro, value in zip(
            table.target.tolist(),
            table.step.tolist(),
            table.micro_step.tolist(),
            table.statistics[statistic].tolist(),
            strict=True,
        )
    ]


def fill(folder, steps, value=1.0, steps_per_file=10):
    """A run whose only parameter has the number of its step and run as its norm."""
    writer = RowWriter(folder, ["norm"], 6, steps_per_file)
    for step in steps:
        writer.write(step, {"grad_reduced": [Row(0, "w", None, [step + value], "(2,)", "Float32")]})
    writer.close()


HEADER = "vpp_stage,name,step,norm,shape,dtype\n"


@pytest.mark.usefixtures("parser")
def test_the_first_form(tmp_path):
    folder = tmp_path / "Dec03_21-34-40-rank3-0123abcd"
    folder.mkdir()
    (folder / "actv_0-0.csv").write_text(
        "vpp_stage,name,step,micro_step,min,max,norm,mean,nans,zeros,shape,dtype\n"
        '0,0.input,0,1,0.0,7.0,11.83216,3.5,0.0,0.125,"(2, 4)",Float32\n'
        '0,0.input,0,0,-1.0,nan,inf,-inf,,1e-30,"(2, 4)",Float32\n'
        '1,"a,""b",0,0,1,2,3,4,5,6,"(2, 3)",BFloat16\n'
    )
    (folder / "grad_reduced_0-0.csv").write_text(HEADER + '0,0.weight,0,1.909546,"(3, 4)",Float32\n')
    (folder / "grad_reduced_1-1.csv").write_text(HEADER + '0,0.weight,1,2.5,"(3, 4)",Float32\n')
    (folder / "stack_info.csv").write_text("module_name,stack_info\nfc,here\n")
    (folder / "anomaly.json").write_text("{}")
    output = read_output(tmp_path)
    assert (output.form, output.notes, list(output.ranks)) == ("v1", (), [3])
    assert output.ranks[3].folders == (folder,)
    table = output.ranks[3].tables["actv"]
    assert table.targets == (Target(0, "0.input"), Target(1, 'a,"b'))
    assert (table.target.dtype, table.step.dtype, table.micro_step.dtype) == (np.int32, np.int64, np.int64)
    assert list(table.statistics) == ["min", "max", "norm", "mean", "nans", "zeros"]
    assert table.target.tolist() == [0, 1, 0]
    assert table.micro_step.tolist() == [0, 0, 1]
    assert (table.shapes, table.dtypes) == (("(2, 4)", "(2, 3)"), ("Float32", "BFloat16"))
    expected = [[-1, np.nan, np.inf, -np.inf, np.nan, 1e-30], [1, 2, 3, 4, 5, 6], [0, 7, 11.83216, 3.5, 0, 0.125]]
    np.testing.assert_array_equal(np.column_stack(list(table.statistics.values())), expected)
    assert rows_of(output, "grad_reduced", "norm", 3) == [(0, "0.weight", 0, 0, 1.909546), (0, "0.weight", 1, 0, 2.5)]
    assert read_output(folder).ranks[3].tables.keys() == output.ranks[3].tables.keys()


@pytest.mark.usefixtures("parser")
def test_the_second_form(tmp_path):
    for rank in (0, 1):
        folder = tmp_path / f"rank_{rank}"
        folder.mkdir()
        (folder / "weight_grad_step0-9.csv").write_text(
            "vpp_stage,step,module_name,scope,min,norm\n"
            f"0,0,fc.weight,unreduced,-1.5,{rank}.25\n0,0,fc.weight,reduced,-1.0,0.5\n0,0,fc.weight,other,1,1\n"
        )
        (folder / "module_step0-9.csv").write_text(
            "vpp_stage,step,module_name,scope,micro_step,norm\n0,0,fc.input.0,forward,0,2.0\n"
            "0,0,fc.grad_output.0,backward,0,4.0\n0,0,fc.input.0,forward,1,3.0\n"
        )
    output = read_output(tmp_path)
    assert (output.form, list(output.ranks)) == ("v2", [0, 1])
    assert rows_of(output, "grad_unreduced", "norm", 1) == [(0, "fc.weight", 0, 0, 1.25)]
    assert rows_of(output, "grad_reduced", "min", 0) == [(0, "fc.weight", 0, 0, -1.0)]
    assert rows_of(output, "actv", "norm") == [(0, "fc.input.0", 0, 0, 2.0), (0, "fc.input.0", 0, 1, 3.0)]
    assert rows_of(output, "actv_grad", "norm") == [(0, "fc.grad_output.0", 0, 0, 4.0)]
    assert len(output.notes) == 1
    assert "unknown scope" in str(output.notes[0])
    assert list(read_output(tmp_path / "rank_1").ranks) == [1]


@pytest.mark.usefixtures("parser")
def test_grad_probe(tmp_path):
    folder = tmp_path / "rank0"
    folder.mkdir()
    for step in (10, 2):
        (folder / f"grad_summary_{step}.csv").write_text(
            'param_name,"(-inf, -1]","(1, inf)",=0,max,min,norm,shape\n'
            f'fc.weight,0.0,0.41,0.59,0.82,-0.61,{step}.5,"[3, 4]"\n',
            encoding="utf-8-sig",
        )
    (folder / "grad_summary_11.csv").write_text('Param_name,Max,Min,Norm,Shape\nfc.weight,1.0,-1.0,7.5,"[3, 4]"\n')
    output = read_output(tmp_path)
    assert (output.form, output.notes) == ("grad_probe", ())
    assert rows_of(output, "grad_reduced", "norm") == [(0, "fc.weight", s, 0, s + 0.5) for s in (2, 10)] + [
        (0, "fc.weight", 11, 0, 7.5)
    ]
    table = output.ranks[0].tables["grad_reduced"]
    assert list(table.statistics) == ["max", "min", "norm"]
    assert table.statistics["max"].tolist() == [0.82, 0.82, 1.0]
    assert table.shapes == ("[3, 4]",)


def test_a_resumed_run_is_joined_and_the_later_folder_wins(tmp_path):
    """Over the end of a year, too: the names have none."""
    fill(tmp_path / "Dec31_23-00-00-rank0-aaaaaaaa", range(0, 8), 0.25)
    fill(tmp_path / "Jan01_01-00-00-rank0-bbbbbbbb", range(5, 12), 0.5)
    output = read_output(tmp_path)
    expected = [step + (0.25 if step < 5 else 0.5) for step in range(12)]
    assert [row[-1] for row in rows_of(output, "grad_reduced", "norm")] == expected
    assert [folder.name[:5] for folder in output.ranks[0].folders] == ["Dec31", "Jan01"]
    assert len(output.notes) == 1
    assert "3 steps were written again" in str(output.notes[0])


def test_of_two_runs_the_newest_is_read(tmp_path):
    """The newest has a rank less."""
    for rank in (0, 1):
        fill(tmp_path / f"Nov30_10-00-0{rank}-rank{rank}-aaaaaaaa", range(0, 30), 0.25)
        fill(tmp_path / f"Nov30_12-00-0{rank}-rank{rank}-bbbbbbbb", range(20, 40), 0.25)
    fill(tmp_path / "Nov30_15-00-00-rank0-cccccccc", range(0, 3), 0.5)
    fill(tmp_path / "Nov30_16-00-00-rank0-dddddddd", range(3, 5), 0.5)
    output = read_output(tmp_path)
    assert list(output.ranks) == [0]
    assert [row[2:] for row in rows_of(output, "grad_reduced", "norm")] == [(s, 0, s + 0.5) for s in range(5)]
    assert len(output.notes) == 1
    assert str(output.notes[0]).startswith("4 folders are from an older run")


def test_rows_in_the_same_file_and_beside_it(tmp_path):
    """A run that went on in its folder (`append_output`), with other statistics the second time."""
    folder = tmp_path / "Nov30_10-00-00-rank0-aaaaaaaa"
    fill(folder, range(4), 0.25)
    fill(folder, range(2, 5), 0.5)
    RowWriter(folder, ["max"], 6, 10).write(5, {"grad_reduced": [Row(0, "w", None, [9.0], "(2,)", "Float32")]})
    output = read_output(tmp_path)
    expected = [0.25, 1.25, 2.5, 3.5, 4.5, np.nan]
    table = output.ranks[0].tables["grad_reduced"]
    np.testing.assert_array_equal(table.statistics["norm"], expected)
    np.testing.assert_array_equal(table.statistics["max"], [np.nan] * 5 + [9.0])
    assert len(output.notes) == 1
    assert "2 rows were written twice" in str(output.notes[0])


GOOD = '0,a,1,1.5,"(3, 4)",Float32\n0,b,1,2.5,"(3, 4)",Float32\n'

HOSTILE = {
    "torn in a number": (GOOD + "0,a,2,1.", 2, "unfinished"),
    "torn in a quoted field": (GOOD + '0,a,2,1.5,"(3,', 2, "unfinished"),
    "torn, and gone on with": ('0,x,1,1.5,"(3,\n' + GOOD, 2, "not rows"),
    "too few fields": ("0,x,1\n" + GOOD, 2, "not rows"),
    "too many fields": ("0,x,1,1.5,(),F,G\n" + GOOD, 2, "not rows"),
    "an empty line": ("\n" + GOOD, 2, "not rows"),
    "a header again": (HEADER + GOOD, 2, "without an integer"),
    "a step that is not a number": ("0,x,one,1.5,(),F\n" + GOOD, 2, "without an integer"),
    "a step of a thousand digits": ("0,x," + "9" * 1000 + ",1.5,(),F\n" + GOOD, 2, "without an integer"),
    "a step as a float": ("0,c,1.0,1.5,(),F\n" + GOOD, 3, ""),
    "a huge step": ("0,c,9000000000000000000,1.5,(),F\n" + GOOD, 2, "without an integer"),
    "a negative step": ("0,c,-7,1.5,(),F\n" + GOOD, 2, "without an integer"),
    "a number that is none": ("0,c,1,abc,(),F\n" + GOOD, 3, "non-numeric fields"),
    "a huge field": ("0," + "x" * 200_000 + ",1,1.5,(),F\n" + GOOD, 2, "not rows"),
    "a name with a line end": ('0,"a\nb",1,1.5,"(3, 4)",Float32\n' + GOOD, 3, ""),
    "zero bytes": ("\0" * 100 + "\n" + GOOD, 2, "not rows"),
    "no UTF-8": (b"0,\xff\xfe,1,1.5,(),F\n" + GOOD.encode(), 3, ""),
    "other line ends": (GOOD.replace("\n", "\r\n"), 2, ""),
    "a carriage return alone": ("0,c\rd,1,1.5,(),F\n" + GOOD, 3, ""),
}


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize("case", HOSTILE)
def test_a_broken_file_loses_what_is_broken(tmp_path, case):
    content, count, note = HOSTILE[case]
    folder = tmp_path / "Nov30_10-00-00-rank0-aaaaaaaa"
    folder.mkdir()
    data = content if isinstance(content, bytes) else content.encode()
    (folder / "param_origin_0-9.csv").write_bytes(HEADER.encode() + data)
    output = read_output(tmp_path)
    found = {row[1]: row[-1] for row in rows_of(output, "param_origin", "norm")}
    assert len(found) == count
    assert (found["a"], found["b"]) == (1.5, 2.5)
    assert bool(output.notes) == bool(note)
    assert note in "".join(map(str, output.notes))


def test_what_is_no_table_is_left_out(tmp_path):
    folder = tmp_path / "Nov30_10-00-00-rank0-aaaaaaaa"
    fill(folder, range(2))
    (folder / "actv_0-9.csv").write_text("")
    (folder / "actv_10-19.csv").write_bytes(os.urandom(100_000).replace(b"name", b""))
    (folder / "actv_20-29.csv").write_text("a,b\n1,2\n")
    (folder / "actv_30-39.csv").mkdir()
    os.mkfifo(folder / "actv_40-49.csv")
    (folder / "nonsense_0-9.csv").write_text(HEADER)
    (folder / "param_origin_0-9.csv").write_text("vpp_stage,name,step,norm,note,extra\n0,w,0,1.0,hello,2.5\n")
    (tmp_path / "Nov30_11-00-00-rank1-aaaaaaaa").mkdir()
    (tmp_path / "rank_0").mkdir()
    output = read_output(tmp_path)
    assert list(output.ranks) == [0]
    assert list(output.ranks[0].tables) == ["grad_reduced", "param_origin"]
    assert list(output.ranks[0].tables["param_origin"].statistics) == ["norm", "extra"]
    notes = "\n".join(map(str, output.notes))
    assert "4 files that" not in notes
    for part in ("are empty", "unknown kind", "could not be read", "not tables", "columns without numbers"):
        assert part in notes


@pytest.mark.parametrize("content", [None, "", "nothing here\n", HEADER])
def test_nothing_to_read_is_an_error(tmp_path, content):
    folder = tmp_path / "Nov30_10-00-00-rank0-aaaaaaaa"
    if content is not None:
        folder.mkdir()
        (folder / "actv_0-9.csv").write_text(content)
    with pytest.raises(DumpError):
        read_output(tmp_path)
    with pytest.raises(DumpError, match="no such folder"):
        read_output(tmp_path / "non-numeric fields")


PARTS = [*'0123456789.eE+-naif ,"\t', "nan", "inf", "-inf", '""', "é", "0x1F", "1e999", "4e-324", "1_0"]
FIELDS = st.one_of(
    st.lists(st.sampled_from(PARTS), max_size=6).map("".join),
    st.lists(st.sampled_from(PARTS), max_size=5).map(lambda parts: f'"{"".join(parts)}"'),
    st.floats().map(repr),
)
LINES = st.one_of(
    st.lists(FIELDS, min_size=3, max_size=3).map(",".join), st.lists(st.sampled_from(PARTS), max_size=9).map("".join)
)


@given(st.lists(LINES, max_size=5), st.sampled_from([(), (1,), (2,), (0, 1, 2)]))
def test_both_parsers_give_the_same_columns(lines, numbers):
    pytest.importorskip("pyarrow")
    data = "".join(line + "\n" for line in lines).encode()
    texts = tuple(at for at in range(3) if at not in numbers)
    first = columns.parse(data, 3, numbers, texts)
    kept, columns.arrow = columns.arrow, None
    try:
        second = columns.parse(data, 3, numbers, texts)
    finally:
        columns.arrow = kept
    assert (first.rows, first.broken) == (second.rows, second.broken)
    for at in numbers:
        np.testing.assert_array_equal(first.numbers[at], second.numbers[at])
    for at in texts:
        found = [[column.values[code] for code in column.codes] for column in (first.texts[at], second.texts[at])]
        assert found[0] == found[1]


CHILD = """
import random, sys
from pathlib import Path
from msprobe.store.monitor.writer import Row, RowWriter
folder, seed, first = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
writer = RowWriter(folder, ["norm", "max"], 6, seed % 7 + 1)
for step in range(first, 1_000_000):
    rows = [Row(0, f"layers.{i}.weight", None, [step + i / 8, 0.5], "(2, 2)", "Float32") for i in range(200)]
    writer.write(step, {"grad_reduced": rows, "param_origin": rows})
    print(step, flush=True)
"""


def run_and_kill(folder, seed, first):
    """Kill a writing process at a random moment; the last step that it had reported."""
    dice = random.Random(seed + first)
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, folder, str(seed), str(first)], stdout=subprocess.PIPE, text=True
    )
    wanted, seen = first + dice.randint(0, 25), []
    for line in child.stdout:
        seen.append(line)
        if int(line) >= wanted:
            break
    for _ in range(dice.randint(0, 20_000)):
        pass
    child.send_signal(signal.SIGKILL)
    seen += child.stdout.readlines()
    child.stdout.close()
    assert child.wait() == -signal.SIGKILL
    return int([line for line in seen if line.endswith("\n")][-1])


@pytest.mark.sample(15)
@pytest.mark.parametrize("seed", range(100))
def test_no_finished_step_is_lost_by_a_kill(tmp_path, seed):
    """Killed, gone on with in the same folder, and killed again."""
    folder = tmp_path / "Nov30_10-00-00-rank0-aaaaaaaa"
    middle = run_and_kill(folder, seed, 0)
    last = run_and_kill(folder, seed, middle + 1)
    output = read_output(tmp_path)
    for kind in ("grad_reduced", "param_origin"):
        table = output.ranks[0].tables[kind]
        finished = table.step <= last
        assert finished.sum() == (last + 1) * 200
        np.testing.assert_array_equal(table.step[finished], np.repeat(np.arange(last + 1), 200))
        expected = (np.arange(last + 1)[:, None] + np.arange(200) / 8).ravel()
        np.testing.assert_array_equal(table.statistics["norm"][finished], expected)
        assert set(table.step[~finished].tolist()) <= {last + 1}
    assert Path(folder / file_name("grad_reduced", last, seed % 7 + 1)).exists()
