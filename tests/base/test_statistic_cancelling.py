"""The mean of sums that cancel, against exact rational arithmetic and math.fsum."""

import math
from fractions import Fraction

import numpy as np
import pytest
from exact_statistic import assert_close
from hypothesis import given
from hypothesis import strategies as st

from msprobe.base.statistic import statistic

pytestmark = [pytest.mark.everywhere, pytest.mark.usefixtures("way")]

CANCELLING = {
    "one lost between giants": [1e16, 1.0, -1e16],
    "three floors": [1e300, 1e150, 1.0, 1e-150, -1e300, -1e150],
    "the least float": [1e308, 5e-324, -1e308],
    "sums beyond float64": [1.7e308] * 4 + [-1.7e308] * 3,
    "greatest and least": [1.7e308, 1.7e308, -1.7e308, -1.7e308, 1e-320],
    "to zero": [0.1, 0.2, -0.2, -0.1],
    "thirds": [1 / 3] * 3000 + [-1.0] * 1000,
    "just off zero": [1.0, 2.0**-53, -1.0],
}


@pytest.mark.parametrize("values", CANCELLING.values(), ids=CANCELLING)
def test_the_mean_of_a_cancelling_sum(values):
    assert_close(statistic(np.array(values)).mean, sum(map(Fraction, values)) / len(values))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("size", [31, 4097, 100_003])
@pytest.mark.parametrize("spread", [0, 8, 30, 300])
def test_the_mean_of_pairs_that_cancel_but_for_one_element(dtype, size, spread):
    random = np.random.default_rng(size + spread)
    limit = {"f2": 8, "f4": 60, "f8": 300}[dtype]
    half = random.standard_normal(size // 2) * 2.0 ** random.uniform(-min(spread, limit), min(spread, limit), size // 2)
    half = half.astype(dtype)
    array = np.concatenate([half, -half, np.array([2.0**-10], dtype)])
    random.shuffle(array)
    assert statistic(array).mean == pytest.approx(2.0**-10 / array.size, rel=1e-12, abs=0)


@pytest.mark.parametrize("size", [31, 4097, 200_000])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_the_mean_of_noise_around_zero(size, dtype):
    array = np.random.default_rng(size).standard_normal(size).astype(dtype)
    array -= array.mean(dtype="f8").astype(dtype)
    exact = math.fsum(array.tolist()) / size
    assert statistic(array).mean == pytest.approx(exact, rel=1e-12, abs=0)


@pytest.mark.parametrize("gap", range(20, 34))
def test_float32_sums_at_the_edge_of_what_adds_up_without_error(gap):
    """Eight floats add up exactly in float64 while the least is 2^-26 of the greatest; beyond, all are cut."""
    random = np.random.default_rng(gap)
    great = random.uniform(1, 2, 4096).astype("f4")
    small = (random.uniform(1, 2, 4096) * 2.0**-gap).astype("f4")
    array = np.concatenate([great, small, -great])
    random.shuffle(array)
    assert statistic(array).mean == pytest.approx(math.fsum(small.tolist()) / array.size, rel=1e-12, abs=0)


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30), st.floats(-1, 1), st.randoms()
)
def test_any_list_and_its_negative_leave_what_was_added(values, extra, random):
    values = [*values, *(-value for value in values), extra]
    random.shuffle(values)
    assert_close(statistic(np.array(values)).mean, Fraction(extra) / len(values))
