"""Single saves on disk: the tree, the numbers in the JSON, names that stay inside, files that are whole."""

import contextlib
import json
import math
import resource
import stat
from pathlib import Path

import numpy as np
import pytest

from msprobe.store.saves.single_saves import Place, stem_of, write

ONE = np.arange(4, dtype=np.float32)


def tree(root):
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())


def described(root, place):
    return json.loads((place.folder(root) / f"{stem_of(place.key)}.json").read_text())["data"]


@contextlib.contextmanager
def no_file_larger_than(size):
    """The kernel refuses to let a file grow further: in the middle of a write, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_value_stands_under_key_step_rank_and_micro_step(tmp_path):
    write(tmp_path, Place("loss", 3, 1, 2), ONE)
    write(tmp_path, Place("loss", 3, 1), ONE)
    at = "data/loss/step3/rank1"
    assert tree(tmp_path) == [
        f"{at}/loss.json",
        f"{at}/loss.npy",
        f"{at}/micro_step2/loss.json",
        f"{at}/micro_step2/loss.npy",
    ]


def test_the_elements_of_a_container_have_a_file_each(tmp_path):
    listed, keyed = Place("l", 0, 0, 0), Place("d", 0, 0, 0)
    write(tmp_path, listed, [ONE, ONE * 2])
    write(tmp_path, keyed, {"a": ONE, "b.c": ONE * 3})
    assert np.array_equal(np.load(listed.folder(tmp_path) / "l.1.npy"), [0, 2, 4, 6])
    assert np.array_equal(np.load(keyed.folder(tmp_path) / "d.b.c.npy"), [0, 3, 6, 9])
    assert [record["max"] for record in described(tmp_path, listed)] == [3.0, 6.0]
    assert {key: record["max"] for key, record in described(tmp_path, keyed).items()} == {"a": 3.0, "b.c": 9.0}


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.array([[3, -4]], np.float32), (3.0, -4.0, -0.5, 5.0)),
        (np.array([1, 2, 4], np.int32), (4.0, 1.0, 7 / 3, math.sqrt(21))),
        (np.array([2**62, -(2**62)], np.int64), (2.0**62, -(2.0**62), 0.0, math.sqrt(2) * 2.0**62)),
        (np.array([2**64 - 1], np.uint64), (2.0**64, 2.0**64, 2.0**64, 2.0**64)),
        (np.array([True, False, True, True]), (1.0, 0.0, 0.75, math.sqrt(3))),
        (np.array([60000, 60000], np.float16), (60000.0, 60000.0, 60000.0, math.sqrt(2) * 60000)),
        (np.array(-2.5), (-2.5, -2.5, -2.5, 2.5)),
        (np.array([3 + 4j], np.complex64), (5.0, 5.0, 5.0, 5.0)),
        (np.array([NAN, 1]), (NAN, NAN, NAN, NAN)),
        (np.array([INF, 1]), (INF, 1.0, INF, INF)),
        (np.array([INF, -INF]), (INF, -INF, NAN, INF)),
        (np.zeros((0, 3), np.float32), (None, None, None, None)),
        (np.zeros(0, bool), (None, None, None, None)),
    ],
    ids=lambda value: f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else None,
)
def test_statistics_are_floats_of_every_dtype(array, expected, tmp_path):
    place = Place("x", 0, 0, 0)
    write(tmp_path, place, array)
    record = described(tmp_path, place)
    found = [record[name] for name in ("max", "min", "mean", "norm")]
    assert all(type(number) in (float, type(None)) for number in found)
    if None in expected:
        assert found == list(expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert list(record) == ["max", "min", "mean", "norm", "shape"]
    assert record["shape"] == list(array.shape)
    stored = np.load(place.folder(tmp_path) / "x.npy")
    assert (stored.dtype, stored.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(stored, array)


def test_what_is_not_finite_is_a_bare_word(tmp_path):
    place = Place("x", 0, 0)
    write(tmp_path, place, np.array([INF, -INF]))
    text = (place.folder(tmp_path) / "x.json").read_text()
    assert '"max": Infinity,' in text
    assert '"min": -Infinity,' in text
    assert '"mean": NaN,' in text


def test_views_are_stored_as_they_look(tmp_path):
    array = np.arange(6, dtype=np.int16).reshape(2, 3).T[::-1]
    place = Place("x", 0, 0)
    write(tmp_path, place, array)
    assert np.array_equal(np.load(place.folder(tmp_path) / "x.npy"), [[2, 5], [1, 4], [0, 3]])


@pytest.mark.parametrize("key", ["../x", "..", ".", "", "/", "a/b", "\0", "../../../x", "k" * 300, "中" * 90, "\ud800"])
def test_no_key_leads_out_of_the_folder_or_to_the_files_of_another(key, tmp_path):
    root = tmp_path / "saved"
    for each in (key, "_", "a_b", ".._x"):
        write(root, Place(each, 0, 0, 0), {"inner": ONE, key: ONE})
    assert [p.name for p in tmp_path.iterdir()] == ["saved"]
    assert [p.name for p in root.iterdir()] == ["data"]
    folders = list((root / "data").iterdir())
    assert len(folders) == 4
    for folder in folders:
        files = [p.name for p in folder.rglob("*") if p.is_file()]
        assert len(files) == 3
        assert all(len(name.encode()) <= 255 for name in files)


def test_keys_that_a_file_system_takes_stay_as_they_are(tmp_path):
    for key in ("a.b", "a b", "你", "_", "x" * 245):
        assert stem_of(key) == key


def test_the_name_of_a_changed_key_is_the_same_in_every_run():
    assert stem_of("a/b") == "a_b.0debd2558bca8fa0"
    assert stem_of("..") == stem_of("..") != stem_of(".")
    assert stem_of("k" * 246) != stem_of("k" * 247)


def test_a_shorter_list_at_the_same_place_leaves_nothing_of_the_longer_one(tmp_path):
    place = Place("x", 0, 0)
    write(tmp_path, place, [ONE, ONE, ONE])
    write(tmp_path, Place("x", 0, 0, 0), ONE)
    write(tmp_path, place, [ONE * 5])
    at = "data/x/step0/rank0"
    assert tree(tmp_path) == [f"{at}/micro_step0/x.json", f"{at}/micro_step0/x.npy", f"{at}/x.0.npy", f"{at}/x.json"]
    assert np.array_equal(np.load(tmp_path / at / "x.0.npy"), ONE * 5)


@pytest.mark.parametrize("limit", [1000, 20], ids=["the second tensor", "the JSON or the first"])
def test_where_the_disk_refuses_the_earlier_value_stays_whole(limit, tmp_path):
    place = Place("x", 0, 0, 0)
    write(tmp_path, place, [ONE, ONE])
    before = {p: (tmp_path / p).read_bytes() for p in tree(tmp_path)}
    with no_file_larger_than(limit), pytest.raises(OSError, match="File too large"):
        write(tmp_path, place, [ONE * 2, np.zeros(1000)])
    assert {p: (tmp_path / p).read_bytes() for p in tree(tmp_path)} == before


def test_leftovers_of_a_killed_process_do_no_harm(tmp_path):
    place = Place("x", 0, 0, 0)
    folder = place.folder(tmp_path)
    folder.mkdir(parents=True)
    for name in ("0.part", "json.part", "json.part.part"):
        (folder / name).write_bytes(b"half of a fi")
    write(tmp_path, place, ONE)
    assert np.array_equal(np.load(folder / "x.npy"), ONE)
    assert described(tmp_path, place)["max"] == 3.0


def test_a_link_in_the_way_is_not_followed(tmp_path):
    place = Place("x", 0, 0, 0)
    folder = place.folder(tmp_path / "saved")
    folder.mkdir(parents=True)
    outside = tmp_path / "precious"
    outside.write_text("precious")
    (folder / "x.npy").symlink_to(outside)
    (folder / "x.json").symlink_to(outside)
    write(tmp_path / "saved", place, ONE)
    assert outside.read_text() == "precious"
    assert not (folder / "x.npy").is_symlink()


def test_folders_and_files_are_not_for_everyone(tmp_path):
    place = Place("x", 0, 0, 0)
    write(tmp_path / "saved", place, ONE)
    folder = place.folder(tmp_path / "saved")
    assert stat.S_IMODE(folder.stat().st_mode) & 0o027 == 0
    assert all(stat.S_IMODE(p.stat().st_mode) & 0o137 == 0 for p in Path(folder).iterdir())
