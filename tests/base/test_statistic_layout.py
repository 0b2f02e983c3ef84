"""The statistic and the memory of its array: any layout, neither changed nor kept, any thread, any way through."""

import gc
import math
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from exact_statistic import (
    FLOATS,
    INTEGERS,
    bits_to,
)
from hypothesis import given
from hypothesis import strategies as st

from msprobe.base import statistic as module
from msprobe.base.statistic import statistic

pytestmark = [pytest.mark.everywhere, pytest.mark.usefixtures("way"), pytest.mark.part(2)]


def layouts(array: np.ndarray) -> dict[str, np.ndarray]:
    """The same elements, lying differently in memory."""
    spaced = np.zeros((*array.shape, 2), array.dtype)
    spaced[..., 0] = array
    shifted = np.frombuffer(b"\0" + array.tobytes(), array.dtype, offset=1).reshape(array.shape)
    locked = array.copy()
    locked.flags.writeable = False
    return {
        "fortran": np.asfortranarray(array),
        "transposed": array.T,
        "strided": spaced[..., 0],
        "backwards": array[::-1, ::-1],
        "other byte order": array.astype(array.dtype.newbyteorder()),
        "unaligned": shifted,
        "read-only": locked,
    }


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i2", "i4", "i8", "u8", "?", "c8"])
def test_the_layout_in_memory_does_not_matter(dtype):
    values = np.random.default_rng(3).integers(0, 100, (70, 90))
    array = (values > 5 if dtype == "?" else values).astype(dtype)
    expected = statistic(array)
    for name, other in layouts(array).items():
        assert np.array_equal(np.sort(other.ravel()), np.sort(array.ravel())), name
        assert statistic(other) == expected, name


def test_a_broadcast_array_counts_each_element():
    array = np.broadcast_to(np.float32([1, 2]), (3, 2))
    assert statistic(array) == (2, 1, 1.5, math.sqrt(15), 0, 0, 0, 0)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "dtype", [*FLOATS.values(), *INTEGERS, np.dtype(bool), np.dtype("c8"), np.dtype(">f4")], ids=str
)
def test_the_argument_is_neither_changed_nor_kept(dtype):
    array = np.frombuffer(bytearray(np.random.default_rng(5).bytes(16_000)), dtype)
    before, count = array.tobytes(), sys.getrefcount(array)
    statistic(array)
    assert array.tobytes() == before
    assert sys.getrefcount(array) == count
    seen = weakref.ref(array)
    del array
    gc.collect()
    assert seen() is None


def test_threads_may_ask_at_once():
    arrays = [np.random.default_rng(seed).standard_normal(300_000).astype("f4") for seed in range(8)]
    alone = [statistic(array) for array in arrays]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(statistic, arrays * 5)) == alone * 5


def test_a_list_is_refused():
    with pytest.raises(AttributeError):
        statistic([1.0, 2.0])


# ---- with and without the kernel


@pytest.mark.parametrize("way", ["avx2", "plain"], indirect=True)
@pytest.mark.parametrize("dtype", [*FLOATS.values(), *INTEGERS], ids=str)
@given(data=st.data())
def test_the_kernel_agrees_with_numpy(way, dtype, data, monkeypatch):
    bits = data.draw(st.lists(st.integers(0, 256**dtype.itemsize - 1), min_size=1, max_size=40))
    array = np.tile(bits_to(dtype, bits), data.draw(st.sampled_from([1, 300])))
    one = statistic(array)
    with monkeypatch.context() as without:
        without.setattr(module, "kernel", None)
        other = statistic(array)
    assert one[4:] == other[4:]
    assert np.array(one[:2]).tobytes() == np.array(other[:2]).tobytes()
    assert one[2:4] == pytest.approx(other[2:4], rel=1e-12, abs=5e-324, nan_ok=True)


def test_without_the_extension_the_module_still_works(without_kernel):
    alone = without_kernel(module, "msprobe.base._statistic")
    assert alone.kernel is None
    assert alone.statistic(np.float32([1, 2, 6])) == (6, 1, 3, math.sqrt(41), 0, 0, 0, 0)
