"""`--json` is the same as `--format json` for every command whose answer has that form."""

import json
from importlib import import_module

import pytest

from msprobe.cli import VERBS, main
from msprobe.options.groups import AnswerFormat
from msprobe.options.parser import parsed

SIDES = {"check": ["a"], "overflow-check": ["a"], "diagnose": ["a", "b"], "monitor compare": ["a", "b"], "doctor": []}


@pytest.mark.parametrize("verb", SIDES)
def test_both_spellings_ask_for_json(verb):
    options = import_module(VERBS[verb].module).Options
    assert parsed(f"msprobe {verb}", options, [*SIDES[verb], "--json"]).is_json
    assert parsed(f"msprobe {verb}", options, [*SIDES[verb], "--format", "json"]).is_json
    assert not parsed(f"msprobe {verb}", options, SIDES[verb]).is_json


def test_these_are_all_commands_whose_answer_has_that_form():
    having = {name for name, verb in VERBS.items() if issubclass(import_module(verb.module).Options, AnswerFormat)}
    assert having == set(SIDES)


def test_standard_output_is_json(capsys):
    assert main(["doctor", "--json"]) in (0, 1)
    assert "findings" in json.loads(capsys.readouterr().out)
