"""`msprobe explain`: a kind by its code or name, all kinds, and what it answers to anything else."""

import pytest

from msprobe.cli import main
from msprobe.findings.kinds import EVERY


@pytest.mark.parametrize("text", ["MSP101", "msp101", "computes differently", "Computes differently"])
def test_a_kind_is_found_by_its_code_and_its_name(text, capsys):
    assert main(["explain", text]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "MSP101: computes differently (error)"
    assert "How it is decided" in lines


def test_an_explanation_is_in_the_language_of_the_user(capsys, monkeypatch):
    monkeypatch.setenv("MSPROBE_LANG", "zh")
    assert main(["explain", "MSP101"]) == 0
    assert capsys.readouterr().out.startswith("MSP101：计算结果不同（错误）\n")


def test_without_a_kind_all_are_listed(capsys):
    assert main(["explain"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed] == [kind.code for kind in EVERY]


@pytest.mark.parametrize(
    ("text", "hint"), [("computes diferently", "did you mean 'computes differently'?"), ("xyzzy", "lists all kinds")]
)
def test_what_is_no_kind_is_refused(text, hint, capsys):
    assert main(["explain", text]) == 2
    assert hint in capsys.readouterr().err
