"""Measures of anything: against plain arithmetic, and under swaps, scaling, permutation and cutting."""

import itertools
import math
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from msprobe.compare.core.measures import coarsest
from msprobe.compare.core.standard import EXACT, STANDARDS, standard_of
from msprobe.compare.measure import block as measure_block
from msprobe.compare.measure import tensors as module
from msprobe.compare.measure.tensors import measure

pytestmark = pytest.mark.everywhere

F32 = STANDARDS["float32"]
DTYPES = ["f2", "f4", "f8", "?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]


finite = st.floats(-1e6, 1e6, width=32)


@st.composite
def pairs(draw, elements=finite, max_size=60):
    size = draw(st.integers(1, max_size))
    return tuple(draw(hnp.arrays(np.float32, size, elements=elements)) for _ in "tg")


@st.composite
def anything(draw):
    """Two arrays of any bits: of any numeric dtypes, many elements equal, NaN and infinity frequent."""
    size = draw(st.sampled_from([1, 2, 7, 8, 9, 30, 511, 512, 513, 1030]))
    seed = draw(st.integers(0, 2**32 - 1))
    bits = np.random.default_rng(seed)
    kinds = draw(st.sampled_from(DTYPES)), draw(st.sampled_from(DTYPES))
    modest = draw(st.booleans())
    target, golden = (some(kind, size, bits, modest) for kind in kinds)
    if kinds[0] == kinds[1]:
        same = bits.random(size) < draw(st.sampled_from([0, 0.5, 0.99, 1]))
        target[same] = golden[same]
    return target, golden


def some(kind, size, bits, modest):
    dtype = np.dtype(kind)
    if kind == "?":
        return bits.integers(0, 2, size).astype(bool)
    if modest and dtype.kind == "f":
        return (bits.standard_normal(size) * 2.0 ** bits.integers(-20, 3)).astype(dtype)
    array = bits.integers(0, 256, size * dtype.itemsize, np.uint8).view(dtype)
    if dtype.kind == "f":
        array[bits.random(size) < 0.05] = bits.choice([np.nan, np.inf, -np.inf, 0.0, -0.0])
    return array


def plain(target, golden, standard):
    """Every measure by a loop over Python numbers, where nothing is mismatched and no square leaves float64."""
    t, g = target.tolist(), golden.tolist()
    both = [(x, y) if math.isfinite(x) and math.isfinite(y) else (0, 0) for x, y in zip(t, g, strict=True)]
    d = [float(x - y) for x, y in both]
    greatest = max((abs(float(y)) for y in g if math.isfinite(y)), default=0.0)
    share = [
        0.0 if not a else math.inf if not allowed else a / allowed
        for a, allowed in (
            (abs(a), standard.absolute * min(1.0, greatest) + standard.relative * abs(float(y)))
            for a, (_, y) in zip(d, both, strict=True)
        )
    ]
    absolute = [abs(a) for a in d]
    unit = coarsest([target.dtype.name, golden.dtype.name])
    units = [spacing(y, unit) if unit else 1.0 for _, y in both]
    narrow = {target.dtype, golden.dtype} <= {np.dtype("f2"), np.dtype("f4")}
    ratios = [relative(x, y, np.float32 if narrow else np.float64) for x, y in both]
    return {
        "euclid": math.sqrt(math.fsum(a * a for a in d)),
        "max_absolute": max(absolute),
        "max_absolute_at": absolute.index(max(absolute)) if any(absolute) else -1,
        "excess": max(share),
        "worst": share.index(max(share)) if any(share) else -1,
        "beyond": sum(s > 1 for s in share),
        "scale_error": max(absolute) / greatest if greatest else math.inf if any(absolute) else 0.0,
        "bias": math.fsum(d) / len(d),
        "max_ulp": max(a / u for a, u in zip(absolute, units, strict=True)),
        "max_relative": max(ratios),
        "within_1e_3": sum(r < type(r)(0.001) for r in ratios) / len(d),
        "within_5e_3": sum(r < type(r)(0.005) for r in ratios) / len(d),
    }


def spacing(value, unit):
    return 2.0 ** (max(math.frexp(value)[1] - 1 if value else -9999, unit.exponent) - unit.digits)


def relative(t, g, dtype):
    """|(t - g) / g| as the other tool takes it, of one array of one element; what float32 cannot hold, in float64."""
    x, y = np.array([t]).astype(dtype), np.array([g]).astype(dtype)
    if g == 0:
        x, y = x + dtype(2.0**-52), y + dtype(2.0**-52)
    with np.errstate(over="ignore"):
        found = abs((x - y) / y)[0]
    return found if np.isfinite(found) or dtype is np.float64 else relative(t, g, np.float64)


@pytest.mark.usefixtures("way")
@given(anything(), st.sampled_from([EXACT, F32, STANDARDS["float16"]]))
@example((np.array([1.86e37, 2.0], np.float32), np.array([1.196e-4, -6e-8], np.float16)), EXACT)
def test_every_measure_is_what_a_plain_loop_finds(pair, standard):
    target, golden = pair
    found = measure(target, golden, standard)
    sizes = np.concatenate([np.abs(a[np.isfinite(a)].astype(float)) for a in pair])
    if found.mismatched or ((sizes != 0) & ((sizes > 1e150) | (sizes < 1e-130))).any():  # squares leave float64
        return
    expected = plain(target, golden, standard)
    measured = asdict(found)
    for name in expected:
        tolerance = {"rel": 1e-12, "abs": 1e-14 * found.max_absolute if name == "bias" else 1e-300}
        assert measured[name] == pytest.approx(expected[name], **tolerance), name
        if name not in ("euclid", "bias"):
            assert measured[name] == expected[name], name


@pytest.mark.parametrize("way", ["avx2", "plain"], indirect=True)
@given(anything(), st.sampled_from([EXACT, F32]), st.sampled_from([0.0, 0.3, 1.0]))
def test_the_kernel_finds_what_numpy_finds(way, pair, standard, scale):
    rule = measure_block.Rule(standard.absolute, standard.relative, 2.0**-126)
    one = measure_block.block(*pair, scale, rule)
    other = measure_block.by_numpy(*pair, scale, rule)
    assert one[5:] == other[5:], "extremes, counts and indices are the same to the bit"
    slack = 1e-13 * math.sqrt(abs(other.tt)) * math.sqrt(abs(other.gg)) if math.isfinite(other.tt + other.gg) else 0
    if math.isfinite(other.dot) and math.isfinite(other.dd):
        assert one.dot == pytest.approx(other.dot, rel=1e-12, abs=slack)
        assert one.sum == pytest.approx(other.sum, rel=1e-12, abs=1e-13 * pair[0].size * other.absolute)
        assert one[1:4] == pytest.approx(other[1:4], rel=1e-12, abs=1e-310)


@pytest.mark.parametrize("way", ["avx2"], indirect=True)
@given(anything())
def test_every_instruction_set_gives_the_same_bits(way, pair):
    rule = measure_block.Rule(1e-5, 1e-6, 2.0**-126)
    found = []
    for flavour in ("avx2", "plain"):
        assert measure_block.kernel.choose(flavour)
        found.append(measure_block.block(*pair, 0.0, rule))
    measure_block.kernel.choose("avx2")
    assert np.array(found[0]).tobytes() == np.array(found[1]).tobytes() or np.isnan(found[0][:5]).any()


@pytest.mark.usefixtures("way")
@given(pairs())
def test_a_swap_keeps_what_is_symmetric(pair):
    a, b = pair
    one, other = measure(a, b, F32), measure(b, a, F32)
    for name in ("equal", "mismatched", "euclid", "max_absolute", "max_absolute_at"):
        assert getattr(one, name) == getattr(other, name), name
    assert one.bias == pytest.approx(-other.bias, rel=1e-12, abs=1e-12 * one.max_absolute)
    assert one.cosine == pytest.approx(other.cosine, nan_ok=True)


@pytest.mark.usefixtures("way")
@given(pairs(st.floats(-64, 64, width=16)), st.integers(-6, 20))
def test_a_power_of_two_scales_what_is_absolute_and_nothing_else(pair, exponent):
    t, g = pair
    g = np.where(g == 0, 1, g).astype(np.float32)  # what stands in for a zero does not scale
    factor = 2.0**exponent
    one, other = measure(t, g, F32), measure(t * np.float32(factor), g * np.float32(factor), F32)
    assert (other.euclid, other.max_absolute, other.bias) == pytest.approx(
        (one.euclid * factor, one.max_absolute * factor, one.bias * factor), rel=1e-13
    )
    for name in ("scale_error", "max_ulp", "max_absolute_at", "max_relative", "within_1e_3", "within_5e_3"):
        assert getattr(one, name) == getattr(other, name), name
    assert other.cosine == pytest.approx(one.cosine, rel=1e-13, nan_ok=True)


@pytest.mark.usefixtures("way")
@given(pairs(), st.randoms(use_true_random=False))
def test_the_order_of_elements_does_not_matter_but_for_indices(pair, draw):
    t, g = pair
    order = list(range(t.size))
    draw.shuffle(order)
    one, other = measure(t, g, F32), measure(t[order], g[order], F32)
    rounded = {"cosine", "euclid", "bias"}
    for name, value in asdict(replace(other, worst=one.worst, max_absolute_at=one.max_absolute_at)).items():
        slack = 1e-12 * max(1.0, one.max_absolute) if name in rounded else 0
        assert getattr(one, name) == pytest.approx(value, rel=1e-12 if slack else 0, abs=slack, nan_ok=True), name
    if one.max_absolute:
        at = order[other.max_absolute_at]
        assert abs(float(t[at]) - float(g[at])) == one.max_absolute


@pytest.mark.usefixtures("way")
@given(st.sampled_from(DTYPES), st.integers(0, 2**32 - 1), st.integers(1, 700))
def test_a_tensor_has_no_difference_from_itself(kind, seed, size):
    array = some(kind, size, np.random.default_rng(seed), False)
    found = measure(array, array.copy(), standard_of(array.dtype.name))
    assert (found.equal, found.cosine, found.within_1e_3, found.within_5e_3) == (True, 1.0, 1.0, 1.0)
    assert (found.mismatched, found.beyond, found.worst, found.max_absolute_at) == (0, 0, -1, -1)
    assert found.euclid == found.max_absolute == found.max_relative == found.excess == 0
    assert found.scale_error == found.bias == found.max_ulp == 0


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("size", [63, 64, 65, 127, 128, 129, 1000])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.complex64])
@pytest.mark.parametrize("factor", [1e-3, 1])
@pytest.mark.parametrize("layout", ["as it is", "every second"])
def test_where_blocks_are_cut_does_not_matter(monkeypatch, size, dtype, factor, layout):
    """With the factor the scale grows from block to block, and shares of early blocks are of the final one."""
    draw = np.random.default_rng(size)
    target, golden = draw.standard_normal((2, size)) * (factor if dtype != np.int64 else 5)
    golden[draw.random(size) < 0.5] = 0
    target[draw.random(size) < 0.3] = 0
    target, golden = target.astype(dtype), golden.astype(dtype)
    if layout != "as it is":
        target, golden = (np.repeat(a, 2).reshape(-1, 2)[:, 0] for a in (target, golden))
    whole = measure(target, golden, F32)
    monkeypatch.setattr(module, "BLOCK_IN_C", 64)
    monkeypatch.setattr(module, "BLOCK_IN_NUMPY", 64)
    cut = measure(target, golden, F32)
    rounded = dict.fromkeys(("cosine", "euclid", "bias"), 0)
    assert {**asdict(cut), **rounded} == {**asdict(whole), **rounded}
    assert (cut.cosine, cut.euclid, cut.bias) == pytest.approx((whole.cosine, whole.euclid, whole.bias), rel=1e-12)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("order", list(itertools.permutations([0, 1, 2])))
def test_a_scale_that_is_met_late_counts_from_the_beginning(monkeypatch, order):
    """Three blocks of 64 whose greatest golden elements are 0.1, 0.5 and 0.9: s is 0.9 wherever that stands."""
    monkeypatch.setattr(module, "BLOCK_IN_C", 64)
    monkeypatch.setattr(module, "BLOCK_IN_NUMPY", 64)
    golden = np.concatenate([np.full(64, (0.1, 0.5, 0.9)[which]) for which in order])
    target = golden + 5e-6
    found = measure(target, golden, F32)
    shares = np.abs(target - golden) / (1e-5 * 0.9 + 1.3e-6 * golden)
    assert (found.excess, found.beyond, found.worst) == (shares.max(), 0, int(shares.argmax()))
    target = (
        golden + 1e-5
    )  # beyond where golden is 0.1 (allowed 9.13e-6) and 0.5 (9.65e-6), not where it is 0.9 (1.017e-5)
    assert measure(target, golden, F32).beyond == 128
    target[golden == 0.9] += 1e-3  # which says nothing of the others
    assert measure(target, golden, F32).beyond == 192
    target = np.where(golden == 0.9, golden + 1e-3, golden + 5e-6)
    assert measure(target, golden, F32).beyond == 64


@pytest.mark.sample(1)
@pytest.mark.usefixtures("way")
@example(seed=0, dtype="float64")
@given(st.integers(0, 2**32 - 1), st.sampled_from(["float32", "float64"]))
def test_sums_are_good_to_thirteen_digits(seed, dtype):
    draw = np.random.default_rng(seed)
    golden = draw.standard_normal(200_003).astype(dtype)
    target = (golden + 1e-3 * draw.standard_normal(golden.size)).astype(dtype)
    found = measure(target, golden, F32)
    t, g = target.astype(np.longdouble), golden.astype(np.longdouble)
    d = t - g
    assert found.euclid == pytest.approx(float(np.sqrt((d * d).sum())), rel=1e-13)
    assert found.cosine == pytest.approx(float((t * g).sum() / np.sqrt((t * t).sum() * (g * g).sum())), rel=1e-13)
    assert found.bias == pytest.approx(float(d.mean()), abs=1e-13 * float(np.abs(d).mean()))
