"""`msprobe doctor`: what is whole, what was rebuilt, what is lost."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from msprobe import doctor
from msprobe.base.errors import UsageError
from msprobe.options.parser import parsed
from msprobe.store.reader import read
from msprobe.store.writer import Writer

HEADER = {"task": "tensor", "level": "mix", "framework": "mindspore"}


@pytest.fixture
def ask(capsys):
    """Run the doctor; exit code, standard output, standard error."""

    def run(folder):
        code = doctor.run(doctor.Options(folder=Path(folder)))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def start(folder, count=2, **header):
    """A writer with a few calls, each with one tensor."""
    writer = Writer(folder, {**HEADER, **header})
    for i in range(count):
        name = writer.tensor(f"F.{i}.forward.output.0.npy", np.full(3, i, np.float32))
        leaf = {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [3], "data_name": name}
        writer.call(f"F.{i}.forward", None, writer.stack(["f"]), json.dumps({"output": [leaf, None]}))
    writer.flush()
    return writer


def test_a_whole_dump_is_whole(folder, ask):
    start(folder).close()
    before = (folder / "dump.json").read_bytes()
    assert ask(folder) == (0, f"{folder}: whole: 2 calls, 4 records, 2 tensors\n", "")
    assert (folder / "dump.json").read_bytes() == before


@pytest.mark.parametrize("up", [0, 1, 2])
def test_root_step_and_rank_may_be_given(folder, ask, up):
    start(folder).close()
    inputs = [folder, folder.parent, folder.parent.parent][up]
    assert ask(inputs) == (0, f"{folder}: whole: 2 calls, 4 records, 2 tensors\n", "")


def test_a_dead_dump_is_rebuilt_once(folder, ask):
    del_writer = start(folder)
    del del_writer
    with pytest.raises(Exception, match="run `msprobe doctor"):
        read(folder)
    code, out, _ = ask(folder)
    assert code == 0
    assert out.startswith(f"{folder}: rebuilt: 2 calls, 4 records, 2 tensors; note: unfinished, its process died")
    assert "dump.journal" not in os.listdir(folder)
    dump = read(folder)
    assert [call.stack for call in dump.calls] == [("f",), ("f",)]
    assert "died" in dump.unfinished
    code, out, _ = ask(folder)
    assert (code, out.split(":")[1]) == (0, " whole")
    assert "its process died" in out


def test_a_rebuilt_dump_equals_one_that_was_closed(tmp_path, ask):
    start(tmp_path / "closed" / "rank").close()
    start(tmp_path / "dead" / "rank")
    ask(tmp_path / "dead")
    closed, dead = read(tmp_path / "closed"), read(tmp_path / "dead")
    assert (closed.calls, closed.construct, closed.task) == (dead.calls, dead.construct, dead.task)


def test_a_dump_of_saved_variables_is_rebuilt(folder, ask):
    start(folder, level="debug")
    assert ask(folder)[0] == 0
    assert sorted(os.listdir(folder)) == ["debug.json", "dump_tensor_data"]


def test_a_dump_without_extra_info_is_rebuilt_without(folder, ask):
    writer = Writer(folder, HEADER, extra_info=False)
    writer.call("A", "P", None, '{"output":[]}')
    del writer
    assert ask(folder)[0] == 0
    assert os.listdir(folder) == ["dump.json"]


def test_every_rank_and_step_is_looked_at(tmp_path, ask):
    for step in (0, 1):
        for rank in (0, 1):
            start(tmp_path / f"step{step}" / f"rank{rank}").close()
    shutil.rmtree(tmp_path / "step1/rank0/dump_tensor_data")
    code, out, _ = ask(tmp_path)
    *lines, last = out.splitlines()
    assert code == 1
    assert last == "3 of 4 are complete, 1 wrong"
    assert [line.split(":")[1] for line in lines] == [" whole"] * 4
    assert [n for n, line in enumerate(lines) if "LOST: 2 tensors are lost" in line] == [2]


def test_a_dump_in_writing_is_left_alone(folder, ask):
    writer = start(folder)
    before = sorted(os.listdir(folder))
    code, out, _ = ask(folder)
    assert code == 1
    assert "its process is still running" in out
    assert sorted(os.listdir(folder)) == before
    writer.close()
    assert ask(folder)[0] == 0


def test_a_last_line_without_end_is_mentioned(folder, ask):
    start(folder)
    os.truncate(folder / "dump.journal", (folder / "dump.journal").stat().st_size - 5)
    code, out, _ = ask(folder)
    assert code == 0
    assert "rebuilt: 1 calls" in out
    assert "the last line of the journal is incomplete" in out
    assert "1 tensor files without a record (F.1.forward.output.0.npy)" in out


def test_an_unfinished_tensor_is_mentioned(folder, ask):
    start(folder)
    (folder / "dump_tensor_data" / "F.9.forward.output.0.npy").write_bytes(b"\x93NUMPY\x01\x00")
    code, out, _ = ask(folder)
    assert code == 0
    assert "1 unfinished tensor files (F.9.forward.output.0.npy)" in out


def test_lost_lines_are_lost(folder, ask):
    start(folder)
    with open(folder / "dump.journal", "ab") as file:
        file.write(b'C\t"damaged\n')
    for _ in range(2):
        code, out, _ = ask(folder)
        assert code == 1
        assert "2 calls" in out
        assert "1 lines of its journal could not be read" in out


def test_broken_and_wrong_tensors_are_found(folder, ask):
    start(folder, 4).close()
    tensors = folder / "dump_tensor_data"
    (tensors / "F.0.forward.output.0.npy").unlink()
    os.truncate(tensors / "F.1.forward.output.0.npy", 130)
    np.save(tensors / "F.2.forward.output.0.npy", np.zeros((2, 2), np.float32))
    code, out, _ = ask(folder)
    assert code == 1
    assert "3 tensors are lost" in out
    assert "F.0.forward.output.0.npy: the tensor is missing" in out
    assert "contains 130 bytes, but its header requires 140" in out
    assert "F.2.forward.output.0.npy: has shape (2, 2), but its record has (3,)" in out


def test_what_the_collector_missed_is_told(folder, ask):
    writer = start(folder)
    writer.missing("F.7.forward", "output.0", "hook failed")
    writer.close()
    code, out, _ = ask(folder)
    assert code == 1
    assert "1 parts were not collected (F.7.forward output.0: hook failed)" in out


def test_what_a_dump_says_stays_on_its_line(folder, ask):
    writer = start(folder)
    writer.missing("F\n\x1b[31m", "output", "层")
    writer.close()
    _, out, _ = ask(folder)
    assert out.count("\n") == 1
    assert "F\\x0a\\x1b[31m output: 层" in out


def test_a_broken_dump_json_is_told(folder, ask):
    start(folder).close()
    (folder / "dump.json").write_text('{"task": ')
    code, out, _ = ask(folder)
    assert code == 1
    assert f"{folder}: unreadable" in out
    assert "line 1, column" in out


def test_a_journal_without_header_stays(folder, ask):
    start(folder)
    text = (folder / "dump.journal").read_bytes()
    (folder / "dump.journal").write_bytes(text.split(b"\n", 1)[1])
    for _ in range(2):
        code, out, _ = ask(folder)
        assert code == 1
        assert "not rebuilt" in out
        assert (folder / "dump.journal").exists()


def test_a_journal_whose_dump_cannot_be_read_stays(folder, ask):
    nested = None
    for _ in range(150):
        nested = [nested]
    writer = start(folder)
    writer.call("Deep", None, None, json.dumps({"output": nested}))
    del writer
    for _ in range(2):
        code, out, _ = ask(folder)
        assert code == 1
        assert "unreadable" in out
        assert (folder / "dump.journal").exists()


def test_a_process_that_died_at_once_left_nothing(folder, ask):
    folder.mkdir(parents=True)
    (folder / "dump.journal").write_bytes(b'H\t{"task":')
    assert ask(folder) == (0, f"{folder}: empty; note: its process died before the first call\n", "")
    assert os.listdir(folder) == []


def test_dumps_of_the_other_tool_are_whole(samples, tmp_path, ask):
    shutil.copytree(samples / "8.1.1/dumps/ms_mix_tensor", tmp_path / "dump")
    code, out, _ = ask(tmp_path)
    assert code == 0
    assert "whole: 20 calls, 53 records, 52 tensors" in out


@pytest.mark.parametrize(("inside", "message"), [("", "contains a dump"), ("absent", "is not a folder")])
def test_where_no_dump_is_the_question_is_wrong(tmp_path, inside, message):
    with pytest.raises(UsageError, match=message):
        doctor.run(doctor.Options(folder=tmp_path / inside))


def test_the_other_tool_beside_us_is_an_error(folder, ask, monkeypatch, tmp_path):
    (tmp_path / "mindstudio_probe-26.2.0.dist-info").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    start(folder).close()
    code, out, _ = ask(folder)
    assert code == 1
    assert "mindstudio-probe 26.2.0 is installed next to msprobe-ms" in out
    assert "pip uninstall mindstudio-probe msprobe-ms" in out


def test_the_verb_takes_one_folder_or_none():
    assert parsed("msprobe doctor", doctor.Options, []).folder is None
    assert parsed("msprobe doctor", doctor.Options, ["d"]).folder == Path("d")
