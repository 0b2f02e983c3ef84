"""The statistics of floats, against exact rational arithmetic and math.fsum.

Every promise of a statistic is held by each way through: the C passes for each instruction set, and the numpy passes.
"""

import math

import numpy as np
import pytest
from exact_statistic import BFLOAT16, FLOATS, SIZES, assert_float_statistic, bits_to, round_to, values_of
from hypothesis import given
from hypothesis import strategies as st

from msprobe.base.statistic import statistic

pytestmark = [pytest.mark.everywhere, pytest.mark.usefixtures("way")]


@pytest.mark.parametrize("dtype", FLOATS.values(), ids=FLOATS)
@given(data=st.data())
def test_any_bits_give_the_exact_statistic(dtype, data):
    bits = data.draw(st.lists(st.integers(0, 256**dtype.itemsize - 1), min_size=1, max_size=80))
    array = bits_to(dtype, bits)
    assert_float_statistic(statistic(array), values_of(array))


@pytest.mark.parametrize("dtype", FLOATS.values(), ids=FLOATS)
@given(data=st.data(), times=st.integers(1, 60))
def test_finite_elements_of_any_magnitude_give_the_exact_statistic(dtype, data, times):
    width = {BFLOAT16: 16}.get(dtype, 8 * dtype.itemsize)
    if dtype == BFLOAT16:
        bits = data.draw(st.lists(st.integers(0, 0x7F7F) | st.integers(0x8000, 0xFF7F), min_size=1, max_size=20))
        array = bits_to(dtype, bits)
    else:
        finite = st.floats(allow_nan=False, allow_infinity=False, width=width)
        array = np.array(data.draw(st.lists(finite, min_size=1, max_size=20)), dtype)
    array = np.tile(array, times)
    assert_float_statistic(statistic(array), values_of(array))


@pytest.mark.parametrize("dtype", FLOATS.values(), ids=FLOATS)
def test_every_size_gives_the_exact_statistic(dtype):
    for size in SIZES:
        array = round_to(dtype, np.random.default_rng(size).standard_normal(size))
        values = values_of(array)
        found = statistic(array)
        assert (found.max, found.min) == (max(values), min(values)), size
        assert found.mean == pytest.approx(math.fsum(values) / size, rel=1e-12, abs=0), size
        assert found.norm == pytest.approx(math.sqrt(math.fsum(v * v for v in values)), rel=1e-12, abs=0), size
        assert found[4:] == (0, 0, 0, 0), size


@pytest.mark.parametrize("dtype", FLOATS.values(), ids=FLOATS)
@pytest.mark.parametrize("size", [1, 2, 3, 16, 33, 70])
@pytest.mark.parametrize("odd", [math.nan, -math.nan, math.inf, -math.inf], ids=["nan", "-nan", "inf", "-inf"])
def test_one_element_that_is_not_finite_is_found_wherever_it_stands(dtype, size, odd):
    for at in range(size):
        values = np.linspace(-2, 3, size)
        values[at] = odd
        array = round_to(dtype, values)
        assert_float_statistic(statistic(array), values_of(array))


@pytest.mark.parametrize("dtype", FLOATS.values(), ids=FLOATS)
def test_elements_that_are_not_finite_are_counted_in_every_block(dtype):
    values = np.random.default_rng(0).standard_normal(200_000)
    values[[5, 70_000, 199_999]] = math.inf
    values[[0, 4096, 131_072, 131_073]] = -math.inf
    found = statistic(round_to(dtype, values))
    assert found[:1] + found[1:2] + found[3:] == (math.inf, -math.inf, math.inf, 0, 3, 4, 0)
    assert math.isnan(found.mean)
    values[[6, 90_000]] = math.nan
    assert statistic(round_to(dtype, values))[4:] == (2, 3, 4, 0)


@pytest.mark.parametrize("size", [1, 40, 5000])
def test_nothing_but_nan_or_one_infinity(size):
    for dtype in FLOATS.values():
        for odd in (math.nan, math.inf, -math.inf):
            array = round_to(dtype, np.full(size, odd))
            assert_float_statistic(statistic(array), values_of(array))


def test_the_greatest_finite_element_beside_minus_infinity():
    assert statistic(np.float32([-math.inf, -7, -2])).max == -2.0
    assert statistic(np.float64([3, math.inf, 9])).min == 3.0


@pytest.mark.parametrize("dtype", FLOATS.values(), ids=FLOATS)
def test_zeros_have_no_sign(dtype):
    for values in ([-0.0], [0.0], [-0.0, 0.0], [0.0, -0.0], [-0.0] * 100, [0.0] * 5000):
        found = statistic(round_to(dtype, np.array(values)))
        assert [math.copysign(1, number) for number in found[:4]] == [1, 1, 1, 1]
        assert found == (0, 0, 0, 0, 0, 0, 0, 0)


# ---- at the ends of float64


@pytest.mark.parametrize(
    ("values", "norm"),
    [
        ([3e300, 4e300], 5e300),
        ([1e300] * 10_000, 1e302),
        ([3e155, 4e155], 5e155),
        ([3e-160, 4e-160], 5e-160),
        ([3e-200, -4e-200], 5e-200),
        ([3e-310, 4e-310], 5e-310),
        ([5e-324], 5e-324),
        ([1e200, 1e-200], 1e200),
        ([1.7e308, 1.7e308], math.inf),
    ],
)
def test_the_norm_where_squares_leave_float64(values, norm):
    assert statistic(np.array(values)).norm == pytest.approx(norm, rel=1e-12, abs=1e-323)


def test_subnormal_elements_count():
    assert statistic(np.array([5e-324, 5e-324, 1e-323])) == (1e-323, 5e-324, 5e-324, 1e-323, 0, 0, 0, 0)
    least = float(np.float32(1e-45))
    assert statistic(np.full(100, 1e-45, "f4")) == (least, least, least, 10 * least, 0, 0, 0, 0)
    least = 2.0**-24
    assert statistic(np.full(100, least, "f2")) == (least, least, least, 10 * least, 0, 0, 0, 0)
