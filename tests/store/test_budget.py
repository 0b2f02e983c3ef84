"""`store/writer.py` and what a writer leaves out: the budget is used up, or a path is too long."""

import json
import os
import threading

import numpy as np
import pytest

from msprobe.store.reader import read
from msprobe.store.writer import Budget, Writer

HEADER = {"task": "tensor", "level": "mix", "framework": "mindspore"}


@pytest.fixture(autouse=True)
def nothing_said_yet(monkeypatch):
    monkeypatch.setattr("msprobe.base.log._logged", set())


def collect(writer, numbers, size=1000):
    """Collect calls with one tensor each, as a collector does; the names of the files."""
    names = []
    for i in numbers:
        name = writer.tensor(f"F.{i}.forward.output.0.npy", np.full(size, i, np.float32))
        leaf = {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [size], "Max": float(i)}
        writer.call(
            f"F.{i}.forward", None, None, json.dumps({"output": [{**leaf, **({"data_name": name} if name else {})}]})
        )
        names.append(name)
    return names


def test_what_is_taken_is_gone():
    budget = Budget(10)
    assert [budget.take(size) for size in (4, 7, 6, 0, 1)] == [True, False, True, True, False]


def test_threads_take_no_more_than_there_is():
    budget = Budget(1000)
    taken = []
    threads = [threading.Thread(target=lambda: taken.extend(budget.take(3) for _ in range(200))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(taken) == 333


def test_over_the_budget_statistics_go_on_and_the_dump_says_so_once(folder, capsys):
    writer = Writer(folder, HEADER, budget=Budget(3 * 4128))  # an npy of 1000 float32 has 128 + 4000 bytes
    assert [bool(name) for name in collect(writer, range(6))] == [True] * 3 + [False] * 3
    writer.close()
    tensors = folder / "dump_tensor_data"
    assert sum(path.stat().st_size for path in tensors.iterdir()) == 3 * 4128
    dump = read(folder)
    assert [call.records[0].statistics.max for call in dump.calls] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    (cause,) = dump.missing
    assert cause.startswith("step tensors: the disk budget of 12384 bytes is used up; increase disk_budget")
    assert "F.3.forward.output.0.npy" in cause
    assert capsys.readouterr().err.count("disk budget") == 1


def test_dumps_share_a_budget_and_each_says_that_it_is_used_up(tmp_path, capsys):
    budget = Budget(5 * 4128)
    saved = []
    for step in range(3):
        writer = Writer(tmp_path / f"step{step}" / "rank", HEADER, budget=budget)
        saved.append(sum(map(bool, collect(writer, range(4)))))
        writer.close()
    assert saved == [4, 1, 0]
    assert [len(read(tmp_path / f"step{step}").missing) for step in range(3)] == [0, 1, 1]
    assert capsys.readouterr().err.count("disk budget") == 1


def test_bfloat16_counts_as_it_is_stored(folder):
    class bfloat16(np.void):
        """numpy has no such type; each framework registers one of its own under this name."""

    array = np.zeros(1000, np.uint16).view(np.dtype((bfloat16, "V2")))
    writer = Writer(folder, HEADER, budget=Budget(4127))
    assert writer.tensor("x.npy", array) == ""
    writer.close()


def test_a_path_that_is_too_long_is_a_loss_and_no_error(tmp_path, capsys):
    folder = tmp_path
    while len(os.fsencode(folder)) < 4000:
        folder = folder / ("层" * min(60, (4002 - len(os.fsencode(folder))) // 3 or 1))
    writer = Writer(folder, HEADER)
    short = writer.tensor("x.npy", np.zeros(1))
    assert short == "x.npy"
    assert collect(writer, range(3), 2)[0] != ""
    assert [writer.tensor(f"{'y' * 100}.{i}.npy", np.zeros(1)) for i in range(3)] == ["", "", ""]
    writer.close()
    dump = read(folder)
    assert len(dump.calls) == 3
    (cause,) = dump.missing
    assert cause.startswith("step tensors: the path of a tensor exceeds the limit of the file system; choose a shorter")
    assert capsys.readouterr().err.count("the limit of the file system") == 1


def test_the_longest_path_is_written(tmp_path):
    folder = tmp_path / "a"
    while len(os.fsencode(folder)) < 3900:
        folder = folder / ("b" * min(200, 3900 - len(os.fsencode(folder))))
    writer = Writer(folder, HEADER)
    length = 4095 - len(os.fsencode(folder / "dump_tensor_data")) - 1
    assert writer.tensor("c" * (length - 4) + ".npy", np.zeros(1))
    assert writer.tensor("c" * (length - 3) + ".npy", np.zeros(1)) == ""
    writer.close()
    assert [len(name) for name in os.listdir(folder / "dump_tensor_data")] == [length]


def test_a_tensor_of_the_longest_name_is_replaced_too(writer, folder):
    name = "y" * 251 + ".npy"
    for i in range(2):
        assert writer.tensor(name, np.array(i)) == name
        writer.flush()
    assert os.listdir(folder / "dump_tensor_data") == [name]
    assert np.load(folder / "dump_tensor_data" / name) == 1
    assert writer._async_writer.failed == {}
