"""`store/npy.py`: what is written is what numpy would read, what is read is what was promised."""

import io
import os
import stat
import subprocess
import sys

import numpy as np
import pytest

from msprobe.base.errors import DumpError
from msprobe.store.npy import examine, load_npy, write_npy

ARRAYS = {
    "matrix": np.arange(12, dtype=np.float32).reshape(3, 4),
    "transposed": np.arange(12, dtype=np.float64).reshape(3, 4).T,
    "every second": np.arange(20, dtype=np.int16)[::2],
    "backwards": np.arange(5, dtype=np.int64)[::-1],
    "scalar": np.array(-0.0, dtype=np.float16),
    "empty": np.zeros((3, 0, 2), dtype=np.uint8),
    "bool": np.array([True, False]),
    "complex": np.array([1 + 2j, complex("nan")], dtype=np.complex64),
    "big endian": np.arange(3, dtype=">f8"),
    "not finite": np.array([np.nan, np.inf, -np.inf, -0.0]),
}


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
def test_numpy_reads_what_was_written(tmp_path, array):
    path = tmp_path / "x.npy"
    write_npy(str(path), array)
    read = np.load(path, allow_pickle=False)
    assert (read.dtype, read.shape) == (array.dtype, array.shape)
    assert read.tobytes() == np.asarray(array, order="C").tobytes()


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
def test_the_reader_gives_the_same_bits(tmp_path, array):
    path = tmp_path / "x.npy"
    write_npy(str(path), array)
    read = load_npy(path)
    assert (read.dtype, read.shape) == (array.dtype, array.shape)
    assert read.tobytes() == np.asarray(array, order="C").tobytes()
    assert examine(path).shape == array.shape


def test_the_file_is_the_one_that_numpy_writes(tmp_path):
    array = ARRAYS["matrix"]
    write_npy(str(tmp_path / "x.npy"), array)
    expected = io.BytesIO()
    np.save(expected, array)
    assert (tmp_path / "x.npy").read_bytes() == expected.getvalue()


def test_fortran_order_of_foreign_files_is_read(tmp_path):
    array = np.asfortranarray(ARRAYS["matrix"])
    np.save(tmp_path / "x.npy", array)
    assert np.array_equal(load_npy(tmp_path / "x.npy"), array)


def test_version_2_of_the_format_is_read(tmp_path):
    with open(tmp_path / "x.npy", "wb") as file:
        np.lib.format.write_array(file, ARRAYS["matrix"], version=(2, 0))
    assert np.array_equal(load_npy(tmp_path / "x.npy"), ARRAYS["matrix"])


def test_files_are_closed_to_others(tmp_path):
    write_npy(str(tmp_path / "x.npy"), ARRAYS["matrix"])
    assert stat.S_IMODE((tmp_path / "x.npy").stat().st_mode) & 0o137 == 0


def test_a_second_tensor_of_one_name_replaces_the_first(tmp_path):
    path = tmp_path / "x.npy"
    write_npy(str(path), ARRAYS["matrix"])
    write_npy(str(path), ARRAYS["bool"])
    assert np.array_equal(load_npy(path), ARRAYS["bool"])
    assert os.listdir(tmp_path) == ["x.npy"]


@pytest.mark.parametrize("dtype", ["O", "U3", "S3", "M8[s]", "f4,i4"])
def test_what_is_no_number_is_not_written(tmp_path, dtype):
    with pytest.raises(DumpError, match=r"x\.npy.*cannot be stored as a tensor"):
        write_npy(str(tmp_path / "x.npy"), np.zeros(2, dtype=dtype))
    assert os.listdir(tmp_path) == []


def test_a_write_that_comes_in_pieces_is_continued(tmp_path, monkeypatch):
    array = np.arange(1000, dtype=np.int64)
    real_writev, real_write = os.writev, os.write
    monkeypatch.setattr(os, "writev", lambda fd, parts: real_write(fd, parts[0][:5]))
    monkeypatch.setattr(os, "write", lambda fd, data: real_write(fd, bytes(data[:333])))
    write_npy(str(tmp_path / "a.npy"), array)
    monkeypatch.setattr(os, "writev", lambda fd, parts: real_writev(fd, [parts[0], parts[1][:7]]))
    write_npy(str(tmp_path / "b.npy"), array)
    assert np.array_equal(np.load(tmp_path / "a.npy"), array)
    assert np.array_equal(np.load(tmp_path / "b.npy"), array)


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(DumpError, match=r"x\.npy: the tensor is missing"):
        load_npy(tmp_path / "x.npy")


@pytest.mark.parametrize("keep", [0, 5, 9, 64, 127, 128, 175])
def test_a_file_cut_anywhere_is_refused(tmp_path, keep):
    path = tmp_path / "x.npy"
    write_npy(str(path), ARRAYS["matrix"])
    assert path.stat().st_size == 176
    os.truncate(path, keep)
    with pytest.raises(DumpError, match=r"x\.npy.*collect this step again"):
        load_npy(path)
    with pytest.raises(DumpError):
        examine(path)


def test_bytes_after_the_end_are_refused(tmp_path):
    path = tmp_path / "x.npy"
    write_npy(str(path), ARRAYS["matrix"])
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(DumpError, match="contains 177 bytes, but its header requires 176"):
        load_npy(path)


def test_the_reading_rooms_need_no_framework():
    code = "import sys, msprobe.doctor, msprobe.store.writer; print({'mindspore', 'torch'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
