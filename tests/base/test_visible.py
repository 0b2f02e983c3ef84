"""What of a text reaches a terminal."""

import pytest

from msprobe.base.log import MAX_LINE_LENGTH, MAX_WORD_LENGTH, terminal_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("a\x1b[31mb\nc", "a\\x1b[31mb\\x0ac"),
        ("a\u202eb", "a\\u202eb"),
        ("w" * MAX_WORD_LENGTH, "w" * MAX_WORD_LENGTH),
    ],
)
def test_what_is_short_is_shown_whole_and_steers_nothing(text, shown):
    assert terminal_line(text) == shown


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
    shown = terminal_line(text)
    assert len(shown) <= MAX_LINE_LENGTH
    assert shown.startswith("first ")
    assert shown.endswith("last")
    assert "characters)..." in shown
    assert "\x1b" not in shown
    assert terminal_line(shown) == shown


def test_a_long_name_is_told_by_its_ends():
    shown = terminal_line("Cell." + "x" * 1_000_000 + ".forward.7")
    assert shown.startswith("Cell.xxx")
    assert shown.endswith("xxx.forward.7")
    assert "...(1000015 characters)..." in shown
    assert len(shown) == MAX_WORD_LENGTH


LONG_PATH = "/" + "/".join(["a_folder_of_the_training"] * 40) + "/network.py"


@pytest.mark.parametrize(
    "place", ["(/train/net.py:87)", f"({LONG_PATH}:87)", "(/a folder/net (copy).py:87)", "net.py:87"]
)
@pytest.mark.parametrize("end", ["", "; within tolerance here", " [12 later calls received it]"])
@pytest.mark.parametrize("before", ["x" * 1_000_000, "2, " * 300_000, "y" * 5000 + " " + "\x1b" * 5000, "short"])
@pytest.mark.parametrize("longest", [400, MAX_LINE_LENGTH])
def test_the_source_line_of_a_long_text_is_never_cut(place, end, before, longest):
    text = f"Cell.{before}.forward.0 differs {place}{end}"
    shown = terminal_line(text, longest)
    assert place in shown
    assert shown.startswith("Cell.")
    assert len(shown) <= max(longest, MAX_WORD_LENGTH + len(place) + len(end))
    assert terminal_line(shown, longest) == shown


def test_of_many_source_lines_the_last_is_kept_and_the_text_is_still_bounded():
    text = " ".join(f"/{'x' * 3000}{at}.py:{at}" for at in range(1000))
    shown = terminal_line(text)
    assert shown.endswith("x999.py:999")
    assert len(shown) <= 2 * MAX_LINE_LENGTH
