"""Measures between statistics, against numbers that were worked out by hand or from the elements."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from msprobe.base.schema import NAMES
from msprobe.compare.core.standard import EXACT, STANDARDS
from msprobe.compare.measure import statistics as measure_statistics
from msprobe.compare.measure.tensors import measure
from msprobe.store.record import Statistics

pytestmark = pytest.mark.everywhere

F32 = STANDARDS["float32"]
NAN, INF = math.nan, math.inf

finite = hnp.arrays(np.float32, st.integers(1, 30), elements=st.floats(-1e6, 1e6, width=32))


def statistics_of(array):
    wide = array.astype(np.float64)
    return Statistics(float(wide.max()), float(wide.min()), float(wide.mean()), float(np.sqrt((wide * wide).sum())))


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


# float32 holds integers up to 2^24; the nearest to 2^24 + 1 is 2^24, to 2^63 - 1 it is 2^63.
@pytest.mark.parametrize(("exact", "cast"), [(2**24 + 1, 2.0**24), (2**63 - 1, 2.0**63), (-(2**31) + 1, -(2.0**31))])
def test_an_extreme_that_the_other_writer_cast_to_float32_is_the_same(exact, cast):
    ours, theirs = Statistics(exact, exact, 1.0, 1.0), Statistics(cast, cast, 1.0, 1.0)
    for sides in ((ours, theirs), (theirs, ours)):
        assert measure_statistics.excess(*sides, 4, EXACT, same_rounding=False) == (0.0, "")
        assert measure_statistics.excess(*sides, 4, EXACT) == (INF, "max")


def test_another_integer_is_no_cast():
    ours, theirs = Statistics(2**24 + 3, 0, 1.0, 1.0), Statistics(2.0**24, 0.0, 1.0, 1.0)
    assert measure_statistics.excess(ours, theirs, 4, EXACT, same_rounding=False) == (INF, "max")


numbers = st.floats() | st.integers(-(2**63), 2**64 - 1) | st.booleans() | st.none()
statistics = st.builds(Statistics, numbers, numbers, numbers, numbers, st.none() | st.integers(0, 9))


@given(
    st.lists(st.tuples(statistics, statistics), min_size=1, max_size=6), st.sampled_from(list(STANDARDS)), st.booleans()
)
def test_a_pair_among_others_is_measured_as_alone(pairs, dtype, same_rounding):
    sizes, standard = [3 * at for at in range(len(pairs))], STANDARDS[dtype]
    together = measure_statistics.excesses_of(pairs, sizes, [standard] * len(pairs), same_rounding)
    alone = [
        measure_statistics.excess(*pair, size, standard, same_rounding) for pair, size in zip(pairs, sizes, strict=True)
    ]
    assert together == alone


@given(st.lists(st.tuples(*[st.floats()] * 8), min_size=1, max_size=6), st.sampled_from(list(STANDARDS)), st.booleans())
def test_floats_are_measured_the_same_as_columns_and_as_objects(rows, dtype, same_rounding):
    table, standard = np.array(rows, np.float64).T, STANDARDS[dtype]
    size, of_rows = np.full(len(rows), 5.0), np.ones(len(rows))
    limits = standard.absolute * of_rows, standard.relative * of_rows
    worst, which = measure_statistics.excesses(table[:4], table[4:], size, *limits, same_rounding)
    pairs = [(Statistics(*row[:4]), Statistics(*row[4:])) for row in rows]
    found = measure_statistics.excesses_of(pairs, [5] * len(rows), [standard] * len(rows), same_rounding)
    assert [number for number, _ in found] == worst.tolist()
    names = [NAMES[at] if number else "" for number, at in zip(worst.tolist(), which.tolist(), strict=True)]
    assert [name for _, name in found] == names


def test_integers_beyond_the_digits_of_a_float_are_told_apart():
    target, golden = Statistics(2**63, 0, 1.0, 1.0), Statistics(2**63 - 1, 0, 1.0, 1.0)
    assert float(target.max) == float(golden.max)
    assert measure_statistics.excess(target, golden, 2, EXACT) == (INF, "max")
