"""Measures by hand, and what is decided by them. Needs neither framework."""

import numpy as np
import pytest

from msprobe.precheck.judge import Reason, Status, by_name, judged
from msprobe.precheck.measures import as_dtype, measures_of
from msprobe.precheck.standards import LIMITS, STANDARDS, Criterion
from msprobe.replay.operations import OPERATIONS


def test_measures_are_those_of_the_formulas(references):
    output, golden = np.float32([1, 2, 4.5]), np.float64([1, 2, 4])
    found = measures_of(output, references("exp", output, golden).outputs[0], "float32")
    assert found.size == 3
    assert found.unequal == pytest.approx(1 / 3)
    assert found.cosine == pytest.approx((1 + 4 + 18) / ((1 + 4 + 20.25) ** 0.5 * 21**0.5))
    assert (found.max_absolute, found.max_relative) == (0.5, 0.125)
    assert found.max_ulp == 0.5 * 2 ** (23 - 2)  # of 4, whose exponent is 2
    assert found.mean_ulp == found.max_ulp / 3
    assert found.ulp_far == found.ulp_near == pytest.approx(1 / 3)
    assert found.shares == pytest.approx((2 / 3, 2 / 3, 2 / 3))
    assert found.rmse == pytest.approx((0.25 / 3) ** 0.5)
    assert found.balance == pytest.approx(1 / 3)
    assert found.drift == pytest.approx(0.5 * 4 / 21)
    assert found.place == 2


def test_small_values_are_measured_absolutely(references):
    golden = np.float64([1.0, 2.0**-21])
    output = np.float32([1.0, 2.0**-21 + 2.0**-29])
    found = measures_of(output, references("mul", output, golden).outputs[0], "float32")
    assert (found.relative_violations, found.small_violations) == (0.0, 0.5)


@pytest.mark.parametrize(
    ("value", "rounded"),
    [(1 + 2**-8, 1.0), (1 + 3 * 2**-8, 1 + 2**-6), (1 + 2**-8 + 2**-20, 1 + 2**-7), (np.inf, np.inf), (-0.0, -0.0)],
)
def test_bfloat16_is_rounded_to_nearest_even(value, rounded):
    assert as_dtype(np.float64([value]), "bfloat16") == [rounded]


def test_an_output_of_another_shape_is_wrong(references):
    of = references("add", np.zeros((2, 3), np.float32), np.zeros((3, 2)))
    judgement, _ = judged(of, of.outputs[0])
    assert (judgement.status, judgement.criterion, judgement.reason) == (Status.ERROR, Criterion.SHAPE, Reason.SHAPE)


def bit(y):
    return np.nextafter(np.float32(y), np.float32(9))


CASES = {
    "rounding": ("mul", lambda y: y, Status.PASS, Criterion.ABSOLUTE, Reason.WITHIN),
    "one element": ("mul", lambda y: np.where(y == y[5], y * 1.001, y), Status.ERROR, Criterion.BOUND, Reason.ALL),
    "scaled a little": ("mul", lambda y: y * (1 + 1.1e-6), Status.ERROR, Criterion.BIAS, Reason.SCALED),
    "shifted a little": ("exp", lambda y: y + 4e-6, Status.ERROR, Criterion.BIAS, Reason.SHIFTED),
    "NaN": ("mul", lambda y: np.where(y == y[5], np.nan, y), Status.ERROR, Criterion.FINITE, Reason.NON_FINITE),
    "one bit of a copy": ("relu", lambda y: bit(y), Status.PASS, Criterion.BOUND, Reason.EXPLAINED),
}


@pytest.mark.parametrize("case", CASES)
def test_the_first_criterion_that_decides_is_named(case, references):
    operation, change, *expected = CASES[case]
    golden = np.random.default_rng(1).uniform(1, 2, 400) * np.resize([1, -1], 400)
    of = references(operation, np.asarray(change(golden), np.float32), golden)
    judgement, _ = judged(of, of.outputs[0])
    assert [judgement.status, judgement.criterion, judgement.reason] == expected


def test_data_that_is_moved_has_to_be_equal(references):
    golden = np.float64([1, 2, 3])
    for output, status in ((golden, Status.PASS), (np.nextafter(np.float32(golden), 9), Status.ERROR)):
        of = references("reshape", np.float32(output), golden, moves_data=True)
        judgement, _ = judged(of, of.outputs[0])
        assert (judgement.status, judgement.criterion) == (status, Criterion.BINARY)


def test_inputs_that_cancel_explain_what_a_named_standard_would_call_wrong(references):
    # a - b = 1e-6 of operands of about 1: an error of 1e-7 is a tenth of the result, and one rounding of an operand
    golden = np.full(64, 2e-6)
    output = np.float32(golden + 1e-7 * np.resize([1, -1], 64))
    of = references("sub", output, golden, sensitivity=np.full(64, 2**0.5))
    judgement, _ = judged(of, of.outputs[0])
    assert (judgement.status, judgement.reason) == (Status.PASS, Reason.EXPLAINED)


def test_a_half_precision_sum_is_held_to_sums_in_float32(references):
    # sums in float16 of 256 products err by about 4 units in the last place of S, a rounded float32 sum by less than 1
    rng = np.random.default_rng(2)
    golden, unit = rng.standard_normal(500) * 16, 2.0**-11
    s = np.full(500, 2**0.5 * 16.0)
    for size, status in ((0.3, Status.PASS), (4.0, Status.ERROR)):
        output = np.float16(golden + rng.standard_normal(500) * size * unit * s)
        of = references("matmul", output, golden, s, terms=256.0)
        assert judged(of, of.outputs[0])[0].status is status


def test_the_bound_grows_with_the_number_of_terms(references):
    golden = np.full(40, 3.0)
    output = np.float32(golden + 3e-5 * np.resize([1, -1], 40))
    for terms, status in ((4.0, Status.ERROR), (1e7, Status.PASS)):
        of = references("sum", output, golden, terms=terms)
        assert judged(of, of.outputs[0])[0].status is status


def test_equal_elements_everywhere_are_no_bias(references):
    # one value that comes 400 times has one rounding error 400 times
    golden = np.full(400, 0.1)
    of = references("mul", np.float16(golden), golden)
    assert judged(of, of.outputs[0])[0].status is Status.PASS


def test_truncated_half_precision_is_biased(references):
    golden = np.random.default_rng(3).uniform(1, 2, 4000)
    bits = (np.float32(golden).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    for output, status in ((as_dtype(golden, "bfloat16"), Status.PASS), (bits, Status.ERROR)):
        of = references("mul", np.float32(output), golden, dtype="bfloat16")
        judgement, _ = judged(of, of.outputs[0])
        assert judgement.status is status
    assert judgement.criterion is Criterion.BIAS


def test_every_operation_of_a_standard_is_one():
    missing = {name for name in STANDARDS if name not in OPERATIONS}
    assert missing == {"chain_matmul"}, "of the specification, and not replayed"


def test_units_are_those_of_the_formats():
    for name in ("float16", "float32", "float64"):
        info = np.finfo(name)
        limits = LIMITS[name]
        assert (limits.unit, limits.mantissa, limits.min_exponent) == (info.eps / 2, info.nmant, info.minexp)


@pytest.mark.parametrize(
    ("off", "reason"),
    [
        (lambda b, sign: b * 2.0**-13 * sign, Reason.WITHIN),
        (lambda b, sign: b * 2.0**-10 * sign, Reason.RELATIVE),
        (lambda b, sign: 2.0**-13, Reason.BALANCE),
    ],
)
def test_sums_are_held_to_the_accumulative_standard(references, off, reason):
    golden = np.linspace(0.5, 4, 64)
    output = (golden + off(golden, np.where(np.arange(64) % 2, 1, -1))).astype(np.float32)
    measures = measures_of(output, references("sum", output, golden).outputs[0], "float32")
    found = by_name(measures, OPERATIONS["sum"], "float32")
    assert (found.criterion, found.reason) == (Criterion.ACCUMULATIVE, reason)
