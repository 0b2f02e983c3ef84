"""The program of the page on graph mode leaves what the page says, and its command finds both modes equal."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from preloaded import python

from msprobe.cli import main

pytestmark = pytest.mark.mindspore

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page, language):
    """The blocks of a page in one language, without comments."""
    found = re.findall(r"^```(\w*)\n(.*?)^```\n", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    return [re.sub(r" *#.*$", "", text, flags=re.MULTILINE) for what, text in found if what == language]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the program ran, as it stands and in PyNative mode."""
    root = tmp_path_factory.mktemp("page")
    (program,) = blocks("en/how-to/collecting/graph-mode.md", "python")
    pynative = program.replace("GRAPH_MODE", "PYNATIVE_MODE").replace("./graph", "./pynative")
    for number, text in enumerate((program, pynative)):
        (root / f"{number}.py").write_text(text)
        done = subprocess.run(
            [python("mindspore"), f"{number}.py"],
            cwd=root,
            env={**os.environ, "GLOG_v": "3"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    return root


@pytest.mark.parametrize("language", ["python", "text", ""])
def test_both_languages_have_the_same_blocks(language):
    assert (
        blocks("zh/how-to/collecting/graph-mode.md", language)
        == blocks("en/how-to/collecting/graph-mode.md", language)
        != []
    )


def test_the_program_leaves_the_names_that_the_page_shows(folder):
    (names,) = blocks("en/how-to/collecting/graph-mode.md", "text")
    for step in range(3):
        dump = json.loads((folder / f"graph/step{step}/rank/dump.json").read_text())
        assert list(dump["data"]) == names.split()
        assert "missing" not in dump
    construct = json.loads((folder / "graph/step0/rank/construct.json").read_text())
    assert construct["Cell.body.0.Dense.forward.0"] == "Cell.body.SequentialCell.forward.0"
    (output,) = dump["data"]["Cell.body.0.Dense.forward.0"]["output"]
    assert (output["shape"], output["dtype"]) == ([2, 3], "Float32")


def test_the_command_compares_the_modes(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    (command,) = blocks("en/how-to/collecting/graph-mode.md", "")
    words = command.split()
    assert words[0] == "msprobe"
    assert main(words[1:]) == 0, capsys.readouterr().out
