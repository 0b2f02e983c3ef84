"""Errors between two frameworks as shares of a tensor's scale: every number worked out by hand."""

import math

import pytest

from msprobe.compare.core.measures import Measures
from msprobe.compare.core.standard import ACROSS, STANDARDS, allowed_across
from msprobe.compare.judge.cross_framework import combined, errors_by_elements, errors_by_statistics, judge_errors
from msprobe.compare.judge.verdict import Cause, judge_value, judge_value_across
from msprobe.compare.measure.tensors import measure
from msprobe.store.record import Record, Statistics


def record(shape=(4,), dtype="Float32", statistics=None, **more):
    return Record("x", "output", ("0",), "tensor", "t", dtype, shape, statistics, **more)


def value(argument, kind="value", type_name="int"):
    return Record("x", "input", ("1",), kind, type_name, value=argument)


def by_statistics(t, g, dtype="Float32", shape=(4,)):
    t, g = Statistics(*t), Statistics(*g)
    return errors_by_statistics(t, g, record(shape, dtype, t), record(shape, "torch.float32", g))


def by_elements(t, g):
    np = pytest.importorskip("numpy", reason="elements are arrays")
    t, g = np.float32(t), np.float32(g)
    wide = g.astype(np.float64)
    statistics = Statistics(float(wide.max()), float(wide.min()), float(wide.mean()), float(np.sqrt((wide**2).sum())))
    found = measure(t, g, STANDARDS["float32"], "torch.float32")
    return errors_by_elements(found, record(t.shape), record(g.shape, "torch.float32", statistics))


class TestStatistics:
    def test_the_norm_counts_by_the_root_mean_square(self):
        # norm 4 over 4 elements: rms 2; the norms differ by 1e-3, so the spread is 0.5e-3 / 2.
        found = by_statistics((3.0, -3.0, 0.0, 4.001), (3.0, -3.0, 0.0, 4.0))
        assert found.fine == pytest.approx(2.5e-4)
        assert judge_errors(found).grade == "warning"

    def test_the_mean_is_held_against_the_scale_and_not_against_itself(self):
        found = by_statistics((3.0, -3.0, 1e-7, 4.0), (3.0, -3.0, 2e-7, 4.0))
        assert found.worst == pytest.approx(1e-7 / 2)
        assert judge_errors(found)

    def test_extremes_are_held_against_the_greatest_element(self):
        found = by_statistics((3.0, -1.0, 0.0, 4.0), (3.0, -1.0003, 0.0, 4.0))
        assert found.worst == pytest.approx(1e-4)
        assert found.fine == 0

    def test_a_mask_does_not_excuse_its_neighbors(self):
        # A scale counts up to 1000: 0.5 of that is half a thousandth.
        found = by_statistics((5.5, -1e9, -5e8, 1.4e9), (5.0, -1e9, -5e8, 1.4e9))
        assert found.worst == pytest.approx(5e-4)
        assert judge_errors(found).grade == "warning"

    def test_what_is_great_without_a_mask_is_held_against_itself(self):
        assert by_statistics((2e6 + 20, 1e6, 1.5e6, 3e6), (2e6, 1e6, 1.5e6, 3e6)).worst == pytest.approx(1e-5)

    @pytest.mark.parametrize("place", range(4))
    def test_nan_on_one_side_is_an_error(self, place):
        wrong = [3.0, -3.0, 0.0, 4.0]
        wrong[place] = math.nan
        found = by_statistics(wrong, (3.0, -3.0, 0.0, 4.0))
        assert found.worst == math.inf
        assert judge_errors(found).grade == "error"
        assert ("max", "min", "mean", "norm")[place] in judge_errors(found).reason

    def test_nan_and_infinity_on_both_sides_are_equal(self):
        both = (math.inf, -math.inf, math.nan, math.inf)
        assert judge_errors(by_statistics(both, both))

    def test_zeros_are_equal_and_zero_against_something_is_not(self):
        assert judge_errors(by_statistics((0.0,) * 4, (0.0,) * 4))
        assert judge_errors(by_statistics((1e-3, 0.0, 0.0, 1e-3), (0.0,) * 4)).grade == "error"

    def test_integers_are_not_excused_by_rounding(self):
        assert by_statistics((3.0, 0.0, 1.0, 4.0), (3.0, 0.0, 1.0, 4.0), dtype="Int32") is None

    def test_of_two_widths_the_goldens_counts_or_where_it_is_a_custom_the_coarser(self):
        assert allowed_across("BFloat16", "torch.float32") == ACROSS["float32"]
        assert allowed_across("BFloat16", "torch.float32", custom=True) == ACROSS["bfloat16"]
        assert allowed_across("Float32", "torch.bfloat16", custom=True) == ACROSS["bfloat16"]
        assert allowed_across("Int64", "torch.float32") is None


class TestElements:
    def test_the_spread_is_the_root_mean_square_of_the_differences(self):
        # Differences 3 and 4 times 2 ** -13 over elements 1: rms sqrt(25 / 2) * 2 ** -13.
        found = by_elements([1 + 3 * 2.0**-13, 1 + 4 * 2.0**-13], [1.0, 1.0])
        assert found.fine == pytest.approx(math.sqrt(12.5) * 2.0**-13)
        assert found.worst == pytest.approx(4 * 2.0**-13)

    def test_a_small_element_is_held_against_the_scale_of_the_tensor(self):
        assert judge_errors(by_elements([1.0, 2e-5], [1.0, 1e-5]))

    def test_beside_a_mask_an_element_is_held_against_a_thousand(self):
        assert judge_errors(by_elements([-1e9, 1.25], [-1e9, 1.0])).grade == "warning"
        assert judge_errors(by_elements([-1e9, 1.03125], [-1e9, 1.0]))

    def test_nan_is_an_error(self):
        assert judge_errors(by_elements([math.nan, 1.0], [1.0, 1.0])).grade == "error"

    def test_nothing_is_said_of_empty_tensors(self):
        nothing = Measures(0, True, 0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0, -1)
        assert errors_by_elements(nothing, record((0,)), record((0,), "torch.float32")) is None


def test_parts_make_up_the_statistics_of_the_whole():
    parts = [
        record((2,), statistics=Statistics(4.0, 3.0, 3.5, 5.0)),
        record((1,), statistics=Statistics(12.0, 12.0, 12.0, 12.0)),
    ]
    assert combined(parts) == Statistics(12.0, 3.0, 19 / 3, 13.0)  # 3, 4 and 12: the norm is 13
    assert combined([*parts, record((1,), statistics=None)]) is None


class TestValues:
    @pytest.mark.parametrize(
        ("ms", "pt"),
        [
            (1, 1.0),
            (True, 1),
            ([1, 2], (1, 2)),
            (math.nan, math.nan),
            ("Float32", "torch.float32"),
            ("mindspore.float16", "torch.half"),
        ],
    )
    def test_what_means_the_same_passes(self, ms, pt):
        assert judge_value_across(value(ms), value(pt))

    @pytest.mark.parametrize(
        ("ms", "pt"), [(1e-6, 1e-5), ([1, 2], [1, 3]), ("none", "tanh"), ("Float32", "torch.float16")]
    )
    def test_what_does_not_is_an_error_with_both_values(self, ms, pt):
        verdict = judge_value_across(value(ms), value(pt))
        assert verdict.grade == "error"
        assert repr(ms) in verdict.reason

    def test_a_number_is_what_a_tensor_of_one_element_holds(self):
        tensor = record((), statistics=Statistics(0.5, 0.5, 0.5, 0.5))
        assert judge_value_across(tensor, value(0.5))
        assert judge_value_across(value(0.5), tensor)
        assert judge_value_across(value(0.25), tensor).grade == "error"
        assert judge_value_across(value(0.5), record((2,), statistics=Statistics(0.5, 0.5, 0.5, 0.7)))
        assert judge_value_across(value(0.5), record((2,), statistics=Statistics(0.5, 0.2, 0.35, 0.5))).grade == "error"

    def test_nothing_is_not_zero(self):
        assert judge_value_across(value(None, kind="null"), value(0)).grade == "error"

    def test_an_operation_of_a_reduction_is_compared_where_both_sides_record_it(self):
        operation, unknown = value("avg", type_name="reduction"), value(None, kind="null")
        assert judge_value_across(value("avg", type_name="str"), operation)
        assert judge_value_across(value("sum", type_name="str"), operation).grade == "error"
        for pair in ((operation, unknown), (unknown, operation)):
            for judge in (judge_value, judge_value_across):
                assert judge(*pair).grade == "unjudged"
                assert judge(*pair).cause is Cause.NOT_COLLECTED
