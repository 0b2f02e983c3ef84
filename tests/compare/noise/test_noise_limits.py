"""What calibrated limits make of residuals: figures of outputs made by hand, as in `test_noise_precision.py`."""

import math

import pytest
from test_noise_precision import BF16, FINE, output, places

from msprobe.compare.core.limits import BUILT_IN, KindResidual, Limits, LimitSource
from msprobe.compare.core.noise import FULL, KernelPrecision, Sign, amplification, is_amplified, judge

MATMUL = "matmul"
"""Kinds of these outputs are texts."""


def calibrated(eta, *signs, kind=MATMUL):
    return Limits(LimitSource.CALIBRATED, "noise.json", (KindResidual(kind, "", eta, 4, signs),))


def judged(etas, limits, **more):
    found = judge(places([output(eta, **more) for eta in etas]), limits)
    return [(one.sign, one.is_of, one.source) for one in found]


def test_a_class_that_no_calibration_saw_is_wrong_throughout():
    found = judge(places([output(BF16)] * 4), calibrated(FINE))
    assert {(one.sign, one.is_of) for one in found} == {(Sign.BEYOND_CALIBRATED, KernelPrecision.BRAIN)}
    assert {one.source for one in found} == {LimitSource.CALIBRATED}
    assert {one.bound for one in found} == {FULL}
    assert {one.sign for one in judge(places([output(BF16)] * 4), BUILT_IN)} == {Sign.NONE}


def test_a_coarser_class_than_the_calibrated_one_is_wrong():
    """Half precision was seen, three times of which is 7.2e-4."""
    found = judge(places([output(BF16)] * 4), calibrated(2.4e-4))
    assert {one.sign for one in found} == {Sign.BEYOND_CALIBRATED}
    assert [one.bound for one in found] == [pytest.approx(7.2e-4)] * 4


def test_the_class_that_was_calibrated_is_noise():
    assert judged([BF16] * 4, calibrated(BF16)) == [(Sign.NONE, KernelPrecision.BRAIN, LimitSource.CALIBRATED)] * 4


def test_a_kind_that_was_not_calibrated_is_judged_as_ever():
    assert (
        judged([BF16] * 4, calibrated(FINE, kind="conv2d"))
        == [(Sign.NONE, KernelPrecision.BRAIN, LimitSource.BUILT_IN)] * 4
    )


def test_a_float32_kernel_may_have_three_times_its_calibrated_residual():
    found = judge([output(FINE), output(2.3e-5), output(9e-6)], calibrated(8e-6))
    assert [one.bound for one in found] == [pytest.approx(2.4e-5)] * 3
    assert [one.source for one in found] == [LimitSource.BUILT_IN, LimitSource.CALIBRATED, LimitSource.BUILT_IN]
    assert not any(one.is_wrong for one in found)
    assert judge([output(FINE), output(2.5e-5), output(9e-6)], calibrated(8e-6))[1].is_wrong


def test_what_is_coarser_than_its_kin_is_so_within_a_calibrated_class():
    kin = [output(eta, place=f"layer{n}") for n, eta in enumerate([1.8e-3] * 4)]
    (*_, wrong) = judge([*kin, output(4e-3, place="layer4")], calibrated(BF16))
    assert (wrong.sign, wrong.source) == (Sign.BEYOND_KIN, LimitSource.BUILT_IN)


def test_a_sign_that_the_trusted_run_has_is_none():
    kin = [output(eta, place=f"layer{n}") for n, eta in enumerate([1.8e-3] * 4)]
    (*_, excused) = judge([*kin, output(4e-3, place="layer4")], calibrated(3.5e-3, "BEYOND_KIN"))
    assert (excused.sign, excused.source) == (Sign.NONE, LimitSource.CALIBRATED)
    (*_, other) = judge([*kin, output(4e-3, place="layer4")], calibrated(3.5e-3, "SINGLE_ELEMENTS"))
    assert other.sign is Sign.BEYOND_KIN


def test_what_no_rounding_explains_in_the_trusted_run_either_is_left_to_amplification():
    (found,) = judge([output(0.02)], calibrated(0.01, "ONE_SIDED"))
    assert (found.sign, found.is_of, found.source) == (Sign.NONE, KernelPrecision.OPAQUE, LimitSource.CALIBRATED)
    assert math.isnan(found.bound)
    (found,) = judge([output(0.02)], calibrated(FINE))
    assert found.sign is Sign.ONE_SIDED


def test_a_golden_that_the_reference_does_not_mean_is_opaque_whatever_was_calibrated():
    (found,) = judge([output(0.02, 0.02)], calibrated(FINE))
    assert (found.sign, found.is_of) == (Sign.NONE, KernelPrecision.OPAQUE)


@pytest.mark.parametrize(
    ("output_error", "inputs", "most", "expected"),
    [
        (2e-5, 1e-6, 10, True),
        (2e-5, 1e-6, 30, False),
        (4e-5, 1e-6, 30, True),
        (3e-6, 0.0, 10, True),
        (3e-6, 0.0, 30, False),
    ],
)
def test_how_much_a_call_may_amplify(output_error, inputs, most, expected):
    """One call rounds by 1.2e-6, a tenth of which stands for inputs that are nearer."""
    assert is_amplified(output_error, inputs, 1.2e-6, most) is expected
    found = amplification(output_error, inputs, 1.2e-6)
    assert found == pytest.approx(output_error / max(inputs, 1.2e-7))
    assert (found > most) is expected


@pytest.mark.parametrize("figures", [(1.0, 0.0, 0.0), (math.inf, 1.0, 0.0), (1.0, math.inf, 0.0)])
def test_no_amplification_is_infinite(figures):
    assert not math.isinf(amplification(*figures))
