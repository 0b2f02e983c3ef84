"""The numbers in the sheets of SingleComparator, against those of the other tool and numbers by hand."""

import math
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from saved_trees import F32, GRID, one, put

from msprobe.compare.key_data import pairs
from msprobe.compare.key_data.pairs import find, pair
from msprobe.compare.measure import symmetric
from msprobe.compare.measure.symmetric import measure_symmetric

# The six numbers as msprobe 8.1.1 and 26.2.0 both print them.
AS_PRINTED = {
    "one element of six": (
        np.arange(6, dtype=F32),
        np.array([0, 1, 2, 3.5, 4, 5], F32),
        [83.33333333333334, 3, 0.5, 0.1428571492433548, 83.33333333333334, 83.33333333333334],
    ),
    "within a hundredth": (
        np.arange(7, dtype=F32) / 3,
        np.arange(7, dtype=F32) / 3 * 1.003,
        [14.28571428571428, 1, 0.006000041961669922, 0.002991077257320285, 14.28571428571428, 100],
    ),
    "cut to the common minimum": (
        np.arange(12.0).reshape(3, 4),
        np.arange(10.0).reshape(2, 5),
        [50, 4, 1, 0.2, 50, 50],
    ),
    "complex": (np.array([1 + 2j, 3]), np.array([1 + 2j, 4]), [50, 1, 1, 0.25, 50, 50]),
    "two widths": (
        np.array([0.1, 1], F32),
        np.array([0.1, 1]),
        [50, 0, 1.490116113833651e-09, 1.49011609162919e-08, 100, 100],
    ),
    "int64 that float64 cannot tell apart": (
        np.array([2**53 + 1, 5]),
        np.array([2**53, 5]),
        [50, 0, 1, 1.110223024625157e-16, 100, 100],
    ),
    "a zero on one side": (
        np.zeros(3),
        np.array([0, 0, 1.0]),
        [66.66666666666666, 2, 1, 1, 66.66666666666666, 66.66666666666666],
    ),
    "0-d": (np.array(1.0), np.array(2.0), [0, 0, 1, 0.5, 0, 0]),
    "float32 against int32": (
        np.array([1.5, 2], F32),
        np.array([1, 2], np.int32),
        [50, 0, 0.5, 0.3333333333333333, 50, 50],
    ),
    "float32 rounds": (np.array([1, 1], F32), np.array([1e-09, 0.9], F32), [0, 0, 1, 1, 0, 0]),
    "ranks differ, the flattened beginnings are the same": (
        np.arange(12.0).reshape(3, 4),
        np.arange(10.0),
        [100, None, 0, 0, 100, 100],
    ),
}


@pytest.mark.parametrize("case", AS_PRINTED)
def test_the_numbers_are_those_of_the_other_tool_to_the_last_digit(case, trees):
    target, golden, expected = AS_PRINTED[case]
    numbers = one(trees, target, golden)[2:8]
    assert [n if n is None else f"{n:.16g}" for n in numbers] == [n if n is None else f"{n:.16g}" for n in expected]


# Where the other tool is wrong; by hand. Its numbers stand behind each.
BY_HAND = {
    "uint8 does not wrap": (
        np.array([0, 1, 255], np.uint8),
        np.array([1, 0, 0], np.uint8),
        [0, 0, 255, 1, 0, 0],
    ),  # its relative error: 255
    "uint64 does not wrap": (
        np.array([0, 1], np.uint64),
        np.array([1, 0], np.uint64),
        [0, 0, 1, 1, 0, 0],
    ),  # 1.8e19 twice
    "int8 does not wrap": (
        np.array([127, 1, -128], np.int8),
        np.array([-128, 0, 127], np.int8),
        [0, 0, 255, 255 / 128, 0, 0],
    ),  # 1, 1, and 66.7 % within a hundredth
    "int64 does not overflow": (
        np.array([2**62, 5]),
        np.array([-(2**62) - 2**61, 5]),
        [50, 0, 2.5 * 2**62, 2.5 / 1.5, 50, 50],
    ),  # 6.9e18
    "the smallest int64": (np.array([-(2**63)]), np.array([2**63 - 1]), [0, 0, 2.0**64, 2, 0, 0]),
    "uint64 against int64": (np.array([2**63, 5], np.uint64), np.array([-1, 5]), [50, 0, 2.0**63, 1, 50, 50]),
    "bool": (
        np.array([True, False, True]),
        np.array([True, True, False]),
        [100 / 3, 1, 1, 1, 100 / 3, 100 / 3],
    ),  # the row is lost
    "float16 does not overflow": (
        np.array([65504, 1], np.float16),
        np.array([-65504, 1], np.float16),
        [50, 0, 131008, 2, 50, 50],
    ),  # inf, 65504
    "float16 beside integers is taken as float32": (
        np.array([0.1, 2], np.float16),
        np.array([1, 2], np.uint8),
        [50, 0, 0.9000244140625, 0.9000244140625, 50, 50],
    ),
    "float32 does not overflow": (
        np.array([3e38], F32),
        np.array([-3e38], F32),
        [0, 0, float(F32(3e38)) * 2, 2, 0, 0],
    ),  # inf, 3.4e38
    "float64 has no room for the difference": (np.array([1.5e308]), np.array([-1.5e308]), [0, 0, "inf", 2, 0, 0]),
    "NaN is NaN": (np.array([np.nan, 1, 2]), np.array([np.nan, 1, 2]), [100, None, 0, 0, 100, 100]),  # 66.7 %
    "infinity is infinity": (
        np.array([np.inf, -np.inf]),
        np.array([np.inf, -np.inf]),
        [100, None, 0, 0, 100, 100],
    ),  # within a thousandth: none
    "infinities of two signs": (
        np.array([np.inf, 1]),
        np.array([-np.inf, 1]),
        [50, 0, "inf", "inf", 50, 50],
    ),  # within a thousandth: all
    "infinity on one side": (np.array([1, np.inf]), np.array([1, 1.0]), [50, 1, "inf", "inf", 50, 50]),
    "NaN on one side": (
        np.array([np.nan, 1, 2]),
        np.array([0, 1, 2.001]),
        [100 / 3, 0, "Nan", "Nan", 100 / 3 * 2, 100 / 3 * 2],
    ),
    "signs of zero": (np.array([0.0, -0.0]), np.array([-0.0, 0.0]), [100, None, 0, 0, 100, 100]),
    "empty": (np.zeros((0, 3)), np.zeros((0, 3)), [100, None, 0, 0, 100, 100]),  # the row is lost
    "other byte order": (np.array([1, 2], ">f8"), np.array([1, 4], "<f8"), [50, 1, 2, 0.5, 50, 50]),
    # -0.5 against 1.5, 0.125 against 2.125, 0.75 against 2.75
    "Fortran order": (
        np.asfortranarray(GRID),
        GRID + np.eye(3, 4, dtype=F32) * 2,
        [75, 0, 2, float(F32(2) / F32(1.5)), 75, 75],
    ),
}


@pytest.mark.parametrize("case", BY_HAND)
def test_what_the_other_tool_gets_wrong(case, trees):
    target, golden, expected = BY_HAND[case]
    for number, right in zip(one(trees, target, golden)[2:8], expected, strict=True):
        assert number == right if isinstance(right, str | None) else math.isclose(number, right, rel_tol=1e-15)


@pytest.mark.parametrize(
    ("kinds", "draw"),
    [
        (["int8", "uint8", "int64", "uint64", "bool", "int64"], lambda r, n: r.integers(0, 100, n)),
        (["int64", "int64", "uint64", "uint64"], lambda r, n: r.integers(0, 2**63, n)),
        (["float64", "float64", "int32", "float64"], lambda r, n: r.integers(-5, 5, n) / 4),
    ],
)
def test_blocks_of_any_layout_give_the_numbers_of_exact_arithmetic(kinds, draw, monkeypatch):
    monkeypatch.setattr(symmetric, "BLOCK", 64)
    random = np.random.default_rng(5)
    for left, right in zip(kinds[::2], kinds[1::2], strict=True):
        a, b = (draw(random, (3, 50)).astype(kind) for kind in (left, right))
        b[:, ::3] = a[:, ::3].astype(right)
        pairs = [(Fraction(x), Fraction(y)) for x, y in zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)]
        absolute = [abs(x - y) for x, y in pairs]
        relative = [d / max(abs(x), abs(y)) if d else 0 for d, (x, y) in zip(absolute, pairs, strict=True)]
        first = next(at for at, d in enumerate(absolute) if d)
        wide = np.zeros((3, b.shape[1] * 2), b.dtype)
        wide[:, ::2] = b
        for golden in (b, np.asfortranarray(b), wide[:, ::2]):
            found = measure_symmetric(a, golden)
            assert (found.size, found.same, found.first) == (a.size, absolute.count(0), first)
            assert found.max_absolute == float(max(absolute))
            assert found.max_relative == pytest.approx(float(max(relative)), rel=1e-15)
            assert found.within_1e_3 == sum(r <= Fraction(1, 1000) for r in relative)
            assert found.within_1e_2 == sum(r <= Fraction(1, 100) for r in relative)


@pytest.mark.parametrize("more", [0, 1])
def test_memory_does_not_grow_with_the_files(more, trees):
    zeros = np.zeros((4, 1 << 20), F32)  # 16 MiB
    put(trees[0], "x/step0/rank0/x.npy", np.zeros((4 + more, 1 << 20), F32))
    zeros[-1, -1] = 1
    put(trees[1], "x/step0/rank0/x.npy", zeros)
    (both,) = pair(*map(find, trees))
    pairs.judge(both)
    tracemalloc.start()
    try:
        row = pairs.judge(both)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert row.found.first == zeros.size - 1
