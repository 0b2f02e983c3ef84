"""Answers as lines of a console."""

import io
import sys

import pytest

from msprobe.base.phrase import phrase
from msprobe.findings import text
from msprobe.findings.catalogue import comparison as kinds
from msprobe.findings.finding import Answer, Finding, Place, Source, Suggestion

SOURCE = Source("/home/user/net.py", 7, 5, ("def f(x):", "    y = x", "    return y * 2"))


def finding(name="Mint.mul.0.forward", **more):
    place = Place(name, "net.mlp", "output.0", 0, 0, source=SOURCE)
    return Finding(kinds.COMPUTES, place, "all inputs agree, but output.0 differs", "error", **more)


def answer(**more):
    return Answer("differs", "first wrong call: ...", finding(certainty="certain"), **more)


def test_the_first_line_is_the_verdict_and_the_last_one_is_for_scripts():
    first = finding(certainty="certain", evidence=("known cause: eps",), later_calls=3, reaches_loss=True)
    lines = list(text.lines_of(Answer("differs", "first wrong call: X", first), "", ["5 pass"], ["by statistics"]))
    assert lines == [
        "error: Mint.mul.0.forward in net.mlp: computes differently (certain)",
        "  because: all inputs agree, but output.0 differs",
        "  evidence: 3 later calls received the difference; it reaches the loss",
        "  evidence: known cause: eps",
        "  source: /home/user/net.py:7: return y * 2",
        "  judged: 5 pass",
        "  limits: by statistics",
        "first wrong call: X",
    ]


def test_an_answer_has_at_most_ten_lines_whatever_was_found():
    first = finding(certainty="open", evidence=("one", "two", "three", "four", "five"), later_calls=900)
    others = tuple(finding(f"Mint.mul.{n}.forward") for n in range(1, 40))
    harmless = tuple(finding(f"Mint.add.{n}.forward", certainty="likely") for n in range(40))
    found = Answer("differs", "first wrong call: X", first, others, harmless)
    lines = list(text.lines_of(found, "", ["a", "b", phrase("{n} c", n=1)], ["d"] * 9))
    assert len(lines) == 10  # with the next command and what was written two more
    assert [line.split(":")[0].strip() for line in lines] == [
        *("error", "because", "evidence", "evidence", "evidence", "source"),
        *("also", "judged", "limits", "first wrong call"),
    ]


def test_others_are_counted_and_top_lists_more():
    found = answer(next=tuple(finding(f"Mint.mul.{n}.forward") for n in range(1, 6)))
    assert [line for line in text.lines_of(found, "") if line.startswith("  also")] == [
        "  also: Mint.mul.1.forward in net.mlp: computes differently: all inputs agree, but output.0 differs "
        "(and 4 more, see the table)",
    ]
    assert sum(line.startswith("  also") for line in text.lines_of(found, "", top=4)) == 4
    assert [line for line in text.lines_of(found, "", top=0) if line.startswith("  also")] == [
        "  also: 5, see the table"
    ]


def test_findings_that_the_answer_leaves_out_are_counted():
    found = answer(next=(finding("Mint.mul.1.forward"),), harmless=(finding(certainty="open"),))
    totals = {"also": 5000, "harmless": 7, "open": 3}
    lines = list(text.lines_of(found, "", top=1, totals=totals))
    endings = {line.split(":")[0].strip(): line for line in lines}
    assert endings["also"].endswith(" (and 4999 more, see the table)")
    assert endings["open"].endswith(" (and 2 more, see the table)")
    assert endings["harmless"] == "  harmless: 7, see the table"


def test_harmless_differences_are_listed_where_nothing_is_wrong():
    harmless = (*(finding(f"Mint.add.{n}.forward", certainty="likely") for n in range(3)), finding(certainty="open"))
    clean = [line[:30] for line in text.lines_of(Answer("clean", "no difference", harmless=harmless), "no difference")]
    assert clean == [
        "ok: no difference",
        *("  harmless: Mint.add.0.forward", "  harmless: Mint.add.1.forward"),
        *("  open: Mint.mul.0.forward in ", "no difference"),
    ]
    assert not any("harmless" in line for line in text.lines_of(answer(harmless=harmless), ""))
    assert any("harmless" in line for line in text.lines_of(answer(harmless=harmless), "", top=1))


@pytest.mark.parametrize(("state", "word"), [("clean", "ok"), ("unjudged", "open")])
def test_where_nothing_differs_the_title_is_the_verdict(state, word):
    assert (
        next(iter(text.lines_of(Answer(state, "no difference: 5 pairs"), "no difference"))) == f"{word}: no difference"
    )


def test_a_difference_within_tolerance_is_a_note():
    within = Finding(kinds.COMPUTES, Place("a"), "b", "pass")
    assert next(iter(text.lines_of(Answer("differs", "", within), ""))) == "note: a: computes differently"


def test_a_name_that_steers_a_terminal_is_spelled_out():
    (line, *_) = text.lines_of(Answer("differs", "", finding("a\x1b[31m\nb")), "")
    assert line == "error: a\\x1b[31m b in net.mlp: computes differently"


def test_the_last_command_is_the_next_step():
    advice = (Suggestion("look"), Suggestion("collect", "msprobe diagnose a b"), Suggestion("run", "msprobe repro c"))
    assert text.next_step(answer(advice=advice)) == "msprobe repro c"
    assert text.next_step(answer()) == ""


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "is_colored"),
    [
        (Terminal, {}, True),
        (io.StringIO, {}, False),
        (Terminal, {"NO_COLOR": "1"}, False),
        (Terminal, {"NO_COLOR": ""}, True),
        (Terminal, {"TERM": "dumb"}, False),
    ],
)
def test_colors_are_for_terminals(stream, environment, is_colored, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    shown = stream()
    monkeypatch.setattr(sys, "stdout", shown)
    lines = ["error: a: computes differently", "  because: b", "first wrong call: a"]
    text.printed(lines)
    if is_colored:
        assert shown.getvalue().splitlines() == [
            "\x1b[1;31merror\x1b[0m: \x1b[1ma: computes differently\x1b[0m",
            "\x1b[2m  because: \x1b[0mb",
            "first wrong call: a",
        ]
    else:
        assert shown.getvalue().splitlines() == lines
