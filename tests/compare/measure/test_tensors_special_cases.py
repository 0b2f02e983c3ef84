"""Measures at their edges, each worked out by hand; every way of measuring gives them."""

import math
from dataclasses import asdict

import numpy as np
import pytest

from msprobe.compare.core.standard import EXACT, standard_of
from msprobe.compare.measure.tensors import measure

NAN, INF = math.nan, math.inf

pytestmark = [pytest.mark.everywhere, pytest.mark.usefixtures("way")]


def assert_measures(target, golden, dtype="", **expected):
    found = asdict(measure(target, golden, standard_of(dtype or golden.dtype.name), dtype))
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-15, abs=0, nan_ok=True)


NO_DIFFERENCE = {
    "mismatched": 0,
    "cosine": 1.0,
    "euclid": 0.0,
    "max_absolute": 0.0,
    "max_relative": 0.0,
    "within_1e_3": 1.0,
    "within_5e_3": 1.0,
    "excess": 0.0,
    "beyond": 0,
    "worst": -1,
    "max_absolute_at": -1,
    "scale_error": 0.0,
    "bias": 0.0,
    "max_ulp": 0.0,
}


# ---- zeros


@pytest.mark.parametrize(
    "array", [np.zeros(3), np.array([1.5, -2]), np.array(7), np.array([NAN, INF]), np.array([True])]
)
def test_what_is_equal_has_no_difference(array):
    assert_measures(array, array.copy(), size=array.size, equal=True, **NO_DIFFERENCE)


def test_zeros_of_two_widths_have_no_difference_but_are_not_equal():
    assert_measures(np.zeros(3, "f2"), np.zeros(3, "f4"), size=3, equal=False, **NO_DIFFERENCE)


def test_zeros_of_different_sign_are_equal():
    assert_measures(np.array([-0.0, 1.0]), np.array([0.0, 1.0]), equal=True, **NO_DIFFERENCE)


def test_a_golden_of_zeros():
    """Nothing is allowed, no direction; 0.5 is 2^51 times the stand-in 2^-52, and 2^148 least subnormals of float32."""
    assert_measures(
        np.float32([0, 0.5]),
        np.float32([0, 0]),
        equal=False,
        cosine=NAN,
        euclid=0.5,
        max_absolute=0.5,
        max_absolute_at=1,
        max_relative=2.0**51,
        within_1e_3=0.5,
        within_5e_3=0.5,
        excess=INF,
        beyond=1,
        worst=1,
        scale_error=INF,
        bias=0.25,
        max_ulp=2.0**148,
    )


def test_a_target_of_zeros():
    """The spacing of float32 is 2^-22 at 2 and 2^-23 at 1, so both are 2^23 units off; allowed at 2: 1e-5 + 2.6e-6."""
    assert_measures(
        np.float32([0, 0]),
        np.float32([2, -1]),
        cosine=NAN,
        euclid=math.sqrt(5),
        max_absolute=2.0,
        max_absolute_at=0,
        max_relative=1.0,
        within_1e_3=0.0,
        within_5e_3=0.0,
        excess=2 / (1e-5 + 1.3e-6 * 2),
        beyond=2,
        worst=0,
        scale_error=1.0,
        bias=-0.5,
        max_ulp=2.0**23,
    )


# ---- NaN and infinity


def test_the_same_nan_and_infinity_count_as_zeros():
    """Left is 3 = 3 and 4 against 5: 29 / (5 sqrt(34)); the spacing at 5 is 2^-21."""
    assert_measures(
        np.float32([NAN, INF, -INF, 3, 4]),
        np.float32([NAN, INF, -INF, 3, 5]),
        equal=False,
        mismatched=0,
        cosine=29 / (5 * math.sqrt(34)),
        euclid=1.0,
        max_absolute=1.0,
        max_absolute_at=4,
        max_relative=float(np.float32(0.2)),
        within_1e_3=0.8,
        beyond=1,
        worst=4,
        scale_error=0.2,
        bias=-0.2,
        max_ulp=2.0**21,
    )


def test_a_mismatched_element_is_left_out():
    """Left are 1 = 1, 2 against 3, and 0 = 0; the golden's 7 is still its greatest finite element."""
    assert_measures(
        np.float32([1, 2, NAN, 0]),
        np.float32([1, 3, 7, 0]),
        mismatched=1,
        cosine=7 / math.sqrt(50),
        euclid=1.0,
        max_absolute=1.0,
        max_absolute_at=1,
        within_1e_3=2 / 3,
        within_5e_3=2 / 3,
        excess=INF,
        beyond=2,
        worst=2,
        scale_error=1 / 7,
        bias=-1 / 3,
    )


@pytest.mark.parametrize(("t", "g"), [(NAN, 1.0), (1.0, NAN), (INF, -INF), (INF, 1.0), (NAN, INF)])
def test_where_every_element_is_mismatched_nothing_is_measured(t, g):
    expected = {**NO_DIFFERENCE, "mismatched": 2, "beyond": 2, "excess": INF, "worst": 0}
    assert_measures(np.array([t, t]), np.array([g, g]), equal=False, **expected)


def test_an_infinite_golden_element_is_not_the_greatest():
    assert_measures(np.array([INF, 1.0]), np.array([INF, 2.0]), scale_error=0.5)
    assert_measures(np.array([1.0, 1.0]), np.array([INF, 2.0]), scale_error=0.5, mismatched=1)


# ---- shapes


def test_a_0_d_tensor_is_one_element():
    """Spacing of float64 at 2: 2^-51."""
    assert_measures(
        np.array(3.0),
        np.array(2.0),
        size=1,
        cosine=1.0,
        euclid=1.0,
        max_relative=0.5,
        max_absolute_at=0,
        worst=0,
        scale_error=0.5,
        bias=1.0,
        max_ulp=2.0**51,
    )


def test_a_tensor_of_length_one():
    assert_measures(
        np.array([-2.0]), np.array([4.0]), cosine=-1.0, max_relative=1.5, scale_error=1.5, bias=-6.0, beyond=1
    )


def test_empty_tensors():
    assert_measures(np.zeros((0, 3)), np.zeros((0, 3)), size=0, equal=True, **NO_DIFFERENCE)
    assert_measures(np.zeros((2, 0), "f2"), np.zeros((2, 0), "f4"), size=0, equal=False, **NO_DIFFERENCE)


def test_other_shapes_are_refused():
    with pytest.raises(ValueError, match=r"shapes differ: \(2,\), \(1, 2\)"):
        measure(np.zeros(2), np.zeros((1, 2)), EXACT)


# ---- integers and booleans


def test_integers_beyond_what_float64_holds_differ_by_one():
    """2^53 + 1 becomes 2^53 in float64; the relative error, which is of float64, does not see it."""
    assert_measures(
        np.array([1, 2**53 + 1]),
        np.array([1, 2**53]),
        equal=False,
        max_absolute=1.0,
        max_absolute_at=1,
        euclid=1.0,
        bias=0.5,
        max_relative=0.0,
        excess=INF,
        beyond=1,
        worst=1,
        scale_error=2.0**-53,
        max_ulp=1.0,
    )


def test_the_ends_of_int64_do_not_wrap():
    """-2^63 - (2^63 - 1) is -(2^64 - 1), in float64 -2^64; the golden becomes 2^63."""
    assert_measures(
        np.array([-(2**63), 5]),
        np.array([2**63 - 1, 5]),
        max_absolute=2.0**64,
        max_absolute_at=0,
        euclid=2.0**64,
        max_relative=2.0,
        bias=-(2.0**63),
        scale_error=2.0,
        max_ulp=2.0**64,
        within_1e_3=0.5,
        beyond=1,
    )


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8"])
def test_unsigned_integers_do_not_wrap(dtype):
    expected = {"max_absolute": 2.0, "bias": -1.0, "scale_error": 0.4, "max_ulp": 2.0, "max_absolute_at": 0}
    assert_measures(np.array([3, 4], dtype), np.array([5, 4], dtype), **expected)
    top = np.iinfo(dtype).max
    assert_measures(np.array([0], dtype), np.array([top], dtype), max_absolute=float(top), bias=-float(top))


def test_unsigned_against_signed():
    """2^63 + 1 - -1 is 2^63 + 2, whose nearest float64 is 2^63."""
    assert_measures(np.array([2**63 + 1, 1], "u8"), np.array([-1, 1], "i8"), max_absolute=2.0**63, bias=2.0**62)


def test_integers_of_two_widths():
    expected = {"max_absolute": 2.0**40 + 1, "max_absolute_at": 1, "bias": -(2.0**40 + 1) / 2}
    assert_measures(np.array([-7, -1], "i4"), np.array([-7, 2**40], "i8"), equal=False, **expected)
    assert_measures(np.array([-7, 1], "i4"), np.array([-7, 1], "i8"), equal=False, **NO_DIFFERENCE)


def test_an_index_of_the_first_of_several_equal_differences():
    assert_measures(np.array([4, 1, 2, 4]), np.array([4, 2, 1, 3]), max_absolute_at=1, worst=1, beyond=3, bias=0.25)


def test_booleans_are_zero_and_one():
    assert_measures(
        np.array([True, False]),
        np.array([True, True]),
        max_absolute=1.0,
        max_absolute_at=1,
        euclid=1.0,
        cosine=math.sqrt(0.5),
        bias=-0.5,
        scale_error=1.0,
        max_ulp=1.0,
        excess=INF,
        beyond=1,
    )


def test_booleans_against_wide_integers():
    assert_measures(np.array([True, False]), np.array([2, 0], "u8"), max_absolute=1.0, bias=-0.5, max_ulp=1.0)


def test_any_byte_but_zero_is_true():
    strange = np.frombuffer(b"\2\0\1", bool)
    assert_measures(strange, np.array([1, 0, 1]), equal=False, **NO_DIFFERENCE)
    assert_measures(strange, np.array([1, 0, 1], "i4"), equal=False, **NO_DIFFERENCE)


# ---- complex


def test_a_complex_number_is_two_numbers_and_one_element():
    """Imaginary parts 1 and 2 differ; the spacing of float32 at 2 is 2^-22."""
    assert_measures(
        np.complex64([2, 1 + 1j]),
        np.complex64([2, 1 + 2j]),
        size=2,
        cosine=7 / math.sqrt(6 * 9),
        max_absolute=1.0,
        max_absolute_at=1,
        bias=-0.25,
        within_1e_3=0.75,
        scale_error=0.5,
        max_ulp=2.0**22,
        beyond=1,
        worst=1,
    )


def test_a_complex_element_counts_once_however_many_of_its_parts_are_wrong():
    assert_measures(np.complex64([3 + 3j, 1]), np.complex64([1 + 1j, 1]), beyond=1, mismatched=0, bias=1.0)
    nan = complex(NAN, NAN)
    assert_measures(np.array([1j, nan]), np.array([1j, 5]), beyond=1, mismatched=1, worst=1, scale_error=0.0, bias=0.0)


def test_real_against_complex():
    assert_measures(np.array([3.0]), np.array([3 + 4j]), max_absolute=4.0, cosine=3 / 5, scale_error=1.0, bias=-2.0)


# ---- range and precision


def test_float16_that_overflowed_is_a_mismatch():
    expected = {**NO_DIFFERENCE, "mismatched": 1, "excess": INF, "beyond": 1, "worst": 1}
    assert_measures(np.float16([65504, INF]), np.float16([65504, 65504]), equal=False, **expected)


def test_a_difference_that_float16_could_not_hold():
    """65504 + 65504; its spacing there is 32."""
    assert_measures(np.float16([65504]), np.float16([-65504]), max_absolute=131008.0, max_relative=2.0, max_ulp=4094.0)


def test_squares_beyond_float64():
    assert_measures(np.array([1e200, 1e200]), np.array([1e200, -1e200]), cosine=0.0, euclid=2e200, bias=1e200)
    assert_measures(np.array([4e-200, 0.0]), np.array([0.0, 3e-200]), cosine=1.0, euclid=5e-200, bias=5e-201)


def test_squares_that_leave_float64_only_together():
    """400,000 squares of 1e152, of which float64 holds a part; then products of both signs."""
    ones = np.ones(400_000)
    assert_measures(1e152 * ones, 2e152 * ones, bias=-1e152, scale_error=0.5)
    found = measure(1e152 * ones, 2e152 * ones, EXACT)
    assert (found.cosine, found.euclid) == pytest.approx((1, 1e152 * math.sqrt(400_000)), rel=1e-13)
    golden = np.repeat([1e200, -1e200], 200_000)
    found = measure(1e200 * ones, golden, EXACT)
    assert found.cosine == pytest.approx(0, abs=1e-13)
    assert found.euclid == pytest.approx(2e200 * math.sqrt(200_000), rel=1e-13)


def test_a_difference_beyond_float64_is_infinite_but_no_mismatch():
    found = measure(np.array([1.7e308]), np.array([-1.7e308]), standard_of("float64"))
    assert (found.mismatched, found.max_absolute, found.max_ulp, found.excess) == (0, INF, INF, INF)
    assert (found.cosine, found.beyond) == (pytest.approx(-1), 1)


@pytest.mark.parametrize(
    ("target", "golden", "dtype", "units"),
    [
        (np.float32(2**-149), np.float32(0), "", 1),  # the least subnormals
        (np.float16(2**-24), np.float16(0), "", 1),
        (np.float64(5e-324), np.float64(0), "", 1),
        (np.float32(2**-133), np.float32(0), "BFloat16", 1),
        (np.float32(2**-126), np.float32(2**-127), "", 2**22),  # a subnormal golden: 2^-127 / 2^-149
        (np.float16(2**-14 + 2**-24), np.float16(2**-14), "", 1),  # the least normal one
        (np.float32(1 + 2**-23), np.float32(1), "", 1),  # 1 has the spacing above it
        (np.float32(1 - 2**-24), np.float32(1), "", 0.5),
        (np.float32(1), np.float32(1 - 2**-24), "", 1),
        (np.float32(-8), np.float32(-7), "", 2**21),  # the golden's spacing, whatever its sign
        (np.float16(1), np.float32(1 + 2**-12), "", 0.25),  # the coarser: 2^-10 at 1
        (np.float32(1 + 2**-12), np.float16(1), "", 0.25),
        (np.float32(1), np.float64(1 + 2**-30), "Float64", 2**-7),
        (np.float32(1 + 2**-7), np.float32(1), "BFloat16", 1),
        (np.float32(1 + 2**-7), np.float32(1), "torch.bfloat16", 1),
        (np.float16(1 + 2**-7), np.float32(1), "bfloat16", 1),
        (np.float32(1 + 2**-7), np.float32(1), "Float32", 2**16),
        (np.int32(3), np.float32(1), "", 2**24),  # one float side: its units
        (np.float32(3), np.int32(1), "Int32", 2**24),
        (np.int8(-3), np.int32(4), "Int32", 7),
    ],
)
def test_units_in_the_last_place(target, golden, dtype, units):
    assert measure(np.array([target]), np.array([golden]), EXACT, dtype).max_ulp == units


def test_a_small_tensor_is_held_against_its_own_size():
    """s = 0.25: allowed at the element is 1e-5 / 4 + 1.3e-6 / 8."""
    found = measure(np.float32([0.25, 0.25]), np.float32([0.25, 0.125]), standard_of("float32"))
    assert found.excess == 0.125 / (1e-5 * 0.25 + 1.3e-6 * 0.125)


# ---- layouts


def test_no_layout_changes_a_measure():
    draw = np.random.default_rng(5)
    target, golden = draw.standard_normal((2, 30, 40)).astype(np.float32)
    golden[7, 3] = target[7, 3]
    golden[2, 5] = 99
    expected = measure(target, golden, standard_of("float32"))
    assert expected.max_absolute_at == 2 * 40 + 5
    wide = np.zeros((60, 80), np.float32)
    wide[::2, ::2] = target
    backwards = target[::-1, ::-1].copy()[::-1, ::-1]
    odd = np.frombuffer(b"\0" + target.tobytes(), np.uint8)[1:].view(np.float32).reshape(30, 40)
    layouts = [np.asfortranarray(target), wide[::2, ::2], backwards, target.astype(">f4"), odd]
    assert not any(a.flags.c_contiguous and a.flags.aligned and a.dtype.isnative for a in layouts)
    for layout in layouts:
        found = measure(layout, golden, standard_of("float32"))
        assert asdict(found) == pytest.approx(asdict(expected), rel=1e-14)
        assert asdict(measure(layout, np.asfortranarray(golden), standard_of("float32"))) == asdict(found)
