"""Whether an array is finite, against numpy's own isfinite, by each way through: the C pass and the numpy passes."""

import numpy as np
import pytest
from exact_statistic import FLOATS, INTEGERS, SIZES, bits_to, round_to
from hypothesis import given
from hypothesis import strategies as st

from msprobe.base.finite import is_finite
from msprobe.base.statistic import widen

pytestmark = [pytest.mark.everywhere, pytest.mark.usefixtures("way")]


@pytest.mark.parametrize("dtype", FLOATS.values(), ids=FLOATS)
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_one_element_decides_wherever_it_stands(dtype, odd):
    for size in SIZES:
        for place in {0, size // 2, size - 1} if size else ():
            values = np.random.default_rng(size).standard_normal(size)
            assert is_finite(round_to(dtype, values))
            values[place] = odd
            assert not is_finite(round_to(dtype, values)), (size, place)


@pytest.mark.parametrize("dtype", FLOATS.values(), ids=FLOATS)
@given(data=st.data())
def test_any_bits_are_judged_as_numpy_does(dtype, data):
    width = np.dtype(dtype).itemsize * 8
    bits = data.draw(st.lists(st.integers(0, 2**width - 1), max_size=70))
    array = bits_to(dtype, bits)
    with np.errstate(invalid="ignore"):  # a NaN that signals is a NaN as well
        expected = bool(np.isfinite(widen(array).astype(np.float64)).all())
    assert is_finite(array) == expected


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_finite(dtype):
    assert is_finite(np.array([np.iinfo(dtype).max, np.iinfo(dtype).min], dtype))


@pytest.mark.parametrize(
    "array",
    [np.array([True]), np.array(["nan"]), np.array([], np.float32), np.array(["2020"], "M8[D]"), np.array([None])],
    ids=["bool", "text", "empty", "date", "object"],
)
def test_what_is_no_float_is_finite(array):
    assert is_finite(array)


def layouts(array):
    return {
        "transposed": array.transpose(2, 0, 1),
        "fortran": np.asfortranarray(array),
        "strided": array[:, ::2],
        "backwards": array[::-1, :, ::-1],
        "swapped": array.astype(array.dtype.newbyteorder()),
        "broadcast": np.broadcast_to(array[:1], array.shape),
        "unaligned": np.frombuffer(b"x" + array.tobytes(), np.uint8)[1:].view(array.dtype).reshape(array.shape),
    }


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("name", layouts(np.zeros((2, 2, 2))))
def test_every_layout_is_read(name, dtype):
    array = np.random.default_rng(1).standard_normal((4, 6, 5)).astype(dtype)
    assert is_finite(layouts(array)[name])
    array[0, 4, 4] = np.nan  # stands in every one of them
    assert not is_finite(layouts(array)[name])


@pytest.mark.parametrize("part", [1j * np.inf, np.nan, complex(0, np.nan)])
def test_both_parts_of_complex_numbers_count(part):
    array = np.ones(9, np.complex64)
    assert is_finite(array)
    array[3] = part
    assert not is_finite(array)


def test_a_scalar_is_an_array_of_one():
    assert is_finite(np.array(1.0))
    assert not is_finite(np.array(np.nan))
