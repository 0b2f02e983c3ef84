"""The code of docs/en/how-to/comparing/rollout_check.md does what the page shows, in both languages."""

import re
from pathlib import Path

import pytest

from msprobe.cli import main

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page):
    return re.findall(r"^```(\w*)\n(.*?)^```\n", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["en/how-to/comparing/rollout_check.md", "zh/how-to/comparing/rollout_check.md"])
def test_the_page_shows_what_its_code_says(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    found = blocks(page)
    at = next(at for at, (language, _) in enumerate(found) if language == "python")
    exec(compile(found[at][1], page, "exec"), {})
    assert capsys.readouterr().out == found[at + 1][1]
    at = next(at for at, (language, _) in enumerate(found) if language == "bash")
    assert main(found[at][1].split()[1:]) == 1
    assert capsys.readouterr().out == found[at + 1][1]


def test_both_languages_show_the_same_code():
    shown = [
        [text for language, text in blocks(page)]
        for page in ("en/how-to/comparing/rollout_check.md", "zh/how-to/comparing/rollout_check.md")
    ]
    assert shown[0] == shown[1]
