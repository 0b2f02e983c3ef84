"""`store/writer.py` and `store/journal.py`: what the collector says is what stands in the files."""

import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.base.errors import UsageError
from msprobe.store import writer as writer_module
from msprobe.store.writer import Writer

HEADER = {"task": "statistics", "level": "mix", "framework": "mindspore"}


def construct_of(folder, calls, level="mix"):
    writer = Writer(folder, {**HEADER, "level": level})
    for name, parent in calls:
        writer.call(name, parent, None, None)
    writer.close()
    return json.loads((folder / "construct.json").read_text())


def test_a_closed_dump_has_three_files_and_no_journal(writer, folder):
    writer.call("F.0.forward", None, writer.stack(["f"]), '{"output":[]}')
    assert os.listdir(folder) == ["dump.journal"]
    writer.close()
    assert sorted(os.listdir(folder)) == ["construct.json", "dump.json", "stack.json"]


def test_the_text_of_dump_json(folder):
    header = {**HEADER, "run": {"step": 3, "rank": 1}}
    writer = Writer(folder, header)
    writer.call("F.0.forward", None, None, '{"output":[{"type":"int","value":2}]}')
    writer.call("F.1.forward", None, None, '{"output":[null]}')
    writer.missing("F.1.forward", "input.0", "too deep")
    writer.close()
    assert (folder / "dump.json").read_text() == (
        "{\n"
        '"task": "statistics",\n'
        '"level": "mix",\n'
        '"framework": "mindspore",\n'
        '"run": {"step": 3, "rank": 1},\n'
        '"format_version": 1,\n'
        '"dump_data_dir": null,\n'
        '"missing": [\n'
        ' {"name":"F.1.forward","part":"input.0","cause":"too deep"}\n'
        "],\n"
        '"data": {\n'
        ' "F.0.forward": {"output":[{"type":"int","value":2}]},\n'
        ' "F.1.forward": {"output":[null]}\n'
        "}\n"
        "}\n"
    )


def test_a_dump_without_calls_is_whole(writer, files):
    writer.close()
    assert files.dump == {**HEADER, "dump_data_dir": None, "format_version": 1, "data": {}}
    assert files.stack == {}
    assert files.construct == {}


def test_data_stands_in_order_of_first_completion(writer, files):
    for name in ("b", "a", "c", "a", "b"):
        writer.call(name, None, None, '{"output":[]}')
    writer.close()
    assert list(files.dump["data"]) == ["b", "a", "c"]


def test_parts_of_one_entry_merge_key_by_key(writer, files):
    writer.call("A", "P", None, json.dumps({"input_args": [None], "missing": ["input.1"], "is_recompute": False}))
    writer.call("B", None, None, '{"output":[]}')
    writer.call("A", None, None, '{"output":[NaN,9223372036854775808],"missing":["output.2"],"is_recompute":true}')
    writer.close()
    merged = files.dump["data"]["A"]
    assert list(merged) == ["input_args", "missing", "is_recompute", "output"]
    assert merged["input_args"] == [None]
    assert repr(merged["output"]) == "[nan, 9223372036854775808]"
    assert merged["missing"] == ["input.1", "output.2"]
    assert merged["is_recompute"] is True
    assert files.construct == {"A": "P", "B": None}


def test_a_call_that_was_not_collected_stands_in_construct_only(writer, files):
    writer.call("A", None, writer.stack(["f"]), None)
    writer.close()
    assert files.dump["data"] == {}
    assert files.construct == {"A": None}
    assert files.stack == {"0": [["A"], ["f"]]}


def test_calls_with_one_stack_stand_together(writer, files):
    one, two = ["f", "g"], ["g"]
    unused = writer.stack(["nobody"])
    writer.call("A", None, writer.stack(one), '{"output":[]}')
    writer.call("B", None, writer.stack(two), '{"output":[]}')
    writer.call("C", None, writer.stack(tuple(one)), '{"output":[]}')
    writer.call("C.backward", None, None, '{"output":[]}')
    writer.close()
    assert unused == 0
    assert files.stack == {"0": [["A", "C"], one], "1": [["B"], two]}


def test_parameter_gradients_are_no_calls(writer, files):
    writer.call("Cell.fc.Dense.parameters_grad", None, None, json.dumps({"weight": [None]}))
    writer.call("Cell.fc.Dense.parameters_grad.1", None, None, json.dumps({"weight": [None]}))
    writer.close()
    assert len(files.dump["data"]) == 2
    assert files.construct == {}


def test_without_extra_info_there_are_no_stacks_and_no_cells(folder):
    writer = Writer(folder, HEADER, extra_info=False)
    writer.call("A", "P", writer.stack(["f"]), '{"output":[]}')
    writer.close()
    assert os.listdir(folder) == ["dump.json"]


@pytest.mark.parametrize("level", ["L1", "L2"])
def test_levels_without_cells_have_an_empty_construct(folder, level):
    assert construct_of(folder, [("Functional.relu.0.forward", "Cell.a.A.forward.0")], level) == {}


def test_what_the_user_saved_goes_to_debug_json(folder):
    writer = Writer(folder, {**HEADER, "level": "debug"})
    writer.call("var.0.debug", None, None, json.dumps({"k": {"type": "int", "value": 1}}))
    writer.close()
    assert os.listdir(folder) == ["debug.json"]


def debug_json(folder, *entries):
    writer = Writer(folder, {**HEADER, "level": "debug"})
    for entry in entries:
        writer.call("x.0.debug", None, None, entry)
    writer.close()
    return json.loads((folder / "debug.json").read_text())["data"]["x.0.debug"]


@pytest.mark.parametrize("entry", ['{"type":"int","value":1}', '[1,{"a":[null]}]', '"text"', "3.5", "null"])
def test_what_the_user_saved_may_be_any_value(folder, entry):
    assert debug_json(folder, entry) == json.loads(entry)


def test_what_the_user_saved_again_counts(folder):
    assert debug_json(folder, "[1,2]", "[3]") == [3]
    assert debug_json(folder, '{"type":"int","value":1}', '{"type":"float"}') == {"type": "float"}
    assert debug_json(folder, '{"a":1}', '{"b":2}', '{"a":3}') == {"a": 3, "b": 2}
    assert debug_json(folder, "null", '{"a":1}', "7", '{"b":2}') == {"b": 2}


def test_a_backward_parent_that_ran_stands(folder):
    calls = [("Cell.a.A.forward.0", None), ("Cell.a.A.backward.0", None), ("F.x.0.backward", "Cell.a.A.backward.0")]
    assert construct_of(folder, calls)["F.x.0.backward"] == "Cell.a.A.backward.0"


def test_a_backward_parent_that_never_ran_gives_way_to_the_nearest_that_did(folder):
    calls = [
        ("Functional.x.0.forward", "Cell.a.b.c.C.forward.0"),
        ("Cell.a.b.c.C.forward.0", "Cell.a.b.B.forward.0"),
        ("Cell.a.b.B.forward.0", "Cell.a.A.forward.0"),
        ("Cell.a.A.forward.0", None),
        ("Functional.x.0.backward", "Cell.a.b.c.C.backward.0"),
        ("Cell.a.A.backward.0", None),
    ]
    assert construct_of(folder, calls)["Functional.x.0.backward"] == "Cell.a.A.backward.0"


def test_a_backward_call_without_any_enclosing_backward_stands_at_the_root(folder):
    calls = [
        ("Cell.a.b.B.forward.0", "Cell.a.A.forward.0"),
        ("Cell.a.A.forward.0", None),
        ("Functional.x.0.backward", "Cell.a.b.B.backward.0"),
        ("Functional.y.0.backward", "Cell.unknown.U.backward.0"),
    ]
    construct = construct_of(folder, calls)
    assert construct["Functional.x.0.backward"] is None
    assert construct["Functional.y.0.backward"] is None


def test_cells_that_enclose_each_other_do_not_hang_the_writer(folder):
    calls = [
        ("Cell.a.A.forward.0", "Cell.b.B.forward.0"),
        ("Cell.b.B.forward.0", "Cell.a.A.forward.0"),
        ("Functional.x.0.backward", "Cell.a.A.backward.0"),
    ]
    assert construct_of(folder, calls)["Functional.x.0.backward"] is None


def test_a_forward_parent_that_is_still_open_stands_as_given(folder):
    assert construct_of(folder, [("F.x.0.forward", "Cell.a.A.forward.0")]) == {"F.x.0.forward": "Cell.a.A.forward.0"}


def test_assembling_again_brings_what_came_since(writer, files, folder):
    writer.call("A", None, None, '{"output":[]}')
    writer.assemble()
    assert list(files.dump["data"]) == ["A"]
    writer.call("B", None, None, '{"output":[]}')
    writer.assemble()
    assert list(files.dump["data"]) == ["A", "B"]
    assert (folder / "dump.journal").exists()


def test_assembling_without_news_touches_nothing(writer, folder):
    writer.call("A", None, None, '{"output":[]}')
    writer.assemble()
    before = (folder / "dump.json").stat().st_ino
    writer.assemble()
    assert (folder / "dump.json").stat().st_ino == before


def test_a_tensor_is_there_when_all_are_waited_for(writer, folder):
    used = writer.tensor("F.0.forward.output.0.npy", np.arange(3.0))
    assert used == "F.0.forward.output.0.npy"
    writer.flush()
    assert np.load(folder / "dump_tensor_data" / used).tolist() == [0.0, 1.0, 2.0]


def test_the_folder_of_tensors_is_named_where_there_is_one(writer, files, folder):
    writer.tensor("x.npy", np.zeros(1))
    writer.close()
    assert files.dump["dump_data_dir"] == str(folder / "dump_tensor_data")


def test_a_name_that_no_file_can_have_is_changed_and_given_back(writer, folder):
    used = {writer.tensor(name, np.array(len(name))) for name in ("a/b.npy", "a_b.npy", "a\0b.npy", "y" * 300 + ".npy")}
    assert len(used) == 4
    writer.flush()
    assert set(os.listdir(folder / "dump_tensor_data")) == used


def test_bfloat16_is_widened(writer, folder):
    class bfloat16(np.void):
        """numpy has no such type; each framework registers one of its own under this name."""

    bits = np.array([0x3FC0, 0xFF80], dtype=np.uint16).view(np.dtype((bfloat16, "V2")))
    name = writer.tensor("x.npy", bits)
    writer.flush()
    stored = np.load(folder / "dump_tensor_data" / name)
    assert stored.dtype == np.float32
    assert stored.tolist() == [1.5, -np.inf]


def test_spaces_and_chinese_characters(tmp_path):
    folder = tmp_path / "训练 运行" / "step0" / "rank"
    writer = Writer(folder, {**HEADER, "run": {"settings": {"note": "注"}}})
    name = writer.tensor("变量 一.0.debug.npy", np.arange(2))
    writer.call("Cell.层.Dense.forward.0", "Cell.块.Block.forward.0", writer.stack(["文件"]), '{"output":[null]}')
    writer.close()
    assert (folder / "dump_tensor_data" / name).exists()
    text = (folder / "dump.json").read_bytes()
    assert text.isascii()
    assert list(json.loads(text)["data"]) == ["Cell.层.Dense.forward.0"]


def test_a_training_may_change_its_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    writer = Writer(Path("out/step0/rank0"), HEADER)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    writer.tensor("x.npy", np.zeros(1))
    writer.call("A", None, None, '{"output":[]}')
    writer.close()
    written = {path.name for path in (tmp_path / "out/step0/rank0").iterdir()}
    assert written == {"dump.json", "stack.json", "construct.json", "dump_tensor_data"}
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_everything_is_closed_to_others(tmp_path):
    before = os.umask(0)
    try:
        writer = Writer(tmp_path / "step0" / "rank0", HEADER)
        writer.tensor("x.npy", np.zeros(1))
        writer.call("A", None, None, '{"output":[]}')
        writer.assemble()
        modes = {
            path.relative_to(tmp_path).as_posix(): oct(stat.S_IMODE(path.stat().st_mode))
            for path in tmp_path.rglob("*")
        }
        writer.close()
    finally:
        os.umask(before)
    inside = "step0/rank0"
    assert modes == {
        "step0": "0o750",
        inside: "0o750",
        f"{inside}/dump_tensor_data": "0o750",
        f"{inside}/dump_tensor_data/x.npy": "0o640",
        f"{inside}/dump.json": "0o640",
        f"{inside}/stack.json": "0o640",
        f"{inside}/construct.json": "0o640",
        f"{inside}/dump.journal": "0o640",
    }


def test_an_earlier_dump_in_the_folder_is_replaced(folder):
    first = Writer(folder, HEADER)
    first.tensor("old.npy", np.zeros(1))
    first.call("Old", None, None, '{"output":[]}')
    first.close()
    second = Writer(folder, HEADER)
    assert sorted(os.listdir(folder)) == ["dump.journal", "dump_tensor_data"]
    assert os.listdir(folder / "dump_tensor_data") == []
    second.call("New", None, None, '{"output":[]}')
    second.close()
    assert list(json.loads((folder / "dump.json").read_text())["data"]) == ["New"]


def test_an_unfinished_dump_is_replaced_with_a_word(folder, capsys):
    first = Writer(folder, HEADER)
    first.call("Old", None, None, '{"output":[]}')
    del first
    second = Writer(folder, HEADER)
    assert "replacing the unfinished dump" in capsys.readouterr().err
    second.call("New", None, None, '{"output":[]}')
    second.close()
    assert list(json.loads((folder / "dump.json").read_text())["data"]) == ["New"]


def test_two_processes_do_not_write_one_dump(writer, folder):
    with pytest.raises(UsageError, match=r"rank1.*another process.*communication is initialized"):
        Writer(folder, HEADER)
    writer.call("A", None, None, '{"output":[]}')
    writer.close()
    assert list(json.loads((folder / "dump.json").read_text())["data"]) == ["A"]


def test_what_comes_after_the_end_is_refused(writer):
    writer.close()
    writer.close()
    with pytest.raises(UsageError, match="closed"):
        writer.call("A", None, None, None)


def test_calls_from_several_threads_all_arrive_whole(writer, files):
    def collect(thread):
        for i in range(200):
            stack = writer.stack([f"frame {i % 7}"])
            text = {"type": "str", "value": "x" * (i % 50)}
            writer.call(f"F.{thread}.{i}", None, stack, json.dumps({"output": [text]}))

    threads = [threading.Thread(target=collect, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    data = files.dump["data"]
    assert set(data) == {f"F.{thread}.{i}" for thread in range(4) for i in range(200)}
    assert all(len(data[f"F.{thread}.{i}"]["output"][0]["value"]) == i % 50 for thread in range(4) for i in range(200))
    named = {name: frames for names, frames in files.stack.values() for name in names}
    assert all(named[f"F.{thread}.{i}"] == [f"frame {i % 7}"] for thread in range(4) for i in range(200))


FORK = """
import os, sys, threading
import numpy as np
from pathlib import Path
from msprobe.store.writer import Writer
folder = Path(sys.argv[1])
writer = Writer(folder, {"task": "statistics", "level": "mix"})
writer.call("Before", None, writer.stack(["f"]), '{"output":[]}')
writer._lock.acquire()  # as another thread might at the moment of the fork
child = os.fork()
if child == 0:
    writer._lock = None  # whoever waits for it here would wait for ever
    writer.call("Child", None, writer.stack(["g"]), '{"output":[]}')
    writer.missing("Child", "output", "cause")
    print(writer.tensor("child.npy", np.zeros(1)), flush=True)
    writer.assemble()
    writer.close()
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
writer._lock.release()
assert os.listdir(folder) == ["dump.journal"], os.listdir(folder)
writer.call("After", None, writer.stack(["f"]), '{"output":[]}')
writer.close()
"""


def test_a_forked_child_writes_nothing(folder):
    done = subprocess.run([sys.executable, "-c", FORK, folder], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "child.npy\n", "")
    assert list(json.loads((folder / "dump.json").read_text())["data"]) == ["Before", "After"]


words = st.text(st.characters(), max_size=12)
values = st.one_of(
    st.none(),
    st.builds(lambda value: {"type": "float", "value": value}, st.floats()),
    st.builds(lambda value: {"type": "int", "value": value}, st.integers()),
    st.builds(lambda value: {"type": "str", "value": value}, words),
)
trees = st.recursive(values, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3))
entries = st.fixed_dictionaries({}, optional={"input_args": trees, "input_kwargs": trees, "output": trees})


@given(st.lists(st.tuples(words, st.none() | words, st.none() | st.lists(words, max_size=2), entries), max_size=8))
def test_whatever_is_written_stands_in_the_files(tmp_path_factory, lines):
    folder = tmp_path_factory.mktemp("dump")
    writer = Writer(folder, HEADER)
    expected, frames = {}, {}
    for name, parent, stack, entry in lines:
        writer.call(name, parent, None if stack is None else writer.stack(stack), json.dumps(entry))
        expected.setdefault(name, {}).update(entry)
        if stack is not None:
            frames.setdefault(name, stack)
    writer.close()
    # As texts, because a NaN differs from itself.
    assert json.dumps(json.loads((folder / "dump.json").read_text())["data"]) == json.dumps(expected)
    groups = json.loads((folder / "stack.json").read_text())
    assert {name: stack for names, stack in groups.values() for name in names} == frames
    assert list(groups) == [str(i) for i in range(len(groups))]


calls = st.tuples(words, st.none() | words, st.none() | st.lists(words, max_size=2), st.none() | entries)


@given(st.lists(calls | words | st.lists(words, max_size=3).map(tuple), max_size=8), st.booleans())
def test_files_from_memory_are_those_from_the_journal(tmp_path_factory, lines, is_split):
    """`MAX_HELD_BYTES`; calls, what is missing, and orders."""
    made = []
    for kept in (0, writer_module.MAX_HELD_BYTES):
        folder = tmp_path_factory.mktemp("dump")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(writer_module, "MAX_HELD_BYTES", kept)
            writer = Writer(folder, HEADER)
            for place, line in enumerate(lines):
                if isinstance(line, str):
                    writer.missing(line, "output", "lost")
                elif len(line) == 4:
                    name, parent, stack, entry = line
                    number = None if stack is None else writer.stack(stack)
                    writer.call(name, parent, number, None if entry is None else json.dumps(entry))
                else:
                    writer.order(line)
                if is_split and place == 2:
                    writer.assemble()
            assert (writer._kept is None) == (kept == 0 and lines != [])
            writer.close()
        made.append({file.name: file.read_bytes().replace(str(folder).encode(), b"") for file in folder.iterdir()})
    assert made[0] == made[1]


def test_a_journal_whose_descriptor_was_closed_is_opened_again(tmp_path):
    writer = Writer(tmp_path, {"task": "statistics"})
    writer.call("A", None, None, '{"output":[]}')
    os.close(writer._journal.number)
    writer.call("B", None, None, '{"output":[]}')
    writer.close()
    assert list(json.loads((tmp_path / "dump.json").read_text())["data"]) == ["A", "B"]


def test_a_dump_whose_descriptor_was_closed_is_finished(tmp_path):
    writer = Writer(tmp_path, {"task": "statistics"})
    writer.call("A", None, None, '{"output":[]}')
    os.close(writer._journal.number)
    writer.close()
    assert list(json.loads((tmp_path / "dump.json").read_text())["data"]) == ["A"]


def test_nothing_is_written_where_the_journal_was_removed(tmp_path):
    writer = Writer(tmp_path, {"task": "statistics"})
    writer.call("A", None, None, '{"output":[]}')
    (tmp_path / "dump.journal").unlink()
    with pytest.raises(FileNotFoundError):
        writer.assemble()
    assert list(tmp_path.iterdir()) == []


def test_a_descriptor_that_is_somebody_elses_by_now_stays_open(tmp_path):
    writer = Writer(tmp_path / "dump", {"task": "statistics"})
    theirs = writer._journal.number
    with open(tmp_path / "theirs", "wb") as file:
        os.dup2(file.fileno(), theirs)
    writer.close()
    os.write(theirs, b"x")
    os.close(theirs)
    assert (tmp_path / "theirs").read_bytes() == b"x"
