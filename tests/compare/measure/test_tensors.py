"""Measures, against numbers that were worked out by hand or in another way."""

import math
import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from msprobe.base.errors import DumpError
from msprobe.compare.core.standard import EXACT, STANDARDS
from msprobe.compare.judge.verdict import judge_measures
from msprobe.compare.measure import block as measure_block
from msprobe.compare.measure.tensors import measure
from msprobe.store.npy import NpyFile, open_npy

F32 = STANDARDS["float32"]
NAN, INF = math.nan, math.inf

pytestmark = [pytest.mark.everywhere, pytest.mark.usefixtures("way")]


finite = hnp.arrays(np.float32, st.integers(1, 30), elements=st.floats(-1e6, 1e6, width=32))


def test_integers_of_the_worked_example():
    """[0,1,2,3] against [1,2,3,4]: dot 20, norms sqrt(14) and sqrt(30); every difference is 1."""
    found = measure(np.array([0, 1, 2, 3], np.int32), np.array([1, 2, 3, 4], np.int32), EXACT)
    assert found.cosine == pytest.approx(20 / math.sqrt(14 * 30), rel=1e-15)
    assert round(found.cosine, 4) == 0.9759
    assert (found.euclid, found.max_absolute, found.max_relative) == (2.0, 1.0, 1.0)
    assert (found.within_1e_3, found.within_5e_3) == (0.0, 0.0)
    assert (found.excess, found.beyond) == (INF, 4)


def test_a_scaled_tensor_of_the_worked_example():
    """a against 1.0005 a: relative error 0.0005/1.0005 everywhere, so all are within a thousandth."""
    a = np.linspace(-1.5, 1.5, 16)
    found = measure(a, a * 1.0005, STANDARDS["float64"])
    assert found.cosine == pytest.approx(1, abs=1e-15)
    assert found.max_relative == pytest.approx(0.0005 / 1.0005, rel=1e-9)
    assert found.euclid == pytest.approx(0.0005 * np.linalg.norm(a), rel=1e-9)
    assert (found.within_1e_3, found.within_5e_3) == (1.0, 1.0)


def test_a_shifted_tensor_of_the_worked_example():
    a = np.linspace(-1, 1, 16)
    found = measure(a, a + 5, STANDARDS["float64"])
    assert found.max_absolute == pytest.approx(5)
    assert (found.within_1e_3, found.within_5e_3) == (0.0, 0.0)


def test_a_golden_zero_gets_the_smallest_denominator():
    found = measure(np.array([0.5, 1.0]), np.array([0.0, 1.0]), F32)
    assert found.max_relative == pytest.approx(0.5 / 2.0**-52)
    assert found.within_1e_3 == 0.5


@pytest.mark.parametrize(
    ("target", "golden", "cosine"),
    [
        ([0.0, 0.0], [1.0, 0.0], NAN),
        ([1.0, 0.0], [0.0, 0.0], NAN),
        ([1.0, 0.0], [0.0, 1.0], 0.0),
        ([1, 0], [-2, 0], -1),
    ],
)
def test_cosine_at_its_edges(target, golden, cosine):
    found = measure(np.array(target, float), np.array(golden, float), F32)
    assert found.cosine == pytest.approx(cosine, nan_ok=True)


@pytest.mark.parametrize(("t", "g"), [(NAN, 1.0), (1.0, NAN), (INF, -INF), (INF, 1.0), (NAN, INF)])
def test_nan_or_infinity_on_one_side_is_counted_and_placed(t, g):
    found = measure(np.array([[1.0, 2.0], [t, 0]]), np.array([[1.0, 2.0], [g, 0]]), F32)
    assert (found.mismatched, found.beyond, found.worst, found.excess) == (1, 1, 2, INF)
    verdict = judge_measures(found, F32, (2, 2))
    assert verdict.grade == "error"
    assert "NaN or infinity differs in 1 of 4 elements, first at [1, 0]" in verdict.reason


def test_equality_counts_nan_and_signed_zeros_as_equal_and_dtypes_as_different():
    assert measure(np.array([NAN, -0.0]), np.array([NAN, 0.0]), F32).equal
    assert not measure(np.array([1], np.int32), np.array([1], np.int64), EXACT).equal
    assert not measure(np.array([NAN, 1.0]), np.array([1.0, NAN]), F32).equal
    assert measure(np.array([1.0], ">f4"), np.array([1.0], "<f4"), F32).equal


@given(finite, finite)
def test_excess_is_the_standard_element_by_element(a, b):
    n = min(a.size, b.size)
    a, b = a[:n], b[:n]
    scale = min(Fraction(1), max(abs(Fraction(float(g))) for g in b))
    outside = 0
    for t, g in zip(a.tolist(), b.tolist(), strict=True):
        allowed = Fraction(F32.absolute) * scale + Fraction(F32.relative) * abs(Fraction(g))
        outside += abs(Fraction(t) - Fraction(g)) > allowed * (1 + Fraction(1, 10**12))
    assert outside <= measure(a, b, F32).beyond


def test_small_gradients_do_not_pass_for_being_small():
    golden = np.array([1e-7, -2e-7, 3e-8], np.float32)
    assert measure(golden * 2, golden, F32).excess > 10
    assert measure(golden * np.float32(1 + 1e-7), golden, F32).excess <= 1


def test_one_huge_element_does_not_excuse_its_neighbors():
    golden = np.array([-1e9, 1.0, 2.0], np.float32)
    target = np.array([-1e9, 1.01, 2.0], np.float32)
    assert measure(target, golden, F32).excess > 10


def test_without_the_extension_the_module_still_works(without_kernel):
    alone = without_kernel(measure_block, "msprobe.compare.measure._measure")
    assert alone.kernel is None
    found = alone.block(np.float32([1, 2, 6]), np.float32([1, 2, 7]), 0.0, alone.Rule(1e-5, 1e-6, 2.0**-126))
    assert (found.dot, found.tt, found.gg, found.dd, found.sum) == (47, 41, 54, 1, -1)


@pytest.mark.parametrize("strange", [np.zeros(4)[::2], np.zeros(4, ">f8"), np.zeros(4, complex), np.zeros(4, "g")])
def test_the_kernel_declines_what_its_loops_cannot_run_over(way, strange):
    if way == "numpy":
        assert measure_block.kernel is None
        return
    assert measure_block.kernel.block(strange, np.zeros(strange.size), 1.0, 0.0, 0.0, 1.0) is None


def test_the_kernel_refuses_blocks_of_two_sizes(way):
    if way == "numpy":
        assert measure_block.kernel is None
        return
    with pytest.raises(ValueError, match="different numbers of elements"):
        measure_block.kernel.block(np.zeros(3), np.zeros(4), 1.0, 0.0, 0.0, 1.0)
    with pytest.raises(TypeError):
        measure_block.kernel.block([1.0], np.zeros(1), 1.0, 0.0, 0.0, 1.0)


# ---- files


@pytest.fixture
def saved(tmp_path):
    """Two tensors of 10^5 elements, and the npy files that hold them."""
    draw = np.random.default_rng(11)
    golden = draw.standard_normal((100, 1000)).astype(np.float32)
    target = golden + np.float32(1e-4) * draw.standard_normal((100, 1000)).astype(np.float32)
    target[3, 4], golden[70, 5] = np.nan, 500
    paths = tmp_path / "target.npy", tmp_path / "golden.npy"
    np.save(paths[0], target)
    np.save(paths[1], golden)
    return (target, golden), paths


def test_files_are_measured_as_what_they_hold(saved):
    (target, golden), paths = saved
    files = [open_npy(path) for path in paths]
    assert all(isinstance(file, NpyFile) for file in files)
    expected = measure(target, golden, F32)
    assert measure(*files, F32) == expected
    assert measure(target, files[1], F32) == measure(files[0], golden, F32) == expected
    assert (expected.mismatched, expected.worst, expected.max_absolute_at) == (1, 3004, 70_005)
    with pytest.raises(ValueError, match="shapes differ"):
        measure(files[0], golden.reshape(-1), F32)


def test_a_file_that_is_cut_while_it_is_measured_is_said(saved):
    (_, golden), paths = saved
    file = open_npy(paths[0])
    os.truncate(paths[0], 2000)
    with pytest.raises(DumpError, match=r"target.npy: was truncated"):
        measure(file, golden, F32)


def test_memory_does_not_grow_with_the_files(tmp_path, way):
    """Two files of 64 MiB take a few MiB."""
    code = (
        "import sys; from pathlib import Path; import numpy as np\n"
        "from msprobe.compare.measure import block as measure_block\n"
        "from msprobe.compare.measure.tensors import measure; from msprobe.compare.core.standard import EXACT\n"
        "from msprobe.store.npy import open_npy\n"
        "if sys.argv[1] == 'numpy': measure_block.kernel = None\n"
        "def peak(): return int(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])\n"
        "measure(np.zeros(200_000, 'f4'), np.ones(200_000, 'f4'), EXACT); before = peak()\n"
        "found = measure(*(open_npy(Path(path)) for path in sys.argv[2:]), EXACT)\n"
        "print(found.size, found.beyond, found.max_absolute_at, peak() - before < 6 * 1024)"
    )
    paths = [tmp_path / "target.npy", tmp_path / "golden.npy"]
    for path in paths:
        np.save(path, np.zeros(1 << 24, np.float32))
    with open(paths[0], "r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(np.float32(1).tobytes())
    done = subprocess.run([sys.executable, "-c", code, way, *paths], capture_output=True, text=True, check=True)
    assert done.stdout == f"{1 << 24} 1 {(1 << 24) - 1} True\n"
