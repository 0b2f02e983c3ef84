"""Which dumps of two folders are compared with which, and what is said of many at once."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from openpyxl import load_workbook

from msprobe.base.errors import UsageError
from msprobe.cli import main
from msprobe.compare.jobs.many import plan

EXP, SIN, TAN = "Mint.exp.0.forward", "Mint.sin.0.forward", "Mint.tan.0.forward"


@pytest.fixture
def run(builder, tmp_path):
    """`run("target", "step0/rank1", ...)` writes a dump of three calls into each folder; `wrong` says from which on it
    is wrong where."""

    def make(side, *folders, wrong=None, mode="statistics"):
        for folder in folders:
            first_wrong = (wrong or {}).get(folder)
            made = builder(side, mode=mode)
            made.folder = tmp_path / side / folder
            shift = 0.0
            for name in (EXP, SIN, TAN):
                given = shift
                shift = 1.0 if name == first_wrong else shift
                made.call(name, [1.0 + given], [2.0 + shift])
            made.write()
        return tmp_path / side

    return make


def pairs(made):
    """The places of the jobs and which files meet there."""
    return {
        job.label: tuple("/".join(source.paths[0].parts[-3:]) for source in (job.target, job.golden))
        for job in made.jobs
    }


def said(capsys):
    return capsys.readouterr().out.splitlines()


def content(path):
    """The bytes of a file; of a sheet, whose zip tells the time, the value and colour of every cell."""
    if path.suffix != ".xlsx":
        return path.read_bytes()
    return [[(c.value, c.fill.start_color.rgb) for c in row] for sheet in load_workbook(path) for row in sheet]


# The plan.


def test_two_dump_files_and_two_rank_folders_are_one_job(run):
    target, golden = run("t", "step0/rank0"), run("g", "step3/rank7")
    for inner in ("", "/dump.json"):
        made = plan(Path(f"{target}/step0/rank0{inner}"), Path(f"{golden}/step3/rank7{inner}"))
        assert pairs(made) == {"": ("step0/rank0/dump.json", "step3/rank7/dump.json")}
        assert made.missing == ()


def test_ranks_meet_by_number_not_by_the_order_of_their_names(run):
    ranks = [f"step0/rank{n}" for n in (0, 2, 10)]
    made = plan(run("t", *ranks) / "step0", run("g", *ranks, "step0/rank1") / "step0")
    assert list(pairs(made)) == ["rank 0", "rank 2", "rank 10"]
    assert pairs(made)["rank 10"] == ("step0/rank10/dump.json", "step0/rank10/dump.json")
    assert made.missing == ("rank 1 is only on the golden side",)


@pytest.mark.parametrize(
    ("left", "right"), [("rank", "rank0"), ("proc4711", "rank"), ("proc12", "proc13"), ("rank3", "rank0")]
)
def test_a_process_alone_meets_a_process_alone(left, right, run):
    made = plan(run("t", f"step0/{left}") / "step0", run("g", f"step0/{right}") / "step0")
    assert len(made.jobs) == 1
    assert made.jobs[0].rank_name == left


def test_two_folders_that_may_be_one_rank_are_not_guessed_at(run):
    with pytest.raises(UsageError, match="proc12, proc13 may all be one rank"):
        plan(run("t", "step0/proc12", "step0/proc13") / "step0", run("g", "step0/rank") / "step0")


def test_runs_meet_by_step_and_rank_and_what_is_missing_is_said(run):
    target = run("t", "step2/rank0", "step10/rank0", "step10/rank1")
    golden = run("g", "step2/rank0", "step2/rank1", "step10/rank0", "step10/rank1", "step0/rank0")
    made = plan(target, golden)
    assert list(pairs(made)) == ["step 2, rank 0", "step 10, rank 0", "step 10, rank 1"]
    assert made.missing == ("step 0 is only on the golden side", "rank 1 of step 2 is only on the golden side")
    assert made.kinds == "target: a run with 2 steps, 2 ranks; golden: a run with 3 steps, 2 ranks"


def test_the_trees_of_compiled_and_other_parts_meet_by_name(run):
    target = run("t", "graph/step0/rank0", "graph/step1/rank0", "pynative/step0/rank0")
    golden = run("g", "graph/step0/rank0", "graph/step1/rank0")
    made = plan(target, golden)
    assert list(pairs(made)) == ["graph, step 0, rank 0", "graph, step 1, rank 0"]
    assert made.missing == ("pynative is only on the target side",)


def test_one_tree_meets_a_run(run):
    made = plan(run("t", "pynative/step0/rank"), run("g", "step0/rank"))
    assert list(pairs(made)) == ["pynative, step 0, rank 0"]
    with pytest.raises(UsageError, match=r"holds 2 trees.*give one of graph, pynative"):
        plan(run("u", "graph/step0/rank", "pynative/step0/rank"), run("g", "step0/rank"))


def test_saves_meet_saves_and_dumps_meet_dumps(run):
    target, golden = run("t", "step0/rank0"), run("g", "step0/rank0")
    for side in (target, golden):
        (side / "step0/rank0/debug.json").write_text((side / "step0/rank0/dump.json").read_text())
    made = plan(target / "step0", golden / "step0")
    assert list(pairs(made)) == ["rank 0", "rank 0, debug.json"]
    made = plan(target / "step0/rank0/dump.json", golden / "step0/rank0")
    assert pairs(made) == {"": ("step0/rank0/dump.json", "step0/rank0/dump.json")}
    (golden / "step0/rank0/debug.json").unlink()
    assert plan(target / "step0", golden / "step0").missing == ("debug.json of rank 0 is only on the target side",)
    with pytest.raises(UsageError, match=r"dump\.json is only on the golden side; debug\.json is only on the target"):
        plan(target / "step0/rank0/debug.json", golden / "step0/rank0/dump.json")


def test_sides_of_unequal_depth_meet_where_there_is_no_choice(run):
    golden = run("g", "step4/rank")
    for deep in ("", "step0", "step0/rank0", "step0/rank0/dump.json"):
        for shallow in ("step4", "step4/rank"):
            made = plan(run("t", "step0/rank0") / deep, golden / shallow)
            assert [job.golden.paths[0].parts[-3] for job in made.jobs] == ["step4"]


def test_sides_of_unequal_depth_with_a_choice_say_what_to_give(run):
    target, golden = run("t", "step0/rank0", "step0/rank1", "step5/rank0"), run("g", "step0/rank0")
    with pytest.raises(UsageError, match=r"holds 2 steps.*give one of step0, step5, or choose with --step"):
        plan(target, golden / "step0")
    with pytest.raises(UsageError, match=r"holds 2 ranks.*give one of rank0, rank1, or choose with --rank"):
        plan(target / "step0", golden / "step0" / "rank0")
    assert len(plan(target, golden / "step0", steps=[5]).jobs) == 1
    assert plan(target / "step0", golden / "step0" / "rank0", ranks=[1]).jobs[0].target.paths[0].parent.name == "rank1"


def test_ranks_and_steps_can_be_chosen(run):
    folders = [f"step{s}/rank{r}" for s in (0, 1, 2) for r in (0, 1)]
    made = plan(run("t", *folders), run("g", *folders[:-1]), ranks=[1], steps=[0, 2])
    assert list(pairs(made)) == ["step 0, rank 1"]
    assert made.missing == ("rank 1 of step 2 is only on the target side",)


def test_a_choice_that_nobody_has_is_refused(run):
    target, golden = run("t", "step0/rank0"), run("g", "step0/rank0")
    with pytest.raises(UsageError, match=r"ranks 3, 7 on neither side; there: rank 0"):
        plan(target, golden, ranks=[0, 3, 7])
    with pytest.raises(UsageError, match="--step chooses among the steps of a folder"):
        plan(target / "step0", golden / "step0", steps=[0])


def test_folders_without_anything_in_common_are_refused_with_what_they_hold(run):
    with pytest.raises(UsageError, match=r"nothing in common: step 0 is only.*; step 5 is only on the golden side"):
        plan(run("t", "step0/rank0"), run("g", "step5/rank0"))


def test_strange_entries_are_skipped_aloud(run, capsys):
    target, golden = run("t", "step0/rank0", "step0/rank1"), run("g", "step0/rank0", "step0/rank1")
    (target / "step0" / "notes.txt").write_text("")
    (target / "step0" / "rankings").mkdir()
    assert len(plan(target, golden).jobs) == 2
    assert "skipped, being neither a step nor a rank: rankings, notes.txt" in capsys.readouterr().err


def test_a_rank_without_a_dump_counts_as_missing(run, capsys):
    target, golden = run("t", "step0/rank0"), run("g", "step0/rank0", "step0/rank1")
    (target / "step0" / "rank1").mkdir()
    made = plan(target / "step0", golden / "step0")
    assert made.missing == ("rank 1 is only on the golden side",)
    assert "rank1: holds no dump and is skipped" in capsys.readouterr().err


def test_sides_of_two_kinds_are_refused(run, tmp_path):
    (tmp_path / "npy").mkdir()
    np.save(tmp_path / "npy" / "x.npy", np.ones(3))
    with pytest.raises(UsageError, match=r"two kinds: .*a run with 1 step, 1 rank, .*npy files"):
        plan(run("t", "step0/rank0"), tmp_path / "npy")


def test_npy_files_meet_by_the_folders_that_hold_them(tmp_path):
    for side, folders in (("t", ("a", "a/b", "c")), ("g", ("a", "a/b", "d"))):
        for folder in folders:
            (tmp_path / side / folder).mkdir(parents=True, exist_ok=True)
            np.save(tmp_path / side / folder / "x_float32_1.npy", np.ones(3, np.float32))
    made = plan(tmp_path / "t", tmp_path / "g", read_as="npy")
    assert [job.label for job in made.jobs] == ["a", "a/b"]
    assert made.missing == ("folder c is only on the target side", "folder d is only on the golden side")


# The answer.


def test_many_ranks_are_one_line_each_and_the_earliest_beginning_is_named_last(run, tmp_path, capsys):
    folders = [f"step0/rank{n}" for n in range(4)]
    target = run("t", *folders, wrong={folders[1]: TAN, folders[2]: SIN, folders[3]: SIN})
    code = main(
        ["compare", "-tp", str(target / "step0"), "-gp", str(run("g", *folders) / "step0"), "-o", str(tmp_path / "out")]
    )
    lines = said(capsys)
    assert code == 1
    assert lines[0] == "rank 0: statistics: 6 pass, 0 warning, 0 error, 0 unjudged"
    assert lines[2].startswith("rank 2: statistics: 3 pass, 0 warning, 3 error, 0 unjudged; first wrong call: ")
    assert lines[4].startswith("statistics cannot see "), "once for all of them"
    assert lines[5] == "the first is in rank 2:"
    assert re.match(rf"first wrong call: {re.escape(SIN)} in the root: computes differently: ", lines[6])
    assert len(lines) == 7


def test_of_many_steps_the_earliest_is_named_whatever_is_wrong_later(run, tmp_path, capsys):
    folders = [f"step{n}/rank" for n in (2, 10, 11)]
    target = run("t", *folders, wrong={folders[1]: TAN, folders[2]: EXP})
    code = main(["compare", "-tp", str(target), "-gp", str(run("g", *folders)), "-o", str(tmp_path / "out")])
    lines = said(capsys)
    assert code == 1
    assert lines[-2] == "the first is in step 10, rank 0:"
    assert lines[-1].startswith(f"first wrong call: {TAN} in ")
    tables = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.xlsx"))
    assert [re.sub(r"\d{14}", "T", table) for table in tables] == [
        f"step{n}/compare_result_rank_T.xlsx" for n in (10, 11, 2)
    ]


def test_a_clean_run_says_so_once(run, tmp_path, capsys):
    folders = ["step0/rank0", "step0/rank1"]
    words = ["-tp", str(run("t", *folders) / "step0"), "-gp", str(run("g", *folders) / "step0"), "-o", str(tmp_path)]
    assert main(["compare", *words]) == 0
    assert said(capsys)[-1] == "no difference: 12 pairs judged, 0 unjudged"


def test_a_missing_rank_is_not_clean(run, tmp_path, capsys):
    target, golden = run("t", "step0/rank0", "step0/rank1"), run("g", "step0/rank0")
    assert (
        main(["compare", "-tp", str(target / "step0"), "-gp", str(golden / "step0"), "-o", str(tmp_path / "out")]) == 1
    )
    lines = said(capsys)
    assert "missing: rank 1 is only on the target side" in lines
    assert lines[-1] == "no difference: 6 pairs judged, 0 unjudged"


def test_a_rank_that_cannot_be_read_does_not_stop_the_others(run, tmp_path, capsys):
    folders = ["step0/rank0", "step0/rank1"]
    target, golden = run("t", *folders), run("g", *folders)
    (target / "step0/rank0/dump.json").write_text("{")
    words = ["compare", "-tp", str(target / "step0"), "-gp", str(golden / "step0"), "-o", str(tmp_path / "out")]
    assert main(words) == 1
    lines = said(capsys)
    assert lines[0].startswith("rank 0: not compared: ")
    assert str(target / "step0/rank0/dump.json") in lines[0]
    assert lines[1] == "rank 1: statistics: 6 pass, 0 warning, 0 error, 0 unjudged"
    (golden / "step0/rank1/dump.json").write_text("{")
    assert main(words) == 2
    (complaint,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("msprobe compare:")]
    assert "nothing could be compared: rank 0: " in complaint


def test_an_unfinished_rank_says_what_to_do(run, tmp_path, capsys):
    folders = ["step0/rank0", "step0/rank1"]
    target, golden = run("t", *folders), run("g", *folders)
    (target / "step0/rank1/dump.json").rename(target / "step0/rank1/dump.journal")
    assert main(["compare", "-tp", str(target), "-gp", str(golden), "-o", str(tmp_path / "out")]) == 1
    assert f"msprobe doctor {target / 'step0/rank1'}" in said(capsys)[1]


@pytest.mark.parametrize("form", ["csv", "json", "xlsx"])
def test_the_answer_is_the_same_for_any_number_of_workers(form, run, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("msprobe.compare.jobs.carry_out.stamp", lambda *_: "20260101000000")
    folders = [f"step{s}/rank{r}" for s in (0, 1) for r in (0, 1)]
    target, golden = run("t", *folders, wrong={folders[2]: SIN}), run("g", *folders)
    answers = []
    for workers in (1, 2, 4):
        out = tmp_path / f"out{workers}"
        words = ["-tp", str(target), "-gp", str(golden), "-o", str(out), "--format", form, "--workers", str(workers)]
        assert main(["compare", *words]) == 1
        files = {str(path.relative_to(out)): content(path) for path in out.rglob("*.*")}
        answers.append((said(capsys), files))
    assert answers[0] == answers[1] == answers[2]
    assert sorted(answers[0][1]) == [
        "compare_summary_20260101000000.json",
        *(f"{folder.split('/')[0]}/compare_result_{folder.split('/')[1]}_20260101000000.{form}" for folder in folders),
    ]


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
    (file,) = (tmp_path / "out").rglob("*.csv")
    assert re.sub(r"\d{14}", "T", str(file.relative_to(tmp_path / "out"))) == name


def test_trees_and_saves_have_tables_of_their_own(run, tmp_path):
    sides = [run(side, "graph/step3/rank", "pynative/step3/rank") for side in "tg"]
    for side in sides:
        folder = side / "graph/step3/rank"
        (folder / "debug.json").write_text((folder / "dump.json").read_text())
    assert (
        main(["compare", "-tp", str(sides[0]), "-gp", str(sides[1]), "-o", str(tmp_path / "out"), "--format", "csv"])
        == 0
    )
    files = sorted(
        re.sub(r"\d{14}", "T", str(p.relative_to(tmp_path / "out"))) for p in (tmp_path / "out").rglob("*.csv")
    )
    assert files == [
        "graph/step3/compare_result_rank_T.csv",
        "graph/step3/debug_compare_result_rank_T.csv",
        "pynative/step3/compare_result_rank_T.csv",
    ]


def test_tensors_that_are_not_there_are_told_and_not_only_counted(run, tmp_path, capfd):
    folders = ["step0/rank0", "step0/rank1"]
    target, golden = run("t", *folders, mode="tensor"), run("g", *folders, mode="tensor")
    for path in (target / "step0/rank1/dump_tensor_data").iterdir():
        path.unlink()
    assert main(["compare", "-tp", f"{target}/step0", "-gp", f"{golden}/step0", "-o", str(tmp_path / "out")]) == 1
    talk = [line for line in capfd.readouterr().err.splitlines() if "WARNING" in line]
    assert len(talk) == 1, "one line for a dump, however many are missing"
    assert "6 tensors without a verdict: not readable: " in talk[0]
    assert str(target / "step0/rank1/dump_tensor_data") in talk[0]
    assert "copy dump_tensor_data beside its dump.json" in talk[0]


def test_a_table_of_the_same_name_is_replaced(run, tmp_path, monkeypatch):
    monkeypatch.setattr("msprobe.compare.jobs.carry_out.stamp", lambda *_: "20260101000000")
    sides = ["-tp", str(run("t", "step0/rank0") / "step0/rank0"), "-gp", str(run("g", "step0/rank0") / "step0/rank0")]
    path = tmp_path / "out" / "compare_result_20260101000000.csv"
    path.parent.mkdir()
    path.write_text("old")
    assert main(["compare", *sides, "-o", str(path.parent), "--format", "csv"]) == 0
    assert path.read_text().startswith("NPU Name,")
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_the_tables_do_not_depend_on_where_the_command_runs(run, tmp_path, monkeypatch):
    monkeypatch.setattr("msprobe.compare.jobs.carry_out.stamp", lambda *_: "20260101000000")
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


# What is no dump of calls.


def test_graph_saves_meet_by_step_and_rank_and_by_name_and_order(tmp_path, capsys):
    for side, first in (("t", 0), ("g", 40)):
        for rank in (0, 1):
            folder = tmp_path / side / "step3" / f"rank{rank}"
            folder.mkdir(parents=True)
            for turn in (0, 1):
                wrong = side == "t" and rank == 1 and turn == 1
                number = first + 2 * turn + rank  # the count of a process, which another run need not repeat
                np.save(folder / f"loss_float32_{number}.npy", np.full(3, 7.0 if wrong else 5.0, np.float32))
    assert main(["compare", "-tp", f"{tmp_path}/t", "-gp", f"{tmp_path}/g", "-o", f"{tmp_path}/out"]) == 1
    lines = said(capsys)
    assert lines[0] == "step 3, rank 0: tensor: 2 pass, 0 warning, 0 error, 0 unjudged"
    assert lines[1].startswith(
        "step 3, rank 1: tensor: 1 pass, 0 warning, 1 error, 0 unjudged; first wrong call: loss.1.debug"
    )
    tables = sorted(
        re.sub(r"\d{14}", "T", str(p.relative_to(tmp_path / "out"))) for p in (tmp_path / "out").rglob("*.xlsx")
    )
    assert tables == ["step3/compare_result_rank0_T.xlsx", "step3/compare_result_rank1_T.xlsx"]


def test_single_saves_meet_by_step_and_rank(tmp_path, capsys):
    for side in ("t", "g"):
        for key, rank in (("loss", 0), ("loss", 1), ("reward", 0)):
            folder = tmp_path / side / "data" / key / "step0" / f"rank{rank}" / "micro_step0"
            folder.mkdir(parents=True)
            value = 2.0 if (side, key, rank) == ("t", "reward", 0) else 1.0
            np.save(folder / f"{key}.npy", np.full(3, value, np.float32))
    assert main(["compare", "-tp", f"{tmp_path}/t", "-gp", f"{tmp_path}/g", "-o", f"{tmp_path}/out"]) == 1
    lines = said(capsys)
    assert lines[0].startswith(
        "step 0, rank 0: tensor: 1 pass, 0 warning, 1 error, 0 unjudged; first wrong call: reward.0"
    )
    assert lines[1] == "step 0, rank 1: tensor: 1 pass, 0 warning, 0 error, 0 unjudged"


# What else was asked for.


def test_tensor_log_is_one_line_per_pair_of_tensors(run, tmp_path, capsys):
    target, golden = (
        run("t", "step0/rank", mode="tensor", wrong={"step0/rank": TAN}),
        run("g", "step0/rank", mode="tensor"),
    )
    words = ["-tp", str(target / "step0/rank"), "-gp", str(golden / "step0/rank"), "-o", str(tmp_path / "out")]
    main(["compare", *words, "-tensor_log"])
    talk = capsys.readouterr().err.splitlines()
    assert f"msprobe INFO: {SIN}.output.0: pass" in talk
    assert f"msprobe INFO: {TAN}.output.0: error" in talk
    main(["compare", *words])
    assert f"{SIN}.output.0" not in capsys.readouterr().err


def test_the_stack_of_one_dump_is_ignored_aloud_for_many(run, tmp_path, capsys):
    folders = ["step0/rank0", "step0/rank1"]
    target, golden = run("t", *folders), run("g", *folders)
    text = {
        "npu_path": str(target / "step0"),
        "bench_path": str(golden / "step0"),
        "stack_path": str(tmp_path / "s.json"),
    }
    (tmp_path / "compare.json").write_text(json.dumps(text))
    assert main(["compare", "-i", str(tmp_path / "compare.json"), "-o", str(tmp_path / "out"), "--format", "csv"]) == 0
    assert "is the stack of one dump, and there are 2; it is ignored" in capsys.readouterr().err
    assert len(list((tmp_path / "out").glob("advisor_rank?_*.txt"))) == 2, "as 8.1 writes them with -i"
    main(["compare", "-i", str(tmp_path / "compare.json"), "-o", str(tmp_path / "quiet"), "--format", "csv", "-c"])
    assert not list((tmp_path / "quiet").glob("advisor*"))


def test_one_dump_can_say_where_differences_begin(run, tmp_path):
    target, golden = run("t", "step0/rank2", wrong={"step0/rank2": SIN}), run("g", "step0/rank2")
    words = ["-tp", str(target / "step0/rank2"), "-gp", str(golden / "step0/rank2"), "-o", str(tmp_path / "out")]
    main(["compare", *words, "-da"])
    (file,) = (tmp_path / "out").glob("diff_analyze_*.json")
    (node,) = json.loads(file.read_text())["rank_2"]
    assert (node["op_name"], node["step"]) == (SIN, 0)


# Elsewhere.


@pytest.fixture
def cluster():
    """The address of a Dask cluster of two worker processes on this machine."""
    distributed = pytest.importorskip("distributed", reason="Dask comes with the extra `cluster`")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=40
    ) as made:
        yield made.scheduler_address


@pytest.mark.parametrize("form", ["csv", "json", "xlsx"])
def test_the_answer_of_a_cluster_is_the_same(form, run, cluster, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("msprobe.compare.jobs.carry_out.stamp", lambda *_: "20260101000000")
    folders = [f"step{s}/rank{r}" for s in (0, 1) for r in (0, 1)]
    target, golden = run("t", *folders, wrong={folders[2]: SIN}, mode="tensor"), run("g", *folders, mode="tensor")
    (target / folders[1] / "dump.json").write_text("{")
    answers = []
    for out, where in ((tmp_path / "here", "--workers=1"), (tmp_path / "there", f"--scheduler={cluster}")):
        words = ["-tp", str(target), "-gp", str(golden), "-o", str(out), "--format", form, where]
        assert main(["compare", *words]) == 1
        files = {str(path.relative_to(out)): content(path) for path in out.rglob("*.*")}
        answers.append((said(capsys), files))
    assert answers[0] == answers[1]
    assert len(answers[0][1]) == 4, "three tables and the summary"


def test_a_rank_that_received_the_difference_through_an_exchange_is_not_the_first(builder, tmp_path, capsys):
    """Rank 1 computes exp wrong, at its second call; rank 0 sees it in its first, the all_reduce."""
    for side, wrong in (("t", 1.0), ("g", 0.0)):
        for rank in (0, 1):
            made = builder(side)
            made.folder = tmp_path / side / "step0" / f"rank{rank}"
            given = wrong if rank else 0.0
            if rank:
                made.call("Mint.sin.0.forward", [1.0], [2.0]).call(EXP, [2.0], [3.0 + given])
            made.call("Distributed.all_reduce.0.forward", [3.0 + given], [6.0 + wrong])
            made.write()
    assert main(["compare", "-tp", str(tmp_path / "t"), "-gp", str(tmp_path / "g"), "-o", str(tmp_path / "o")]) == 1
    answer = said(capsys)
    assert answer[-2] == "the first is in step 0, rank 1:"
    assert answer[-1].startswith(f"first wrong call: {EXP} in the root: computes differently: ")
