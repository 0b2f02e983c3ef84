"""The monitor's lean statistics, against plain formulas in numpy's float64.

Every promise is held by each way through: the C pass for each instruction set, and the numpy passes.
"""

import math
import sys
import threading

import numpy as np
import pytest
from exact_statistic import BFLOAT16, FLOATS, INTEGERS, SIZES, bits_to, round_to, values_of
from hypothesis import given
from hypothesis import strategies as st

from msprobe.base.brief import COLUMNS, measure_all
from msprobe.store.monitor.layout import STATISTICS

pytestmark = [pytest.mark.everywhere, pytest.mark.usefixtures("way")]

EPS = 1e-8


def wanted(values, eps=EPS):
    """A row by the definitions, from Python numbers."""
    x = np.array(values, np.float64)
    if not x.size:
        return [math.nan] * 4 + [0.0, math.nan]
    with np.errstate(all="ignore"):
        low, high, zeros, nans = x.min(), x.max(), np.mean(np.abs(x) < eps), np.isnan(x).sum()
        if np.isfinite(x).all():
            norm, mean = math.sqrt(math.fsum(x * x)), math.fsum(x) / x.size
        else:
            norm, mean = np.sqrt((x * x).sum()), x.sum() / x.size
    return [norm, low, high, zeros, nans, mean]


def assert_row(row, values, eps=EPS):
    """The row is right; where a sum cancels, the mean is only good to the size of what was added."""
    norm, low, high, zeros, nans, mean = wanted(values, eps)
    assert np.array_equal(row[1:5], [low, high, zeros, nans], equal_nan=True), (row, wanted(values, eps))
    np.testing.assert_allclose(row[0], norm, rtol=1e-11)
    with np.errstate(invalid="ignore"):  # a signaling NaN
        size = np.abs(np.array(values, np.float64)).mean() if len(values) else 0
    np.testing.assert_allclose(row[5], mean, rtol=0, atol=1e-11 * size if math.isfinite(size) else 0)


def test_the_columns_are_the_monitors_statistics():
    assert COLUMNS == STATISTICS


@pytest.mark.parametrize("dtype", FLOATS.values(), ids=FLOATS)
def test_every_size_gives_the_formulas_values(dtype):
    arrays = [round_to(dtype, np.random.default_rng(size).standard_normal(size)) for size in SIZES]
    for row, array in zip(measure_all(arrays, 0.01), arrays, strict=True):
        assert_row(row, values_of(array), 0.01)


def test_each_part_of_a_large_tensor_is_counted():
    """The C pass takes parts of 2^18 elements."""
    array = np.zeros(3 * 2**18 + 1, np.float32)
    array[[0, 2**18, -1]] = np.nan, np.nan, 1
    (row,) = measure_all([array], EPS)
    assert row[4] == 2
    assert row[3] == (array.size - 3) / array.size


@pytest.mark.parametrize("dtype", FLOATS.values(), ids=FLOATS)
@given(data=st.data())
def test_any_bits_give_the_formulas_values(dtype, data):
    bits = data.draw(st.lists(st.integers(0, 256**dtype.itemsize - 1), min_size=1, max_size=80))
    array = bits_to(dtype, bits)
    values = values_of(array)
    if dtype == "f8" and any(abs(v) > 1e150 or 0 < abs(v) < 1e-150 for v in values):
        return  # the formula itself leaves float64 here; the tests of huge and tiny values have it
    assert_row(measure_all([array], EPS)[0], values)


@pytest.mark.parametrize("dtype", [*INTEGERS, np.dtype(bool)], ids=str)
@given(data=st.data())
def test_integers_and_bools_are_numbers(dtype, data):
    limits = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    values = data.draw(st.lists(st.integers(*limits), min_size=1, max_size=70))
    assert_row(measure_all([np.array(values, dtype)], 1.5)[0], values, 1.5)


@pytest.mark.parametrize("exponent", [-1074, -1050, -700, -500, 500, 600, 1000])
def test_the_norm_of_doubles_has_its_value_where_squares_leave_the_range(exponent):
    unit = math.ldexp(1.0, exponent)
    norm, low, high, _, nans, mean = measure_all([np.array([3 * unit, -4 * unit])], EPS)[0]
    assert (low, high, nans) == (-4 * unit, 3 * unit, 0)
    assert norm == pytest.approx(5 * unit, rel=1e-14)
    assert mean == -unit / 2


def test_a_float32_of_greatest_and_least_magnitude_is_squared_in_double():
    found = measure_all([np.full(1000, 3e38, "f4"), np.full(1000, 1e-45, "f4")], EPS)
    assert found[0, 0] == pytest.approx(float(np.float32(3e38)) * math.sqrt(1000), rel=1e-12)
    assert found[1, 0] == pytest.approx(2.0**-149 * math.sqrt(1000), rel=1e-12)
    assert found[:, 5] == pytest.approx([float(np.float32(3e38)), 2.0**-149], rel=1e-12)


@pytest.mark.parametrize("dtype", FLOATS.values(), ids=FLOATS)
@pytest.mark.parametrize("size", [1, 16, 35])
@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf], ids=str)
def test_one_element_that_is_not_finite_is_found_wherever_it_stands(dtype, size, odd):
    for at in range(size):
        values = np.linspace(-2, 3, size)
        values[at] = odd
        array = round_to(dtype, values)
        norm, low, high, _, nans, mean = measure_all([array], EPS)[0]
        if math.isnan(odd):
            assert nans == 1
            assert np.isnan([norm, low, high, mean]).all()
        else:
            assert (nans, norm, mean) == (0, math.inf, odd)
            assert (low, high) == (min(values_of(array)), max(values_of(array)))


def test_infinities_of_both_signs_have_no_mean():
    norm, low, high, zeros, nans, mean = measure_all([np.array([np.inf, -np.inf, 0], "f4")], EPS)[0]
    assert (norm, low, high, nans) == (np.inf, -np.inf, np.inf, 0)
    assert zeros == pytest.approx(1 / 3)
    assert math.isnan(mean)


def test_zeros_is_the_part_that_is_less_than_eps_and_nan_is_none():
    array = np.array([0, -0.0, 1e-9, -1e-9, 1e-7, 1, np.nan, np.inf], "f4")
    assert measure_all([array], 1e-8)[0, 3] == 4 / 8
    assert measure_all([array], 1.0)[0, 3] == 5 / 8, "less than, not equal"
    assert measure_all([array], 0.0)[0, 3] == 0


def test_eps_is_compared_in_float32_but_never_becomes_zero():
    near = np.nextafter(np.float32(0.1), np.float32(0))
    array = np.array([np.float32(0.1), near], "f4")
    assert measure_all([array], 0.1)[0, 3] == 0.5, "float32(0.1) > 0.1; it is not less than float32(0.1)"
    assert measure_all([np.zeros(4, "f4"), np.zeros(4, "f2")], 1e-60)[:, 3].tolist() == [1, 1]


def test_the_least_integer_is_no_zero():
    arrays = [np.array([np.iinfo(dtype).min], dtype) for dtype in ("i1", "i2", "i4", "i8")]
    assert measure_all(arrays, 1.0)[:, 3].tolist() == [0, 0, 0, 0]


def test_a_zero_has_no_sign():
    found = measure_all([np.array([-0.0, -0.0]), np.array([-0.0], "f4")], EPS)
    assert not np.signbit(found).any()


def test_an_empty_array_has_no_nan_and_nothing_else():
    for dtype in (*FLOATS.values(), "i4", "?"):
        row = measure_all([np.empty((0, 3), dtype)], EPS)[0]
        assert row[4] == 0
        assert np.isnan(np.delete(row, 4)).all()


def test_what_is_no_number_is_like_empty():
    found = measure_all([np.array(["a"]), np.array([None]), np.ones(3), np.array(["2020"], "M8[D]")], EPS)
    assert found[:, 4].tolist() == [0, 0, 0, 0]
    assert np.isnan(found[[0, 1, 3], 5]).all()
    assert found[2, 5] == 1


def test_an_empty_list_has_no_rows():
    assert measure_all([], EPS).shape == (0, 6)


def test_complex_numbers_count_by_their_absolute_values():
    assert measure_all([np.array([3 + 4j, 0])], EPS)[0].tolist() == [5, 0, 5, 0.5, 0, 2.5]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", ">f4", ">i8", "g"])
def test_any_layout_and_byte_order(dtype):
    base = np.arange(-300, 300).reshape(20, 30)
    array = base.astype(dtype)
    raw = np.empty(array.nbytes + 1, np.uint8)
    unaligned = raw[1:].view(dtype).reshape(20, 30)
    unaligned[...] = array
    views = [array.T, array[::2, ::-3], np.asfortranarray(array), unaligned, np.broadcast_to(array[0], (4, 30))]
    same = [base.T, base[::2, ::-3], base, base, np.broadcast_to(base[0], (4, 30))]
    for row, values in zip(measure_all(views, EPS), same, strict=True):
        assert_row(row, values.ravel().tolist())


def test_bfloat16_of_any_layout():
    array = round_to(BFLOAT16, np.linspace(-3, 7, 60)).reshape(6, 10)
    for view in (array.T, array[::2], array[:, ::-1]):
        assert_row(measure_all([view], EPS)[0], values_of(np.ascontiguousarray(view).reshape(-1)))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_neither_threads_nor_place_in_memory_change_a_bit(dtype):
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal(n).astype(dtype) for n in (1_300_000, 5, 262_144, 262_145, 70_000, 524_287)]
    alone = np.concatenate([measure_all([array], EPS) for array in arrays])
    moved = []
    for array in arrays:
        room = np.empty(array.size + 3, dtype)
        room[3:] = array
        moved.append(room[3:])
    for threads in (0, 1, 2, 5, 1000):
        assert measure_all(arrays, EPS, threads).tobytes() == alone.tobytes()
        assert measure_all(moved, EPS, threads).tobytes() == alone.tobytes()


def test_several_threads_may_measure_at_once():
    arrays = [np.random.default_rng(n).standard_normal(300_000).astype("f4") for n in range(8)]
    one = measure_all(arrays, EPS).tobytes()
    found = [b""] * 4

    def run(at):
        found[at] = measure_all(arrays, EPS, 2).tobytes()

    threads = [threading.Thread(target=run, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [one] * 4


def test_arrays_are_not_changed_nor_kept():
    array = np.arange(10, dtype="f4")
    before = sys.getrefcount(array)
    measure_all([array, array], EPS)
    assert sys.getrefcount(array) == before
    assert array.tolist() == list(range(10))


def test_values_add_up_however_long_the_array():
    array = np.full(3_000_000, 0.1, "f4")
    norm, _, _, _, _, mean = measure_all([array], EPS)[0]
    tenth = float(np.float32(0.1))
    assert mean == pytest.approx(tenth, rel=1e-11)
    assert norm == pytest.approx(tenth * math.sqrt(3_000_000), rel=1e-11)
