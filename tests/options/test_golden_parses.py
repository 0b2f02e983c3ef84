"""What every documented command line means, in the words of this tool and of mindstudio-probe 8.1 and 26."""

import json

import parsing
import pytest
from snapshots import help_of

from msprobe.cli import OLDER, VERBS

HELPS = parsing.HERE / "helps"


def test_every_command_line_means_what_it_meant():
    found, golden = parsing.outcomes(), json.loads(parsing.GOLDEN.read_text("utf-8"))
    assert list(found) == list(golden)
    assert len(found) > 800
    differing = {line: (found[line], golden[line]) for line in found if found[line] != golden[line]}
    assert not differing


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("verb", ["", *VERBS])
def test_every_help_is_its_snapshot(verb, language):
    path = HELPS / language / f"{verb.replace(' ', '_') or 'msprobe'}.txt"
    assert help_of(verb, language) == path.read_text("utf-8")


NEW = ("completion", "explain", "mcp", "gate accept", "gate check", "gate record", "gate show", "bisect", "graft")
"""Commands that never had other options."""


def test_every_verb_has_command_lines():
    for verb in VERBS:
        names = [verb, *(older for older, (name, _) in OLDER.items() if name == verb)]
        lines = [line for line in parsing.LINES if any(line.startswith(f"msprobe {name} ") for name in names)]
        assert len(lines) > 4 or verb in NEW, verb
