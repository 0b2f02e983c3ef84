"""The table of inconsistent outputs: what is written, by several processes too, and what is read."""

import subprocess
import sys

import pytest

from msprobe.base.errors import DumpError
from msprobe.store.free_benchmark import Row, append, read_table

HEADER = "rank,pert_type,stage,step,api_name,max_rel,dtype,shape,output_index\n"
ROW = Row(0, "add_noise", "forward", 3, "Functional.bmm.4", 0.0131, "Float16", (8, 64, 64), None)
LINE = '0,add_noise,forward,3,Functional.bmm.4,0.0131,Float16,"(8, 64, 64)",\n'


def test_the_table_is_that_of_the_specification(tmp_path):
    root = tmp_path / "dump"
    append(root, [ROW])
    append(root, [Row(None, "bit_noise", "backward", 4, "Tensor.add.0", 7.0, "Float32", (), 1)])
    text = (root / "free_benchmark.csv").read_text()
    assert text == HEADER + LINE + ",bit_noise,backward,4,Tensor.add.0,7.0,Float32,(),1\n"
    assert (root / "free_benchmark.csv").stat().st_mode & 0o777 == 0o640
    assert read_table(root / "free_benchmark.csv")[0] == ROW


@pytest.mark.parametrize("name", ["pert_type", "pert_mode"])
def test_both_names_of_the_second_column_are_read(tmp_path, name):
    file = tmp_path / "free_benchmark.csv"
    file.write_text(HEADER.replace("pert_type", name) + LINE)
    assert read_table(file) == [ROW]


def test_a_table_of_msprobe_for_pytorch_is_read(tmp_path):
    file = tmp_path / "free_benchmark.csv"
    lines = '0,bit_noise,backward,0,Torch.sub.0.backward,symbol_flipping,torch.float16,"torch.Size([2, 3, 4])",\n'
    lines += "0,change_value,forward,0,Torch.mul.2.forward,4.0,torch.float32,torch.Size([5]),0\n"
    file.write_text(HEADER.replace("pert_type", "pert_mode") + lines)
    first, second = read_table(file)
    assert (first.max_rel, first.shape, first.output) == (7.0, (2, 3, 4), None)
    assert (second.max_rel, second.shape, second.output) == (4.0, (5,), 0)


@pytest.mark.parametrize(
    "text",
    ["", "a,b\n", HEADER + "0,add_noise\n", HEADER + LINE.replace("3,F", "x,F"), HEADER + LINE.replace("(8", "(y")],
)
def test_what_is_no_table_is_refused(tmp_path, text):
    file = tmp_path / "free_benchmark.csv"
    file.write_text(text)
    with pytest.raises(DumpError, match=r"free_benchmark\.csv"):
        read_table(file)


def test_processes_share_one_header_and_whole_rows(tmp_path):
    code = (
        "import sys; from pathlib import Path; from msprobe.store.free_benchmark import Row, append\n"
        "for n in range(50):\n"
        "    append(Path(sys.argv[1]), [Row(int(sys.argv[2]), 'm', 'forward', n, 'A.0', 1.0, 'F', (1,), None)])"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(rank)]) for rank in range(3)]
    assert [each.wait() for each in running] == [0, 0, 0]
    assert (tmp_path / "free_benchmark.csv").read_text().count("rank,") == 1
    rows = read_table(tmp_path / "free_benchmark.csv")
    assert sorted((row.rank, row.step) for row in rows) == [(rank, step) for rank in range(3) for step in range(50)]
