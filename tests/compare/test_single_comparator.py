"""SingleComparator: what two runs saved by name, compared; against numbers of the other tool and numbers by hand."""

import json
import math
import os
import re
import subprocess
import sys
import tracemalloc
from fractions import Fraction
from pathlib import Path

import numpy as np
import openpyxl
import pytest

from msprobe.base import log
from msprobe.base.errors import UsageError
from msprobe.compare.key_data import judge, workers
from msprobe.compare.key_data import measure as key_data_measure
from msprobe.compare.key_data.comparator import compare_trees
from msprobe.compare.key_data.key import Key
from msprobe.compare.key_data.measure import measure
from msprobe.compare.key_data.pair import Pair, find, pair
from msprobe.core import SingleComparator
from msprobe.store.kinds import kind_of
from msprobe.store.single_trees import read_single, single_dumps

DOCS = Path(__file__).parents[2] / "docs"
HEADINGS = [
    *("step", "rank", "micro_step", "id", "shape1", "shape2", "相同元素百分比(%)", "首个不匹配元素索引"),
    *("最大绝对误差", "最大相对误差", "误差在千分之一内元素占比(%)", "误差在百分之一内元素占比(%)"),
    *("Verdict", "Reason"),
]
F32 = np.float32
GRID = (np.arange(12, dtype=F32) / 8 - 0.5).reshape(3, 4)


def put(root, inside, array):
    path = root / "data" / inside
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, array)


@pytest.fixture
def trees(tmp_path):
    """Two roots, each with its folder `data`."""
    roots = tmp_path / "a", tmp_path / "b"
    for root in roots:
        (root / "data").mkdir(parents=True)
    return roots


@pytest.fixture
def said(monkeypatch):
    """What the log says, line by line."""
    lines = []
    for level in ("info", "warning"):
        monkeypatch.setattr(log.logger, level, lambda text, *args: lines.append(text % args))
    return lines


def sheet(path):
    return [list(row) for row in openpyxl.load_workbook(path).active.iter_rows(values_only=True)]


def compared(trees, tag, processes=1):
    """The rows of one tag."""
    out = trees[0].parent / "out"
    SingleComparator.compare(*trees, out, processes)
    return sheet(out / f"{tag}.xlsx")[1:]


def one(trees, target, golden):
    """The row of a single pair, without its place: shapes, six numbers, verdict, reason."""
    put(trees[0], "x/step0/rank0/micro_step0/x.npy", target)
    put(trees[1], "x/step0/rank0/micro_step0/x.npy", golden)
    (row,) = compared(trees, "x")
    return row[4:]


def test_the_sheet_has_the_documented_headings_and_ours_behind_them(trees):
    put(trees[0], "loss/step0/rank0/loss.npy", GRID)
    put(trees[1], "loss/step0/rank0/loss.npy", GRID)
    (path,) = SingleComparator.compare(*trees, trees[0].parent / "out")
    assert path.name == "loss.xlsx"
    assert sheet(path) == [HEADINGS, [0, 0, 0, 0, "[3, 4]", "[3, 4]", 100, None, 0, 0, 100, 100, "pass", None]]


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
    monkeypatch.setattr(key_data_measure, "BLOCK", 64)
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
            found = measure(a, golden)
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
    judge.judge(both)
    tracemalloc.start()
    try:
        row = judge.judge(both)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert row.found.first == zeros.size - 1


def test_the_verdict_is_by_the_standard_of_the_dtype(trees):
    near = GRID * (1 + 1e-6)
    assert one(trees, near, GRID)[8:] == ["pass", None]
    verdict, reason = one(trees, GRID * F32(1.01), GRID)[8:]
    assert verdict == "error"
    assert "beyond 1.3e-06*|golden| + 1e-05" in reason


def test_a_width_that_differs_is_judged_by_the_coarser_and_said(trees):
    wide = np.array([0.1, 2.0])
    assert one(trees, wide.astype(np.float16), wide)[8:] == ["pass", "Dtypes differ: float16, golden float64."]
    assert one(trees, wide, wide.astype(np.float16))[8:] == ["pass", "Dtypes differ: float64, golden float16."]


def test_a_kind_that_differs_is_an_error(trees):
    assert one(trees, np.array([1, 2]), np.array([1.0, 2]))[8:] == ["error", "Dtypes differ: int64, golden float64."]


def test_shapes_that_differ_are_cut_said_and_an_error(trees):
    row = one(trees, np.ones((2, 3)), np.ones((3, 2)))
    assert row[:2] == ["[2, 3]", "[3, 2]"]
    assert row[8:] == ["error", "Shapes differ: [2, 3], golden [3, 2]; compared in [2, 2]."]
    row = one(trees, np.ones((2, 3)), np.ones(4))
    assert row[9] == "Shapes differ: [2, 3], golden [4]; compared in [4] of the flattened two."
    row = one(trees, np.ones((0, 3)), np.ones((2, 3)))
    assert row[2:8] == [None] * 6
    assert row[8:] == ["error", "Shapes differ: [0, 3], golden [2, 3]; compared in [0, 3]. No element is in both."]


def test_a_tree_that_the_other_tool_saved_is_read_whole(samples, tmp_path):
    saved = samples / "single_save"
    done = compare_trees(saved, saved, tmp_path, 1)
    assert done.counts == {"pass": len(list(saved.rglob("*.npy")))}
    assert [path.stem for path in done.sheets] == sorted(path.name for path in (saved / "data").iterdir())


def test_rows_come_by_number_not_by_text(trees):
    places = [(s, r, m) for s in (1, 2, 10) for r in (2, 10) for m in (3, 11)]
    for step, rank, micro in places:
        for root in trees:
            put(root, f"x/step{step}/rank{rank}/micro_step{micro}/x.npy", GRID)
    assert [tuple(row[:3]) for row in compared(trees, "x")] == places


def test_every_element_of_a_list_and_every_key_of_a_dict_is_a_row(trees):
    for side, root in enumerate(trees):
        for member in (10, 9, "mask", "b.1", "03"):
            put(root, f"x/step0/rank0/micro_step0/x.{member}.npy", GRID + (member == "mask") * side)
    rows = compared(trees, "x")
    assert [row[3] for row in rows] == [9, 10, "03", "b.1", "mask"]
    assert [row[6] for row in rows] == [100, 100, 100, 100, 0]


def test_a_tag_with_dots_is_no_list(trees):
    for root in trees:
        put(root, "a.3/step0/rank0/a.3.npy", GRID)
    assert [row[3] for row in compared(trees, "a.3")] == [0]


def test_files_called_otherwise_go_by_the_number_before_npy(trees):
    for root in trees:
        put(root, "x/step0/rank0/resp.3.npy", GRID)
        put(root, "x/step0/rank0/other.npy", GRID)
    assert [row[3] for row in compared(trees, "x")] == [0, 3]


def test_files_of_one_id_are_all_compared_each_with_its_own(trees):
    for root in trees:
        put(root, "x/step0/rank0/micro_step0/x.npy", GRID)
        put(root, "x/step0/rank0/x.npy", GRID + 1)
        put(root, "x/step0/rank0/other.npy", GRID + 2)
    (trees[0] / "data/x/step0/rank0/other.npy").rename(trees[0] / "data/x/step0/rank0/another.npy")
    rows = compared(trees, "x")
    assert [row[:4] for row in rows] == [[0, 0, 0, 0]] * 3
    assert [row[6] for row in rows] == [100, 100, 100]


def test_saves_out_of_a_graph_are_paired_by_order_not_by_the_number_of_the_process(trees):
    for root, numbers in zip(trees, [(0, 7, 10), (3, 5, 100)], strict=True):
        for order, number in enumerate(numbers):
            put(root, f"adv/step0/rank0/adv_float32_{number}.npy", GRID + order)
    rows = compared(trees, "adv")
    assert [row[3] for row in rows] == [0, 1, 2]
    assert [row[6] for row in rows] == [100, 100, 100]


def test_lists_saved_out_of_a_graph_are_paired_by_element_and_order(trees):
    for root, start in zip(trees, (3, 40), strict=True):
        for number in range(4):  # two saves of two elements
            member = number % 2
            put(root, f"r/step0/rank0/r.{member}_int32_{start + number}.npy", np.arange(3) + number)
    rows = compared(trees, "r")
    assert [row[3] for row in rows] == ["0.0", "0.1", "1.0", "1.1"]
    assert [row[6] for row in rows] == [100] * 4


def test_a_dtype_in_the_name_does_not_part_a_pair(trees):
    put(trees[0], "x/step0/rank0/x_bfloat16_0.npy", GRID)
    put(trees[1], "x/step0/rank0/x_float32_4.npy", GRID)
    assert [row[12] for row in compared(trees, "x")] == ["pass"]


def test_a_key_that_looks_like_a_save_out_of_a_graph_is_a_key_beside_its_json(trees):
    for root in trees:
        put(root, "x/step0/rank0/x.mask_int32_3.npy", GRID)
        (root / "data/x/step0/rank0/x.json").write_text("{}")
    assert [row[3] for row in compared(trees, "x")] == ["mask_int32_3"]


def test_what_stands_on_one_side_only_is_a_row_and_is_counted(trees, said):
    put(trees[0], "x/step0/rank0/x.npy", GRID)
    put(trees[1], "x/step0/rank0/x.npy", GRID)
    put(trees[0], "x/step1/rank0/x.npy", GRID)
    put(trees[1], "x/step0/rank1/x.npy", GRID)
    put(trees[1], "only/step0/rank0/only.npy", GRID)
    rows = compared(trees, "x")
    assert [row[:6] for row in rows] == [
        [0, 0, 0, 0, "[3, 4]", "[3, 4]"],
        [0, 1, 0, 0, None, "[3, 4]"],
        [1, 0, 0, 0, "[3, 4]", None],
    ]
    assert [row[12] for row in rows] == ["pass", "unjudged", "unjudged"]
    assert rows[1][6:12] == [None] * 6
    assert rows[1][13].startswith("Only on the golden (second folder) side: ")
    assert rows[2][13].startswith("Only on the target (first folder) side: ")
    (only,) = sheet(trees[0].parent / "out" / "only.xlsx")[1:]
    assert only[12] == "unjudged"
    assert said[-1].startswith(
        "4 tensors of 2 tags: 1 pass, 0 warning, 0 error, 3 unjudged; 3 of them on one side only"
    )


def test_a_broken_file_is_a_row_and_the_others_go_on(trees):
    for root in trees:
        for step in (0, 1, 2):
            put(root, f"x/step{step}/rank0/x.npy", GRID)
    (trees[1] / "data/x/step0/rank0/x.npy").write_bytes(b"\x93NUMPY no more")
    np.save(trees[0] / "data/x/step2/rank0/x.npy", np.array(["text"]))
    rows = compared(trees, "x")
    assert [row[12] for row in rows] == ["unjudged", "pass", "unjudged"]
    assert "not a readable npy file" in rows[0][13]
    assert rows[0][4:6] == ["[3, 4]", None]
    assert "not numbers" in rows[2][13]


def test_a_failure_that_nobody_foresaw_is_a_row(trees, monkeypatch):
    def fail(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(judge, "measure", fail)
    assert one(trees, GRID, GRID)[8:10][0] == "unjudged"


def test_files_in_no_place_are_said(trees, said):
    put(trees[0], "x/step0/rank0/x.npy", GRID)
    put(trees[0], "x/step0/astray.npy", GRID)
    put(trees[0], "x/step0/rank0/deeper/astray.npy", GRID)
    compared(trees, "x")
    assert "2 npy files do not stand in data/<tag>/step<n>/rank<n>/" in said[0]


def test_links_are_followed_and_circles_are_not(trees):
    put(trees[0], "x/step0/rank0/x.npy", GRID)
    (trees[1] / "data" / "x").symlink_to(trees[0] / "data" / "x")
    (trees[0] / "data" / "x" / "round").symlink_to(trees[0] / "data")
    assert [row[12] for row in compared(trees, "x")] == ["pass"]


def test_a_file_that_is_a_link_or_a_pipe_is_a_row_and_not_opened(trees):
    for root in trees:
        put(root, "x/step0/rank0/x.0.npy", GRID)
    (trees[0] / "data/x/step0/rank0/x.1.npy").symlink_to(trees[1] / "data/x/step0/rank0/x.0.npy")
    os.mkfifo(trees[0] / "data/x/step0/rank0/x.2.npy")
    rows = compared(trees, "x")
    assert [(row[3], row[12]) for row in rows] == [(0, "pass"), (1, "unjudged"), (2, "unjudged")]
    assert all("no plain file there; not opened" in row[13] for row in rows[1:])


def index(root, inside, *lines):
    """An index of (name, count, number, file)."""
    folder = root / "data" / inside
    folder.mkdir(parents=True, exist_ok=True)
    told = [dict(zip(("name", "count", "id", "data_name"), line, strict=True), type="t") for line in lines]
    (folder / "saves.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in told))


def test_an_index_says_the_order_where_both_have_one(trees):
    """Gradients arrive in the order of the backward pass, which two runs need not share."""
    for root, values in zip(trees, [(0, 1), (1, 0)], strict=True):
        for number, value in enumerate(values):
            put(root, f"z/step0/rank0/z_grad_float32_{number}.npy", GRID + value)
    assert [row[6] for row in compared(trees, "z")] == [0, 0]
    index(trees[0], "z/step0/rank0", *(("z_grad", n, n, f"z_grad_float32_{n}.npy") for n in (0, 1)))
    assert [row[6] for row in compared(trees, "z")] == [0, 0]
    index(trees[1], "z/step0/rank0", *(("z_grad", 1 - n, n, f"z_grad_float32_{n}.npy") for n in (0, 1)))
    rows = compared(trees, "z")
    assert [row[3] for row in rows] == ["0.z_grad", "1.z_grad"]
    assert [row[6] for row in rows] == [100, 100]


def test_what_an_index_names_elsewhere_is_not_opened_and_said(trees, capsys):
    np.save(trees[0] / "secret.npy", GRID)
    for root in trees:
        put(root, "z/step0/rank0/z_float32_0.npy", GRID)
        names = ("z_float32_0.npy", "../../../../secret.npy", str(trees[0] / "secret.npy"), "gone.npy")
        index(root, "z/step0/rank0", *(("z", n, n, name) for n, name in enumerate(names)))
    assert [(row[3], row[12]) for row in compared(trees, "z")] == [(0, "pass")]
    assert "3 saves of its index have no file there and are left out" in capsys.readouterr().err


def test_a_number_behind_the_tag_is_an_id(trees):
    for root in trees:
        for number in (0, 1, 10):
            put(root, f"x/step0/rank0/micro_step0/x{number}.npy", GRID + number)
    assert [row[3] for row in compared(trees, "x")] == [0, 1, 10]


EVERYTHING = (
    *("x/step0/rank0/x", "x/step0/rank/x", "x/step0/rank0/micro_step0/x", "x/step0/rank0/micro_step3/x.7"),
    *("a/b/step0/rank1/b", "a/b/step1/rank1/b_float32_3", "a/b/step1/rank1/b_float32_30", "a/b/step1/rank1/b.k_int8_5"),
    *("d/step0/rank0/d.mask", "d/step0/rank0/d.b.1", "d/step0/rank0/d2", "d/step0/rank0/else.3", "d/step0/rank0/other"),
    *("c.3/step0/proc7/c.3_bool_1", "c.3/step0/proc7/c.3", "c.3/step0/proc7/none_float8_e4m3fn_4"),
)


def test_the_command_and_the_sheets_read_the_same_files(trees):
    for name in EVERYTHING:
        put(trees[0], f"{name}.npy", GRID)
    tree = find(trees[0])
    by_sheets = [str(both.target.relative_to(tree.data)) for both in pair(tree, tree)]
    dumps = [read_single(folders, *at) for at, folders in single_dumps(trees[0]).items()]
    by_command = [record.file for dump in dumps for call in dump.calls for record in call.records]
    assert sorted(by_sheets) == sorted(by_command) == sorted(f"{name}.npy" for name in EVERYTHING)


def test_names_of_folders_and_keys_stay_harmless(trees):
    for root in trees:
        put(root, "=1+1/step0/rank0/=1+1.=cmd().npy", GRID)
        put(root, "a/b/step0/rank/b.npy", GRID)
    out = trees[0].parent / "out"
    paths = SingleComparator.compare(*trees, out)
    assert [path.parent for path in paths] == [out, out]
    assert sheet(paths[0])[1][3] == "'=cmd()"
    assert paths[1].name.startswith("a_b.")


def test_a_folder_without_data_is_refused_with_the_remedy(tmp_path, trees):
    with pytest.raises(UsageError, match=r"has no folder data; give the folder that holds it"):
        SingleComparator.compare(tmp_path / "nowhere", trees[1])


def test_two_empty_trees_are_refused(trees):
    with pytest.raises(UsageError, match="no tensor stands at"):
        SingleComparator.compare(*trees)


@pytest.mark.parametrize("processes", [0, -1, 2.0, True, "8"])
def test_a_number_of_processes_that_cannot_be_meant_is_refused(processes, trees):
    with pytest.raises(UsageError, match="num_processes is"):
        SingleComparator.compare(*trees, num_processes=processes)


def test_an_output_that_cannot_be_written_is_said(trees, tmp_path):
    put(trees[0], "x/step0/rank0/x.npy", GRID)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="give another output_path"):
        SingleComparator.compare(*trees, tmp_path / "file")


def test_the_command_learns_whether_all_is_well(trees):
    put(trees[0], "x/step0/rank0/x.npy", GRID)
    put(trees[1], "x/step0/rank0/x.npy", GRID)
    out = trees[0].parent / "out"
    assert kind_of(trees[0]).word == "single saves"
    assert kind_of(out.parent).word != "single saves"
    assert compare_trees(*trees, out, 1).is_clean
    put(trees[0], "x/step1/rank0/x.npy", GRID)
    assert not compare_trees(*trees, out, 1).is_clean


@pytest.fixture
def _two_workers(monkeypatch):
    """Small batches, and two processors to give them to."""
    monkeypatch.setattr(workers, "BATCH", 1)
    monkeypatch.setattr(workers, "cores", lambda: 2)


@pytest.mark.usefixtures("_two_workers")
def test_rows_are_the_same_for_any_number_of_processes(trees):
    for side, root in enumerate(trees):
        for step in range(4):
            put(root, f"x/step{step}/rank0/x.npy", GRID + side * step)
    put(trees[0], "x/step9/rank0/x.npy", GRID)
    pairs = pair(*map(find, trees))
    assert workers.judge_pairs(pairs, 8) == workers.judge_pairs(pairs, 1)


class Deadly:
    """Whoever receives it ends."""

    def __reduce__(self):
        return os._exit, (3,)

    def stat(self):
        raise FileNotFoundError


@pytest.mark.usefixtures("_two_workers")
@pytest.mark.parametrize("batch", [1, 2])
def test_a_worker_that_dies_costs_its_pair_only(batch, trees, monkeypatch):
    for root in trees:
        for step in range(3):
            put(root, f"x/step{step}/rank0/x.npy", GRID)
    monkeypatch.setattr(workers, "_PAIRS", batch)
    monkeypatch.setattr(workers, "BATCH", 1 << 30)
    pairs = pair(*map(find, trees))
    pairs[1] = Pair(Key("x", 1, 0, 0, (0,)), Deadly(), None)
    rows = workers.judge_pairs(pairs, 2)
    assert [row.key.step for row in rows] == [0, 1, 2]
    assert [row.verdict.grade for row in rows] == ["pass", "unjudged", "pass"]
    assert "the process died over it" in rows[1].verdict.reason


SCRIPT = """
import sys
print("begins")
from msprobe.core import SingleComparator
assert not {"openpyxl", "xlsxwriter", "mindspore", "torch", "concurrent.futures.process"} & set(sys.modules)
from msprobe.compare.key_data import workers
workers.BATCH = 1
workers.cores = lambda: 2
print(len(SingleComparator.compare("a", "b")))
"""


def test_a_script_without_a_guard_runs_once(trees):
    for root in trees:
        for tag in "xy":
            put(root, f"{tag}/step0/rank0/{tag}.npy", GRID)
    (trees[0].parent / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=trees[0].parent, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["begins", "2"]
    assert sheet(trees[0].parent / "msprobe_compare_output" / "y.xlsx")[1][12] == "pass"


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text("utf-8"), re.MULTILINE | re.DOTALL)


def test_both_guides_have_the_same_code():
    assert blocks("single-compare.md", "python") == blocks("zh/single-compare.md", "python")
    assert blocks("single-compare.md", "text") == blocks("zh/single-compare.md", "text")


def test_the_example_of_the_guide_gives_what_it_shows(tmp_path, monkeypatch, capsys):
    from msprobe.single_save import SingleSave

    monkeypatch.chdir(tmp_path)
    code = blocks("single-compare.md", "python")
    for part in code:
        monkeypatch.setattr(SingleSave, "_only", None)  # each run of the guide is a process of its own
        exec(part, {})
    (shown,) = blocks("single-compare.md", "text")
    assert capsys.readouterr().out == shown


@pytest.mark.parametrize("page", ["single-compare.md", "zh/single-compare.md"])
def test_the_guides_name_every_column(page):
    text = (DOCS / page).read_text("utf-8")
    assert all(f"`{heading}`" in text for heading in HEADINGS)
