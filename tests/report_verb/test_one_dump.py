"""The page of one dump alone: all calls, what of them is not finite, and what does not hold of every training."""

import json
import math

import pytest
from pages import Page
from written_net import NAMES, forward, tensor, write_net

from msprobe.cli import main

LOG = {"Mint.log.0.forward": forward([tensor(1.0)], [tensor(math.nan)])}
SOFTMAX = {"Mint.softmax.0.forward": forward([tensor(1.0)], [tensor(1.5, low=-0.5)])}
"""A softmax of which an element is negative."""


@pytest.fixture
def report(tmp_path, capsys):
    """`report(folder, *options)`: the exit code, the page, and the last line."""

    def run(folder, *options):
        code = main(["report", str(folder), "-o", str(tmp_path / "page.html"), *options])
        out = capsys.readouterr()
        return code, Page(tmp_path / "page.html") if code < 2 else out.err, (out.out.splitlines() or [""])[-1]

    return run


def test_a_dump_is_shown_and_not_judged(report, tmp_path):
    code, page, line = report(write_net(tmp_path / "run"))
    assert (code, page.head["kind"], page.head["answer"]["state"]) == (0, "dump", "shown")
    assert page.head["answer"]["line"] == line == "shown: 1 step, 1 rank; nothing was compared"
    assert page.head["golden"] is None
    assert (page.head["target"]["framework"], page.head["target"]["level"]) == ("mindspore", "mix")
    _, layout, state, calls = page.unit()
    assert layout["names"] == NAMES
    assert state["verdicts"] == "." * len(NAMES)
    assert calls[2]["records"][0] == {
        "place": "input.0",
        "part": "input",
        "target": {"dtype": "Float32", "shape": [4], "statistics": {"max": 5.0, "min": 0.0, "mean": 2.5, "norm": 7.5}},
    }
    rows, letters = page.table("invariants")
    assert {row["invariant"] for row in rows} >= {"equal-parameters", "softmax", "gradients"}
    assert len(letters) == len(rows)
    assert "e" not in letters


def test_a_boolean_is_no_infinity(report, tmp_path):
    mask = {"type": "mindspore.Tensor", "dtype": "Bool", "shape": [4], "Max": True, "Min": False}
    extra = {"Mint.where.0.forward": forward([mask | {"Mean": None, "Norm": None}], [tensor(1.0)])}
    _, page, _ = report(write_net(tmp_path / "run", extra=extra))
    held = page.unit()[3][len(NAMES)]["records"][0]["target"]["statistics"]
    assert (held["max"], held["min"]) == ("True", "False")


def test_the_first_non_finite_call_is_the_answer(report, tmp_path, capsys):
    folder = write_net(tmp_path / "run", extra=LOG)
    code, page, line = report(folder)
    assert main(["overflow_check", str(folder), "-o", str(tmp_path / "out")]) == code == 1
    assert capsys.readouterr().out.splitlines()[-1] == line == page.head["answer"]["line"]
    assert (page.head["kind"], page.head["answer"]["state"]) == ("overflow_check", "differs")
    first = page.head["answer"]["first"]
    assert (first["place"]["name"], first["kind"]) == ("Mint.log.0.forward", "made")
    assert [first["place"][key] for key in ("unit", "call", "step", "rank")] == [0, len(NAMES), 0, 0]
    assert page.unit()[2]["overflow"][len(NAMES)] == "c"
    assert "a logarithm" in page.head["answer"]["advice"][0]["text"]


def test_a_violation_is_the_answer_where_all_is_finite(report, tmp_path, capsys):
    folder = write_net(tmp_path / "run", extra=SOFTMAX)
    code, page, line = report(folder)
    assert main(["check", str(folder)]) == code == 1
    assert capsys.readouterr().out.splitlines()[-1] == line == page.head["answer"]["line"]
    assert (page.head["kind"], page.head["answer"]["first"]["kind"]) == ("check", "softmax")
    assert "Mint.softmax" not in page.head["answer"]["first"]["reason"], "the headline says it"
    assert page.head["answer"]["advice"][0]["text"].startswith("look at the axis of the softmax")
    assert page.head["answer"]["first"]["place"]["call"] == len(NAMES)
    rows, letters = page.table("violations")
    assert [row["subject"] for row in rows] == ["Mint.softmax.0.forward"]
    assert letters == "e"
    rows, letters = page.table("invariants")
    at = [row["invariant"] for row in rows].index("softmax")
    assert (rows[at]["verdict"], rows[at]["violated"], letters[at]) == ("error", 1, "e")


def test_which_answer_is_shown_can_be_said(report, tmp_path):
    folder = write_net(tmp_path / "run", extra=LOG | SOFTMAX)
    assert report(folder)[1].head["kind"] == "overflow_check"
    code, page, line = report(folder, "--as", "check")
    assert (code, page.head["kind"]) == (1, "check")
    assert line.startswith("first violation: softmax: ")
    code, page, line = report(folder, "--as", "overflow_check")
    assert (code, page.head["answer"]["line"]) == (1, line)
    assert "tables" not in page.head
    assert report(folder, "--as", "overflow_check", "--exit-zero")[0] == 0
    code, page, _ = report(folder, "--as", "dump")
    assert (code, page.head["kind"], page.head["answer"]["state"]) == (0, "dump", "shown")
    clean = write_net(tmp_path / "clean")
    code, page, line = report(clean, "--as", "overflow_check")
    assert (code, page.head["answer"]["state"]) == (0, "clean")
    assert line == "first non-finite: none, no call made NaN or infinities"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--as", "compare"), "--as compare takes two sides"),
        (("--workers", "0"), "--workers: 0 is invalid"),
        (("-o", "page.json"), "must end in .html"),
        (("--rank", "7"), "no dump of the steps and ranks"),
    ],
)
def test_mistakes_are_said_before_anything_is_read(words, said, tmp_path, capsys):
    folder = write_net(tmp_path / "run")
    assert main(["report", str(folder), *words]) == 2
    assert said in capsys.readouterr().err


def test_two_sides_cannot_be_one_dump(tmp_path, capsys):
    sides = [str(write_net(tmp_path / name)) for name in "tg"]
    assert main(["report", *sides, "--as", "check"]) == 2
    assert "--as check takes one dump" in capsys.readouterr().err
    (tmp_path / "pack.zip").write_bytes(b"")
    assert main(["report", sides[0], str(tmp_path / "pack.zip")]) == 2
    assert "different kinds" in capsys.readouterr().err
    assert main(["report", str(tmp_path / "nowhere")]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_a_folder_takes_the_page_and_an_older_one_is_replaced(tmp_path):
    folder = write_net(tmp_path / "run")
    (tmp_path / "out").mkdir()
    for _ in range(2):
        assert main(["report", str(folder), "-o", str(tmp_path / "out")]) == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["msprobe_report.html"]


@pytest.mark.parametrize("name", ["new", "new/inner", "out_2.10", "new/"])
def test_a_folder_that_is_not_there_is_created_for_the_page(name, tmp_path):
    folder = write_net(tmp_path / "run")
    assert main(["report", str(folder), "-o", f"{tmp_path}/{name}"]) == 0
    assert [path.name for path in (tmp_path / name).iterdir()] == ["msprobe_report.html"]


def test_a_file_is_not_replaced_by_a_folder_for_the_page(tmp_path, capsys):
    folder = write_net(tmp_path / "run")
    (tmp_path / "file").write_text("mine")
    assert main(["report", str(folder), "-o", str(tmp_path / "file")]) == 2
    assert (tmp_path / "file").read_text() == "mine"
    assert "give a folder" in capsys.readouterr().err


def test_without_its_page_an_installation_says_so(tmp_path, monkeypatch, capsys):
    from msprobe.report import file

    monkeypatch.setattr(file, "PAGE", tmp_path / "gone.html")
    assert main(["report", str(tmp_path)]) == 2
    assert "install msprobe-ms again" in capsys.readouterr().err


def test_a_dump_of_the_structure_shows_its_calls(report, samples):
    folder = samples / "8.1.1" / "dumps" / "task_structure_mix"
    code, page, _ = report(folder)
    assert (code, page.head["kind"], page.head["answer"]["state"]) == (0, "dump", "shown")
    _, layout, _, calls = page.unit()
    nesting = json.loads((folder / "step0" / "rank" / "construct.json").read_text())
    assert layout["names"] == list(nesting)
    at = layout["names"].index("Primitive.dense.Dense.0.forward")
    assert layout["names"][layout["parents"][at]] == "Cell.fc1.Linear.forward.0"
    assert calls[at]["stack"]
    assert "records" not in calls[at]
    assert any("was collected with task `structure`" in note for note in page.head["answer"]["notes"])
    assert report(folder, "--as", "check")[0] == 2
