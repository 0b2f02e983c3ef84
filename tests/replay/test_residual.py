"""The residual's figures against numbers worked out by hand; no framework is needed."""

import numpy as np
import pytest

from msprobe.replay.residual import EQUAL, UNEQUAL, compared, measured

INF, NAN = float("inf"), float("nan")


def figures(output, reference, sensitivity, dtype="float64"):
    return measured(*(np.array(each, np.float64) for each in (output, reference, sensitivity)), dtype)


def test_eta_is_the_root_mean_square_and_peak_the_greatest_of_r_over_s():
    # r = 3, -4; z = 3/1, 4/2: eta = sqrt((9 + 4) / 2)
    found = figures([4.0, -2.0], [1.0, 2.0], [1.0, 2.0])
    assert found.eta == pytest.approx(6.5**0.5)
    assert found.peak == pytest.approx(3.0)


def test_s_is_at_least_a_twentieth_of_its_root_mean_square():
    # rms S = 1 of (0, sqrt 2): z of the first is 1e-3 / 0.05
    found = figures([1e-3, 5.0], [0.0, 5.0], [0.0, 2.0**0.5])
    assert found.peak == pytest.approx(0.02)
    assert found.eta == pytest.approx(0.02 / 2**0.5)


def test_a_constant_error_is_all_bias_and_an_alternating_one_has_none():
    reference = [1.0, 2.0, 3.0, 4.0]
    assert figures(np.add(reference, 0.5), reference, np.ones(4)).bias == pytest.approx(1.0)
    assert figures(np.add(reference, [0.5, -0.5, 0.5, -0.5]), reference, np.ones(4)).bias == pytest.approx(0.0)


def test_a_scaled_output_is_all_slope():
    reference = np.array([1.0, -2.0, 3.0, -1.0])
    found = figures(reference * 1.001, reference, np.abs(reference))
    assert found.slope == pytest.approx(1.0)
    assert found.relative == pytest.approx(1e-3)
    assert found.eta == pytest.approx(1e-3)
    # r = (1, 1, 0, 0) * 0.1: bias (0.2^2 / 4) / 0.02 = 0.5; slope (0.1 - 0.2)^2 / (15 * 0.02) = 1 / 30
    found = figures(np.add(reference, [0.1, 0.1, 0.0, 0.0]), reference, np.ones(4))
    assert found.bias == pytest.approx(0.5)
    assert found.slope == pytest.approx(1 / 30)


def test_infinities_and_nan_in_the_same_places_agree():
    assert figures([INF, -INF, NAN, 1.0], [INF, -INF, NAN, 1.0], [INF, INF, NAN, 1.0]) == EQUAL
    found = figures([INF, 1.5], [INF, 1.0], [NAN, 1.0])
    assert found.eta == pytest.approx(0.5)


@pytest.mark.parametrize(("output", "reference"), [(INF, 1.0), (NAN, 1.0), (1.0, NAN), (INF, -INF), (1.0, INF)])
def test_one_element_that_is_not_finite_on_one_side_is_infinitely_far(output, reference):
    assert figures([output, 1.0], [reference, 1.0], [1.0, 1.0]) == UNEQUAL


def test_a_reference_beyond_the_range_of_the_dtype_is_an_infinity_there():
    assert figures([INF, 1.0], [7e4, 1.0], [7e4, 1.0], "float16") == EQUAL
    assert figures([INF, 1.0], [7e4, 1.0], [7e4, 1.0], "float32") == UNEQUAL


def test_what_underflow_leaves_is_no_residual():
    assert figures([0.0], [1e-39], [1e-39], "float32") == EQUAL
    assert figures([0.0], [1e-39], [1e-39], "float64").eta == pytest.approx(1.0)


def test_nothing_to_compare_and_zero_sensitivity():
    assert figures([], [], []) == EQUAL
    assert figures([0.0], [0.0], [0.0]) == EQUAL
    assert figures([1.0], [0.0], [0.0]).eta == INF
    assert figures([1.0], [0.0], [0.0]).relative == INF


def test_integers_are_equal_or_not():
    assert compared(np.array([1, 2]), np.array([1, 2])) == EQUAL
    assert compared(np.array([1, 2]), np.array([1, 3])) == UNEQUAL


def test_a_mask_that_was_added_hides_nothing():
    sensitivity = np.array([1.0, 1.0, 1e9, 1e9])
    found = figures([1.01, 1.0, -1e9, -1e9], [1.0, 1.0, -1e9, -1e9], sensitivity)
    assert found.peak == pytest.approx(0.01)
