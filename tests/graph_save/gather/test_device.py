"""`msprobe gather` on the layouts of a device, and of older versions.

All of it is written by hand after the description of the format; none of it was made by a device.
"""

import numpy as np
import pytest
from kernel_files import data, save

from msprobe.store.reader import load_tensor, read

HEAD = (
    "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,"
    "Max Value,Min Value,Avg Value,L2Norm Value"
)


def ascend(tmp_path, *rows, head=HEAD):
    folder = tmp_path / "raw/rank_3/Net/0/2"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "statistic.csv").write_text("\n".join((head, *rows)) + "\n")
    return tmp_path / "raw"


def test_ascend_statistics_become_records_without_tensors(gather, tmp_path, out):
    raw = ascend(
        tmp_path,
        'MatMul,Default/net-Net/MatMul-op0,4,2,100,input,0,32,float32,"(2,4)",7.5,-1,2.25,9.5',
        'MatMul,Default/net-Net/MatMul-op0,4,2,101,output,0,16,bfloat16,"(2,)",3,null,nan,inf',
        'Cast,Default/net-Net/Cast-op0,5,2,102,output,0,8,int32,"(2,)",7,-7,0,9.9',
        'Cast,Default/net-Net/Cast-op1,6,2,103,output,0,1,bool,"()",True,False,0,0,',
    )
    assert gather(raw) == (
        0,
        [
            f"{out}/step2/rank3: 3 kernels of 1 graph, 4 values; the graph has no source line for "
            "Default/net-Net/MatMul-op0, Default/net-Net/Cast-op0, Default/net-Net/Cast-op1"
        ],
    )
    dump = read(out / "step2")
    assert (dump.task, dump.step, dump.rank) == ("statistics", 2, 3)
    assert [call.name for call in dump.calls] == [
        "Kernel.Default.net-Net.MatMul.0.forward",
        "Kernel.Default.net-Net.Cast.0.forward",
        "Kernel.Default.net-Net.Cast.1.forward",
    ]
    argument, gave = dump.calls[0].records
    assert (argument.dtype, argument.shape) == ("Float32", (2, 4))
    statistics = argument.statistics
    assert (statistics.max, statistics.min, statistics.mean, statistics.norm) == (7.5, -1, 2.25, 9.5)
    assert (gave.dtype, gave.statistics.min, gave.statistics.norm) == ("BFloat16", None, float("inf"))
    assert data(out / "step2/rank3")["data"]["Kernel.Default.net-Net.Cast.0.forward"]["output"][0]["Max"] == 7
    flag = data(out / "step2/rank3")["data"]["Kernel.Default.net-Net.Cast.1.forward"]["output"][0]
    assert flag == {"type": "mindspore.Tensor", "dtype": "Bool", "shape": [], "Max": True, "Min": False}


@pytest.mark.parametrize(
    "row",
    [
        "MatMul,Default/MatMul-op0",
        "MatMul,Default/MatMul-op0,x,2,100,input,0,32,float32,(2),1,1,1,1",
        "MatMul,Default/MatMul-op0,1,2,100,sideways,0,32,float32,(2),1,1,1,1",
        "MatMul,Default/MatMul-op0,1,2,100,input,999999999,32,float32,(2),1,1,1,1",
        '"torn',
    ],
)
def test_a_line_that_says_nothing_is_left_out(row, gather, tmp_path, out, capsys):
    raw = ascend(tmp_path, "Exp,Default/Exp-op0,1,2,100,output,0,4,float32,(1),1,1,1,1", row)
    assert gather(raw)[0] == 0
    assert [call.name for call in read(out / "step2").calls] == ["Kernel.Default.Exp.0.forward"]


def test_a_table_without_its_columns_is_left_out(gather, tmp_path):
    code, lines = gather(ascend(tmp_path, "1,2", head="a,b"))
    assert code == 0
    assert lines[0].endswith("0 kernels of 0 graphs, 0 values")


def test_ascend_tensors_and_their_statistics_are_one_record(gather, tmp_path, out):
    raw = ascend(tmp_path, "Exp,Default_Exp-op0,1,2,100,output,0,8,float32,(2),99,99,99,99")
    save(raw / "rank_3/Net/0/2", "Exp.Default_Exp-op0.1.2.100.output.0.NCHW.float32", np.float32([1, 2]))
    gather(raw)
    (record,) = read(out / "step2").calls[0].records
    assert record.statistics.max == 2, "computed from the tensor"


def test_ascend_types_without_a_numpy_form_are_listed_not_lost(gather, tmp_path, out):
    raw = ascend(tmp_path, "Exp,Default_Exp-op0,1,2,100,output,0,4,bfloat16,(2),2,1,1.5,2.2")
    folder = raw / "rank_3/Net/0/2"
    for slot in (0, 1):
        (folder / f"Exp.Default_Exp-op0.1.2.100.output.{slot}.NCHW.bfloat16").write_bytes(b"\0\0\0\0")
    code, lines = gather(raw)
    assert code == 1
    assert "output.0: Exp.Default_Exp-op0.1.2.100.output.0.NCHW.bfloat16 is not an npy" in lines[0]
    dump = read(out / "step2")
    assert len(dump.missing) == 2
    assert [r.kind for r in dump.calls[0].records] == ["tensor", "null"], "statistic.csv tells of the first"
    assert dump.calls[0].records[0].statistics.max == 2


def test_hashed_names_are_restored_in_the_layout_of_o2(gather, tmp_path, out):
    folder = tmp_path / "raw/rank_1/20261121112233/step_5"
    long = f"MatMul.Default_{'n' * 260}_MatMul-op0.1.2.{{}}.output.0.ND.float32.npy"
    save(folder, "0" * 31 + "1", np.float32([1]))
    save(folder, "0" * 31 + "2", np.float32([2]))
    (folder / "mapping.csv").write_text(
        f"hash,name\n{'0' * 31}1.npy,{long.format(20)}\n{'0' * 31}2,{long.format(10).removesuffix('.npy')}\n"
    )
    assert gather(tmp_path / "raw")[0] == 0
    dump = read(out / "step5")
    assert dump.rank == 1
    stem = f"Kernel.Default_{'n' * 260}_MatMul"
    assert [call.name for call in dump.calls] == [f"{stem}.0.forward", f"{stem}.round1.0.forward"]
    assert [load_tensor(dump, call.records[0]).item() for call in dump.calls] == [2, 1]


@pytest.mark.parametrize("inside", ["7/Net/0/3", "7/x/3"])
def test_older_layouts_have_the_rank_without_a_word(inside, gather, tmp_path, out):
    save(tmp_path / "raw/dump" / inside, "Exp.Default_Exp-op0.1.2.3.output.0.ND.float32", np.float32([1]))
    gather(tmp_path / "raw")
    assert (read(out / "step3").rank, read(out / "step3").step) == (7, 3)
