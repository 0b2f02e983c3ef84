"""What is written of many dumps at once: tables of their own, and a summary."""

import json

import pytest
from three_calls import SIN, written

from msprobe.cli import main


def test_the_summary_holds_every_job_and_the_first_wrong_call(run, tmp_path):
    folders = ["step0/rank0", "step1/rank0"]
    target = run("t", *folders, "step2/rank0", wrong={folders[1]: SIN})
    golden = run("g", *folders)
    (target / "step0/rank0/dump.json").write_text("{")
    main(["compare", "-tp", str(target), "-gp", str(golden), "-o", str(tmp_path / "out"), "--format", "csv", "-da"])
    (file,) = (tmp_path / "out").glob("compare_summary_*.json")
    text = json.loads(file.read_text())
    assert text["is_clean"] is False
    assert text["missing"] == ["step 2 is only on the target side"]
    assert text["counts"] == {"pass": 3, "warning": 0, "error": 3, "unjudged": 0}
    (first,) = text["first_wrong"]
    assert (first["name"], first["step"], first["rank"], first["kind"]) == (SIN, 1, 0, "computes differently")
    broken, whole = text["jobs"]
    assert (broken["label"], broken["table"], broken["counts"]["pass"]) == ("step 0, rank 0", None, 0)
    assert "dump.json" in broken["failed"]
    assert (whole["failed"], whole["mode"], whole["beginnings"][0]["name"]) == (None, "statistics", SIN)
    assert (tmp_path / "out" / whole["table"]).is_file()
    (begins,) = (tmp_path / "out").glob("diff_analyze_*.json")
    assert [node["op_name"] for node in json.loads(begins.read_text())["rank_0"]] == [SIN]


@pytest.mark.parametrize(
    ("left", "right", "name"),
    [
        ("step0/rank0/dump.json", "step0/rank0/dump.json", "compare_result_T.csv"),
        ("step0/rank0", "step0/rank0", "compare_result_T.csv"),
        ("step0", "step0/rank0", "compare_result_T.csv"),
        ("step0", "step0", "compare_result_rank0_T.csv"),
        ("", "", "step0/compare_result_rank0_T.csv"),
        ("", "step0", "step0/compare_result_rank0_T.csv"),
    ],
)
def test_the_table_is_named_after_what_was_given(left, right, name, run, tmp_path):
    sides = ["-tp", str(run("t", "step0/rank0") / left), "-gp", str(run("g", "step0/rank0") / right)]
    assert main(["compare", *sides, "-o", str(tmp_path / "out"), "--format", "csv"]) == 0
    assert written(tmp_path / "out", "*.csv") == [name]


def test_trees_and_saves_have_tables_of_their_own(run, tmp_path):
    sides = [run(side, "graph/step3/rank", "pynative/step3/rank") for side in "tg"]
    for side in sides:
        folder = side / "graph/step3/rank"
        (folder / "debug.json").write_text((folder / "dump.json").read_text())
    assert (
        main(["compare", "-tp", str(sides[0]), "-gp", str(sides[1]), "-o", str(tmp_path / "out"), "--format", "csv"])
        == 0
    )
    assert written(tmp_path / "out", "*.csv") == [
        "graph/step3/compare_result_rank_T.csv",
        "graph/step3/debug_compare_result_rank_T.csv",
        "pynative/step3/compare_result_rank_T.csv",
    ]


@pytest.mark.usefixtures("_one_time")
def test_a_table_of_the_same_name_is_replaced(run, tmp_path):
    sides = ["-tp", str(run("t", "step0/rank0") / "step0/rank0"), "-gp", str(run("g", "step0/rank0") / "step0/rank0")]
    path = tmp_path / "out" / "compare_result_20260101000000.csv"
    path.parent.mkdir()
    path.write_text("old")
    assert main(["compare", *sides, "-o", str(path.parent), "--format", "csv"]) == 0
    assert path.read_text().startswith("NPU Name,")
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.usefixtures("_one_time")
def test_the_tables_do_not_depend_on_where_the_command_runs(run, tmp_path, monkeypatch):
    run("t", "step0/rank0")
    run("g", "step0/rank0")
    texts = []
    for cwd, up in ((tmp_path, ""), (tmp_path / "t", "../")):
        monkeypatch.chdir(cwd)
        words = ["-tp", f"{tmp_path}/t/step0", "-gp", f"{tmp_path}/g/step0", "-o", f"{up}out", "--format", "json"]
        assert main(["compare", *words]) == 0
        texts.append((tmp_path / "out" / "compare_result_rank0_20260101000000.json").read_bytes())
    assert texts[0] == texts[1]
    assert json.loads(texts[0])["target"] == str(tmp_path / "t/step0/rank0/dump.json")


def test_one_dump_can_say_where_differences_begin(run, tmp_path):
    target, golden = run("t", "step0/rank2", wrong={"step0/rank2": SIN}), run("g", "step0/rank2")
    words = ["-tp", str(target / "step0/rank2"), "-gp", str(golden / "step0/rank2"), "-o", str(tmp_path / "out")]
    main(["compare", *words, "-da"])
    (file,) = (tmp_path / "out").glob("diff_analyze_*.json")
    (node,) = json.loads(file.read_text())["rank_2"]
    assert (node["op_name"], node["step"]) == (SIN, 0)
