"""code_mapping: the lines of source beside the values of a kernel dump.

`tests/samples/code_mapping` holds a graph's text and the names of the files that MindSpore 2.10 dumped with it, and
what msprobe 8.3.3 answered for the first output of each kernel.
"""

import csv
import re

import pytest

from msprobe.cli import main
from msprobe.graph_save.gather.ir_dataflow import GraphDataflow
from msprobe.graph_save.gather.trace import parse

NET = "/home/user/train/net.py"
STATISTIC = """\
Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,Max Value
MatMul,Default_MatMul-op0,0,0,100,output,0,24,Float32,"(2,3)",1
ReluGrad,Gradients_Default_Grad_ReLU_ReluGrad-op0,1,0,101,output,0,24,Float32,"(2,3)",1
"""


@pytest.fixture
def sample(request):
    return request.config.rootpath / "tests" / "samples" / "code_mapping"


@pytest.fixture
def dump(tmp_path, sample):
    """The files of the real dump, by their names; nothing reads what is in them."""
    folder = tmp_path / "dump" / "rank_0" / "Net" / "0" / "0"
    folder.mkdir(parents=True)
    for name in (sample / "files.txt").read_text().split():
        (folder / name).touch()
    return folder


def run(*args):
    return main(["-f", "mindspore", "code_mapping", *map(str, args)])


def table(folder):
    (path,) = folder.glob("code_mapping_*.csv")
    assert re.fullmatch(r"code_mapping_\d{14}\.csv", path.name)
    with open(path, newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def ir(*nodes):
    return "".join(["subgraph @g() {\n", *nodes, "}\n"])


def node(number, scope, *frames, attrs=""):
    lines = "".join(f"      # In file {frame}/\n" for frame in frames)
    return f"  %{number}(a) = Op(%9) {attrs}\n      # Fullname with scope: ({scope})\n{lines}"


def test_every_value_of_a_real_dump_has_the_scope_and_the_lines_that_the_reference_gives_it(
    sample, dump, tmp_path, capsys
):
    assert run("--ir", sample / "graph_build_0.ir", "--dump_data", tmp_path / "dump", "--output", tmp_path) == 0
    assert "48 of 53 values have source lines; 5 belong to parameters" in capsys.readouterr().out
    rows = table(tmp_path)
    assert list(rows[0]) == ["File Path", "Code Stack", "Scope Name", "User Line", "Lines Of"]
    assert sorted(row["File Path"] for row in rows) == sorted(str(path) for path in dump.iterdir())
    ours = {row["File Path"].rpartition("/")[2]: row for row in rows}
    with open(sample / "8.3.3.csv", newline="") as lines:
        theirs = {row["File Path"]: row for row in csv.DictReader(lines)}
    assert len(theirs) == 17
    for name, row in theirs.items():
        assert ours[name]["Scope Name"] == row["Scope Name"]
        # They show whole blocks (`def`, `if`) and columns too, outermost first.
        shown = {re.sub(r"(:\d+)(~\d+)?(, \d+~\d+)?/ *", r"\1/ ", line) for line in row["Code Stack"].splitlines()}
        assert set(ours[name]["Code Stack"].splitlines()) <= {re.sub("/<~~.*", "", line) for line in shown}


def test_the_users_line_is_the_innermost_one_outside_the_framework(sample, dump, tmp_path):
    run("--ir", sample / "graph_build_0.ir", "--dump_data", dump, "--output", tmp_path)
    found = {row["Scope Name"]: row["User Line"] for row in table(tmp_path) if row["Scope Name"]}
    fc, out = f"{NET}:13", f"{NET}:14"
    assert found["Default/MatMul-op0"] == found["Default/ReLU-op0"] == fc
    assert found["Default/MatMul-op1"] == found["Expand/_SumExt/ReduceSum-op0"] == out
    assert found["Gradients/Default/Grad_ReLU/ReluGrad-op0"] == fc
    assert set(found.values()) == {fc, out}


def test_one_file_is_one_row(sample, dump, tmp_path):
    (one,) = dump.glob("ReluGrad*.output.0.*")
    assert run("--ir", sample / "graph_build_0.ir", "--dump_data", one, "--output", tmp_path / "out") == 0
    (row,) = table(tmp_path / "out")
    assert row["File Path"] == str(one)
    assert row["Scope Name"] == "Gradients/Default/Grad_ReLU/ReluGrad-op0"


def test_a_short_name_is_looked_up_in_mapping_csv(sample, tmp_path):
    long = "MatMul.Default_MatMul-op1.0.0.100.output.0.DefaultFormat.npy"
    (tmp_path / "1234.npy").touch()
    (tmp_path / "mapping.csv").write_text(f"name,original\n1234.npy,{long}\n")
    assert run("--ir", sample / "graph_build_0.ir", "--dump_data", tmp_path, "--output", tmp_path / "out") == 0
    (row,) = table(tmp_path / "out")
    assert (row["Scope Name"], row["User Line"]) == ("Default/MatMul-op1", f"{NET}:14")


def test_statistics_go_to_a_new_file_and_their_own_stays(sample, tmp_path):
    (tmp_path / "statistic.csv").write_text(STATISTIC)
    assert run("--ir", sample / "graph_build_0.ir", "--dump_data", tmp_path, "--output", tmp_path / "out") == 0
    assert (tmp_path / "statistic.csv").read_text() == STATISTIC
    rows = table(tmp_path / "out")
    assert [row["File Path"] for row in rows] == [str(tmp_path / "statistic.csv")] * 2
    assert [row["Op Type"] for row in rows] == ["MatMul", "ReluGrad"]
    assert [row["Shape"] for row in rows] == ["(2,3)"] * 2
    assert [row["User Line"] for row in rows] == [f"{NET}:13"] * 2


def test_in_place_appends_the_columns_once_however_often_it_is_asked_for(sample, tmp_path):
    path = tmp_path / "statistic.csv"
    # As msprobe 8.1 leaves it when it adds a comma to the headings.
    path.write_text(STATISTIC.replace("Max Value\n", "Max Value,\n"))
    for _ in range(2):
        assert run("--ir", sample / "graph_build_0.ir", "--dump_data", path, "--in-place") == 0
        with open(path, newline="") as lines:
            head, *rows = csv.reader(lines)
        assert head[-5:] == ["Max Value", "Code Stack", "Scope Name", "User Line", "Lines Of"]
        assert [row[-3] for row in rows] == ["Default/MatMul-op0", "Gradients/Default/Grad_ReLU/ReluGrad-op0"]
    assert not list(tmp_path.glob("code_mapping_*"))


def test_statistics_are_left_out_where_there_are_tensors(sample, dump, tmp_path):
    (dump / "statistic.csv").write_text(STATISTIC)
    assert run("--ir", sample / "graph_build_0.ir", "--dump_data", dump, "--output", tmp_path / "out") == 0
    assert all(row["File Path"].endswith(".npy") for row in table(tmp_path / "out"))


def test_a_gradient_without_lines_has_those_of_the_forward_with_its_unique_id():
    text = ir(
        node(0, "Default/A-op0", "/p/net.py:3, 8~9/  a = f(x)", attrs='cnode_primal_attrs: {unique_id: "31"}'),
        node(1, "Default/B-op0", "/p/net.py:4, 8~9/  b = g(a)", attrs='cnode_primal_attrs: {unique_id: "32"}'),
        node(2, "Gradients/Default/Grad_B/C-op0", attrs='cnode_primal_attrs: {x: 1, forward_unique_id: "32"}'),
    )
    lines = GraphDataflow(parse(text.splitlines(keepends=True))).lines("Gradients/Default/Grad_B/C-op0")
    assert lines.of == "Default/B-op0"
    assert lines.frames == ("File /p/net.py, line 4, in construct, \n b = g(a)",)


def test_of_several_scopes_in_a_fused_name_the_longest_whole_one_is_taken(tmp_path):
    (tmp_path / "g.ir").write_text(
        ir(
            node(0, "Default/n-Net/Mul-op1", "/p/net.py:3, 8~9/  a"),
            node(1, "Default/n-Net/Mul-op10", "/p/net.py:4, 8~9/  b"),
            node(2, "Net/Mul-op100", "/p/net.py:5, 8~9/  c"),
        )
    )
    (tmp_path / "Fused.Default_n-Net_Mul-op10_fused_7.0.0.1.output.0.DefaultFormat.npy").touch()
    assert run("--ir", tmp_path / "g.ir", "--dump_data", tmp_path, "--output", tmp_path / "out") == 0
    (row,) = table(tmp_path / "out")
    assert (row["Scope Name"], row["User Line"]) == ("Default/n-Net/Mul-op10", "/p/net.py:4")


def test_a_kernel_without_lines_has_its_neighbours_and_says_so(tmp_path):
    (tmp_path / "g.ir").write_text(
        ir(
            node(9, "Default/A-op0", "/p/net.py:3, 8~9/  a"),
            "  %1(b) = Cast(%9)\n      # Fullname with scope: (Default/Cast-op0)\n",
        )
    )
    (tmp_path / "Cast.Default_Cast-op0.0.0.1.output.0.DefaultFormat.npy").touch()
    assert run("--ir", tmp_path / "g.ir", "--dump_data", tmp_path, "--output", tmp_path / "out") == 0
    (row,) = table(tmp_path / "out")
    assert (row["Scope Name"], row["Lines Of"]) == ("Default/Cast-op0", "Default/A-op0")


def test_kernels_that_the_graph_does_not_know_are_named(sample, tmp_path, capsys):
    (tmp_path / "Mul.Default_other-Net_Mul-op0.0.0.1.output.0.DefaultFormat.npy").touch()
    assert run("--ir", sample / "graph_build_0.ir", "--dump_data", tmp_path, "--output", tmp_path / "out") == 1
    assert (
        "0 of 1 values have source lines; the graph does not contain Default_other-Net_Mul-op0"
        in capsys.readouterr().out
    )
    (row,) = table(tmp_path / "out")
    assert row["Code Stack"] == row["Scope Name"] == ""


def test_what_cannot_be_read_is_refused_with_what_to_give_instead(sample, dump, tmp_path, capsys):
    graph = sample / "graph_build_0.ir"
    (tmp_path / "no.ir").write_text("subgraph @g() {\n}\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "statistic.csv").write_text("a,b\n1,2\n")
    for args, message in (
        (("--ir", tmp_path / "none.ir", "--dump_data", dump), "cannot be read"),
        (("--ir", tmp_path / "no.ir", "--dump_data", dump), "contains no kernels"),
        (("--ir", graph, "--dump_data", tmp_path / "none"), "no such file or folder"),
        (("--ir", graph, "--dump_data", tmp_path / "empty"), "contains no file of a kernel dump"),
        (("--ir", graph, "--dump_data", tmp_path / "odd"), "has no column Op Name"),
        (("--ir", graph, "--dump_data", dump, "--in-place"), "omit the option"),
        (("--ir", graph, "--dump_data", graph), "contains no file of a kernel dump"),
        (("--ir", graph, "--dump_data", dump, "--output", graph), "cannot be written"),
    ):
        assert run(*args) == 2
        assert message in capsys.readouterr().err
