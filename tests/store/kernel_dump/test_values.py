"""`store/kernel_dump/values.py`: the table that a device writes instead of tensors, read by the text of its header."""

import math

import pytest

from msprobe.base.errors import DumpError
from msprobe.store.kernel_dump.files import read_kernels
from msprobe.store.kernel_dump.values import read_table
from msprobe.store.reader import load_tensor
from msprobe.store.record import Statistics

HEAD = (
    "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,Max Value,Min Value,Avg Value,"
    "L2Norm Value"
)
LINE = 'MatMul,Default/net-Net/MatMul-op0,0,0,17,output,0,32,float32,"(2,4)",7,-1.5,0.25,11.832159'


@pytest.fixture
def read(tmp_path):
    """The dump of a table with these lines."""

    def made(*lines, head=HEAD):
        folder = tmp_path / "rank_0" / "Net" / "0" / "0"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "statistic.csv").write_text("\n".join((head, *lines)) + "\n", "utf-8")
        return read_kernels([folder], 0, 0)

    return made


def records(dump):
    return [record for call in dump.calls for record in call.records]


def test_a_table_becomes_calls_with_statistics_and_no_tensors(read):
    dump = read(LINE, LINE.replace("output", "input").replace("7,-1.5", "3,-3"))
    assert (dump.task, dump.level, [call.name for call in dump.calls]) == (
        "statistics",
        "L2",
        ["Kernel.Default_net-Net.MatMul.0.forward"],
    )
    argument, result = records(dump)
    assert (argument.part, result.part) == ("input", "output")
    assert (result.dtype, result.shape, result.file) == ("Float32", (2, 4), "")
    assert result.statistics == Statistics(7.0, -1.5, 0.25, 11.832159)
    assert argument.statistics.max == 3
    with pytest.raises(DumpError, match="has no tensor"):
        load_tensor(dump, result)


def test_columns_are_found_by_their_text_in_any_order_and_a_line_may_end_in_a_comma(read):
    head = "Shape,L2Norm Value,Slot,IO,Timestamp,Negative Inf,Stream ID,Task ID,Op Name,Op Type,Data Type,Max Value"
    (record,) = records(read('"(3,)",5,1,input,9,0,0,0,Default/Add-op2,Add,Float16,4,', head=head))
    assert (record.name, record.shape, record.dtype) == ("Kernel.Default.Add.2.forward.input.1", (3,), "Float16")
    assert record.statistics == Statistics(4.0, None, None, 5.0)


def test_a_column_that_is_not_there_is_no_statistic(read):
    (record,) = records(read("Add,Default/Add-op2,0,0,9,input,0", head=HEAD.partition(",Data Size")[0]))
    assert (record.statistics, record.dtype, record.shape) == (None, "", None)


@pytest.mark.parametrize(
    ("dtype", "cells", "expected"),
    [
        ("bool", "True,False,null,null", Statistics(True, False, None, None)),
        ("Bool", "False,False,0.5,1", Statistics(False, False, None, None)),
        ("int32", "9,-9,0.5,12.7", Statistics(9, -9, 0.5, 12.7)),
        ("float32", "null,null,null,null", None),
        ("float32", "inf,-inf,1,inf", Statistics(math.inf, -math.inf, 1.0, math.inf)),
        ("float32", "3.4028235e+38,1e-45,0.1,1", Statistics(3.4028235e38, 1e-45, 0.1, 1.0)),
        ("float32", "what,1,1,1", Statistics(None, 1.0, 1.0, 1.0)),
        ("float32", ",1,1,1", Statistics(None, 1.0, 1.0, 1.0)),
    ],
)
def test_cells_are_read_as_what_the_dtype_has(dtype, cells, expected, read):
    (record,) = records(read(f"A,Default/A-op0,0,0,1,output,0,4,{dtype},(2),{cells}"))
    assert record.statistics == expected
    if expected is not None:
        assert [type(n) for n in (record.statistics.max, record.statistics.min)] == [
            type(expected.max),
            type(expected.min),
        ]


def test_a_nan_is_a_nan(read):
    (record,) = records(read("A,Default/A-op0,0,0,1,output,0,4,float32,(2),nan,NAN,-nan,1"))
    assert all(map(math.isnan, (record.statistics.max, record.statistics.min, record.statistics.mean)))


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("(1,4096)", (1, 4096)),
        ("( 2 , 3 )", (2, 3)),
        ("(2,)", (2,)),
        ("()", ()),
        ("", None),
        ("2,3", None),
        ("(2,x)", None),
        ("(2 3)", None),
        ("(" + "1" * 5000, None),
        ("(" + "1," * 50000 + "x", None),
    ],
)
def test_a_shape_is_numbers_in_brackets_and_nothing_else_costs_time(text, shape, read):
    (record,) = records(read(f'A,Default/A-op0,0,0,1,output,0,4,float32,"{text}",1,1,1,1'))
    assert record.shape == shape


@pytest.mark.parametrize(
    "line",
    [
        LINE.partition(",17")[0],
        LINE.replace("output,0", "workspace,0"),
        LINE.replace("output,0", "output,-1"),
        LINE.replace("output,0", "output,100000"),
        LINE.replace(",17,", ",soon,"),
        LINE.replace(",17,", "," + "9" * 5000 + ","),
    ],
)
def test_a_line_that_says_nothing_is_left_out_and_said(line, read, capsys):
    assert len(records(read(LINE, line))) == 1
    assert "1 lines are incomplete and are skipped" in capsys.readouterr().err


def test_a_table_without_its_columns_is_no_kernel_dump(read, capsys):
    with pytest.raises(DumpError, match="contains no values of kernels"):
        read("1,2", head="Op Name,Max Value")
    assert "has no column Op Type, Task ID" in capsys.readouterr().err


def test_a_byte_order_mark_hides_no_column(read):
    assert len(records(read(LINE, head="\ufeff" + HEAD))) == 1


def test_no_table_is_no_values(tmp_path):
    assert read_table(tmp_path / "statistic.csv", 0) == []
