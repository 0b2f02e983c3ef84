"""The documentation says what the code does."""

from pathlib import Path

import pytest

from msprobe.compare.core.noise import FULL, LOWEST, Sign
from msprobe.compare.core.reason import Cause
from msprobe.compare.core.standard import ACROSS, STANDARDS
from msprobe.compare.tables.columns import GUESSES, NOISE, columns, optional

DOCS = Path(__file__).parents[2] / "docs"


def as_markdown(shown):
    return "\n".join(["| column | says |", "|---|---|", *(f"| `{c.title}` | {c.text} |" for c in shown)])


@pytest.mark.parametrize("mode", ["statistics", "tensor", "digest"])
def test_the_page_holds_the_table_of_columns(mode):
    assert as_markdown(columns(mode, True)) in (DOCS / "en/reference/compare-table.md").read_text("utf-8")


@pytest.mark.parametrize("page", ["en/how-to/comparing/compare.md", "zh/how-to/comparing/compare.md"])
def test_both_pages_hold_every_threshold(page):
    text = (DOCS / page).read_text("utf-8")
    for dtype, standard in STANDARDS.items():
        assert f"| {dtype} | {standard.relative:g} | {standard.absolute:g} |" in text


@pytest.mark.parametrize("shown", [GUESSES, NOISE, optional(["zeros", "layout"])])
def test_the_page_holds_the_columns_that_not_every_table_has(shown):
    assert as_markdown(shown) in (DOCS / "en/reference/compare-table.md").read_text("utf-8")


@pytest.mark.parametrize("page", ["en/how-to/comparing/compare.md", "zh/how-to/comparing/compare.md"])
def test_both_pages_hold_what_two_frameworks_are_allowed(page):
    rows = [line.split("|") for line in (DOCS / page).read_text("utf-8").splitlines() if line.count("|") == 3]
    for dtype, allowed in ACROSS.items():
        printed = [row for row in rows if dtype in row[1].replace("、", ",").replace(" ", "").split(",")]
        assert f"{allowed:.3g}" in [row[2].strip() for row in printed]


@pytest.mark.parametrize("page", ["en/explanation/noise.md", "zh/explanation/noise.md"])
def test_both_pages_of_noise_name_every_sign_and_the_bounds(page):
    text = (DOCS / page).read_text("utf-8")
    for sign in Sign:
        assert sign is Sign.NONE or f"| `{sign.value}` |" in text
    assert f"{FULL:g}" in text
    assert f"{LOWEST:g}" in text


@pytest.mark.parametrize("page", ["en/how-to/comparing/compare.md", "zh/how-to/comparing/compare.md"])
def test_both_pages_name_every_cause(page):
    text = (DOCS / page).read_text("utf-8")
    assert all(f"| `{cause.name.lower()}` |" in text for cause in Cause)


@pytest.mark.parametrize("page", ["en/how-to/comparing/compare.md", "zh/how-to/comparing/compare.md"])
def test_both_pages_name_every_kind(page):
    text = (DOCS / page).read_text("utf-8")
    for kind in (
        "computes differently",
        "argument differs",
        "structure differs",
        "parameters differ",
        "run inputs differ",
        "code between A and B in P",
        "cannot tell",
    ):
        assert f"| `{kind}` |" in text
