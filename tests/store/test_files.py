"""`base/files.py`: modes, whole or not at all, names that a file system takes."""

import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.base.files import make_folder, replace_atomically, safe_name


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def no_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def test_every_new_folder_is_closed_to_others(tmp_path, no_umask):
    make_folder(tmp_path / "a" / "b" / "c")
    assert [mode(tmp_path / part) for part in ("a", "a/b", "a/b/c")] == [0o750] * 3


def test_a_folder_that_is_there_keeps_its_mode(tmp_path):
    (tmp_path / "a").mkdir(mode=0o700)
    make_folder(tmp_path / "a")
    assert mode(tmp_path / "a") == 0o700


def test_a_file_in_the_place_of_a_folder_is_refused(tmp_path):
    (tmp_path / "a").write_text("")
    with pytest.raises(FileExistsError):
        make_folder(tmp_path / "a")


def test_a_replaced_file_is_closed_to_others(tmp_path, no_umask):
    with replace_atomically(tmp_path / "f") as file:
        file.write(b"x")
    assert mode(tmp_path / "f") == 0o640


def test_the_old_file_stands_until_the_new_one_is_whole(tmp_path):
    target = tmp_path / "f"
    target.write_text("old")
    with replace_atomically(target) as file:
        file.write(b"new")
        file.flush()
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert os.listdir(tmp_path) == ["f"]


def test_a_failure_leaves_the_old_file_and_no_other(tmp_path):
    target = tmp_path / "f"
    target.write_text("old")
    with pytest.raises(TypeError), replace_atomically(target) as file:
        file.writelines([b"new", "no bytes"])
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["f"]


def test_a_link_in_the_way_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "f").symlink_to(victim)
    with replace_atomically(tmp_path / "f") as file:
        file.write(b"x")
    assert victim.read_text() == "mine"
    assert not (tmp_path / "f").is_symlink()
    assert (tmp_path / "f").read_text() == "x"


def test_plain_names_stay():
    name = "Cell.conv1.Conv2d.forward.0.input.0.npy"
    assert safe_name(name) == name


def test_other_languages_stay():
    assert safe_name("变量.0.debug.npy") == "变量.0.debug.npy"


def test_a_slash_becomes_an_underscore_and_a_digest():
    safe = safe_name("a/b.npy")
    assert safe.startswith("a_b.")
    assert safe.endswith(".npy")
    assert len(safe) == len("a_b.") + 16 + len(".npy")


def test_changed_names_do_not_meet():
    names = ["a/b.npy", "a_b.npy", "a\0b.npy", "a/b", "x" * 300 + ".npy", "x" * 301 + ".npy", "变" * 100 + ".npy"]
    assert len({safe_name(name) for name in names}) == len(names)


@given(st.text(st.characters(), min_size=1, max_size=400))
def test_every_name_becomes_one_component_of_at_most_255_bytes(name):
    safe = safe_name(name + ".npy")
    assert "/" not in safe
    assert "\0" not in safe
    assert safe.endswith(".npy")
    assert len(safe.encode("utf-8")) <= 255
    assert safe == safe_name(name + ".npy")
