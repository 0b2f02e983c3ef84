"""docs/en/how-to/comparing/single-compare.md: its example gives what it shows, and it names every column."""

from pathlib import Path

import pytest
from saved_trees import HEADINGS


def test_both_guides_have_the_same_code(blocks):
    assert blocks("en/how-to/comparing/single-compare.md", "python") == blocks(
        "zh/how-to/comparing/single-compare.md", "python"
    )
    assert blocks("en/how-to/comparing/single-compare.md", "text") == blocks(
        "zh/how-to/comparing/single-compare.md", "text"
    )


def test_the_example_of_the_guide_gives_what_it_shows(tmp_path, monkeypatch, capsys, blocks):
    from msprobe.single_save import SingleSave

    monkeypatch.chdir(tmp_path)
    code = blocks("en/how-to/comparing/single-compare.md", "python")
    for part in code:
        monkeypatch.setattr(SingleSave, "_instance", None)  # each run of the guide is a process of its own
        exec(part, {})
    (shown,) = blocks("en/how-to/comparing/single-compare.md", "text")
    assert capsys.readouterr().out == shown


@pytest.mark.parametrize("page", ["en/how-to/comparing/single-compare.md", "zh/how-to/comparing/single-compare.md"])
def test_the_guides_name_every_column(page):
    text = (Path(__file__).parents[3] / "docs" / page).read_text("utf-8")
    assert all(f"`{heading}`" in text for heading in HEADINGS)
