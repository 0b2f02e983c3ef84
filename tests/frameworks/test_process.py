"""The rank, the number of processes and the tensors of a process that has imported no framework."""

import numpy as np
import pytest

from msprobe.frameworks import process, registry


@pytest.fixture(autouse=True)
def without_frameworks(monkeypatch):
    monkeypatch.setattr(registry, "PACKAGES", {})
    monkeypatch.setattr(registry, "PYTHON_PACKAGES", {})
    for name in ("WORLD_SIZE", "RANK_SIZE", "MS_WORKER_NUM"):
        monkeypatch.delenv(name, raising=False)


def test_without_communication_there_is_no_rank():
    assert process.rank() is None
    assert process.rank("pytorch") is None
    assert process.size() == 1


@pytest.mark.parametrize("variable", ["WORLD_SIZE", "RANK_SIZE", "MS_WORKER_NUM"])
def test_the_launcher_announces_the_number_of_processes(monkeypatch, variable):
    monkeypatch.setenv(variable, "4")
    assert process.size("mindspore") == 4
    monkeypatch.setenv(variable, "many")
    assert process.size("mindspore") == 1


def test_an_array_is_saved_as_it_is():
    array = np.arange(3)
    assert process.of_tensor(array) is None
    assert process.array_to_save(array) is array
    process.settle([array, None, "text"])
