"""`-hl`: whole rows in msprobe 8.1's colors with its reasons, for dumps of calls."""

import csv

import numpy as np
import pytest
from openpyxl import load_workbook

from msprobe.cli import main
from msprobe.compare.tables.highlight import MAXIMUM_OFF, NON_FINITE, RED, THOUSANDTH_LOST, YELLOW

EXP, SIN, TAN = "Mint.exp.0.forward", "Mint.sin.0.forward", "Mint.tan.0.forward"


@pytest.fixture
def compared(builder, tmp_path):
    """The table of a call whose output is far off, of one with a NaN, and of one that is right."""

    def compare(form, *flags, mode="statistics"):
        for side, wrong in (("t", 9.0), ("g", 3.0)):
            made = builder(side, mode=mode)
            made.call(EXP, [1.0], [2.0]).call(SIN, [2.0], [wrong])
            bad = np.array([np.nan if side == "t" else 1.0, 1.0], np.float32)
            made.call(TAN, [bad], [2.0]).write()
        sides = [str(tmp_path / side / "step0" / "rank") for side in ("t", "g")]
        out = tmp_path / "out"
        main(["compare", "-tp", sides[0], "-gp", sides[1], "-o", str(out), "--format", form, *flags])
        (file,) = out.glob(f"*.{form}")
        return file

    return compare


def cells(file):
    with open(file, newline="") as text:
        return {row["NPU Name"]: row for row in csv.DictReader(text)}


def fills(file):
    """The colors of a row's cells, by the row's name; no color is left out."""
    sheet = load_workbook(file).active
    found = {}
    for row in sheet.iter_rows(min_row=2):
        colors = {cell.fill.start_color.rgb for cell in row if cell.fill.fill_type}
        found[row[0].value] = (colors, sum(cell.fill.fill_type is not None for cell in row) == len(row))
    return found


def test_the_reasons_stand_in_the_message(compared):
    rows = cells(compared("csv", "-hl"))
    assert MAXIMUM_OFF in rows[f"{SIN}.output.0"]["Err_message"].split("\n")
    assert rows[f"{SIN}.output.0"]["Err_message"].startswith("Need double check api accuracy.\n"), "what it said stays"
    assert NON_FINITE in rows[f"{TAN}.input.0"]["Err_message"]
    assert rows[f"{EXP}.output.0"]["Err_message"] == ""


def test_without_the_flag_nothing_is_colored_and_no_reason_given(compared):
    rows = cells(compared("csv"))
    assert rows[f"{SIN}.output.0"]["Err_message"] == "Need double check api accuracy."


@pytest.mark.parametrize("mode", ["statistics", "tensor"])
def test_whole_rows_have_their_color(compared, mode):
    found = fills(compared("xlsx", "-hl", mode=mode))
    assert found[f"{SIN}.output.0"] == ({RED}, True)
    assert found[f"{TAN}.input.0"] == ({RED}, True)
    assert found[f"{EXP}.output.0"] == (set(), False)
    assert YELLOW not in found[f"{SIN}.input.0"][0]


def test_by_elements_the_reason_is_about_elements(compared):
    rows = cells(compared("csv", "-hl", mode="tensor"))
    assert THOUSANDTH_LOST in rows[f"{SIN}.output.0"]["Err_message"]


def test_digests_have_nothing_to_color(compared):
    found = fills(compared("xlsx", "-hl", mode="digest"))
    assert not found[f"{SIN}.output.0"][1]
    assert RED not in found[f"{SIN}.output.0"][0]
