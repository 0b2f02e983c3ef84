"""`store/lock.py`: one process at a time, and nobody holds a journal that is gone."""

import errno
import fcntl
import os

import pytest

from msprobe.store.lock import claim


def test_a_held_journal_is_not_given_again(tmp_path):
    first = claim(tmp_path / "j", create=True)
    assert claim(tmp_path / "j", create=True) is None
    os.close(first)
    second = claim(tmp_path / "j", create=False)
    assert second is not None
    os.close(second)


def test_a_journal_that_is_not_there_is_made_only_if_asked(tmp_path):
    with pytest.raises(FileNotFoundError):
        claim(tmp_path / "j", create=False)
    assert os.listdir(tmp_path) == []


def test_a_journal_that_its_holder_just_removed_is_not_held(tmp_path, monkeypatch):
    path = tmp_path / "j"
    path.write_text("old")
    lock = fcntl.flock

    def remove_first(number, how):
        monkeypatch.setattr(fcntl, "flock", lock)
        path.unlink()
        lock(number, how)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    number = claim(path, create=True)
    assert os.fstat(number).st_ino == path.stat().st_ino
    assert path.read_text() == ""
    os.close(number)


def test_a_file_system_without_locks_is_written_unguarded(tmp_path, monkeypatch):
    def refuse(number, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    number = claim(tmp_path / "j", create=True)
    assert os.write(number, b"x") == 1
    os.close(number)


def test_a_link_in_the_place_of_a_journal_is_not_followed(tmp_path):
    (tmp_path / "j").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic links"):
        claim(tmp_path / "j", create=True)
    assert not (tmp_path / "victim").exists()
