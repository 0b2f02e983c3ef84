"""The command: files in, the answer on its last line, JSON, a page, exit codes."""

import json
import subprocess
import sys

import pytest
from dense_training import Fault, train, write

from msprobe.cli import main


@pytest.fixture(scope="module")
def folders(tmp_path_factory, golden):
    root = tmp_path_factory.mktemp("monitors")
    write(golden, root / "golden")
    write(train(Fault("clip", 41, rank=1)), root / "clipped")
    write(train(order=1), root / "clean")
    return root


def test_the_last_line_is_the_answer(folders, capsys):
    assert main(["monitor", "compare", str(folders / "clipped"), str(folders / "golden")]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("first divergence: reduced gradient of ")
    assert "at step 41 on rank 1: norm x0.5" in last
    assert last.endswith("(equal before)")


def test_what_stays_inside_ends_with_0(folders, capsys):
    assert main(["monitor", "compare", str(folders / "clean"), str(folders / "golden")]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "no divergence: all numbers from step 16 on stay within the band"
    )
    assert main(["monitor", "compare", str(folders / "golden"), str(folders / "golden")]) == 0
    assert main(["monitor", "compare", str(folders / "clipped"), str(folders / "golden"), "--exit-zero"]) == 0


def test_a_clean_pair_can_be_named(folders, capsys):
    words = [str(folders / "clipped"), str(folders / "golden"), "--calibrate", str(folders / "clean")]
    assert main(["monitor", "compare", *words, "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["details"]["basis"] == "calibrated"
    first = found["findings"][0]
    assert (first["place"]["step"], first["fields"]["ranks"]) == (41, [1])


def test_files_are_written_and_never_replaced(folders, tmp_path, capsys):
    words = ["monitor", "compare", str(folders / "clipped"), str(folders / "golden"), "-o", str(tmp_path / "out")]
    assert main(words) == 1
    found = json.loads((tmp_path / "out" / "monitor_compare.json").read_text())
    assert found["findings"][0]["fields"]["cause"] == "local_reduction"
    assert found["answer"] == capsys.readouterr().out.splitlines()[-1]
    configuration = json.loads((tmp_path / "out" / "next_dump.json").read_text())
    assert configuration == found["details"]["next_dump"]
    assert configuration["step"] == [41]
    page = (tmp_path / "out" / "monitor_compare.html").read_text()
    assert page.count("<svg") >= 2
    assert "http" not in page, "nothing is fetched"
    assert main(words) == 2


def test_names_are_escaped(golden, tmp_path):
    odd = {
        rank: {kind: [(step, f"<b>&{name}", values) for step, name, values in rows] for kind, rows in kinds.items()}
        for rank, kinds in golden.items()
    }
    worse = {
        rank: {
            kind: [(s, n, [v * (2 if s > 40 else 1) for v in vs]) for s, n, vs in rows] for kind, rows in kinds.items()
        }
        for rank, kinds in odd.items()
    }
    write(odd, tmp_path / "b")
    write(worse, tmp_path / "a")
    assert main(["monitor", "compare", str(tmp_path / "a"), str(tmp_path / "b"), "-o", str(tmp_path / "out")]) == 1
    page = (tmp_path / "out" / "monitor_compare.html").read_text()
    assert "<b>" not in page
    assert "&lt;b&gt;&amp;" in page


def test_a_wrong_path_is_said(folders, capsys):
    assert main(["monitor", "compare", str(folders / "nowhere"), str(folders / "golden")]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_help_needs_no_numpy():
    code = (
        "import sys; from msprobe.cli import main\ntry: main(['monitor', 'compare', '-h'])\nexcept SystemExit: pass\n"
    )
    code += "assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
