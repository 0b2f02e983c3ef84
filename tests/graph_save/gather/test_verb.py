"""The command `msprobe gather`: which dumps it makes, what it refuses, and that its dumps are compared."""

import numpy as np
import pytest
from kernel_files import CPU, DENSE, only, save

from msprobe.cli import main


def ranks(tmp_path):
    for rank in (0, 1):
        for iteration in (0, 2, 10):
            folder = tmp_path / f"raw/rank_{rank}/Net/0/{iteration}"
            save(folder, "Exp.Default_Exp-op0.0.0.1.output.0.DefaultFormat.Float32", np.float32([rank]))
    return tmp_path / "raw"


def test_every_iteration_of_every_rank_is_a_dump(gather, tmp_path, out):
    lines = gather(ranks(tmp_path))[1]
    assert [line.split(": ")[0] for line in lines] == [
        f"{out}/step{step}/rank{rank}" for rank in (0, 1) for step in (0, 2, 10)
    ]
    assert {str(p.relative_to(out)) for p in out.rglob("rank*")} == {
        f"step{step}/rank{rank}" for rank in (0, 1) for step in (0, 2, 10)
    }


def test_steps_and_ranks_can_be_chosen(gather, tmp_path, out):
    gather(ranks(tmp_path), "--step", "2-9,10", "--rank", "1")
    assert {str(p.relative_to(out)) for p in out.rglob("rank*")} == {"step2/rank1", "step10/rank1"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--step", "7"), "none of the iterations of --steps"),
        (("--rank", "7"), "none of the ranks of --ranks"),
        (("--step", "a"), '--steps: "a" is neither a number nor a range'),
        (("--workers", "0"), "--workers: 0 is invalid"),
    ],
)
def test_a_command_that_cannot_be_meant_is_one_line(words, message, tmp_path, capsys):
    assert main(["gather", str(CPU), "-o", str(tmp_path), *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_two_dumps_of_one_rank_are_refused(tmp_path, capsys):
    for run in ("a", "b"):
        save(tmp_path / run / "rank_0/Net/0/0", "Exp.E-op0.0.0.1.output.0.D.Float32", np.float32([1]))
    assert main(["gather", str(tmp_path), "-o", str(tmp_path / "out")]) == 2
    assert "contains two dumps of rank 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "is not a folder"),
        (lambda path: path.mkdir(), "contains no kernel dump"),
        (lambda path: save(path / "step0/rank0/dump_tensor_data", "Exp.E-op0.0.0.1.output.0.D", [1]), "no kernel dump"),
    ],
)
def test_a_folder_without_a_kernel_dump_is_said(make, message, tmp_path, capsys):
    make(tmp_path / "raw")
    assert main(["gather", str(tmp_path / "raw"), "-o", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err


def test_two_gathered_runs_are_compared_and_the_first_wrong_call_is_a_kernel(raw, tmp_path, capsys):
    file = only(raw, "rank_0/Net/0/0/BiasAdd*output*")
    wrong = np.load(file)
    wrong[0, 0] += 1
    np.save(file, wrong)
    only(raw, "rank_0/Net/0/0/ReLU*input*").write_bytes(file.read_bytes())
    main(["gather", str(raw), "-o", str(tmp_path / "target")])
    main(["gather", str(CPU), "-o", str(tmp_path / "golden")])
    assert main(["doctor", str(tmp_path)]) == 0
    capsys.readouterr()
    words = ["-tp", str(tmp_path / "target/step0"), "-gp", str(tmp_path / "golden/step0"), "-o", str(tmp_path / "cmp")]
    assert main(["compare", *words]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"first wrong call: {DENSE}.BiasAdd.0.forward in the root: computes differently: ")
    assert last.endswith("(/home/user/train/net.py:23)")
    words[1] = words[3]
    assert main(["compare", *words]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "no difference: 14 pairs judged, 0 unjudged"
