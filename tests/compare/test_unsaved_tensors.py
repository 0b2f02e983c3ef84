"""Tensors that were not saved although the task is `tensor`, as behind `disk_budget`: statistics decide."""

import json

import numpy as np
import pytest

from msprobe.cli import main
from msprobe.compare.locate.find import locate
from msprobe.compare.run import compare
from msprobe.compare.tables.console import lines
from msprobe.store.reader import read

EXP = "Mint.exp.0.forward"
GOLDEN = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)


@pytest.fixture
def without(builder):
    """`without(output, *sides)`: a call with this output against GOLDEN, of which these sides saved no file."""

    def make(output, *sides):
        dumps = []
        for side, array in (("target", output), ("golden", GOLDEN)):
            folder = builder(side, mode="tensor").call(EXP, [1.0], [array]).write()
            if side in sides:
                text = json.loads((folder / "dump.json").read_text())
                del text["data"][EXP]["output"][0]["data_name"]
                (folder / "dump.json").write_text(json.dumps(text))
                (folder / "dump_tensor_data" / f"{EXP}.output.0.npy").unlink()
            dumps.append(read(folder))
        return compare(*dumps)

    return make


@pytest.mark.parametrize("sides", [["target"], ["golden"], ["target", "golden"]])
def test_statistics_that_differ_are_an_error(without, sides):
    comparison = without(GOLDEN * 2, *sides)
    verdict = comparison.judged(1).verdict
    # By hand: a maximum of 8 against 4, of which 1e-5 + 1.3e-6 * 4 is allowed.
    assert verdict.grade == "error"
    assert verdict.reason.startswith("The ")
    assert verdict.reason.endswith(f" No tensor was saved on the {sides[0]} side.")
    assert not comparison.is_clean
    first = locate(comparison).first
    assert (first.name, first.kind.name) == (EXP, "computes differently")


def test_a_nan_on_one_side_is_an_error(without):
    output = GOLDEN.copy()
    output[0, 1] = np.nan
    verdict = without(output, "target").judged(1).verdict
    assert verdict.grade == "error"
    assert verdict.reason == (
        "NaN or infinity differs: the max is nan, golden 4.0. No tensor was saved on the target side."
    )


@pytest.mark.parametrize("output", [GOLDEN, GOLDEN.T, GOLDEN * np.float32(1 + 2**-22)], ids=["same", "turned", "near"])
def test_statistics_that_agree_pass_and_it_is_said(without, output):
    comparison = without(output, "target")
    grade, reason = comparison.judged(1).grade, comparison.reason(1)
    assert (grade, reason) == ("pass", "By statistics. No tensor was saved on the target side.")
    assert (comparison.is_clean, list(comparison.by_statistics)) == (True, [1])
    printed = list(lines(comparison, locate(comparison), 10))
    assert (
        sum("1 judged by statistics, as a tensor was not saved; these cannot detect" in line for line in printed) == 1
    )


def test_without_statistics_there_is_no_verdict(builder, tmp_path, capsys):
    folders = []
    for side in ("target", "golden"):
        folder = builder(side, mode="tensor").call(EXP, [1.0], [GOLDEN]).write()
        text = json.loads((folder / "dump.json").read_text())
        (record,) = text["data"][EXP]["output"]
        for key in ("data_name", "Max", "Min", "Mean", "Norm"):
            del record[key]
        (folder / "dump.json").write_text(json.dumps(text))
        folders.append(str(folder))
    assert main(["compare", *folders, "-o", str(tmp_path / "out"), "--format", "csv"]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    words = "1 without statistics, whose tensors one side did not save"
    assert last == f"no difference in what could be judged: 1 pairs judged, 1 not: {words}"
