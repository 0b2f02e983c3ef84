"""What of a text reaches a terminal."""

import pytest

from msprobe.base.log import LONGEST_LINE, LONGEST_WORD, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("a\x1b[31mb\nc", "a\\x1b[31mb\\x0ac"),
        ("a\u202eb", "a\\u202eb"),
        ("w" * LONGEST_WORD, "w" * LONGEST_WORD),
    ],
)
def test_what_is_short_is_shown_whole_and_steers_nothing(text, shown):
    assert visible(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "first " + "x" * 1_000_000 + " last",
        "first " + "2, " * 300_000 + "last",
        "first " + "\x1b" * 1_000_000 + " last",
        "first " + "x" * 1_000_000 + " " + "y" * 1_000_000 + " " + "z, " * 100_000 + " last",
    ],
)
def test_what_is_long_keeps_its_ends(text):
    shown = visible(text)
    assert len(shown) <= LONGEST_LINE
    assert shown.startswith("first ")
    assert shown.endswith("last")
    assert "characters)..." in shown
    assert "\x1b" not in shown
    assert visible(shown) == shown


def test_a_long_name_is_told_by_its_ends():
    shown = visible("Cell." + "x" * 1_000_000 + ".forward.7")
    assert shown.startswith("Cell.xxx")
    assert shown.endswith("xxx.forward.7")
    assert "...(1000015 characters)..." in shown
    assert len(shown) == LONGEST_WORD
