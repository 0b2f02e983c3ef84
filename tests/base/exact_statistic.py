"""What the statistic of a tensor must be, by exact rational arithmetic; and the tensors that it is asked of."""

import math
import sys
from fractions import Fraction

import numpy as np

from msprobe.base.statistic import Statistic


class bfloat16(np.void):  # the name is what bfloat16 is known by
    """A numpy type such as frameworks register: two bytes that numpy cannot calculate with."""


BFLOAT16 = np.dtype((bfloat16, 2))
FLOATS = {"float16": np.dtype("f2"), "bfloat16": BFLOAT16, "float32": np.dtype("f4"), "float64": np.dtype("f8")}
INTEGERS = [np.dtype(kind) for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")]

# One register, two, eight, one block of the C passes, one of the numpy passes; always one less and one more.
SIZES = [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129]
SIZES += [2047, 2049, 4095, 4096, 4097, 65537, 100_003]


def values_of(array: np.ndarray) -> list[float]:
    """The elements as Python floats, bfloat16 by the definition of its bits."""
    if array.dtype == BFLOAT16:
        return (array.view("u2").astype("u4") * np.uint32(65536)).view("f4").tolist()
    return array.tolist()


def bits_to(dtype: np.dtype, bits: list[int]) -> np.ndarray:
    return np.array(bits, f"u{dtype.itemsize}").view(dtype)


def round_to(dtype: np.dtype, values: np.ndarray) -> np.ndarray:
    """Values cut to a float dtype."""
    if dtype == BFLOAT16:
        return (values.astype("f4").view("u4") >> np.uint32(16)).astype("u2").view(BFLOAT16)
    return values.astype(dtype)


def assert_close(found: float, exact: Fraction) -> None:
    """Within a relative 1e-12 of the exact value, or as near as a subnormal can be."""
    assert abs(Fraction(found) - exact) <= max(abs(exact) * Fraction(1, 10**12), Fraction(5e-324)), (
        found,
        float(exact),
    )


def assert_norm(found: float, values: list) -> None:
    """The square of the norm against the exact sum of squares: within 1e-12, the least float, or beyond float64."""
    exact = sum((Fraction(v) ** 2 for v in values), Fraction())
    if found == math.inf:
        assert exact >= Fraction(sys.float_info.max * (1 - 1e-12)) ** 2
    else:
        length = max(Fraction(found) / 10**12, Fraction(5e-324))
        assert max(Fraction(found) - length, 0) ** 2 <= exact <= (Fraction(found) + length) ** 2


def assert_finite_statistic(found: Statistic, values: list) -> None:
    """All seven, from the elements, which are finite."""
    assert (found.max, found.min) == (max(values), min(values))
    assert_close(found.mean, sum(map(Fraction, values), Fraction()) / len(values))
    assert_norm(found.norm, values)
    assert found[4:] == (0, 0, 0, 0)


def assert_float_statistic(found: Statistic, values: list[float]) -> None:
    """All seven, from elements of any kind."""
    assert all(type(number) is float for number in found[:4])
    assert all(type(number) is int for number in found[4:])
    nan, up, down = sum(map(math.isnan, values)), values.count(math.inf), values.count(-math.inf)
    assert found[4:] == (nan, up, down, 0)
    if nan:
        assert all(math.isnan(number) for number in found[:4])
    elif up or down:
        assert (found.max, found.min, found.norm) == (max(values), min(values), math.inf)
        mean = sum(v for v in values if math.isinf(v))
        assert found.mean == mean or (math.isnan(found.mean) and math.isnan(mean))
    else:
        assert_finite_statistic(found, values)
