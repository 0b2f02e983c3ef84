"""`open_npy`: a large npy is read piece by piece, with the promises of `load_npy`."""

import gc
import os

import numpy as np
import pytest

from msprobe.base.errors import DumpError
from msprobe.store.npy import NpyFile, load_npy, open_npy

LARGE = 100_003


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.npy"


@pytest.mark.parametrize("dtype", ["f4", ">f8", "?", "c8", "u1"])
def test_parts_are_what_the_file_holds(path, dtype):
    array = (np.arange(LARGE) % 251).astype(dtype).reshape(LARGE, 1)
    np.save(path, array)
    file = open_npy(path)
    assert isinstance(file, NpyFile)
    assert (file.shape, file.dtype, file.size) == ((LARGE, 1), np.dtype(dtype), LARGE)
    for start, stop in [(0, 10), (LARGE - 7, LARGE), (5, 60_000), (5, 5), (0, LARGE)]:
        assert np.array_equal(file.part(start, stop), array.reshape(-1)[start:stop])


@pytest.mark.parametrize("array", [np.arange(6.0).reshape(2, 3), np.array(1.5), np.zeros((0, 3)), np.ones(3, ">i2")])
def test_a_small_file_is_an_array(path, array):
    np.save(path, array)
    found = open_npy(path)
    assert isinstance(found, np.ndarray)
    assert (found.dtype, found.tolist()) == (array.dtype, array.tolist())


def test_fortran_order_is_an_array(path):
    array = np.asfortranarray(np.arange(2.0 * LARGE).reshape(2, LARGE))
    np.save(path, array)
    found = open_npy(path)
    assert isinstance(found, np.ndarray)
    assert np.array_equal(found, array)


def test_a_missing_file_is_said(path):
    with pytest.raises(DumpError, match="the tensor is missing"):
        open_npy(path)


@pytest.mark.parametrize("change", [-1, 1, -500_000])
def test_a_file_of_another_length_is_refused(path, change):
    np.save(path, np.zeros(LARGE))
    os.truncate(path, path.stat().st_size + change)
    with pytest.raises(DumpError, match=r"x\.npy.*collect this step again"):
        open_npy(path)


def test_pickles_are_refused(path):
    np.save(path, np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(DumpError, match="not numbers"):
        open_npy(path)


def test_a_file_that_is_cut_while_it_is_read_is_said(path):
    np.save(path, np.ones(LARGE))
    file = open_npy(path)
    assert file.part(0, 10).sum() == 10
    os.truncate(path, 128 + 8 * 50_000)
    assert file.part(49_999, 50_000) == 1
    with pytest.raises(DumpError, match=r"x.npy: was truncated while it was read"):
        file.part(49_999, 50_001)


def test_what_is_read_is_the_file_that_was_opened(path):
    """Another file of its name, written meanwhile by renaming, is another tensor."""
    np.save(path, np.ones(LARGE))
    file = open_npy(path)
    np.save(path.with_name("new.npy"), np.zeros(LARGE))
    os.replace(path.with_name("new.npy"), path)
    assert file.part(0, LARGE).sum() == LARGE
    assert load_npy(path).sum() == 0


def test_the_file_is_closed_with_its_object(path):
    np.save(path, np.ones(LARGE))
    file = open_npy(path)
    links = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    assert links.count(str(path)) == 1
    del file
    gc.collect()
    links = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    assert links.count(str(path)) == 0


def test_a_long_read_may_come_in_pieces(path, monkeypatch):
    array = np.arange(float(LARGE))
    np.save(path, array)
    real = os.preadv
    monkeypatch.setattr(os, "preadv", lambda number, parts, at: real(number, [parts[0][:1000]], at))
    assert np.array_equal(open_npy(path).part(0, LARGE), array)
