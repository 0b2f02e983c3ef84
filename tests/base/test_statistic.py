"""The statistics of a tensor, against exact rational arithmetic and math.fsum.

Every promise is held by each way through: the C passes for each instruction set, and the numpy passes.
"""

import gc
import importlib.util
import json
import math
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from msprobe.base import statistic as module
from msprobe.base.statistic import Statistic, statistic, widen


class bfloat16(np.void):  # the name is what bfloat16 is known by
    """A numpy type such as frameworks register: two bytes that numpy cannot calculate with."""


BFLOAT16 = np.dtype((bfloat16, 2))
FLOATS = {"float16": np.dtype("f2"), "bfloat16": BFLOAT16, "float32": np.dtype("f4"), "float64": np.dtype("f8")}
INTEGERS = [np.dtype(kind) for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")]
NONE = Statistic(None, None, None, None, 0, 0, 0, 0)

# One register, two, eight, one block of the C passes, one of the numpy passes; always one less and one more.
SIZES = [
    1,
    2,
    3,
    7,
    8,
    9,
    15,
    16,
    17,
    31,
    32,
    33,
    63,
    64,
    65,
    127,
    128,
    129,
    2047,
    2049,
    4095,
    4096,
    4097,
    65537,
    100_003,
]

# The fixture only chooses the way, which examples of one test may share.
shared = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture(params=["avx2", "plain", "numpy"], autouse=True)
def way(request, monkeypatch):
    kernel = module.kernel
    if request.param == "numpy":
        monkeypatch.setattr(module, "kernel", None)
    elif kernel is None:
        pytest.skip("the extension was not built here")
    elif not kernel.choose(request.param):
        pytest.skip(f"this processor has no {request.param}")
    yield request.param
    if kernel is not None and not kernel.choose("avx2"):
        kernel.choose("plain")


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
        room = max(Fraction(found) / 10**12, Fraction(5e-324))
        assert max(Fraction(found) - room, 0) ** 2 <= exact <= (Fraction(found) + room) ** 2


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


# ---- floats


@pytest.mark.parametrize("dtype", FLOATS.values(), ids=FLOATS)
@shared
@given(data=st.data())
def test_any_bits_give_the_exact_statistic(dtype, data):
    bits = data.draw(st.lists(st.integers(0, 256**dtype.itemsize - 1), min_size=1, max_size=80))
    array = bits_to(dtype, bits)
    assert_float_statistic(statistic(array), values_of(array))


@pytest.mark.parametrize("dtype", FLOATS.values(), ids=FLOATS)
@shared
@given(data=st.data(), times=st.integers(1, 60))
def test_finite_elements_of_any_magnitude_give_the_exact_statistic(dtype, data, times):
    width = {BFLOAT16: 16}.get(dtype, 8 * dtype.itemsize)
    if dtype == BFLOAT16:
        bits = data.draw(st.lists(st.integers(0, 0x7F7F) | st.integers(0x8000, 0xFF7F), min_size=1, max_size=20))
        array = bits_to(dtype, bits)
    else:
        finite = st.floats(allow_nan=False, allow_infinity=False, width=width)
        array = np.array(data.draw(st.lists(finite, min_size=1, max_size=20)), dtype)
    array = np.tile(array, times)
    assert_float_statistic(statistic(array), values_of(array))


@pytest.mark.parametrize("dtype", FLOATS.values(), ids=FLOATS)
def test_every_size_gives_the_exact_statistic(dtype):
    for size in SIZES:
        array = round_to(dtype, np.random.default_rng(size).standard_normal(size))
        values = values_of(array)
        found = statistic(array)
        assert (found.max, found.min) == (max(values), min(values)), size
        assert found.mean == pytest.approx(math.fsum(values) / size, rel=1e-12, abs=0), size
        assert found.norm == pytest.approx(math.sqrt(math.fsum(v * v for v in values)), rel=1e-12, abs=0), size
        assert found[4:] == (0, 0, 0, 0), size


@pytest.mark.parametrize("dtype", FLOATS.values(), ids=FLOATS)
@pytest.mark.parametrize("size", [1, 2, 3, 16, 33, 70])
@pytest.mark.parametrize("odd", [math.nan, -math.nan, math.inf, -math.inf], ids=["nan", "-nan", "inf", "-inf"])
def test_one_element_that_is_not_finite_is_found_wherever_it_stands(dtype, size, odd):
    for at in range(size):
        values = np.linspace(-2, 3, size)
        values[at] = odd
        array = round_to(dtype, values)
        assert_float_statistic(statistic(array), values_of(array))


@pytest.mark.parametrize("dtype", FLOATS.values(), ids=FLOATS)
def test_elements_that_are_not_finite_are_counted_in_every_block(dtype):
    values = np.random.default_rng(0).standard_normal(200_000)
    values[[5, 70_000, 199_999]] = math.inf
    values[[0, 4096, 131_072, 131_073]] = -math.inf
    found = statistic(round_to(dtype, values))
    assert found[:1] + found[1:2] + found[3:] == (math.inf, -math.inf, math.inf, 0, 3, 4, 0)
    assert math.isnan(found.mean)
    values[[6, 90_000]] = math.nan
    assert statistic(round_to(dtype, values))[4:] == (2, 3, 4, 0)


@pytest.mark.parametrize("size", [1, 40, 5000])
def test_nothing_but_nan_or_one_infinity(size):
    for dtype in FLOATS.values():
        for odd in (math.nan, math.inf, -math.inf):
            array = round_to(dtype, np.full(size, odd))
            assert_float_statistic(statistic(array), values_of(array))


def test_the_greatest_finite_element_beside_minus_infinity():
    assert statistic(np.float32([-math.inf, -7, -2])).max == -2.0
    assert statistic(np.float64([3, math.inf, 9])).min == 3.0


@pytest.mark.parametrize("dtype", FLOATS.values(), ids=FLOATS)
def test_zeros_have_no_sign(dtype):
    for values in ([-0.0], [0.0], [-0.0, 0.0], [0.0, -0.0], [-0.0] * 100, [0.0] * 5000):
        found = statistic(round_to(dtype, np.array(values)))
        assert [math.copysign(1, number) for number in found[:4]] == [1, 1, 1, 1]
        assert found == (0, 0, 0, 0, 0, 0, 0, 0)


# ---- cancelling


CANCELLING = {
    "one lost between giants": [1e16, 1.0, -1e16],
    "three floors": [1e300, 1e150, 1.0, 1e-150, -1e300, -1e150],
    "the least float": [1e308, 5e-324, -1e308],
    "sums beyond float64": [1.7e308] * 4 + [-1.7e308] * 3,
    "greatest and least": [1.7e308, 1.7e308, -1.7e308, -1.7e308, 1e-320],
    "to zero": [0.1, 0.2, -0.2, -0.1],
    "thirds": [1 / 3] * 3000 + [-1.0] * 1000,
    "just off zero": [1.0, 2.0**-53, -1.0],
}


@pytest.mark.parametrize("values", CANCELLING.values(), ids=CANCELLING)
def test_the_mean_of_a_cancelling_sum(values):
    assert_close(statistic(np.array(values)).mean, sum(map(Fraction, values)) / len(values))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("size", [31, 4097, 100_003])
@pytest.mark.parametrize("spread", [0, 8, 30, 300])
def test_the_mean_of_pairs_that_cancel_but_for_one_element(dtype, size, spread):
    random = np.random.default_rng(size + spread)
    limit = {"f2": 8, "f4": 60, "f8": 300}[dtype]
    half = random.standard_normal(size // 2) * 2.0 ** random.uniform(-min(spread, limit), min(spread, limit), size // 2)
    half = half.astype(dtype)
    array = np.concatenate([half, -half, np.array([2.0**-10], dtype)])
    random.shuffle(array)
    assert statistic(array).mean == pytest.approx(2.0**-10 / array.size, rel=1e-12, abs=0)


@pytest.mark.parametrize("size", [31, 4097, 200_000])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_the_mean_of_noise_around_zero(size, dtype):
    array = np.random.default_rng(size).standard_normal(size).astype(dtype)
    array -= array.mean(dtype="f8").astype(dtype)
    exact = math.fsum(array.tolist()) / size
    assert statistic(array).mean == pytest.approx(exact, rel=1e-12, abs=0)


@pytest.mark.parametrize("gap", range(20, 34))
def test_float32_sums_at_the_edge_of_what_adds_up_without_error(gap):
    """Eight floats add up exactly in float64 while the least is 2^-26 of the greatest; beyond, all are cut."""
    random = np.random.default_rng(gap)
    great = random.uniform(1, 2, 4096).astype("f4")
    small = (random.uniform(1, 2, 4096) * 2.0**-gap).astype("f4")
    array = np.concatenate([great, small, -great])
    random.shuffle(array)
    assert statistic(array).mean == pytest.approx(math.fsum(small.tolist()) / array.size, rel=1e-12, abs=0)


@shared
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30), st.floats(-1, 1), st.randoms()
)
def test_any_list_and_its_negative_leave_what_was_added(values, extra, random):
    values = [*values, *(-value for value in values), extra]
    random.shuffle(values)
    assert_close(statistic(np.array(values)).mean, Fraction(extra) / len(values))


# ---- at the ends of float64


@pytest.mark.parametrize(
    ("values", "norm"),
    [
        ([3e300, 4e300], 5e300),
        ([1e300] * 10_000, 1e302),
        ([3e155, 4e155], 5e155),
        ([3e-160, 4e-160], 5e-160),
        ([3e-200, -4e-200], 5e-200),
        ([3e-310, 4e-310], 5e-310),
        ([5e-324], 5e-324),
        ([1e200, 1e-200], 1e200),
        ([1.7e308, 1.7e308], math.inf),
    ],
)
def test_the_norm_where_squares_leave_float64(values, norm):
    assert statistic(np.array(values)).norm == pytest.approx(norm, rel=1e-12, abs=1e-323)


def test_subnormal_elements_count():
    assert statistic(np.array([5e-324, 5e-324, 1e-323])) == (1e-323, 5e-324, 5e-324, 1e-323, 0, 0, 0, 0)
    least = float(np.float32(1e-45))
    assert statistic(np.full(100, 1e-45, "f4")) == (least, least, least, 10 * least, 0, 0, 0, 0)
    least = 2.0**-24
    assert statistic(np.full(100, least, "f2")) == (least, least, least, 10 * least, 0, 0, 0, 0)


# ---- integers and bool


def assert_integer_statistic(found: Statistic, values: list[int]) -> None:
    assert [type(number) for number in found] == [int, int, float, float, int, int, int, int]
    assert_finite_statistic(found, values)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@shared
@given(data=st.data(), times=st.integers(1, 50))
def test_any_integers_give_the_exact_statistic(dtype, data, times):
    limits = np.iinfo(dtype)
    values = data.draw(st.lists(st.integers(int(limits.min), int(limits.max)), min_size=1, max_size=80)) * times
    assert_integer_statistic(statistic(np.array(values, dtype)), values)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_of_every_size(dtype):
    limits = np.iinfo(dtype)
    for size in SIZES:
        array = np.random.default_rng(size).integers(limits.min, limits.max, size, dtype, endpoint=True)
        values = array.tolist()
        found = statistic(array)
        assert (found.max, found.min) == (max(values), min(values)), size
        assert_close(found.mean, Fraction(sum(values), size))
        assert found.norm == pytest.approx(math.sqrt(sum(value * value for value in values)), rel=1e-12, abs=0), size


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("size", [1, 100, 100_000])
def test_integer_extremes(dtype, size):
    limits = np.iinfo(dtype)
    for value in (int(limits.min), int(limits.max)):
        found = statistic(np.full(size, value, dtype))
        assert (found.max, found.min) == (value, value)
        assert_close(found.mean, Fraction(value))
        assert found.norm == pytest.approx(abs(value) * math.sqrt(size), rel=1e-12, abs=0)


def test_int64_sums_beyond_float64():
    values = [2**62, 2**62, 2**62, 3, -(2**62), -(2**62), -(2**62)]
    assert statistic(np.array(values)).mean == 3 / 7
    assert statistic(np.array([2**63 - 1, -(2**63)])).mean == -0.5
    assert statistic(np.array([2**53 + 1, 2**53 + 3])).max == 2**53 + 3
    assert statistic(np.array([2**64 - 1, 1], np.uint64))[:3] == (2**64 - 1, 1, 2.0**63)


@pytest.mark.parametrize(
    ("values", "any_", "all_"),
    [([True], True, True), ([False], False, False), ([False, True], True, False), ([True, False], True, False)],
)
@pytest.mark.parametrize("times", [1, 20, 100_000])
def test_bool_is_any_and_all(values, any_, all_, times):
    found = statistic(np.array(values * times))
    assert found == (any_, all_, None, None, 0, 0, 0, values.count(True) * times)
    assert found.max is any_
    assert found.min is all_


def test_one_bool_in_many():
    for odd in (0, 50_000, 99_999):
        array = np.zeros(100_000, bool)
        array[odd] = True
        assert statistic(array)[:2] == (True, False)
        assert statistic(~array)[:2] == (True, False)


# ---- complex and others


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_complex_is_of_the_absolute_values(dtype):
    random = np.random.default_rng(1)
    array = (random.standard_normal(1001) + 1j * random.standard_normal(1001)).astype(dtype)
    values = np.abs(array).tolist()
    found = statistic(array)
    assert (found.max, found.min) == (max(values), min(values))
    assert found.mean == pytest.approx(math.fsum(values) / 1001, rel=1e-12, abs=0)
    assert found.norm == pytest.approx(math.sqrt(math.fsum(v * v for v in values)), rel=1e-12, abs=0)
    assert statistic(np.array([3 + 4j, 0, complex(math.nan, 1)], dtype)).nan_count == 1
    assert statistic(np.array(3 - 4j, dtype)) == (5, 5, 5, 5, 0, 0, 0, 0)


def test_an_empty_array_has_no_statistic():
    for dtype in [*FLOATS.values(), *INTEGERS, np.dtype(bool), np.dtype("c8")]:
        assert statistic(np.empty((0, 3), dtype)) == NONE


@pytest.mark.parametrize(
    "array", [np.array(["a"]), np.array([None]), np.array(["2020-01-01"], "M8[D]"), np.zeros(2, "i4,f4")]
)
def test_what_is_no_number_has_no_statistic(array):
    assert statistic(array) == NONE


def test_wider_floats_are_rounded_to_float64():
    assert statistic(np.array([1, 2, 6], np.longdouble)) == (6.0, 1.0, 3.0, math.sqrt(41), 0, 0, 0, 0)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i8", "u8"])
def test_a_zero_dimensional_array_is_its_value(dtype):
    value = 7 if dtype == "u8" else -7
    found = statistic(np.array(value, dtype))
    assert found == (value, value, value, 7, 0, 0, 0, 0)
    assert type(found.max) is (float if dtype[0] == "f" else int)


def test_a_zero_dimensional_bool():
    assert statistic(np.array(True)) == (True, True, None, None, 0, 0, 0, 1)


# ---- layout and manners


def layouts(array: np.ndarray) -> dict[str, np.ndarray]:
    """The same elements, lying differently in memory."""
    spaced = np.zeros((*array.shape, 2), array.dtype)
    spaced[..., 0] = array
    shifted = np.frombuffer(b"\0" + array.tobytes(), array.dtype, offset=1).reshape(array.shape)
    locked = array.copy()
    locked.flags.writeable = False
    return {
        "fortran": np.asfortranarray(array),
        "transposed": array.T,
        "strided": spaced[..., 0],
        "backwards": array[::-1, ::-1],
        "other byte order": array.astype(array.dtype.newbyteorder()),
        "unaligned": shifted,
        "read-only": locked,
    }


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i2", "i4", "i8", "u8", "?", "c8"])
def test_the_layout_in_memory_does_not_matter(dtype):
    values = np.random.default_rng(3).integers(0, 100, (70, 90))
    array = (values > 5 if dtype == "?" else values).astype(dtype)
    expected = statistic(array)
    for name, other in layouts(array).items():
        assert np.array_equal(np.sort(other.ravel()), np.sort(array.ravel())), name
        assert statistic(other) == expected, name


def test_a_broadcast_array_counts_each_element():
    array = np.broadcast_to(np.float32([1, 2]), (3, 2))
    assert statistic(array) == (2, 1, 1.5, math.sqrt(15), 0, 0, 0, 0)


@pytest.mark.parametrize(
    "dtype", [*FLOATS.values(), *INTEGERS, np.dtype(bool), np.dtype("c8"), np.dtype(">f4")], ids=str
)
def test_the_argument_is_neither_changed_nor_kept(dtype):
    array = np.frombuffer(bytearray(np.random.default_rng(5).bytes(16_000)), dtype)
    before, count = array.tobytes(), sys.getrefcount(array)
    statistic(array)
    assert array.tobytes() == before
    assert sys.getrefcount(array) == count
    seen = weakref.ref(array)
    del array
    gc.collect()
    assert seen() is None


def test_threads_may_ask_at_once():
    arrays = [np.random.default_rng(seed).standard_normal(300_000).astype("f4") for seed in range(8)]
    alone = [statistic(array) for array in arrays]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(statistic, arrays * 5)) == alone * 5


def test_a_list_is_refused():
    with pytest.raises(AttributeError):
        statistic([1.0, 2.0])


# ---- with and without the kernel


@pytest.mark.parametrize("way", ["avx2", "plain"], indirect=True)
@pytest.mark.parametrize("dtype", [*FLOATS.values(), *INTEGERS], ids=str)
@shared
@given(data=st.data())
def test_the_kernel_agrees_with_numpy(way, dtype, data, monkeypatch):
    bits = data.draw(st.lists(st.integers(0, 256**dtype.itemsize - 1), min_size=1, max_size=40))
    array = np.tile(bits_to(dtype, bits), data.draw(st.sampled_from([1, 300])))
    one = statistic(array)
    with monkeypatch.context() as without:
        without.setattr(module, "kernel", None)
        other = statistic(array)
    assert one[4:] == other[4:]
    assert np.array(one[:2]).tobytes() == np.array(other[:2]).tobytes()
    assert one[2:4] == pytest.approx(other[2:4], rel=1e-12, abs=5e-324, nan_ok=True)


def test_without_the_extension_the_module_still_works(monkeypatch):
    monkeypatch.setitem(sys.modules, "msprobe.base._statistic", None)  # makes its import fail
    monkeypatch.delattr("msprobe.base._statistic", raising=False)
    spec = importlib.util.spec_from_file_location("msprobe.base.alone", module.__file__)
    alone = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(alone)
    assert alone.kernel is None
    assert alone.statistic(np.float32([1, 2, 6])) == (6, 1, 3, math.sqrt(41), 0, 0, 0, 0)


# ---- widen


def test_widen_gives_bfloat16_as_float32():
    every = np.arange(65536, dtype="u2").view(BFLOAT16)
    wide = widen(every)
    assert wide.dtype == np.float32
    assert (wide.view("u4") == np.arange(65536, dtype="u4") * 65536).all()
    some = round_to(BFLOAT16, np.arange(24.0)).reshape(2, 3, 4)
    assert (widen(some.T) == np.arange(24.0).reshape(2, 3, 4).T).all()
    assert (widen(some[:, ::2]) == np.arange(24.0).reshape(2, 3, 4)[:, ::2]).all()
    assert widen(some[0, 0, :1].reshape(())).shape == ()


@pytest.mark.parametrize("dtype", ["f2", "f4", "u2", "i2", "V2", ">f4", "c8", "?"])
def test_widen_leaves_other_arrays_as_they_are(dtype):
    array = np.zeros(3, dtype)
    assert widen(array) is array


def test_bfloat16_of_mindspore():
    mindspore = pytest.importorskip("mindspore", reason="needs MindSpore's own bfloat16")
    values = np.linspace(-3, 5, 1001).astype("f4").view("u4") & np.uint32(0xFFFF0000)  # what bfloat16 holds
    values = values.view("f4")
    array = mindspore.Tensor(values).astype(mindspore.bfloat16).asnumpy()
    assert array.dtype.type.__name__ == "bfloat16"
    assert (widen(array) == values).all()
    assert_finite_statistic(statistic(array), values.tolist())
    assert_finite_statistic(statistic(array[::3]), values[::3].tolist())


# ---- the kernel's text of what lies at an address


@pytest.mark.parametrize("letter", "fdebBhHiIq")
def test_the_text_is_the_json_of_the_statistic(letter):
    if module.kernel is None:
        pytest.skip("the extension was not built here: nothing makes such texts")
    array = (np.random.default_rng(1).standard_normal(1000) * 40).astype(letter)
    said = module.kernel.text('{"x":1,', array.ctypes.data, array.size, letter)
    found = statistic(array)
    expected = {"x": 1, "Max": found.max, "Min": found.min, "Mean": found.mean, "Norm": found.norm}
    assert f"{said}}}" == json.dumps(expected, separators=(",", ":"))


def test_the_text_of_what_is_not_finite_and_of_bools():
    if module.kernel is None:
        pytest.skip("the extension was not built here: nothing makes such texts")
    odd = np.float32([math.nan, math.inf, -math.inf, -math.inf])
    text = module.kernel.text("{", odd.ctypes.data, 4, "f")
    counts = '"nan_count":1,"positive_inf_count":1,"negative_inf_count":2'
    assert text == f'{{"Max":NaN,"Min":NaN,"Mean":NaN,"Norm":NaN,{counts}'
    odd = np.float64([3, -math.inf])
    assert module.kernel.text("", odd.ctypes.data, 2, "d") == (
        '"Max":3.0,"Min":-Infinity,"Mean":-Infinity,"Norm":Infinity,"negative_inf_count":1'
    )
    mask = np.array([True, False, True])
    text = module.kernel.text("", mask.ctypes.data, 3, "?")
    assert text == '"Max":true,"Min":false,"Mean":null,"Norm":null,"true_count":2'


def test_the_text_is_none_where_the_kernel_cannot_say():
    if module.kernel is None:
        pytest.skip("the extension was not built here: nothing makes such texts")
    cancelling = np.float64([1e300, 1.0, -1e300])
    assert module.kernel.text("", cancelling.ctypes.data, 3, "d") is None
    assert module.kernel.text("", cancelling.ctypes.data, 0, "d") is None
    assert module.kernel.text("", cancelling.ctypes.data + 1, 2, "d") is None
    assert module.kernel.text("", 0, 3, "d") is None
    assert module.kernel.text("", cancelling.ctypes.data, 3, "F") is None
