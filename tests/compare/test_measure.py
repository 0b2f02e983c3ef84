"""Measures, against numbers that were worked out by hand or in another way."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from msprobe.compare import measure as module
from msprobe.compare import measure_statistics
from msprobe.compare.judge import judge_measures
from msprobe.compare.measure import is_equal, measure
from msprobe.compare.standard import EXACT, STANDARDS, Standard, canonical, family, standard_of
from msprobe.store.record import Statistics

F32 = STANDARDS["float32"]
NAN, INF = math.nan, math.inf

finite = hnp.arrays(np.float32, st.integers(1, 30), elements=st.floats(-1e6, 1e6, width=32))


def test_integers_of_the_worked_example():
    """[0,1,2,3] against [1,2,3,4]: dot 20, norms sqrt(14) and sqrt(30); every difference is 1."""
    found = measure(np.array([0, 1, 2, 3], np.int32), np.array([1, 2, 3, 4], np.int32), EXACT)
    assert found.cosine == pytest.approx(20 / math.sqrt(14 * 30), rel=1e-15)
    assert round(found.cosine, 4) == 0.9759
    assert (found.euclid, found.max_absolute, found.max_relative) == (2.0, 1.0, 1.0)
    assert (found.within_1e_3, found.within_5e_3) == (0.0, 0.0)
    assert (found.excess, found.beyond) == (INF, 4)


def test_a_scaled_tensor_of_the_worked_example():
    """a against 1.0005 a: relative error 0.0005/1.0005 everywhere, so all are within a thousandth."""
    a = np.linspace(-1.5, 1.5, 16)
    found = measure(a, a * 1.0005, STANDARDS["float64"])
    assert found.cosine == pytest.approx(1, abs=1e-15)
    assert found.max_relative == pytest.approx(0.0005 / 1.0005, rel=1e-9)
    assert found.euclid == pytest.approx(0.0005 * np.linalg.norm(a), rel=1e-9)
    assert (found.within_1e_3, found.within_5e_3) == (1.0, 1.0)


def test_a_shifted_tensor_of_the_worked_example():
    a = np.linspace(-1, 1, 16)
    found = measure(a, a + 5, STANDARDS["float64"])
    assert found.max_absolute == pytest.approx(5)
    assert (found.within_1e_3, found.within_5e_3) == (0.0, 0.0)


def test_a_golden_zero_gets_the_smallest_denominator():
    found = measure(np.array([0.5, 1.0]), np.array([0.0, 1.0]), F32)
    assert found.max_relative == pytest.approx(0.5 / 2.0**-52)
    assert found.within_1e_3 == 0.5


@pytest.mark.parametrize(
    ("target", "golden", "cosine"),
    [
        ([0.0, 0.0], [1.0, 0.0], NAN),
        ([1.0, 0.0], [0.0, 0.0], NAN),
        ([1.0, 0.0], [0.0, 1.0], 0.0),
        ([1, 0], [-2, 0], -1),
    ],
)
def test_cosine_at_its_edges(target, golden, cosine):
    found = measure(np.array(target, float), np.array(golden, float), F32)
    assert found.cosine == pytest.approx(cosine, nan_ok=True)


def test_two_empty_tensors_are_equal():
    found = measure(np.zeros((0, 3)), np.zeros((0, 3)), F32)
    assert (found.equal, found.size, found.cosine, found.max_absolute, found.excess) == (True, 0, 1.0, 0.0, 0.0)


def test_nan_and_infinity_at_the_same_places_count_as_zeros():
    target = np.array([NAN, INF, -INF, 3.0, 4.0], np.float32)
    golden = np.array([NAN, INF, -INF, 3.0, 5.0], np.float32)
    assert measure(target, target.copy(), F32).equal
    found = measure(target, golden, F32)
    assert (found.mismatched, found.max_absolute, found.beyond, found.worst) == (0, 1.0, 1, 4)
    assert found.cosine == pytest.approx(29 / (5 * math.sqrt(34)))


@pytest.mark.parametrize(("t", "g"), [(NAN, 1.0), (1.0, NAN), (INF, -INF), (INF, 1.0), (NAN, INF)])
def test_nan_or_infinity_on_one_side_is_counted_and_placed(t, g):
    found = measure(np.array([[1.0, 2.0], [t, 0]]), np.array([[1.0, 2.0], [g, 0]]), F32)
    assert (found.mismatched, found.beyond, found.worst, found.excess) == (1, 1, 2, INF)
    verdict = judge_measures(found, F32, (2, 2))
    assert verdict.grade == "error"
    assert "NaN or infinity differs in 1 of 4 elements, first at [1, 0]" in verdict.reason


def test_equality_counts_nan_and_signed_zeros_as_equal_and_dtypes_as_different():
    assert is_equal(np.array([NAN, -0.0]), np.array([NAN, 0.0]))
    assert not is_equal(np.array([1], np.int32), np.array([1], np.int64))
    assert not is_equal(np.zeros((1, 2)), np.zeros((2, 1)))
    assert not is_equal(np.array([NAN, 1.0]), np.array([1.0, NAN]))


def test_integers_beyond_what_a_float_holds_are_not_equal():
    found = measure(np.array([1, 2**53 + 1]), np.array([1, 2**53]), EXACT)
    assert (found.equal, found.excess, found.beyond, found.worst) == (False, INF, 1, 1)


def test_booleans_are_measured_as_numbers():
    found = measure(np.array([True, False]), np.array([True, True]), EXACT)
    assert (found.max_absolute, found.euclid, found.excess) == (1.0, 1.0, INF)


def test_complex_numbers_are_their_two_parts():
    found = measure(np.array([1 + 1j, 2]), np.array([1 + 2j, 2]), STANDARDS["complex64"])
    assert (found.max_absolute, found.worst, found.size) == (1.0, 0, 2)
    assert found.cosine == pytest.approx((1 + 2 + 4) / (math.sqrt(6) * 3))


def test_blocks_give_what_one_pass_gives(monkeypatch):
    draw = np.random.default_rng(3)
    target, golden = draw.standard_normal((2, 1000)).astype(np.float32)
    golden[::7] = target[::7]
    whole = measure(target, golden, F32)
    monkeypatch.setattr(module, "BLOCK", 64)
    cut = measure(target, golden, F32)
    assert (cut.max_absolute, cut.max_relative, cut.excess, cut.beyond, cut.worst) == (
        whole.max_absolute,
        whole.max_relative,
        whole.excess,
        whole.beyond,
        whole.worst,
    )
    assert cut.cosine == pytest.approx(whole.cosine, rel=1e-12)
    assert cut.euclid == pytest.approx(whole.euclid, rel=1e-12)
    assert (cut.within_1e_3, cut.within_5e_3) == (whole.within_1e_3, whole.within_5e_3)


@given(finite)
def test_a_tensor_is_equal_to_itself(array):
    found = measure(array, array.copy(), F32)
    assert (found.equal, found.cosine, found.euclid, found.max_relative, found.within_1e_3) == (
        True,
        1.0,
        0.0,
        0.0,
        1.0,
    )


@given(finite, finite)
def test_distances_are_symmetric(a, b):
    n = min(a.size, b.size)
    one, other = measure(a[:n], b[:n], F32), measure(b[:n], a[:n], F32)
    assert (one.euclid, one.max_absolute) == (other.euclid, other.max_absolute)
    assert one.cosine == pytest.approx(other.cosine, nan_ok=True)


@given(finite, finite)
def test_excess_is_the_standard_element_by_element(a, b):
    n = min(a.size, b.size)
    a, b = a[:n], b[:n]
    scale = min(Fraction(1), max(abs(Fraction(float(g))) for g in b))
    outside = 0
    for t, g in zip(a.tolist(), b.tolist(), strict=True):
        allowed = Fraction(F32.absolute) * scale + Fraction(F32.relative) * abs(Fraction(g))
        outside += abs(Fraction(t) - Fraction(g)) > allowed * (1 + Fraction(1, 10**12))
    assert outside <= measure(a, b, F32).beyond


def test_small_gradients_do_not_pass_for_being_small():
    golden = np.array([1e-7, -2e-7, 3e-8], np.float32)
    assert measure(golden * 2, golden, F32).excess > 10
    assert measure(golden * np.float32(1 + 1e-7), golden, F32).excess <= 1


def test_one_huge_element_does_not_excuse_its_neighbours():
    golden = np.array([-1e9, 1.0, 2.0], np.float32)
    target = np.array([-1e9, 1.01, 2.0], np.float32)
    assert measure(target, golden, F32).excess > 10


def statistics_of(array):
    wide = array.astype(np.float64)
    return Statistics(float(wide.max()), float(wide.min()), float(wide.mean()), float(np.sqrt((wide * wide).sum())))


@settings(max_examples=300)
@given(finite, st.sampled_from(list(STANDARDS)), st.randoms(use_true_random=False))
def test_what_passes_on_its_elements_passes_on_its_statistics(golden, dtype, draw):
    standard = STANDARDS[dtype]
    golden = golden.astype(np.float64)
    scale = min(1.0, float(np.abs(golden).max()))
    allowed = standard.absolute * scale + standard.relative * np.abs(golden)
    target = golden + allowed * np.array([draw.uniform(-0.999, 0.999) for _ in golden])
    assert measure(target, golden, standard).excess <= 1
    excess, _ = measure_statistics.excess(statistics_of(target), statistics_of(golden), golden.size, standard)
    assert excess <= 1


@pytest.mark.parametrize(
    ("target", "golden", "expected"),
    [
        ((1.0, 0.0, 0.5, 2.0), (1.0, 0.0, 0.5, 2.0), (0.0, "")),
        ((NAN, NAN, NAN, NAN), (NAN, NAN, NAN, NAN), (0.0, "")),
        ((NAN, 0.0, 0.5, 2.0), (1.0, 0.0, 0.5, 2.0), (INF, "max")),
        ((1.0, 0.0, NAN, 2.0), (1.0, 0.0, 0.5, 2.0), (INF, "mean")),
        ((INF, 0.0, INF, INF), (INF, 0.0, INF, INF), (0.0, "")),
        ((INF, 0.0, 0.5, 2.0), (-INF, 0.0, 0.5, 2.0), (INF, "max")),
        ((True, False, None, None), (True, False, None, None), (0.0, "")),
        ((True, True, None, None), (True, False, None, None), (INF, "min")),
        ((None, None, None, None), (1.0, 1.0, 1.0, 1.0), (INF, "max")),
    ],
)
def test_statistics_at_their_edges(target, golden, expected):
    assert measure_statistics.excess(Statistics(*target), Statistics(*golden), 4, F32) == expected


def test_the_excess_of_a_statistic_by_hand():
    """max 1.5 against 1.0: allowed 1e-5 + 1.3e-6 * 2 (the golden's greatest absolute value is 2)."""
    t, g = Statistics(1.5, -2.0, 0.0, 4.0), Statistics(1.0, -2.0, 0.0, 4.0)
    excess, which = measure_statistics.excess(t, g, 16, F32)
    assert which == "max"
    assert excess == pytest.approx(0.5 / (1e-5 + 1.3e-6 * 2), rel=1e-12)


def test_the_sign_of_a_single_elements_norm_does_not_matter():
    t, g = Statistics(-3.0, -3.0, -3.0, -3.0), Statistics(-3.0, -3.0, -3.0, 3.0)
    assert measure_statistics.excess(t, g, 1, F32) == (0.0, "")
    assert measure_statistics.excess(t, g, 2, F32) == (pytest.approx(6 / (1e-5 * 2**0.5 + 3.9e-6), rel=1e-5), "norm")


def test_dtypes_have_one_name_in_every_framework():
    assert [canonical(d) for d in ("Float32", "torch.float32", "float32", "torch.half")] == ["float32"] * 3 + [
        "float16"
    ]
    assert [family(d) for d in ("Int64", "UInt8", "BFloat16", "Bool", "torch.complex64")] == [
        "int",
        "int",
        "float",
        "bool",
        "complex",
    ]
    assert standard_of("BFloat16") == Standard(1.6e-2, 1e-5)
    assert standard_of("Int32") == EXACT
