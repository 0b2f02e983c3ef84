"""`store/reader.py` and the files around a dump: where it lies, what lies beside it, what is missing."""

import json
import shutil
import time

import numpy as np
import pytest
from leaves import HEADER, rows, tensor

from msprobe.base.errors import DumpError
from msprobe.store.reader import load_tensor, read
from msprobe.store.writer import Writer


def test_both_layouts_of_the_stacks(write):
    data = {"F.0.forward": {"output": []}, "F.1.forward": {"output": []}}
    new = write(data, inside="new/rank", stack={"0": [["F.0.forward", "F.1.forward"], ["a", "b"]]})
    old = write(data, inside="old/rank", stack={"F.0.forward": ["a", "b"], "F.1.forward": ["a", "b"]})
    for folder in (new, old):
        assert [call.stack for call in read(folder).calls] == [("a", "b"), ("a", "b")]


def test_a_stack_file_that_lies_elsewhere(write, tmp_path):
    (tmp_path / "other.json").write_text('{"0": [["F.0.forward"], ["z"]]}')
    folder = write({"F.0.forward": {"output": []}}, stack={"0": [["F.0.forward"], ["a"]]})
    assert read(folder, stack=tmp_path / "other.json").calls[0].stack == ("z",)
    with pytest.raises(DumpError, match=r"absent\.json"):
        read(folder, stack=tmp_path / "absent.json")


def test_a_dump_without_its_companions_is_read(write):
    (call,) = read(write({"F.0.forward": {"output": []}})).calls
    assert (call.parent, call.stack) == (None, ())


def test_parents_under_micro_steps(write):
    construct = {
        "F.0.forward": ["Cell.a.A.forward.0", 1],
        "Cell.a.A.forward.0": [None, 1],
        "megatron_micro_step_number": 4,
    }
    dump = read(write({"F.0.forward": {"output": []}}, construct=construct))
    assert dump.construct == {"F.0.forward": "Cell.a.A.forward.0", "Cell.a.A.forward.0": None}
    assert dump.calls[0].parent == "Cell.a.A.forward.0"


@pytest.mark.parametrize(
    ("inside", "step", "rank"), [("step2/rank3", 2, 3), ("step2/rank", 2, 0), ("step2/proc99", 2, 0)]
)
@pytest.mark.parametrize("up", [0, 1, 2])
def test_a_file_its_rank_or_its_step_may_be_given(write, tmp_path, inside, step, rank, up):
    folder = write({"F.0.forward": {"output": []}}, inside=inside)
    inputs = [folder / "dump.json", folder, folder.parent][up]
    dump = read(str(inputs))
    assert (dump.step, dump.rank) == (step, rank)
    assert dump.where == str(folder / "dump.json")


def test_a_relative_path_knows_its_step(write, monkeypatch):
    monkeypatch.chdir(write({"F.0.forward": {"output": []}}, inside="step2/rank3"))
    assert (read(".").step, read("dump.json").rank) == (2, 3)


def test_a_dump_without_calls_is_read_with_a_word(write, capsys):
    assert read(write({})).calls == ()
    assert "contains no calls" in capsys.readouterr().err


def test_an_unfinished_dump_is_read_with_a_word(write, capsys):
    folder = write({"F.0.forward": {"output": []}})
    assert read(folder).unfinished == ""
    assert capsys.readouterr().err == ""
    (folder / "dump.journal").write_text("")
    assert "still writing, or died" in read(folder).unfinished
    assert "is unfinished" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("make", "message"),
    [
        ({}, r"contains no dump\.json; give the folder of a step or of a rank"),
        (
            {"step0/rank0/dump.json": "{}", "step0/rank1/dump.json": "{}"},
            r"step0: contains 2 ranks; give one of rank0, rank1",
        ),
        ({"rank10/dump.json": "", "rank9/dump.json": ""}, r"contains 2 ranks; give one of rank9, rank10"),
        ({f"rank{n}/dump.json": "" for n in range(12)}, r"12 ranks; give one of rank0, .*, rank7 and 4 more"),
        ({"step10/rank/dump.json": "", "step9/rank/dump.json": ""}, r"contains steps; give one of step9, step10"),
        ({"step0/rank/dump.json": "{}"}, r"contains steps; give one of step0"),
        ({"pynative/step0/rank/dump.json": "{}"}, r"it contains the folders pynative"),
        ({"dump.journal": ""}, r"only the journal of an unfinished dump; run `msprobe doctor .*`"),
        ({"rank0/dump.journal": ""}, r"only the journal of an unfinished dump; run `msprobe doctor .*rank0`"),
        ({"rank0/stack.json": "{}"}, r"rank0: contains no dump\.json"),
    ],
)
def test_a_folder_that_is_no_dump_says_what_it_holds(tmp_path, make, message):
    for name, text in make.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    inputs = tmp_path / "step0" if any(name.startswith("step0/rank1") for name in make) else tmp_path
    with pytest.raises(DumpError, match=message):
        read(inputs)


def test_a_missing_path_is_said(tmp_path):
    with pytest.raises(DumpError, match="absent: no such file or folder"):
        read(tmp_path / "absent")


def test_the_journal_itself_is_no_dump(tmp_path):
    (tmp_path / "dump.journal").write_text("H\t{}\t{}\n")
    with pytest.raises(DumpError, match="run `msprobe doctor"):
        read(tmp_path / "dump.journal")


def test_a_tensor_that_was_not_saved(write):
    dump = read(write({"F.0.forward": {"output": [tensor()]}}))
    with pytest.raises(DumpError, match=r"F\.0\.forward\.output\.0 has no tensor; collect with task `tensor`"):
        load_tensor(dump, rows(dump)[0])


def test_a_moved_dump_finds_its_tensors(folder, tmp_path):
    writer = Writer(folder, HEADER)
    name = writer.tensor("F.0.forward.output.0.npy", np.arange(2.0))
    writer.call("F.0.forward", None, None, json.dumps({"output": [tensor(data_name=name)]}))
    writer.close()
    shutil.move(folder, tmp_path / "elsewhere")
    dump = read(tmp_path / "elsewhere")
    assert load_tensor(dump, rows(dump)[0]).tolist() == [0.0, 1.0]


def test_twenty_thousand_rows_a_side_are_read_in_moments(folder):
    writer = Writer(folder, HEADER)
    for i in range(5000):
        entry = {"input_args": [tensor(), tensor()], "output": [tensor(), None]}
        writer.call(f"Functional.relu.{i}.forward", None, None, json.dumps(entry))
    writer.close()
    start = time.process_time()
    assert len(rows(read(folder))) == 20_000
    # About 0.15 s on a desktop; the bound only catches a reader that has become ten times slower.
    assert time.process_time() - start < 2
