"""Pages of monitors, packs and RL flows: the answer is the command's, the rows are those of its tables."""

import json
import math
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from openpyxl import load_workbook
from pages import Page

from msprobe.cli import main
from msprobe.store.saves.single_saves import Place, write

sys.path.append(str(Path(__file__).parents[1] / "compare" / "monitor"))
from dense_training import Fault, train
from dense_training import write as write_monitor


@pytest.fixture
def printed(capsys):
    """`printed(words)`: the exit code and the last line of a command."""

    def run(*words):
        code = main([str(word) for word in words])
        return code, capsys.readouterr().out.splitlines()[-1]

    return run


@pytest.fixture(scope="module")
def monitors(tmp_path_factory):
    """A trusted training, one whose gradients are clipped from step 41 on rank 1, and another that is right."""
    root = tmp_path_factory.mktemp("monitors")
    write_monitor(train(), root / "golden")
    write_monitor(train(Fault("clip", 41, rank=1)), root / "clipped")
    write_monitor(train(order=1), root / "clean")
    return root


def test_a_monitor_has_its_answer_its_curves_and_its_stages(monitors, printed, tmp_path):
    sides = monitors / "clipped", monitors / "golden"
    code, line = printed("report", *sides, "-o", tmp_path / "page.html")
    assert (code, line) == printed("monitor", "compare", *sides)
    page = Page(tmp_path / "page.html")
    answer = page.head["answer"]
    assert (code, page.head["kind"], answer["state"], answer["line"]) == (1, "monitor", "differs", line)
    first = answer["first"]
    assert (first["place"]["step"], first["place"]["rank"], first["kind"]) == (41, 1, "reduced gradient")
    configuration = json.loads(answer["advice"][0]["config"])
    assert configuration["step"] == [41]
    shown = page.head["curves"][0]
    assert (shown["target"], shown["is_answer"]) == (first["place"]["name"], True)
    curve = page.chunk(shown["chunk"])[0]
    assert (curve["rank"], curve["left"]) == (1, 41)
    at = curve["steps"].index(41)
    assert curve["target"][at] / curve["golden"][at] == pytest.approx(0.5, rel=1e-5), "clipped to the half"
    assert curve["target"][at - 1] == curve["golden"][at - 1]
    assert shown["excess"] == "Infinity", "equal before: the band has no width"
    assert curve["low"][at] == curve["high"][at] == pytest.approx(curve["golden"][at], rel=1e-9)
    assert curve["low"][at + 1 :] == [None] * (len(curve["steps"]) - at - 1), "a wrong run has no band"
    rows, letters = page.table("stages")
    assert letters[[row["kind"] for row in rows].index("grad_reduced")] == "e"
    assert len(page.head["curves"]) > 10


@pytest.mark.slow
def test_the_band_lies_around_the_golden(monitors, tmp_path):
    """Of a norm the band is golden * exp(+-limit), and that of the command's own page."""
    sides = [str(monitors / name) for name in ("clipped", "golden")]
    words = ["--calibrate", str(monitors / "clean"), "-o", str(tmp_path / "out"), "--html"]
    assert main(["monitor", "compare", *sides, *words]) == 1
    finding = json.loads((tmp_path / "out" / "monitor_compare.json").read_text())["findings"][0]["fields"]
    page = Page(tmp_path / "out" / "monitor_report.html")
    curve = page.chunk(page.head["curves"][0]["chunk"])[0]
    at = curve["steps"].index(finding["step"])
    assert curve["statistic"] == finding["statistic"] == "norm"
    golden = curve["golden"][at]
    assert (curve["target"][at], golden) == pytest.approx((finding["a"], finding["b"]), rel=1e-7)
    band = golden * math.exp(-finding["limit"]), golden * math.exp(finding["limit"])
    assert (curve["low"][at], curve["high"][at]) == pytest.approx(band, rel=1e-6)
    outside = abs(math.log(curve["target"][at] / golden)) / finding["limit"]
    assert page.head["curves"][0]["excess"] >= outside * 0.999
    for one in page.head["curves"]:
        for each in page.chunk(one["chunk"]):
            for low, golden, high in zip(each["low"], each["golden"], each["high"], strict=True):
                assert low is None or golden is None or low <= golden <= high


def test_equal_monitors_are_clean(monitors, printed, tmp_path):
    sides = monitors / "golden", monitors / "golden"
    assert printed("report", *sides, "-o", tmp_path / "page.html") == printed("monitor", "compare", *sides)
    assert Page(tmp_path / "page.html").head["answer"]["state"] == "clean"


def test_a_monitor_writes_no_page_without_a_folder(monitors, capsys):
    assert main(["monitor", "compare", str(monitors / "golden"), str(monitors / "golden"), "--html"]) == 2
    assert "give -o FOLDER too" in capsys.readouterr().err


def test_a_monitor_alone_is_no_dump(monitors, capsys):
    assert main(["report", str(monitors / "golden")]) == 2
    assert "give two of them" in capsys.readouterr().err


@pytest.fixture
def packs(tmp_path):
    """Two packs whose learning rate and one package differ."""
    for name, rate, version in (("bench", "0.1", "2.6.0"), ("cmp", "0.2", "2.5.0")):
        with zipfile.ZipFile(tmp_path / f"{name}.zip", "w") as made:
            made.writestr("pip", f"numpy=1.26.4\ntorch={version}\nrich=13.0\n")
            made.writestr("hyperparameters/hyperparameters_static.json", json.dumps({"lr": rate, "save": "</b>"}))
    return tmp_path / "bench.zip", tmp_path / "cmp.zip"


def test_packs_have_every_row_of_the_workbook(packs, printed, tmp_path):
    trusted, suspected = packs
    code, line = printed("report", suspected, trusted, "-o", tmp_path / "page.html")
    assert (code, line) == printed("config_check", "-c", *packs, "-o", tmp_path / "out")
    page = Page(tmp_path / "page.html")
    assert (code, page.head["kind"], page.head["answer"]["state"], page.head["answer"]["line"]) == (
        1,
        "config_check",
        "differs",
        line,
    )
    assert "lr: 0.1 | 0.2" in page.head["answer"]["first"]["reason"]
    assert (page.head["target"]["path"], page.head["golden"]["path"]) == (str(suspected), str(trusted))
    assert page.head["title"] == "cmp.zip against bench.zip"
    book = load_workbook(tmp_path / "out" / "result.xlsx")
    titles = [table["title"] for table in page.head["tables"]]
    assert sorted(titles) == sorted(book.sheetnames)
    # What differs, its likeliest explanation first, then the summary and what agrees.
    assert titles[:3] == ["hyperparameters", "pip", "summary"]
    letters = {"pass": "p", "warning": "w", "error": "e", "unjudged": "u", "info": "."}
    for sheet in book:
        titles, *rows = sheet.iter_rows(values_only=True)
        held, verdicts = page.table(sheet.title)
        level = next(at for at, title in enumerate(titles) if title in ("level", "pass_check"))
        if sheet.title != "summary":
            rows = sorted(rows, key=lambda row: "ewu.p".index(letters[row[level]]))
        assert [[None if cell == "" else cell for cell in row.values()] for row in held] == [list(row) for row in rows]
        assert verdicts == "".join(letters[row[level]] for row in rows)


@pytest.fixture
def roots(tmp_path):
    """Two roots of a flow: key data, of which the log-probs of the second step differ, and a setting."""
    prompts = np.array([[1, 2], [3, 4]], np.int32)
    for name, off in (("target", 0.5), ("golden", 0.0)):
        root = tmp_path / name
        root.mkdir()
        (root / "configurations.json").write_text(json.dumps({"lr": 0.1 + off, "</script>": 1}))
        for step in (0, 1):
            write(root, Place("prompts", step, 0, 0), prompts)
            log_prob = np.array([[-1.0, -2.0 - off * step]], np.float32)
            write(root, Place("old_log_prob", step, 0, 0), log_prob)
    return tmp_path / "target", tmp_path / "golden"


def test_a_flow_has_the_tables_of_its_keys(roots, printed, tmp_path):
    code, _ = printed("report", *roots, "-o", tmp_path / "page.html")
    page = Page(tmp_path / "page.html")
    assert (code, page.head["kind"], page.head["answer"]["state"]) == (1, "flow", "differs")
    first = page.head["answer"]["first"]
    assert (first["place"]["name"], first["kind"], first["place"]["step"]) == ("old_log_prob", "key differs", 1)
    rows, letters = page.table("key data")
    verdicts = {(row["key"], row["step"]): letter for row, letter in zip(rows, letters, strict=True)}
    assert verdicts == {
        ("prompts", 0): "p",
        ("prompts", 1): "p",
        ("old_log_prob", 0): "p",
        ("old_log_prob", 1): "e",
    }
    rows, letters = page.table("old_log_prob")
    assert letters == "pe"
    assert rows[1]["最大绝对误差"] == 0.5
    assert {row["setting"] for row in page.table("settings that differ")[0]} == {"lr"}
    assert page.head["answer"]["line"].startswith("first difference: ")
    assert main(["compare", *map(str, roots), "-o", str(tmp_path / "out"), "--html"]) == 1
    (path,) = (tmp_path / "out").glob("compare_report_*.html")
    assert Page(path).head["answer"]["first"] == first
