"""The statistics of integers, bools, complex numbers and what is no number, against exact arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest
from exact_statistic import FLOATS, INTEGERS, SIZES, assert_close, assert_finite_statistic
from hypothesis import given
from hypothesis import strategies as st

from msprobe.base.statistic import Statistic, statistic

pytestmark = [pytest.mark.everywhere, pytest.mark.usefixtures("way")]

NONE = Statistic(None, None, None, None, 0, 0, 0, 0)


def assert_integer_statistic(found: Statistic, values: list[int]) -> None:
    assert [type(number) for number in found] == [int, int, float, float, int, int, int, int]
    assert_finite_statistic(found, values)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@given(data=st.data(), times=st.integers(1, 50))
def test_any_integers_give_the_exact_statistic(dtype, data, times):
    limits = np.iinfo(dtype)
    values = data.draw(st.lists(st.integers(int(limits.min), int(limits.max)), min_size=1, max_size=80)) * times
    assert_integer_statistic(statistic(np.array(values, dtype)), values)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_of_every_size(dtype):
    limits = np.iinfo(dtype)
    for size in SIZES:
        array = np.random.default_rng(size).integers(limits.min, limits.max, size, dtype, endpoint=True)
        values = array.tolist()
        found = statistic(array)
        assert (found.max, found.min) == (max(values), min(values)), size
        assert_close(found.mean, Fraction(sum(values), size))
        assert found.norm == pytest.approx(math.sqrt(sum(value * value for value in values)), rel=1e-12, abs=0), size


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("size", [1, 100, 100_000])
def test_integer_extremes(dtype, size):
    limits = np.iinfo(dtype)
    for value in (int(limits.min), int(limits.max)):
        found = statistic(np.full(size, value, dtype))
        assert (found.max, found.min) == (value, value)
        assert_close(found.mean, Fraction(value))
        assert found.norm == pytest.approx(abs(value) * math.sqrt(size), rel=1e-12, abs=0)


def test_int64_sums_beyond_float64():
    values = [2**62, 2**62, 2**62, 3, -(2**62), -(2**62), -(2**62)]
    assert statistic(np.array(values)).mean == 3 / 7
    assert statistic(np.array([2**63 - 1, -(2**63)])).mean == -0.5
    assert statistic(np.array([2**53 + 1, 2**53 + 3])).max == 2**53 + 3
    assert statistic(np.array([2**64 - 1, 1], np.uint64))[:3] == (2**64 - 1, 1, 2.0**63)


@pytest.mark.parametrize(
    ("values", "any_", "all_"),
    [([True], True, True), ([False], False, False), ([False, True], True, False), ([True, False], True, False)],
)
@pytest.mark.parametrize("times", [1, 20, 100_000])
def test_bool_is_any_and_all(values, any_, all_, times):
    found = statistic(np.array(values * times))
    assert found == (any_, all_, None, None, 0, 0, 0, values.count(True) * times)
    assert found.max is any_
    assert found.min is all_


def test_one_bool_in_many():
    for odd in (0, 50_000, 99_999):
        array = np.zeros(100_000, bool)
        array[odd] = True
        assert statistic(array)[:2] == (True, False)
        assert statistic(~array)[:2] == (True, False)


# ---- complex and others


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_complex_is_of_the_absolute_values(dtype):
    random = np.random.default_rng(1)
    array = (random.standard_normal(1001) + 1j * random.standard_normal(1001)).astype(dtype)
    values = np.abs(array).tolist()
    found = statistic(array)
    assert (found.max, found.min) == (max(values), min(values))
    assert found.mean == pytest.approx(math.fsum(values) / 1001, rel=1e-12, abs=0)
    assert found.norm == pytest.approx(math.sqrt(math.fsum(v * v for v in values)), rel=1e-12, abs=0)
    assert statistic(np.array([3 + 4j, 0, complex(math.nan, 1)], dtype)).nan_count == 1
    assert statistic(np.array(3 - 4j, dtype)) == (5, 5, 5, 5, 0, 0, 0, 0)


def test_an_empty_array_has_no_statistic():
    for dtype in [*FLOATS.values(), *INTEGERS, np.dtype(bool), np.dtype("c8")]:
        assert statistic(np.empty((0, 3), dtype)) == NONE


@pytest.mark.parametrize(
    "array", [np.array(["a"]), np.array([None]), np.array(["2020-01-01"], "M8[D]"), np.zeros(2, "i4,f4")]
)
def test_what_is_no_number_has_no_statistic(array):
    assert statistic(array) == NONE


def test_wider_floats_are_rounded_to_float64():
    assert statistic(np.array([1, 2, 6], np.longdouble)) == (6.0, 1.0, 3.0, math.sqrt(41), 0, 0, 0, 0)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i8", "u8"])
def test_a_zero_dimensional_array_is_its_value(dtype):
    value = 7 if dtype == "u8" else -7
    found = statistic(np.array(value, dtype))
    assert found == (value, value, value, 7, 0, 0, 0, 0)
    assert type(found.max) is (float if dtype[0] == "f" else int)


def test_a_zero_dimensional_bool():
    assert statistic(np.array(True)) == (True, True, None, None, 0, 0, 0, 1)
