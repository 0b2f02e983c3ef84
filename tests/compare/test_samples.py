"""Our tables against the tables that the other tool wrote of the same dumps, cell by cell.

`same` is ms against ms, `perturbed` ms against msp. The sheets hold numbers with 16 digits.
"""

import csv
import importlib
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from openpyxl import load_workbook

from msprobe.compare.locate import wording
from msprobe.compare.locate.find import locate
from msprobe.compare.run import compare
from msprobe.compare.tables.columns import columns_of
from msprobe.compare.tables.rows import rows
from msprobe.store.reader import read

pytestmark = pytest.mark.part(2)

PAIRS = [(v, p, m) for v in ("8.1.1", "26.2.0") for p in ("same", "perturbed") for m in ("stat", "tensor", "md5")]

METRICS = {
    "stat": ("Max diff", "Min diff", "Mean diff", "L2norm diff"),
    "tensor": (
        "Cosine",
        "EucDist",
        "MaxAbsErr",
        "MaxRelativeErr",
        "One Thousandth Err Ratio",
        "Five Thousandths Err Ratio",
    ),
    "md5": ("NPU MD5", "BENCH MD5"),
}
RELATIVE = ("MaxRelativeErr", "MinRelativeErr", "MeanRelativeErr", "NormRelativeErr")
NAMES = ("Bench Name", "NPU Dtype", "Bench Dtype", "NPU Tensor Shape", "Bench Tensor Shape")
VALUES = ("NPU max", "NPU min", "NPU mean", "NPU l2norm", "Bench max", "Bench min", "Bench mean", "Bench l2norm")


def reference(samples, version, pair, mode):
    folder = samples / version / "compare" / f"MS_MS_{pair}_mix_{mode}"
    if version == "8.1.1":
        titles, *table = load_workbook(folder / "compare_result.xlsx").active.iter_rows(values_only=True)
    else:
        with open(folder / "compare_result.csv", newline="", encoding="utf-8") as file:
            titles, *table = csv.reader(file)
    return titles, {row[0]: dict(zip(titles, row, strict=True)) for row in table}


def ours(samples, version, pair, mode):
    dumps = samples / version / "dumps"
    golden = f"{'ms' if pair == 'same' else 'msp'}_mix_{mode}"
    found = compare(read(dumps / f"ms_mix_{mode}" / "step0"), read(dumps / golden / "step0"))
    titles = [c.title for c in columns_of(found, True)]
    table = (dict(zip(titles, row, strict=True)) for row in rows(found, locate(found), True))
    return titles, {row["NPU Name"]: row for row in table}


def is_same(mine, theirs, slack=0.0):
    """One number in 16 digits, or one text."""
    try:
        return math.isclose(float(mine), float(theirs), rel_tol=2e-15, abs_tol=slack)
    except ValueError:
        return mine == theirs


def slack_of(row, title):
    """How far the other tool's differences of statistics may be from the numbers in the dump.

    It reads statistics back from text and keeps 17 digits, zeros before the first other digit counted: the rest of
    0.17604319751262665 is cut off behind 16 decimals, on each side. Ours are of the numbers as the dump has them.
    """
    if title not in METRICS["stat"]:
        return 0.0
    at = METRICS["stat"].index(title)
    assert row[title] == row[VALUES[at]] - row[VALUES[at + 4]]
    return 2e-16 + 2.0**-52 * sum(abs(row[title]) for title in (VALUES[at], VALUES[at + 4]))


@pytest.fixture(params=PAIRS, ids="-".join)
def tables(request, samples):
    version, pair, mode = request.param
    return version, mode, ours(samples, version, pair, mode), reference(samples, version, pair, mode)


def test_the_rows_are_the_same_and_in_the_same_order(tables):
    _, _, (_, mine), (_, theirs) = tables
    assert list(mine) == list(theirs)
    assert len(mine) == 53


def test_the_columns_are_those_of_8_1_and_then_ours(tables):
    version, mode, (mine, _), (theirs, _) = tables
    measures = ["Scale Error", "Max Error Index", "Bias", "Max ULP"] if mode == "tensor" else []
    noise = ["Residual", "Noise", "Class", "Limits"] if "Limits" in mine else []
    ours = [*measures, "Verdict", "Reason", "Begins", "Matched by", *noise]
    assert mine[-len(ours) :] == ours
    assert not noise or mode == "tensor"
    if version == "8.1.1":
        assert tuple(mine[: -len(ours)]) == tuple(theirs)


def test_every_metric_cell_has_its_digits(tables):
    _, mode, (_, mine), (_, theirs) = tables
    for name, row in mine.items():
        if row["NPU Dtype"] == "None":
            continue  # None on both sides: below
        for title in METRICS[mode]:
            mine_, theirs_ = row[title], theirs[name][title]
            assert is_same(mine_, theirs_, slack_of(row, title)), (name, title, mine_, theirs_)


def test_every_name_and_value_cell_is_the_same(tables):
    _, mode, (_, mine), (_, theirs) = tables
    for name, row in mine.items():
        for title in (*NAMES, *(() if mode == "md5" or row["NPU Dtype"] == "None" else VALUES)):
            assert is_same(row[title], theirs[name][title]), (name, title)


def test_relative_differences_are_those_of_8_1(tables):
    version, mode, (_, mine), (_, theirs) = tables
    if mode != "stat":
        assert mode in METRICS
        return
    for name, row in mine.items():
        if row["NPU Dtype"] == "None":
            continue  # None on both sides: below
        for title, difference, value in zip(RELATIVE, METRICS["stat"], VALUES[4:], strict=True):
            here, there = row[title], theirs[name][title]
            if version == "26.2.0" and there == "0":
                # 26 prints 0 for everything equal; 8.1, and we, 0.0%, or N/A where the golden is 0.
                assert here == ("0.0%" if row[value] else "N/A"), (name, title)
            elif here == "N/A" or there == "N/A":
                assert here == there, (name, title)
            else:
                slack = 100 * slack_of(row, difference) / abs(row[value])
                assert is_same(here.rstrip("%"), there.rstrip("%"), slack), (name, title, here, there)
                assert there.endswith("%")


def test_values_that_are_none_print_none(tables):
    """8.1 prints `nan` with a TAB and a remark for them in tensor mode; 26, and we, `None`."""
    _, mode, (_, mine), _ = tables
    row = mine["Cell.fc1.Linear.backward.0.output.0"]
    assert [row[t] for t in ("NPU Dtype", "Bench Dtype", "NPU Tensor Shape", "Bench Tensor Shape")] == ["None"] * 4
    if mode != "md5":
        assert [row[t] for t in VALUES] == ["None"] * 8
        assert {row[t] for t in METRICS[mode]} <= {"N/A", "unsupported"}
    assert (row["Verdict"], row["Reason"]) == ("pass", "")


def test_8_1_verdicts_are_kept_where_they_are_right(tables):
    version, mode, (_, mine), (_, theirs) = tables
    if version != "8.1.1":
        assert "Requires_grad Consistent" in next(iter(theirs.values()))
        return
    title = "Accuracy Reached or Not" if mode == "tensor" else "Result"
    for name, row in mine.items():
        assert row[title] == (theirs[name][title] or ""), name


def test_the_stack_stands_on_the_first_row_of_a_call(tables):
    _, _, (_, mine), (_, theirs) = tables
    for name, row in mine.items():
        assert row["NPU_Stack_Info"] == theirs[name]["NPU_Stack_Info"], name


def test_files_of_a_row_are_named(tables):
    _, mode, (_, mine), (_, theirs) = tables
    for name, row in mine.items():
        assert row.get("Data_name") == (theirs[name]["Data_name"] if mode == "tensor" else None)


def test_the_perturbed_weight_is_the_first_wrong_call(samples):
    for version in ("8.1.1", "26.2.0"):
        for mode in ("stat", "tensor", "md5"):
            dumps = samples / version / "dumps"
            pair = (read(dumps / f"{side}_mix_{mode}" / "step0") for side in ("msp", "ms"))
            first = locate(compare(*pair)).first
            assert (first.name, first.cell, first.kind.name) == (
                "Primitive.dense.Dense.0.forward",
                "fc1",
                "parameters differ",
            )
            assert wording.reason(first) == "1 parameter differs: fc1.weight"
            assert (first.file, first.line) == ("/home/user/train/models_ms.py", 40)


def test_two_versions_of_the_tool_can_be_compared(samples):
    """Another placeholder for parameter gradients, another order; one network."""
    found = compare(
        read(samples / "26.2.0" / "dumps" / "ms_mix_stat" / "step0"),
        read(samples / "8.1.1" / "dumps" / "ms_mix_stat" / "step0"),
    )
    assert (found.counts["pass"], found.counts["unjudged"], found.is_clean) == (53, 0, True)
    assert locate(found).findings == ()


@pytest.fixture(scope="module")
def compat():
    """The modules of `benchmarks/compat`, which holds live tables of the other tool against ours."""
    folder = str(Path(__file__).parents[2] / "benchmarks" / "compat")
    before = set(sys.modules)
    sys.path.insert(0, folder)
    yield SimpleNamespace(**{name: importlib.import_module(name) for name in ("cells", "special_cases", "other_tool")})
    sys.path.remove(folder)
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(folder):
            del sys.modules[name]


@pytest.fixture(params=("statistics", "tensor", "md5"))
def special(request, compat, tmp_path):
    """A dump with one call for each special case of a comparison, and our table of it; long tensors left out."""
    cases = {name: pair for name, pair in compat.special_cases.cases().items() if not name.startswith("long_")}
    target, golden = compat.special_cases.write_pair(tmp_path, request.param, cases)
    found = compare(read(target), read(golden))
    titles = [c.title for c in columns_of(found, True)]
    table = [dict(zip(titles, row, strict=True)) for row in rows(found, locate(found), True)]
    return request.param, compat.cells.Pair("special", target / "rank0", golden / "rank0"), table


@pytest.mark.parametrize("version", ["8.1.1", "26.2.0"])
def test_special_cases_agree_in_every_cell_or_are_a_known_wart(samples, compat, special, version):
    """The tables in `special_cases` are the other tool's; warts carry a proof that ours is right."""
    mode, _, table = special
    theirs = compat.other_tool.read_table(samples / "special_cases" / version / f"{mode}.csv")
    tally = compat.cells.held(table, theirs, version)
    assert tally.wrong == []
    assert tally.rows >= 85
    assert tally.equal + sum(tally.warts.values()) == tally.cells


def test_special_cases_are_what_the_formulas_give(compat, special):
    """Whatever the other tool says: `worked.py` has the formulas in their plainest form, and no part of either tool."""
    _, pair, table = special
    assert list(compat.cells.not_worked_out(pair, table)) == []
