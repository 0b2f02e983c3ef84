"""A net in MindSpore and its original in PyTorch, real dumps of both: what the command says and writes."""

import csv
import json

import pytest

from msprobe.cli import main


@pytest.fixture
def compared(samples, tmp_path, capsys):
    """`compared("lstm_ms", "lstm_pt", "--format", "csv")`: exit code, last line, and the files of the output folder."""

    def run(target, golden, *options):
        folder = tmp_path / "out"
        sides = [str(samples / "twins" / side / "step0") for side in (target, golden)]
        code = main(["compare", "-tp", sides[0], "-gp", sides[1], "-o", str(folder), *options])
        return code, capsys.readouterr().out.splitlines()[-1], folder

    return run


def table(folder):
    (path,) = folder.glob("compare_result_*.csv")
    with open(path, encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("sides", [("lstm_ms", "lstm_pt"), ("lstm_pt", "lstm_ms")])
def test_clean_twins_end_with_0(compared, sides):
    code, last, folder = compared(*sides, "--format", "csv")
    assert code == 0
    assert last.startswith("no difference beyond rounding: ")
    assert {row["Verdict"] for row in table(folder)} == {"pass", "unjudged"}


def test_every_row_has_the_names_of_both_sides_and_why_they_are_a_pair(compared):
    _, _, folder = compared("lstm_ms", "lstm_pt", "--format", "csv")
    rows = {row["NPU Name"]: row for row in table(folder) if row["NPU Name"] != "N/A"}
    row = rows["Cell.embedding.Embedding.forward.0.parameters.embedding_table"]
    assert row["Bench Name"] == "Module.encoder.Embedding.forward.0.parameters.weight"
    assert row["Matched by"] == "structure"
    assert 0 < float(row["Match Confidence"]) <= 1
    assert row["Match Reason"]
    alone = [row for row in rows.values() if row["Bench Name"] == "N/A" and not row["Matched by"]]
    assert alone
    assert all(row["Verdict"] == "unjudged" and row["Reason"] for row in alone)


def test_json_carries_the_same(compared):
    _, _, folder = compared("lstm_ms", "lstm_pt", "--format", "json")
    (path,) = folder.glob("compare_result_*.json")
    held = json.loads(path.read_text("utf-8"))
    assert held["first_wrong"] == []
    pairs = [row for row in held["rows"] if "N/A" not in (row["NPU Name"], row["Bench Name"])]
    assert len(pairs) > 150
    assert all(0 < row["Match Confidence"] <= 1 and row["Match Reason"] for row in pairs)


def test_a_sheet_is_written_too(compared):
    openpyxl = pytest.importorskip("openpyxl", reason="reads the sheet")
    _, _, folder = compared("lstm_ms", "lstm_pt")
    (path,) = folder.glob("compare_result_*.xlsx")
    rows = list(openpyxl.load_workbook(path).active.iter_rows(values_only=True))
    assert rows[0][-2:] == ("Match Confidence", "Match Reason")


def test_a_bias_that_was_loaded_twice_is_named_with_its_line(compared):
    code, last, _ = compared("lstm_ms_bias_doubled", "lstm_pt", "--format", "csv")
    assert code == 1
    assert last.startswith("first wrong call: Cell.lstm.")
    assert ": parameters differ: " in last
    assert last.endswith("(/home/user/lstm.py:21)")


def test_a_pair_can_be_forbidden_by_giving_another(compared, tmp_path):
    (tmp_path / "cells.yaml").write_text("embedding.Embedding: decoder.Linear\n")
    code, last, _ = compared("lstm_ms", "lstm_pt", "--format", "csv", "-cm", str(tmp_path / "cells.yaml"))
    assert code == 1
    assert "first wrong call: " in last
