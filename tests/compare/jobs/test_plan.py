"""Which dumps of two folders are compared with which."""

from pathlib import Path

import numpy as np
import pytest

from msprobe.base.errors import UsageError
from msprobe.compare.jobs.plan import plan


def pairs(made):
    """The places of the jobs and which files meet there."""
    return {
        job.label: tuple("/".join(source.paths[0].parts[-3:]) for source in (job.target, job.golden))
        for job in made.jobs
    }


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
    assert [*map(str, made.missing)] == ["rank 1 is only on the golden side"]


@pytest.mark.parametrize(
    ("left", "right"), [("rank", "rank0"), ("proc4711", "rank"), ("proc12", "proc13"), ("rank3", "rank0")]
)
def test_a_process_alone_meets_a_process_alone(left, right, run):
    made = plan(run("t", f"step0/{left}") / "step0", run("g", f"step0/{right}") / "step0")
    assert len(made.jobs) == 1
    assert made.jobs[0].rank_name == left


def test_two_folders_that_may_be_one_rank_are_not_guessed_at(run):
    with pytest.raises(UsageError, match="proc12, proc13 may be the same rank"):
        plan(run("t", "step0/proc12", "step0/proc13") / "step0", run("g", "step0/rank") / "step0")


def test_runs_meet_by_step_and_rank_and_what_is_missing_is_said(run):
    target = run("t", "step2/rank0", "step10/rank0", "step10/rank1")
    golden = run("g", "step2/rank0", "step2/rank1", "step10/rank0", "step10/rank1", "step0/rank0")
    made = plan(target, golden)
    assert list(pairs(made)) == ["step 2, rank 0", "step 10, rank 0", "step 10, rank 1"]
    assert [*map(str, made.missing)] == [
        "step 0 is only on the golden side",
        "rank 1 of step 2 is only on the golden side",
    ]
    assert made.kinds == "target: a run with 2 steps, 2 ranks; golden: a run with 3 steps, 2 ranks"


def test_the_trees_of_compiled_and_other_parts_meet_by_name(run):
    target = run("t", "graph/step0/rank0", "graph/step1/rank0", "pynative/step0/rank0")
    golden = run("g", "graph/step0/rank0", "graph/step1/rank0")
    made = plan(target, golden)
    assert list(pairs(made)) == ["graph, step 0, rank 0", "graph, step 1, rank 0"]
    assert [*map(str, made.missing)] == ["pynative is only on the target side"]


def test_one_tree_meets_a_run(run):
    made = plan(run("t", "pynative/step0/rank"), run("g", "step0/rank"))
    assert list(pairs(made)) == ["pynative, step 0, rank 0"]
    with pytest.raises(UsageError, match=r"contains 2 trees.*give one of graph, pynative"):
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
    assert [*map(str, plan(target / "step0", golden / "step0").missing)] == [
        "debug.json of rank 0 is only on the target side"
    ]
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
    with pytest.raises(UsageError, match=r"contains 2 steps.*give one of step0, step5, or select one with --steps"):
        plan(target, golden / "step0")
    with pytest.raises(UsageError, match=r"contains 2 ranks.*give one of rank0, rank1, or select one with --ranks"):
        plan(target / "step0", golden / "step0" / "rank0")
    assert len(plan(target, golden / "step0", steps=[5]).jobs) == 1
    assert plan(target / "step0", golden / "step0" / "rank0", ranks=[1]).jobs[0].target.paths[0].parent.name == "rank1"


def test_ranks_and_steps_can_be_chosen(run):
    folders = [f"step{s}/rank{r}" for s in (0, 1, 2) for r in (0, 1)]
    made = plan(run("t", *folders), run("g", *folders[:-1]), ranks=[1], steps=[0, 2])
    assert list(pairs(made)) == ["step 0, rank 1"]
    assert [*map(str, made.missing)] == ["rank 1 of step 2 is only on the target side"]


def test_a_choice_that_nobody_has_is_refused(run):
    target, golden = run("t", "step0/rank0"), run("g", "step0/rank0")
    with pytest.raises(UsageError, match=r"ranks 3, 7 on neither side; available: rank 0"):
        plan(target, golden, ranks=[0, 3, 7])
    with pytest.raises(UsageError, match="--steps selects steps of a folder"):
        plan(target / "step0", golden / "step0", steps=[0])


def test_folders_without_anything_in_common_are_refused_with_what_they_hold(run):
    with pytest.raises(UsageError, match=r"nothing in common: step 0 is only.*; step 5 is only on the golden side"):
        plan(run("t", "step0/rank0"), run("g", "step5/rank0"))


def test_strange_entries_are_skipped_aloud(run, capsys):
    target, golden = run("t", "step0/rank0", "step0/rank1"), run("g", "step0/rank0", "step0/rank1")
    (target / "step0" / "notes.txt").write_text("")
    (target / "step0" / "rankings").mkdir()
    assert len(plan(target, golden).jobs) == 2
    assert "skipped, since these are neither steps nor ranks: rankings, notes.txt" in capsys.readouterr().err


def test_a_rank_without_a_dump_counts_as_missing(run, capsys):
    target, golden = run("t", "step0/rank0"), run("g", "step0/rank0", "step0/rank1")
    (target / "step0" / "rank1").mkdir()
    made = plan(target / "step0", golden / "step0")
    assert [*map(str, made.missing)] == ["rank 1 is only on the golden side"]
    assert "rank1: does not contain a dump and is skipped" in capsys.readouterr().err


def test_sides_of_two_kinds_are_refused(run, tmp_path):
    (tmp_path / "npy").mkdir()
    np.save(tmp_path / "npy" / "x.npy", np.ones(3))
    with pytest.raises(UsageError, match=r"different types: .*a run with 1 step, 1 rank, .*npy files"):
        plan(run("t", "step0/rank0"), tmp_path / "npy")


def test_npy_files_meet_by_the_folders_that_hold_them(tmp_path):
    for side, folders in (("t", ("a", "a/b", "c")), ("g", ("a", "a/b", "d"))):
        for folder in folders:
            (tmp_path / side / folder).mkdir(parents=True, exist_ok=True)
            np.save(tmp_path / side / folder / "x_float32_1.npy", np.ones(3, np.float32))
    made = plan(tmp_path / "t", tmp_path / "g", read_as="npy")
    assert [job.label for job in made.jobs] == ["a", "a/b"]
    assert [*map(str, made.missing)] == ["folder c is only on the target side", "folder d is only on the golden side"]


def test_the_top_of_a_tree_of_npy_files_has_a_name(tmp_path):
    for name in ("target", "golden/a"):
        (tmp_path / name).mkdir(parents=True)
        np.save(tmp_path / name / "x.npy", np.zeros(2, np.float32))
    with pytest.raises(UsageError, match=r"folder \. is only on the target side; folder a is only on the golden side"):
        plan(tmp_path / "target", tmp_path / "golden")
