"""The noise of each mode, the ratio of two outputs and its tolerance, against formulas written down here again."""

import math

import numpy as np
import pytest

from msprobe.perturb.comparison import difference, judged, relative
from msprobe.perturb.finding import Cause, Mode
from msprobe.perturb.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, FORMATS, format_of, rounded
from msprobe.perturb.perturbation import perturbed

EPS = {"bfloat16": 1e-4, "float16": 1e-6, "float32": 1e-8, "float64": 1e-16}
TOLERANCE = {"bfloat16": 1.004, "float16": 1.002, "float32": 1.0002, "float64": 1.0002}


def bfloat16(value):
    """The nearest bfloat16, by exact arithmetic: 8 significant bits, ties to even."""
    if value == 0 or not math.isfinite(value):
        return value
    scale = 2.0 ** (math.frexp(value)[1] - 8)
    return float(round(value / scale)) * scale  # Python rounds ties to even


@pytest.mark.parametrize("name", FORMATS)
def test_the_numbers_of_the_formats_are_those_of_the_specification(name):
    assert FORMATS[name].noise == EPS[name]
    assert FORMATS[name].tolerance == TOLERANCE[name]
    assert format_of(f"torch.{name}") is FORMATS[name]
    assert format_of(name.replace("bf", "BF").replace("f", "F", 1)) is FORMATS[name]


@pytest.mark.parametrize("text", ["Int32", "torch.int64", "Complex64", "torch.float8_e5m2", "Bool"])
def test_other_dtypes_have_no_format(text):
    assert format_of(text) is None


def test_rounding_to_bfloat16_is_to_nearest_and_ties_to_even():
    rng = np.random.default_rng(0)
    values = np.concatenate(
        [
            rng.standard_normal(2000).astype(np.float32),
            np.array([1 + 2**-8, 1 + 3 * 2**-8, -(1 + 2**-8), 0.0, -0.0, np.inf, -np.inf], np.float32),
        ]
    )
    expected = np.array([bfloat16(float(v)) for v in values], np.float32)
    assert rounded(values, BFLOAT16).tobytes() == expected.tobytes()
    assert np.isnan(rounded(np.array([np.nan], np.float32), BFLOAT16)).all()


@pytest.mark.parametrize("of", [FLOAT16, BFLOAT16, FLOAT32, FLOAT64], ids=lambda of: of.name)
def test_add_noise_adds_eps_to_what_is_larger_than_its_root(of):
    eps = EPS[of.name]
    rng = np.random.default_rng(1)
    size = np.exp(rng.uniform(np.log(eps) / 1.5, 1, 500)) * rng.choice([-1, 1], 500)
    x = rounded(size.astype(np.float64), of)
    found = perturbed(Mode.ADD_NOISE, x, of)
    assert found.dtype == x.dtype
    changed = 0
    for before, after in zip(x.tolist(), found.tolist(), strict=True):
        wanted = before
        if abs(before) > math.sqrt(eps):
            total = before + eps
            wanted = bfloat16(total) if of is BFLOAT16 else float(of.dtype(total))
        # the sum may be rounded to float32 before it is rounded to the format: one unit in the last place at a tie
        assert abs(after - wanted) <= abs(before) * of.epsilon * (after != wanted), before
        changed += after != before
    assert changed > 10
    assert (found[np.abs(x) <= math.sqrt(eps)] == x[np.abs(x) <= math.sqrt(eps)]).all()


def test_noise_by_hand():
    x = np.array([0.0, 5e-5, -5e-5, 1e-3, -1e-3, 4.0, np.inf, np.nan], np.float32)
    found = perturbed(Mode.ADD_NOISE, x, FLOAT32)
    expected = x.copy()
    expected[3] += np.float32(1e-8)
    expected[4] += np.float32(1e-8)
    assert found.tobytes() == expected.tobytes(), "4 + 1e-8 is 4 in float32; 5e-5 is below 1e-4"


@pytest.mark.parametrize("of", [FLOAT16, FLOAT32, FLOAT64], ids=lambda of: of.name)
def test_bit_noise_flips_the_lowest_bit_of_normal_numbers(of):
    tiny = float(np.finfo(of.dtype).tiny)
    x = np.array([1.0, -1.5, 0.0, tiny, tiny * 1.5, tiny / 2, np.inf, np.nan, 3.25], of.dtype)
    found = perturbed(Mode.BIT_NOISE, x, of)
    width = {2: "<u2", 4: "<u4", 8: "<u8"}[x.itemsize]
    before = [int.from_bytes(x[i].tobytes(), "little") for i in range(x.size)]
    after = [int.from_bytes(found[i].tobytes(), "little") for i in range(x.size)]
    assert [a ^ b for a, b in zip(before, after, strict=True)] == [1, 1, 0, 0, 1, 0, 0, 0, 1]
    assert x.view(width).tolist() == before, "the input stays"


def test_bit_noise_of_a_scalar_is_a_scalar():
    found = perturbed(Mode.BIT_NOISE, np.array(1.0, np.float32), FLOAT32)
    assert found.shape == ()
    assert float(found) == 1 + 2**-23


def test_change_value_exchanges_the_ends():
    one = perturbed(Mode.CHANGE_VALUE, np.array([1, 2, 3], np.float32), FLOAT32)
    assert one.tolist() == [3, 2, 1]
    two = perturbed(Mode.CHANGE_VALUE, np.arange(6, dtype=np.float32).reshape(2, 3), FLOAT32)
    assert two.tolist() == [[5, 1, 2], [3, 4, 0]]
    three = perturbed(Mode.CHANGE_VALUE, np.arange(8, dtype=np.float32).reshape(2, 2, 2), FLOAT32)
    assert three.tolist() == [[[6, 7], [2, 3]], [[4, 5], [0, 1]]]


@pytest.mark.parametrize(
    ("mode", "values", "of", "cause"),
    [
        (Mode.ADD_NOISE, np.empty(0, np.float32), FLOAT32, Cause.EMPTY),
        (Mode.BIT_NOISE, np.empty((0, 3), np.float32), FLOAT32, Cause.EMPTY),
        (Mode.ADD_NOISE, np.full(3, 9e-9, np.float32), FLOAT32, Cause.TOO_SMALL),
        (Mode.ADD_NOISE, np.full(3, 9e-5, np.float32), BFLOAT16, Cause.TOO_SMALL),
        (Mode.BIT_NOISE, np.full(3, 9e-7, np.float16), FLOAT16, Cause.TOO_SMALL),
        (Mode.BIT_NOISE, np.ones(3, np.float32), BFLOAT16, Cause.FORMAT),
        (Mode.CHANGE_VALUE, np.ones(1, np.float32), FLOAT32, Cause.TOO_FEW),
        (Mode.CHANGE_VALUE, np.ones((), np.float32), FLOAT32, Cause.TOO_FEW),
        (Mode.CHANGE_VALUE, np.ones((2, 0), np.float32), FLOAT32, Cause.TOO_FEW),
    ],
)
def test_what_cannot_be_perturbed_says_why(mode, values, of, cause):
    assert perturbed(mode, values, of) is cause


def ratio(original, other, eps):
    """The formula of the specification, element by element."""
    a = math.sqrt(eps)

    def quotient(x, y):
        if not abs(y) > a:
            return 1.0
        found = x / y if y else math.nan
        return found if math.isfinite(found) else 1.0

    there = [quotient(x, y) for x, y in zip(original, other, strict=True)]
    back = [quotient(y, x) for x, y in zip(original, other, strict=True)]
    return 8.0 if min(there) < 0 else max(*there, *back)


@pytest.mark.parametrize("seed", range(20))
def test_the_ratio_is_that_of_the_formula(seed):
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal(50) * 10.0 ** rng.integers(-7, 3, 50)).astype(np.float32)
    y = (x * (1 + rng.uniform(-1e-3, 1e-3, 50))).astype(np.float32)
    y[:2] = rng.standard_normal(2)  # mostly another sign, or a ratio far from 1
    assert difference(x, y, FLOAT32).ratio == pytest.approx(ratio(x.tolist(), y.tolist(), 1e-8), rel=1e-12)


def test_the_ratio_by_hand():
    def of(x, y, form=FLOAT32):
        return difference(np.array(x, form.dtype), np.array(y, form.dtype), form).ratio

    assert of([1, 2, 4], [1, 2, 4]) == 1
    assert of([1, 2], [1, 4]) == 2
    assert of([1, 4], [1, 2]) == 2
    assert of([1, -2], [1, 2]) == 8, "a sign flipped"
    assert of([5e-5, 1], [9e-5, 1]) == 1, "below 1e-4 nothing is compared"
    assert of([5e-5, 1], [2e-4, 1]) == 1, "only the smaller one is below: 5e-5 / 2e-4 is no maximum"
    assert of([2e-4, 1], [5e-5, 1]) == 1
    assert of([np.inf, np.nan, 1], [1, 1, 1]) == 1, "ratios that are not finite count as 1"
    assert of([], []) == 1
    assert of([129 / 8192, 1], [130 / 8192, 1], BFLOAT16) == 130 / 129, "in bfloat16 from 0.01 on"
    assert of([129 / 16384, 1], [130 / 16384, 1], BFLOAT16) == 1, "0.0079 is below"


def test_the_original_is_rounded_to_the_format_of_the_other():
    x = np.array([1 + 2**-12], np.float32)  # 1 in float16
    assert difference(x, np.array([1.0], np.float16), FLOAT16).ratio == 1


def test_blocks_are_one_array():
    rng = np.random.default_rng(3)
    x = rng.standard_normal(100_000).astype(np.float32)
    y = x + np.float32(1e-3)
    found = difference(x.reshape(10, -1).T, y.reshape(10, -1).T, FLOAT32)
    wide = y.astype(np.float64) - x
    assert found.change == pytest.approx((wide**2).sum(), rel=1e-12)
    assert found.size == pytest.approx((x.astype(np.float64) ** 2).sum(), rel=1e-12)
    assert found.unequal == np.count_nonzero(x != y)


@pytest.mark.parametrize("of", FORMATS.values(), ids=lambda of: of.name)
def test_the_tolerance_is_inclusive_and_either_way(of):
    t = TOLERANCE[of.name]

    def report(value, mode=Mode.ADD_NOISE):
        # in float64, where the ratio is exact enough
        found = difference(np.array([1.0]), np.array([value]), FLOAT64)
        return judged(mode, found, of.tolerance)

    assert report(1 + (t - 1) * 0.999) is None
    assert report(1 + (t - 1) * 1.001) == pytest.approx((t - 1) * 1.001, rel=1e-9)
    assert report(1 / (1 + (t - 1) * 1.001)) == pytest.approx((t - 1) * 1.001, rel=1e-9)
    assert report(-1.0) == 7.0


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        ([1.0, 2.0], [1.0, 2.0], None),
        ([np.nan, np.inf], [np.nan, np.inf], None),
        ([1.0, 1e-9], [1.0, 2e-9], 1.0),
        ([0.0], [1e-30], 0.0),
        ([1.0], [np.nan], math.inf),
        ([1.0], [1 + 2**-23], 2**-23),
    ],
)
def test_no_change_reports_any_difference(x, y, expected):
    found = difference(np.array(x, np.float32), np.array(y, np.float32), FLOAT32, 0.0)
    report = judged(Mode.NO_CHANGE, found, 1.0)
    assert report == (expected if expected is None else pytest.approx(expected, rel=1e-6))


def test_what_became_infinite_is_counted_apart():
    found = difference(
        np.array([1, np.inf, 2, np.nan], np.float32), np.array([np.inf, 1, 2, np.nan], np.float32), FLOAT32
    )
    assert found.non_finite == 2
    assert (found.ratio, found.change, found.size) == (1, 0, 4)


def test_outputs_of_two_shapes_are_not_compared():
    with pytest.raises(ValueError, match="shape"):
        difference(np.ones(3, np.float32), np.ones((3, 1), np.float32), FLOAT32)


@pytest.mark.parametrize(("change", "size", "expected"), [(0, 0, 0), (0, 4, 0), (1, 4, 0.5), (1, 0, math.inf)])
def test_the_relative_change(change, size, expected):
    assert relative(change, size) == expected
