"""Which residuals are noise: figures of outputs made by hand, judged among their kin."""

import math

import pytest

from msprobe.compare.core.noise import FULL, LOWEST, KernelPrecision, Output, Sign, class_of, is_amplified, judge
from msprobe.replay.recorded import Residual

FINE, BF16 = 2e-7, 1.8e-3
"""Residuals of a float32 kernel, and of one that rounds to bfloat16 inside."""


def output(
    target, golden=FINE, *, kind="matmul", place="", count=1024, moves_data=False, is_sure=True, rounds=True, **more
):
    """A pair of outputs with these etas; `more` are figures of the target. Noise has peaks of three etas."""
    figures = {"peak": 3 * target, "bias": 0.0, "slope": 0.0, "relative": target, **more}
    ours = Residual("output", ("0",), count, target, **figures)
    theirs = Residual("output", ("0",), count, golden, 3 * golden, 0.0, 0.0, golden)
    return Output(kind, place, moves_data, ours, theirs, is_sure, rounds_inside=rounds)


def places(outputs):
    """The same outputs, each at a place of its own."""
    return [output(o.target.eta, place=f"layer{n}", count=o.count) for n, o in enumerate(outputs)]


def signs(outputs):
    return [judgement.sign for judgement in judge(outputs)]


@pytest.mark.parametrize(
    ("eta", "expected"),
    [
        (0.0, KernelPrecision.EXACT),
        (FINE, KernelPrecision.FULL),
        (FULL, KernelPrecision.FULL),
        (2.4e-4, KernelPrecision.HALF),
        (BF16, KernelPrecision.BRAIN),
        (LOWEST, KernelPrecision.BRAIN),
        (0.1, KernelPrecision.OPAQUE),
    ],
)
def test_a_residual_has_the_class_of_its_size(eta, expected):
    assert class_of(eta) is expected


def test_a_float32_kernel_is_explained_up_to_a_fixed_bound():
    for found in judge([output(0.0), output(FINE), output(9e-6)]):
        assert found.sign is Sign.NONE
        assert not found.is_wrong
        assert found.bound == FULL


def test_a_golden_that_is_coarser_raises_the_bound_of_its_kind_alone():
    found = judge([output(5e-4, 2e-4), output(FINE, 2e-4), output(FINE, kind="softmax")])
    assert [one.sign for one in found] == [Sign.NONE] * 3
    assert [one.bound for one in found] == [pytest.approx(6e-4), pytest.approx(6e-4), FULL]


def test_a_kind_that_is_coarser_throughout_is_a_precision_class():
    found = judge(places([output(eta) for eta in (1.7e-3, 1.8e-3, 1.9e-3, 2.0e-3, 2.1e-3)]))
    assert {(one.sign, one.is_of) for one in found} == {(Sign.NONE, KernelPrecision.BRAIN)}
    # (1.6 + 4 / sqrt(1024)) times the median 1.9e-3
    assert [one.bound for one in found] == [pytest.approx(1.725 * 1.9e-3)] * 5


def test_beyond_any_rounding_on_one_side():
    assert signs([output(0.02), output(FINE)]) == [Sign.ONE_SIDED, Sign.NONE]


def test_coarser_than_the_same_call_of_other_layers():
    found = [output(BF16, place="blocks.#.fc"), *(output(FINE, place="blocks.#.fc") for _ in range(3))]
    assert signs(found) == [Sign.COARSER_THAN_OTHER_LAYERS] + [Sign.NONE] * 3
    half = [output(eta, place="blocks.#.fc") for eta in (BF16, FINE, FINE, BF16, BF16)]
    assert signs(half)[0] is Sign.COARSER_THAN_OTHER_LAYERS, "half of the others are finer"


def test_the_only_call_of_its_kind_that_is_coarse():
    assert signs(places([output(BF16), output(FINE), output(FINE)])) == [Sign.ALONE_IN_CLASS, Sign.NONE, Sign.NONE]


def test_the_only_call_of_a_kind_belongs_to_the_class_of_other_kinds():
    """The one convolution of a network whose matrix products are coarse, too."""
    products = places([output(BF16), output(BF16)])
    assert signs([output(BF16, kind="conv2d"), *products]) == [Sign.NONE] * 3
    assert signs([output(BF16, kind="conv2d")]) == [Sign.ALONE_IN_CLASS]


def test_beyond_the_spread_of_a_class():
    found = places([output(BF16) for _ in range(6)] + [output(5e-3)])
    assert signs(found) == [Sign.NONE] * 6 + [Sign.BEYOND_KIN]
    # Few elements spread further: 1.6 + 4 / sqrt(4) = 3.6 times the median.
    few = places([output(BF16, count=4) for _ in range(6)] + [output(5e-3, count=4)])
    assert signs(few) == [Sign.NONE] * 7


@pytest.mark.parametrize(("eta", "peak"), [(1e-6, 2e-4), (BF16, 16 * BF16)])
def test_single_elements_that_no_rounding_reaches(eta, peak):
    company = [output(BF16, place=f"layer{n}") for n in range(3)]
    assert signs([output(eta, peak=peak, place="other"), *company])[0] is Sign.SINGLE_ELEMENTS
    assert signs([output(eta, peak=14 * eta, place="other"), *company])[0] is Sign.NONE


@pytest.mark.parametrize("figure", ["bias", "slope"])
def test_a_common_factor_or_offset_stands_out_below_the_bound(figure):
    assert signs([output(5e-6, **{figure: 0.9})]) == [Sign.SYSTEMATIC]
    assert signs([output(5e-6, **{figure: 0.75})]) == [Sign.NONE]
    assert signs([output(5e-6, count=9, **{figure: 0.9})]) == [Sign.NONE], "of nine elements noise has it by chance"
    assert signs([output(5.5e-7, **{figure: 0.9})]) == [Sign.NONE], "near the golden side's own"


def test_a_class_most_of_which_has_a_common_factor_is_no_precision():
    """A wrong constant in all calls of a kind: rounding has no factor."""
    outputs = [output(BF16, place=f"layer{n}", slope=0.9 if n < 3 else 0.0) for n in range(5)]
    assert signs(outputs) == [Sign.SYSTEMATIC] * 5
    assert signs([output(BF16, place=f"layer{n}", slope=0.9, count=9) for n in range(5)]) == [Sign.NONE] * 5


def test_a_class_is_coarser_throughout():
    """As many calls of the kind in float32 as coarse ones: these are no class."""
    assert signs(places([output(BF16)] * 2 + [output(FINE)] * 2)) == [Sign.ALONE_IN_CLASS] * 2 + [Sign.NONE] * 2
    assert signs(places([output(BF16)] * 3 + [output(FINE)] * 2)) == [Sign.NONE] * 5


def layers(coarse, fine, **more):
    """In each of three layers: products of the MLP that are coarse, and more of the attention that are not."""
    mlp = [output(coarse, place=f"blocks.#.mlp.{n}", **more) for _ in range(3) for n in range(2)]
    attention = [output(fine, place=f"blocks.#.attention.{n}", **more) for _ in range(3) for n in range(4)]
    return mlp, attention


@pytest.mark.parametrize("coarse", [2.2e-4, BF16])
def test_products_of_some_layers_that_are_coarse_in_every_block_are_a_class(coarse):
    mlp, attention = layers(coarse, FINE)
    assert signs([*mlp, *attention]) == [Sign.NONE] * 18


def test_a_block_whose_products_are_coarse_alone_is_no_class():
    mlp, attention = layers(FINE, FINE)
    found = signs([output(BF16, place=mlp[0].place), *mlp[1:], *attention])
    assert found == [Sign.COARSER_THAN_OTHER_LAYERS] + [Sign.NONE] * 17


def test_a_wrong_call_in_such_a_class_stands_out():
    mlp, attention = layers(BF16, FINE)
    assert signs([output(5e-3, place=mlp[0].place), *mlp[1:], *attention])[0] is Sign.BEYOND_KIN
    mlp, attention = layers(BF16, FINE, slope=0.9)
    assert signs([*mlp, *attention])[:6] == [Sign.SYSTEMATIC] * 6


def test_functions_that_round_no_operands_are_no_class_of_some_layers():
    """The epsilon of one of two norms, wrong in every block."""
    mlp, attention = layers(2e-4, FINE, kind="layer_norm", rounds=False)
    assert signs([*mlp, *attention])[:6] == [Sign.ALONE_IN_CLASS] * 6


def test_a_common_factor_within_a_class_adds_to_its_noise():
    company = [output(BF16, place=f"layer{n}") for n in range(5)]
    assert signs([output(2.5e-3, slope=0.9, place="other"), *company])[0] is Sign.SYSTEMATIC
    assert signs([output(BF16, slope=0.9, place="other"), *company])[0] is Sign.NONE


def test_what_only_moves_data_does_not_round():
    found = judge([output(BF16, 0.0, kind="reshape", moves_data=True), output(0.0, 0.0, kind="reshape")])
    assert [one.sign for one in found] == [Sign.MOVED_DATA, Sign.NONE]
    # A cast rounds on both sides.
    assert signs([output(BF16, BF16, kind="cast", moves_data=True)]) == [Sign.NONE]


def test_a_reference_that_does_not_explain_the_golden_side_says_nothing():
    (found,) = judge([output(0.5, 0.4)])
    assert (found.sign, found.is_of) == (Sign.NONE, KernelPrecision.OPAQUE)
    assert math.isnan(found.bound)
    # An option that the record does not tell may be another one: less is asked of the reference then.
    (found,) = judge([output(1e-4, 1e-4, is_sure=False)])
    assert found.is_of is KernelPrecision.OPAQUE
    (found,) = judge([output(1e-4, 1e-4)])
    assert found.is_of is KernelPrecision.HALF


def test_without_a_reference_an_output_may_differ_by_ten_times_its_inputs():
    assert is_amplified(1.1e-5, 1e-6, 0.0)
    assert not is_amplified(0.9e-5, 1e-6, 0.0)
    assert not is_amplified(1.1e-5, 1e-6, 2e-5), "the rounding of one call"
