"""The optional statistics: shares of elements that a limit separates, against an enumeration of each format."""

import math

import numpy as np
import pytest
from exact_statistic import BFLOAT16

from msprobe.base.schema import SHARES
from msprobe.base.statistic import bfloat16_bits_to_float32, shares, statistic

pytestmark = [pytest.mark.everywhere, pytest.mark.usefixtures("way")]

ZEROS = next(each for each in SHARES if each.name == "zeros")


def wanted(*names):
    return [next(each for each in SHARES if each.name == name) for name in names]


def of(array, *names):
    return shares(array, wanted(*names), statistic(array).nan_count)


def ieee_like(exponent_bits, mantissa_bits, *, has_inf):
    """All values of a format as IEEE 754 decodes them, or as OCP's E4M3, whose one NaN is all ones."""
    bias, ones = 2 ** (exponent_bits - 1) - 1, 2**exponent_bits - 1
    values = []
    for sign in (1.0, -1.0):
        for exponent in range(2**exponent_bits):
            for mantissa in range(2**mantissa_bits):
                fraction = mantissa / 2**mantissa_bits
                if exponent == ones and has_inf:
                    values.append(sign * math.inf if mantissa == 0 else math.nan)
                elif exponent == ones and mantissa == 2**mantissa_bits - 1:
                    values.append(math.nan)
                elif exponent == 0:
                    values.append(sign * fraction * 2.0 ** (1 - bias))
                else:
                    values.append(sign * (1 + fraction) * 2.0 ** (exponent - bias))
    return np.array(values)


def hifloat8():
    """All values of HiFloat8 (arXiv:2409.16626, tables 1 and 2): a prefix says how wide the exponent is."""
    values = []
    for code in range(256):
        sign, rest = (-1.0 if code & 0x80 else 1.0), code & 0x7F
        if rest == 0:
            values.append(math.nan if code & 0x80 else 0.0)
        elif rest == 0x6F:
            values.append(sign * math.inf)
        elif rest < 0x08:  # denormal: 2^(M - 23)
            values.append(sign * 2.0 ** (rest - 23))
        else:
            if rest < 0x10:
                width, mantissa_bits = 0, 3
            elif rest < 0x20:
                width, mantissa_bits = 1, 3
            else:
                width = (rest >> 5) + 1
                mantissa_bits = 5 - width
            mantissa = (rest & (2**mantissa_bits - 1)) / 2**mantissa_bits
            exponent = 0
            if width:
                bits = (rest >> mantissa_bits) & (2**width - 1)
                is_below, magnitude = bits >> (width - 1), bits & (2 ** (width - 1) - 1)
                exponent = (-1 if is_below else 1) * (2 ** (width - 1) + magnitude)
            values.append(sign * (1 + mantissa) * 2.0**exponent)
    return np.array(values)


# Of all codes: those of zero and subnormal numbers, and those of the largest magnitude and of infinity, both signs.
FORMATS = {
    "fp16": (ieee_like(5, 10, has_inf=True), 2 * 1024, 2 + 2),
    "bf16": (ieee_like(8, 7, has_inf=True), 2 * 128, 2 + 2),
    "e4m3": (ieee_like(4, 3, has_inf=False), 2 * 8, 2),
    "e5m2": (ieee_like(5, 2, has_inf=True), 2 * 4, 2 + 2),
    "hif8": (hifloat8(), 1 + 2 * 7, 2 + 2),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FORMATS)
def test_all_numbers_of_a_format(name, dtype):
    values, below, largest = FORMATS[name]
    found = of(values.astype(dtype), f"underflow:{name}", f"saturated:{name}")
    assert found == [below / values.size, largest / values.size]


def test_a_format_that_has_no_other_largest_number_than_its_dtype():
    assert (
        FORMATS["hif8"][0][0x6E] == 32768.0 == np.nanmax(np.where(np.isinf(FORMATS["hif8"][0]), 0, FORMATS["hif8"][0]))
    )
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    assert of(halves, "underflow:fp16", "saturated:fp16") == [2048 / 65536, 4 / 65536]


def test_all_numbers_of_bfloat16():
    bits = np.arange(1 << 16, dtype=np.uint16)
    expected = [256 / 65536, 4 / 65536, 2 / 65536]
    names = "underflow:bf16", "saturated:bf16", "zeros"
    assert of(bfloat16_bits_to_float32(bits), *names) == expected
    if BFLOAT16 is not None and np.float32 != BFLOAT16:
        assert of(bits.view(BFLOAT16), *names) == expected


@pytest.mark.parametrize("size", [1, 7, 8192, 20_000, 70_001])
def test_the_limits_are_exact(size):
    tiny, normal = np.float32(1e-45), np.float32(2.0**-6)
    below = np.nextafter(normal, np.float32(0))
    array = np.resize(
        np.array([0.0, -0.0, tiny, below, -normal, 448.0, np.nextafter(np.float32(448), np.float32(0))], np.float32),
        size,
    )
    magnitudes = [abs(float(x)) for x in array]
    assert of(array, "zeros", "underflow:e4m3", "saturated:e4m3") == [
        sum(x == 0 for x in magnitudes) / size,
        sum(x < 2.0**-6 for x in magnitudes) / size,
        sum(x >= 448 for x in magnitudes) / size,
    ]


def test_subnormal_numbers_are_not_zeros():
    assert of(np.array([5e-324, 0.0, -5e-324, 1.0]), "zeros") == [0.25]
    assert of(np.array([1e-45, 0.0, -1e-45, 1.0], np.float32), "zeros") == [0.25]


def test_a_nan_is_in_no_share_and_an_infinity_is_saturated():
    array = np.array([math.nan, math.inf, -math.inf, 0.0], np.float32)
    assert of(array, "zeros", "underflow:fp16", "saturated:fp16") == [0.25, 0.25, 0.5]


@pytest.mark.parametrize("dtype", "bBhHiIqQ")
def test_integers_have_zeros_alone(dtype):
    array = np.array([0, 1, 0, 100, 7], dtype)
    assert of(array, "zeros", "underflow:e4m3", "saturated:e4m3") == [0.4, None, None]


def test_bool_and_complex():
    assert of(np.array([True, False, False, False]), "zeros", "underflow:fp16") == [0.75, None]
    array = np.array([0, 3e-5 + 4e-5j, 3e-5j, 6e4 + 6e4j], np.complex64)
    found = of(array, "zeros", "underflow:fp16", "saturated:fp16")
    assert found == [0.25, 0.75, 0.25], "magnitudes of 0, 5e-5, 3e-5 and 8.5e4"


def test_other_layouts():
    array = np.zeros((6, 8), np.float32)
    array[:, ::2] = 1
    for each in (array.T, array[:, ::2], array[::-1], array.astype(">f4"), np.asfortranarray(array)):
        assert of(each, "zeros") == [np.count_nonzero(each == 0) / each.size]


def test_nothing_of_empty_arrays_and_texts():
    assert shares(np.zeros(0, np.float32), SHARES) == [None] * len(SHARES)
    assert shares(np.array(["a"]), SHARES) == [None] * len(SHARES)
