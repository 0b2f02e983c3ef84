"""docs/en/how-to/collecting/saving.md: its example saves what it shows."""

import json
import subprocess

import pytest
from preloaded import python

pytestmark = pytest.mark.mindspore


def test_the_page_shows_what_its_example_saves(tmp_path, blocks):
    code, (shown,) = (
        blocks("en/how-to/collecting/saving.md", "python")[0],
        blocks("en/how-to/collecting/saving.md", "json"),
    )
    subprocess.run([python("mindspore"), "-c", code], cwd=tmp_path, check=True)
    for step in (0, 1):
        dump = json.loads((tmp_path / "saved" / f"step{step}" / "rank" / "debug.json").read_text())
        assert dump["data"] == json.loads(shown)


@pytest.mark.parametrize("language", ["python", "json"])
def test_both_pages_show_the_same_example(language, blocks):
    assert blocks("en/how-to/collecting/saving.md", language) == blocks("zh/how-to/collecting/saving.md", language)
