"""The code of docs/en/how-to/collecting/mindtorch.md does what the page says, and stands in both languages."""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = [pytest.mark.mindspore, pytest.mark.mindtorch]

DOCS = Path(__file__).parents[3] / "docs"
REASON = "MSAdapter, which takes the place of torch, is not installed; `make mindtorch` runs this"


def fenced(page, language):
    """The blocks of a page in this language; in none those of names."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    return [text for named, text in found if named == language]


def test_both_languages_have_the_same_code():
    for language in ("python", ""):
        assert fenced("en/how-to/collecting/mindtorch.md", language) == fenced(
            "zh/how-to/collecting/mindtorch.md", language
        )
    assert len(fenced("en/how-to/collecting/mindtorch.md", "python")) == 1


@pytest.mark.skipif(find_spec("msadapter") is None, reason=REASON)
def test_the_training_of_the_page_gives_the_names_that_it_shows(tmp_path):
    (code,), (shown,) = (
        fenced("en/how-to/collecting/mindtorch.md", "python"),
        fenced("en/how-to/collecting/mindtorch.md", ""),
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "GLOG_v": "3"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert sorted(os.listdir(tmp_path / "dump")) == ["run.jsonl", "step0"]
    names = list(json.loads((tmp_path / "dump/step0/rank/dump.json").read_text())["data"])
    expected = shown.splitlines()[:-1]
    assert names[: len(expected)] == expected
