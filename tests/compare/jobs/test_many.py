"""What is said of many dumps at once."""

import json
import re

import numpy as np
from three_calls import EXP, SIN, TAN, printed, written

from msprobe.cli import main


def test_many_ranks_are_one_line_each_and_the_earliest_beginning_is_named_last(run, tmp_path, capsys):
    folders = [f"step0/rank{n}" for n in range(4)]
    target = run("t", *folders, wrong={folders[1]: TAN, folders[2]: SIN, folders[3]: SIN})
    code = main(
        ["compare", "-tp", str(target / "step0"), "-gp", str(run("g", *folders) / "step0"), "-o", str(tmp_path / "out")]
    )
    lines = printed(capsys)
    assert code == 1
    assert lines[0] == "rank 0: statistics: 6 pass, 0 warning, 0 error, 0 unjudged"
    assert lines[2].startswith("rank 2: statistics: 3 pass, 0 warning, 3 error, 0 unjudged; first wrong call: ")
    assert lines[4].startswith("statistics cannot detect "), "once for all of them"
    assert lines[5] == "the first is in rank 2:"
    assert lines[6] == f"error: {SIN} in the root: computes differently (certain)"
    assert re.match(rf"first wrong call: {re.escape(SIN)} in the root: computes differently: ", lines[-1])
    assert len(lines) <= 6 + 12


def test_of_many_steps_the_earliest_is_named_whatever_is_wrong_later(run, tmp_path, capsys):
    folders = [f"step{n}/rank" for n in (2, 10, 11)]
    target = run("t", *folders, wrong={folders[1]: TAN, folders[2]: EXP})
    code = main(["compare", "-tp", str(target), "-gp", str(run("g", *folders)), "-o", str(tmp_path / "out")])
    lines = printed(capsys)
    assert code == 1
    assert "the first is in step 10, rank 0:" in lines
    assert lines[-1].startswith(f"first wrong call: {TAN} in ")
    assert written(tmp_path / "out", "*.xlsx") == [f"step{n}/compare_result_rank_T.xlsx" for n in (10, 11, 2)]


def test_a_clean_run_says_so_once(run, tmp_path, capsys):
    folders = ["step0/rank0", "step0/rank1"]
    words = ["-tp", str(run("t", *folders) / "step0"), "-gp", str(run("g", *folders) / "step0"), "-o", str(tmp_path)]
    assert main(["compare", *words]) == 0
    assert printed(capsys)[-1] == "no difference: 12 pairs judged, 0 unjudged"


def test_a_missing_rank_is_not_clean(run, tmp_path, capsys):
    target, golden = run("t", "step0/rank0", "step0/rank1"), run("g", "step0/rank0")
    assert (
        main(["compare", "-tp", str(target / "step0"), "-gp", str(golden / "step0"), "-o", str(tmp_path / "out")]) == 1
    )
    lines = printed(capsys)
    assert "missing: rank 1 is only on the target side" in lines
    assert lines[-1] == (
        "no difference in what could be judged: 6 pairs judged, 0 not, 1 without counterpart or not readable"
    )


def test_a_rank_that_cannot_be_read_does_not_stop_the_others(run, tmp_path, capsys):
    folders = ["step0/rank0", "step0/rank1"]
    target, golden = run("t", *folders), run("g", *folders)
    (target / "step0/rank0/dump.json").write_text("{")
    words = ["compare", "-tp", str(target / "step0"), "-gp", str(golden / "step0"), "-o", str(tmp_path / "out")]
    assert main(words) == 1
    lines = printed(capsys)
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
    assert f"msprobe doctor {target / 'step0/rank1'}" in printed(capsys)[1]


def test_tensors_that_are_not_there_are_told_and_not_only_counted(run, tmp_path, capfd):
    folders = ["step0/rank0", "step0/rank1"]
    target, golden = run("t", *folders, mode="tensor"), run("g", *folders, mode="tensor")
    for path in (target / "step0/rank1/dump_tensor_data").iterdir():
        path.unlink()
    assert main(["compare", "-tp", f"{target}/step0", "-gp", f"{golden}/step0", "-o", str(tmp_path / "out")]) == 1
    log = [line for line in capfd.readouterr().err.splitlines() if "WARNING" in line]
    assert len(log) == 1, "one line for a dump, however many are missing"
    assert "6 tensors without a verdict: not readable: " in log[0]
    assert str(target / "step0/rank1/dump_tensor_data") in log[0]
    assert "copy dump_tensor_data next to its dump.json" in log[0]


def test_a_rank_that_received_the_difference_through_an_exchange_is_not_the_first(builder, tmp_path, capsys):
    """Rank 1 computes exp wrong, at its second call; rank 0 sees it in its first, the all_reduce."""
    for side, wrong in (("t", 1.0), ("g", 0.0)):
        for rank in (0, 1):
            made = builder(side)
            made.folder = tmp_path / side / "step0" / f"rank{rank}"
            inputs = wrong if rank else 0.0
            if rank:
                made.call("Mint.sin.0.forward", [1.0], [2.0]).call(EXP, [2.0], [3.0 + inputs])
            made.call("Distributed.all_reduce.0.forward", [3.0 + inputs], [6.0 + wrong])
            made.write()
    assert main(["compare", "-tp", str(tmp_path / "t"), "-gp", str(tmp_path / "g"), "-o", str(tmp_path / "o")]) == 1
    result = printed(capsys)
    assert "the first is in step 0, rank 1:" in result
    assert result[-1].startswith(f"first wrong call: {EXP} in the root: computes differently: ")


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
    lines = printed(capsys)
    assert lines[0] == "step 3, rank 0: tensor: 2 pass, 0 warning, 0 error, 0 unjudged"
    assert lines[1].startswith(
        "step 3, rank 1: tensor: 1 pass, 0 warning, 1 error, 0 unjudged; first wrong call: loss.1.debug"
    )
    assert written(tmp_path / "out", "*.xlsx") == [f"step3/compare_result_rank{n}_T.xlsx" for n in (0, 1)]


def test_single_saves_meet_by_step_and_rank(tmp_path, capsys):
    for side in ("t", "g"):
        for key, rank in (("loss", 0), ("loss", 1), ("reward", 0)):
            folder = tmp_path / side / "data" / key / "step0" / f"rank{rank}" / "micro_step0"
            folder.mkdir(parents=True)
            value = 2.0 if (side, key, rank) == ("t", "reward", 0) else 1.0
            np.save(folder / f"{key}.npy", np.full(3, value, np.float32))
    assert main(["compare", "-tp", f"{tmp_path}/t", "-gp", f"{tmp_path}/g", "-o", f"{tmp_path}/out"]) == 1
    lines = printed(capsys)
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
    log = capsys.readouterr().err.splitlines()
    assert f"msprobe INFO: {SIN}.output.0: pass" in log
    assert f"msprobe INFO: {TAN}.output.0: error" in log
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


def test_a_rank_with_an_error_is_named_before_one_whose_difference_is_within_tolerance(run, tmp_path, capsys):
    folders = ["step0/rank0", "step0/rank1"]
    target = run("t", *folders, wrong={folders[1]: TAN})
    dump = target / "step0/rank0/dump.json"
    made = json.loads(dump.read_text())
    made["data"][EXP]["input_args"][0]["Norm"] *= 1 + 4e-6
    dump.write_text(json.dumps(made))
    golden = run("g", *folders)
    assert main(["compare", "-tp", str(target), "-gp", str(golden), "-o", str(tmp_path / "out")]) == 1
    lines = printed(capsys)
    assert f"; first wrong call: {EXP} in " in lines[0], "alone it would be named"
    assert " 0 error" in lines[0]
    assert "the first is in step 0, rank 1:" in lines
    assert lines[-1].startswith(f"first wrong call: {TAN} in ")
