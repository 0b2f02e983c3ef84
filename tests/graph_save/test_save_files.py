"""The files of `save` and their index, without any graph."""

import os
import threading
from contextlib import suppress

import numpy as np
import pytest
from mindspore import Tensor

from msprobe.graph_save.tree import SaveTree
from msprobe.mindspore import flush, save, step

pytestmark = pytest.mark.mindspore

ONE = Tensor([1.0])


@pytest.mark.parametrize("name", ["a/b", "../up", "層", "a b.c", "x" * 300, "n\nl", ".", "a\0b", "{step}%s", "a\\b"])
def test_any_name_is_one_file_in_its_folder_and_stands_in_the_index_as_it_is(name, saved):
    save(str(saved.folder), name, ONE)
    (record,) = saved.records()
    assert record["name"] == name
    assert saved.array(record).tolist() == [1.0]
    assert saved.files() == sorted(["step0/rank0/saves.jsonl", f"step0/rank0/{record['data_name']}"])
    assert len(record["data_name"].encode()) <= 255


@pytest.mark.parametrize("ending", ["", "/", "//"])
def test_the_folder_may_end_in_separators(ending, saved):
    save(f"{saved.folder}{ending}", "x", ONE)
    assert saved.files() == ["step0/rank0/saves.jsonl", "step0/rank0/x_float32_0.npy"]


def test_spellings_of_one_folder_share_its_index(saved, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("saved", "saved/", "./saved", str(saved.folder)):
        save(folder, "x", ONE)
    assert [r["id"] for r in saved.records()] == [0, 1, 2, 3]
    assert [r["count"] for r in saved.records()][:2] == [0, 1]


def test_two_folders_share_the_ids_and_count_on_their_own(saved):
    for folder in ("a", "b", "a"):
        save(str(saved.folder / folder), "x", ONE)
    assert saved.files() == sorted(
        [f"{f}/step0/rank0/saves.jsonl" for f in "ab"]
        + [f"{f}/step0/rank0/x_float32_{i}.npy" for f, i in (("a", 0), ("b", 1), ("a", 2))]
    )
    saved.folder /= "a"
    assert [(r["count"], r["id"]) for r in saved.records()] == [(0, 0), (1, 2)]


def test_of_two_processes_in_one_folder_neither_removes_what_the_other_saves(saved, logged):
    trees = SaveTree(), SaveTree()  # each holds the index as a process does
    for name in ("first", "second"):
        for number, tree in enumerate(trees):
            tree.save(str(saved.folder), f"{name}{number}", np.full(1, number, np.float32), "Float32", 0, 0)
    for tree in trees:
        tree.step()
    assert len(saved.files()) == 1 + 4
    assert {record["name"]: saved.array(record).tolist() for record in saved.records()} == {
        **{"first0": [0], "second0": [0], "first1": [1], "second1": [1]}
    }
    (line,) = logged()
    assert "step0/rank0: another process also saves here" in line


def test_a_folder_that_cannot_be_written_is_said_once_and_the_training_goes_on(saved, logged, tmp_path):
    (tmp_path / "file").touch()
    for _ in range(3):
        save(str(tmp_path / "file"), "x", ONE)
    (line,) = logged()
    assert line.startswith("msprobe WARNING: save: x could not be saved: NotADirectoryError")
    assert line.endswith("; the training continues")
    save(str(saved.folder), "x", ONE)
    assert len(saved.records()) == 1


def test_a_file_that_the_disk_refuses_is_said_once_and_the_others_are_written(saved, logged, tmp_path):
    (saved.folder / "step0" / "rank0" / "x_float32_1.npy").mkdir(parents=True)
    for _ in range(3):
        save(str(saved.folder), "x", ONE)
    flush()
    (line,) = logged()
    assert "x_float32_1.npy: cannot be written" in line
    assert [saved.array(saved.records()[i]).tolist() for i in (0, 2)] == [[1.0], [1.0]]


def test_an_index_whose_descriptor_was_closed_is_opened_again(saved, logged):
    saved.tree.save(f"{saved.folder}/", "a", np.ones(2), "Float32", 0, 0)
    saved.tree.save(str(saved.folder), "b", np.ones(2), "Float32", 0, 0)
    for number in filter(_leads_to_the_index, os.listdir("/proc/self/fd")):
        os.close(int(number))
    for folder in (f"{saved.folder}/", str(saved.folder)):
        saved.tree.save(folder, "c", np.ones(2), "Float32", 0, 0)
    assert logged() == []
    assert [record["name"] for record in saved.records()] == ["a", "b", "c", "c"]
    saved.tree.step()
    assert not any(map(_leads_to_the_index, os.listdir("/proc/self/fd")))


def _leads_to_the_index(number):
    with suppress(OSError):  # of the listing itself
        return os.readlink(f"/proc/self/fd/{number}").endswith("saves.jsonl")
    return False


def test_threads_share_the_ids(saved):
    def work(number):
        for value in range(50):
            save(str(saved.folder), f"t{number}", Tensor([float(value)]))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    records = saved.records()
    assert [r["id"] for r in records] == list(range(200))
    assert all(saved.array(r).tolist() == [float(r["count"])] for r in records)


def test_a_forked_child_writes_nothing(saved):
    save(str(saved.folder), "parent", ONE)
    flush()
    child = os.fork()
    if not child:
        saved.tree.save(str(saved.folder), "child", np.zeros(1), "Float64", 0, 0)
        saved.tree.complete()
        os._exit(saved.tree.may_have_pending())
    assert os.waitpid(child, 0)[1] == 0
    assert [r["name"] for r in saved.records()] == ["parent"]


def test_a_step_without_saves_leaves_no_folder(saved):
    step()
    save(str(saved.folder), "x", ONE)
    assert saved.files() == ["step1/rank0/saves.jsonl", "step1/rank0/x_float32_0.npy"]


def test_the_rank_is_what_the_environment_says_before_the_framework_knows(saved, monkeypatch):
    monkeypatch.setenv("RANK_ID", "3")
    save(str(saved.folder), "x", ONE)
    assert saved.files() == ["step0/rank3/saves.jsonl", "step0/rank3/x_float32_0.npy"]
