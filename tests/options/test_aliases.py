"""The names of mindstudio-probe 8.1 and 26, and older ones of this tool: accepted, and in no help."""

import json
import shlex
from importlib import import_module

import parsing
import pytest
from snapshots import help_of

from msprobe.cli import OLDER, VERBS
from msprobe.options.aliases import ALIASES, aliases_of
from msprobe.options.declaration import declared


def canonical(line):
    """The command line in canonical names."""
    words = shlex.split(line)
    at = 3 if words[1].startswith("-") else 1
    verb = OLDER.get(words[at], (words[at],))[0]
    full = f"{verb} {words[at + 1]}" if f"{verb} {' '.join(words[at + 1 : at + 2])}" in VERBS else verb
    if full not in VERBS:
        return line
    rows = [each for each in ALIASES if full in (each.verbs or (full,))]
    known = {flag for each in declared(options_of(full)).values() for flag in each.flags}
    instead = {each.flag: each.canonical for each in rows if each.canonical in known}
    words[at] = verb
    for place in range(at + 1, len(words)):
        if full == "verify-collection" and not words[place].startswith("--"):
            break
        flag, equals, value = words[place].partition("=")
        words[place] = f"{instead.get(flag, flag)}{equals}{value}"
    return shlex.join(words)


def options_of(verb):
    return import_module(VERBS[verb].module).Options


def test_canonical_names_mean_the_same_as_all_others():
    golden = json.loads(parsing.GOLDEN.read_text("utf-8"))
    lines = {line: canonical(line) for line in parsing.LINES}
    changed = {line: new for line, new in lines.items() if shlex.split(new) != shlex.split(line)}
    assert len(changed) > 400
    with parsing.folder_with_files() as without_folder:
        for line, new in changed.items():
            found = json.loads(without_folder(json.dumps(parsing.outcome(new))))
            assert found == golden[line], (line, new)


@pytest.mark.parametrize("alias", ALIASES, ids=str)
def test_an_alias_is_accepted_by_the_commands_that_have_its_flag_and_is_in_no_help(alias):
    accepting = [
        verb
        for verb in VERBS
        for each in declared(options_of(verb)).values()
        if alias.flag in aliases_of(verb, each.flags)
    ]
    assert accepting, "an alias of nothing"
    assert not set(alias.verbs) - set(accepting)
    for verb in accepting:
        assert alias.flag not in help_of(verb).replace("=", " ").replace(",", " ").split(), verb
    assert alias.since in ("8.1", "26", "own")


def test_the_help_lists_canonical_names_only():
    listed = [line.split()[0] for line in help_of("").splitlines() if line.startswith("  ") and line.split()]
    for older in (*OLDER, "graph"):
        assert older not in listed
    assert {verb.split()[0] for verb, each in VERBS.items() if not each.is_older} <= set(listed)


def test_no_flag_of_a_command_means_two_things():
    for verb in VERBS:
        flags = [
            f for each in declared(options_of(verb)).values() for f in (*each.flags, *aliases_of(verb, each.flags))
        ]
        assert len(flags) == len(set(flags)), verb


def test_the_same_flag_means_the_same_everywhere():
    """Of a folder to write to, of steps, ranks, workers and formats there is one spelling."""
    for verb in VERBS:
        flags = {flag for each in declared(options_of(verb)).values() for flag in each.flags}
        assert not flags & {"--output_path", "--out_path", "--output_dir", "--rank", "--step", "--num-workers"}
        assert ("-o" in flags) == ("--output" in flags), verb
        assert not any("_" in flag for flag in flags), verb
