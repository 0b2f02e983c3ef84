"""Where the temporary files of the tests lie."""

import shutil
from types import SimpleNamespace

import memory_folder
import pytest


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """`folder(free, available)`: the chosen folder, if it and the memory have so many GiB left."""

    def chosen(free, available):
        monkeypatch.setattr(memory_folder, "FOLDER", tmp_path)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free << 30))
        monkeypatch.setattr(memory_folder, "available", lambda: available << 30)
        return memory_folder.folder()

    return chosen


def test_it_is_in_memory_where_there_is_enough(folder, tmp_path):
    assert folder(free=8, available=8) == str(tmp_path)


@pytest.mark.parametrize(("free", "available"), [(7, 20), (20, 7), (0, 0)])
def test_it_is_not_where_memory_is_short(folder, free, available):
    assert folder(free, available) == ""


def test_a_system_without_it_has_none(folder, monkeypatch, tmp_path):
    folder(20, 20)
    monkeypatch.setattr(memory_folder, "FOLDER", tmp_path / "absent")
    assert memory_folder.folder() == ""
