"""The first wrong call without tables: which dumps are read, and that the answer is that of a comparison of all."""

import json
import os
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from three_calls import SIN, TAN, printed, written

from msprobe.cli import main
from msprobe.compare.jobs import first, outcome

pytestmark = pytest.mark.part(2)


@pytest.fixture
def reads(monkeypatch):
    """The dumps of targets that a comparison reads."""
    found = []
    whole = outcome.read_both

    def counting(target, golden, *more):
        found.append(target.paths[0])
        return whole(target, golden, *more)

    monkeypatch.setattr(outcome, "read_both", counting)
    return found


def digest(*roots):
    for root in roots:
        assert main(["digest", str(root), "--workers", "1"]) == 0


def answer(target, golden, output, *more):
    """Exit code, and what is written but for tables: the sum of all, and the calls that differ first."""
    words = ["compare", "-tp", str(target), "-gp", str(golden), "-o", str(output), "-da", "--workers", "1", *more]
    code = main(words)
    texts = [
        json.loads(file.read_text()) for name in ("summary", "analyze") for file in output.glob(f"*_{name}_*.json")
    ]
    shutil.rmtree(output)
    return code, texts


def without_tables(texts):
    for job in texts[0]["jobs"]:
        job["table"] = None
    return texts


# Equal ranks.


def test_equal_ranks_are_not_read_and_have_the_verdict_of_a_whole_comparison(run, tmp_path, reads, capsys):
    folders = [f"step0/rank{n}" for n in range(4)]
    target, golden = run("t", *folders, wrong={folders[2]: SIN}), run("g", *folders)
    code, whole = answer(target, golden, tmp_path / "o", "--format", "csv")
    lines = printed(capsys)
    assert len(reads) == 4
    digest(target, golden)
    reads.clear()
    capsys.readouterr()
    assert answer(target, golden, tmp_path / "o", "--first-only") == (code, without_tables(whole))
    assert [path.parent.name for path in reads] == ["rank2"]
    assert printed(capsys) == lines, "the same is said on the console"


@pytest.mark.parametrize("mode", ["statistics", "tensor", "digest"])
def test_whatever_equal_dumps_hold_their_verdict_is_that_of_a_whole_comparison(
    builder, tensor, value, tmp_path, reads, mode
):
    for side in ("t", "g"):
        for rank in (0, 1):
            made = builder(side, mode=mode)
            made.folder = tmp_path / side / "step0" / f"rank{rank}"
            made.call("Mint.sin.0.forward", [1.0, None, value(float("nan"))], [2.0], parent="Cell.a.A.forward.0")
            made.call("Mint.empty.0.forward", [value(3)], [5.0], missing=("input.1",))
            made.call("Cell.a.A.forward.0", [tensor(float("nan"))], [tensor(1.0, dtype="BFloat16")])
            made.call(
                "Mint.sin.0.backward", [tensor(1.0, gradient="accumulated")], [tensor(1.0, gradient="unavailable")]
            )
            made.extra = {"missing": [{"name": "Mint.empty.0.forward", "part": "input.1", "cause": "no room"}]}
            if rank:
                made.data["Mint.sin.0.forward"]["output"][0] |= dict.fromkeys(("Max", "Min", "Mean", "Norm"))
            made.write()
            if mode == "tensor" and rank:
                (made.folder / "dump_tensor_data" / "Mint.sin.0.forward.input.0.npy").write_bytes(b"no tensor")
    target, golden = tmp_path / "t", tmp_path / "g"
    code, whole = answer(target, golden, tmp_path / "o", "--format", "csv")
    digest(target, golden)
    reads.clear()
    assert answer(target, golden, tmp_path / "o", "--first-only") == (code, without_tables(whole))
    assert reads == []


@pytest.mark.parametrize("mode", ["statistics", "tensor"])
def test_digests_of_other_files_than_these_count_as_none(run, tmp_path, reads, mode):
    target, golden = (run(side, "step0/rank0", "step0/rank1", mode=mode) for side in ("t", "g"))
    digest(target, golden)
    if mode == "statistics":
        file = target / "step0/rank1/dump.json"
        file.write_text(file.read_text().replace('"Max": 2.75', '"Max": 2.25', 1))
    else:
        file = target / "step0/rank1/dump_tensor_data" / f"{TAN}.output.0.npy"
        file.write_bytes(file.read_bytes()[:-1] + b"\x7f")
    assert main(["compare", str(target), str(golden), "-o", str(tmp_path / "o"), "--first-only"]) == 1
    assert [path.parent.name for path in reads] == ["rank1"]
    assert main(["digest", str(target)]) == 0
    assert main(["compare", str(target), str(golden), "-o", str(tmp_path / "o"), "--first-only"]) == 1


@pytest.mark.parametrize("damage", [b"", b"{}", b"[]", b"\xff", b'{"digests": 1, "msprobe": "0.0.1"}', None])
def test_damaged_digests_count_as_none(run, tmp_path, reads, damage):
    target, golden = run("t", "step0/rank0"), run("g", "step0/rank0")
    digest(target, golden)
    file = target / "step0/rank0/digest.json"
    file.write_bytes(
        damage if damage is not None else file.read_bytes().replace(b'"exchanges":[]', b'"exchanges":[[1]]')
    )
    assert main(["compare", str(target), str(golden), "-o", str(tmp_path / "o"), "--first-only"]) == 0
    assert len(reads) == 1


def test_what_digests_do_not_know_of_is_read(run, tmp_path, reads):
    target, golden = run("t", "step0/rank0"), run("g", "step0/rank0")
    digest(target, golden)
    rules = tmp_path / "rules.yaml"
    rules.write_text(f"{SIN}.input.0: {SIN}.input.0\n")
    for more in (["-f"], ["--noise", "exact"], ["-dm", str(rules)]):
        assert main(["compare", str(target), str(golden), "-o", str(tmp_path / "o"), "--first-only", *more]) == 0
    assert len(reads) == 3


# Ranks that differ.


def data_parallel(builder, root, ranks, wrong=None, layers=3):
    """Ranks that compute on their own, then add their gradients up, layer by layer; one is wrong from a call on."""
    sum_of = dict.fromkeys(range(layers), 0.0)
    for rank in [*([wrong] if wrong is not None else []), *range(ranks)]:
        made = builder(root.name)
        made.folder = root / "step0" / f"rank{rank}"
        made.call("Mint.exp.0.forward", [1.0], [2.0 + (rank == wrong)])
        for layer in range(layers):
            own = 3.0 + (rank == wrong)
            made.call(f"Mint.tan.{layer}.forward", [2.0 + (rank == wrong)], [own])
            sum_of[layer] = sum_of[layer] or (1.0 if rank == wrong else 0.0)
            made.call(f"Distributed.all_reduce.{layer}.forward", [own], [6.0 + sum_of[layer]])
            made.call(f"Mint.sin.{layer}.forward", [6.0 + sum_of[layer]], [7.0 + sum_of[layer]])
        made.write()
    return root


def test_of_ranks_that_received_a_difference_none_is_read(builder, tmp_path, reads, capsys):
    target = data_parallel(builder, tmp_path / "t", 8, wrong=5)
    golden = data_parallel(builder, tmp_path / "g", 8)
    code, whole = answer(target, golden, tmp_path / "o", "--format", "csv")
    lines = printed(capsys)
    last = lines[lines.index("the first is in step 0, rank 5:") :]
    digest(target, golden)
    reads.clear()
    capsys.readouterr()
    short_code, short = answer(target, golden, tmp_path / "o", "--first-only")
    assert [path.parent.name for path in reads] == ["rank5"]
    lines = printed(capsys)
    assert lines[-len(last) :] == last
    assert lines[0] == f"step 0, rank 0: {first.LATER_CALL}"
    assert (short_code, short[1], short[0]["first_wrong"]) == (code, whole[1], whole[0]["first_wrong"])
    assert [job.get("unread") for job in short[0]["jobs"]] == [None if n == 5 else first.LATER_CALL for n in range(8)]


def test_of_several_steps_those_behind_a_wrong_one_are_not_read(run, tmp_path, reads, capsys):
    folders = [f"step{n}/rank0" for n in (2, 10, 11)]
    target, golden = run("t", *folders, wrong={folders[1]: TAN, folders[2]: SIN}), run("g", *folders)
    digest(target, golden)
    assert main(["compare", str(target), str(golden), "-o", str(tmp_path / "o"), "--first-only"]) == 1
    lines = printed(capsys)
    assert "the first is in step 10, rank 0:" in lines
    assert f"step 11, rank 0: {first.LATER_STEP}" in lines
    assert [path.parent.parent.name for path in reads] == ["step10"]
    assert written(tmp_path / "o", "*") == ["compare_summary_T.json"]


def test_without_digests_everything_is_read_and_a_rank_that_cannot_be_is_told(run, tmp_path, reads, capsys):
    folders = ["step0/rank0", "step0/rank1"]
    target, golden = run("t", *folders, wrong={folders[1]: TAN}), run("g", *folders)
    (target / "step0/rank0/dump.json").write_text("{")
    words = ["compare", str(target), str(golden), "-o", str(tmp_path / "o"), "--first-only"]
    assert main(words) == 1
    lines = printed(capsys)
    assert lines[0].startswith("step 0, rank 0: not compared: ")
    assert "the first is in step 0, rank 1:" in lines
    (golden / "step0/rank1/dump.json").write_text("{")
    assert main(words) == 2


CALLS = ("compute", "all_reduce", "broadcast", "message", "param")


@pytest.mark.slow
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_the_answer_is_that_of_a_comparison_of_everything(builder, value, tmp_path, data):
    """Ranks exchange at random, and are wrong at random: a difference spreads, or dies out."""
    shutil.rmtree(tmp_path, ignore_errors=True)
    ranks = data.draw(st.integers(2, 4))
    sides = {side: [builder(side) for _ in range(ranks)] for side in ("t", "g")}
    for side, builders in sides.items():
        for rank, made in enumerate(builders):
            made.folder = tmp_path / side / "step0" / f"rank{rank}"
    wrong, count = [0.0] * ranks, 0
    one = st.integers(0, ranks - 1)

    def write(rank, name, given, gives, **keywords):
        for side, sign in (("t", 1), ("g", 0)):
            kwargs = {key: value(each) for key, each in keywords.items()}
            sides[side][rank].call(name, [1.0 + sign * given], [2.0 + sign * gives], kwargs=kwargs)

    for _ in range(data.draw(st.integers(1, 8))):
        what, rank, count = data.draw(st.sampled_from(CALLS)), data.draw(one), count + 1
        before = list(wrong)
        if what in ("compute", "param"):
            wrong[rank] = data.draw(st.sampled_from([wrong[rank], wrong[rank], 1.0, 1e-9, 0.0]))
            name = f"Mint.{data.draw(st.sampled_from(['sin', 'fill_']))}.{count}.forward"
            write(rank, name, before[rank] if what == "compute" else 0.0, wrong[rank])
        elif what == "message":
            other = (rank + 1) % ranks
            write(rank, f"Distributed.send.{count}.forward", before[rank], 0.0, dst=other)
            wrong[other] = before[rank]
            write(other, f"Distributed.recv.{count}.forward", 0.0, wrong[other], src=rank)
        else:
            result = max(before) if what == "all_reduce" else before[rank]
            keywords = {"src": rank} if what == "broadcast" else {}
            for each in range(ranks):
                wrong[each] = result
                write(each, f"Distributed.{what}.{count}.forward", before[each], result, **keywords)
    for builders in sides.values():
        for made in builders:
            made.call("Mint.end.0.forward", [0.0], [0.0]).write()
    target, golden = tmp_path / "t", tmp_path / "g"
    code, whole = answer(target, golden, tmp_path / "o", "--format", "csv")
    digest(target, golden)
    short_code, short = answer(target, golden, tmp_path / "o", "--first-only")
    assert (short_code, short[1], short[0]["first_wrong"]) == (code, whole[1], whole[0]["first_wrong"])
    for job, full in zip(short[0]["jobs"], whole[0]["jobs"], strict=True):
        assert "unread" in job or job == {**full, "table": None}


# The command.


def test_digests_that_are_up_to_date_are_left_alone(run, capsys):
    target = run("t", "step0/rank0", "step0/rank1")
    digest(target)
    file = target / "step0/rank1/digest.json"
    before = file.stat().st_mtime_ns, file.read_bytes()
    os.utime(target / "step0/rank0/dump.json")
    capsys.readouterr()
    digest(target)
    assert printed(capsys) == ["2 dumps: 1 digested, 1 up to date, 0 failed"]
    assert (file.stat().st_mtime_ns, file.read_bytes()) == before


def test_a_dump_that_cannot_be_read_is_told_and_the_others_are_digested(run, capsys):
    target = run("t", "step0/rank0", "step0/rank1")
    (target / "step0/rank0/dump.json").write_text("{")
    assert main(["digest", str(target)]) == 1
    lines = printed(capsys)
    assert lines[0].startswith(f"not digested: {target / 'step0/rank0/dump.json'}: ")
    assert lines[1] == "2 dumps: 1 digested, 0 up to date, 1 failed"


def test_columnar_dumps_have_digests_too(run, tmp_path, reads, capsys):
    pytest.importorskip("pyarrow", reason="columnar dumps are read through pyarrow")
    made = []
    for side, wrong in (("t", {"step0/rank1": SIN}), ("g", {})):
        json_dump = run(side, "step0/rank0", "step0/rank1", wrong=wrong)
        made.append(tmp_path / f"{side}_columnar")
        assert main(["convert", str(json_dump), "-o", str(made[-1]), "--to", "columnar"]) == 0
    digest(*made)
    assert printed(capsys)[-1] == "2 dumps: 2 digested, 0 up to date, 0 failed"
    code, _ = answer(*made, tmp_path / "o", "--first-only")
    assert code == 1
    assert [path.parent.name for path in reads] == ["rank1"]


@pytest.mark.usefixtures("_one_time")
def test_digests_do_not_change_a_comparison_with_tables(run, tmp_path):
    target, golden = run("t", "step0/rank0", "step0/rank1"), run("g", "step0/rank0", "step0/rank1")
    before = answer(target, golden, tmp_path / "o", "--format", "csv")
    digest(target, golden)
    assert answer(target, golden, tmp_path / "o", "--format", "csv") == before
