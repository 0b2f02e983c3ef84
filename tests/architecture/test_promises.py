"""Nothing promises what is not there: commands and options that messages and pages name exist, and what does not exist
is listed on its page.
"""

import ast
import re
import shlex
from importlib import import_module

import pytest

from msprobe.base.unavailable import COMMANDS, WITHOUT_EFFECT
from msprobe.cli import OLDER, VERBS
from msprobe.compare.verb import NOT_BUILT
from msprobe.config_check.verb import REFUSED
from msprobe.options.aliases import aliases_of
from msprobe.options.declaration import declared

QUOTED = re.compile(
    r"`{1,2}((?:python -m )?msprobe [^`\n]+?)`{1,2}|'(msprobe [^'\n]+?)'|(?:with|run|write): (msprobe .+)"
)
"""A command in a message, a docstring or a page."""

LINE = re.compile(r"^\s*(?:\$ )?(msprobe (?:-|[a-z]).*)$", re.MULTILINE)
"""A command on a line of its own, in a block of a page or a docstring."""

FENCE = re.compile(r"^```(?:bash|text|sh)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
NAMES = re.compile(rf"msprobe (-f \w+ )?({'|'.join((*VERBS, *OLDER, *COMMANDS))}|\w+[_-]\w+)\b")
"""What is a command on a line of its own in a package: elsewhere sentences begin so too."""


def options_of(verb):
    options = import_module(VERBS[verb].module).Options
    flags = {flag for each in declared(options).values() for flag in (*each.flags, *aliases_of(verb, each.flags))}
    return flags | {*options.REFUSED, "-h", "--help"}


@pytest.fixture(scope="module")
def options():
    """The options of each verb."""
    return {verb: options_of(verb) for verb in VERBS}


def commands_in(text):
    for match in QUOTED.finditer(text):
        yield next(group for group in match.groups() if group)


def texts(modules, root):
    """(where, a command that is written there) of all packages and pages."""
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                where = f"{module.file.relative_to(root)}:{node.lineno}"
                yield from ((where, command) for command in commands_in(node.value))
                lines = (line for line in LINE.findall(node.value) if NAMES.match(line))  # others are prose
                yield from ((where, command) for command in lines)
    for page in (
        *root.glob("*.md"),
        *(page for top in ("docs", "examples", "changes") for page in root.glob(f"{top}/**/*.md")),
    ):
        text = page.read_text()
        where = str(page.relative_to(root))
        yield from ((where, command) for command in commands_in(FENCE.sub("", text)))
        for block in FENCE.findall(text):
            yield from ((where, command) for command in LINE.findall(block))


def test_every_command_that_is_named_is_one(modules, root, options):
    wrong, checked = [], 0
    for where, command in texts(modules, root):
        try:
            words = shlex.split(command.removeprefix("python -m "), comments=True)[1:]
        except ValueError:  # cut in the middle of a quotation
            words = command.split()[1:]
        if words[:1] in (["-f"], ["--framework"]):
            words = words[2:]
        if not words or words[0].startswith(("-", "VERB", "{")):
            continue
        verb = words[0].rstrip(".,;:)")
        verb = OLDER.get(verb, (verb,))[0]
        if len(words) > 1 and f"{verb} {words[1]}" in VERBS:
            verb, words = f"{verb} {words[1]}", words[1:]
        checked += 1
        if verb not in VERBS:
            wrong.append(f"{where}: {command}")
            continue
        known = options[verb]
        if VERBS[verb].runs_script:
            continue
        own = words[1 : words.index("--")] if "--" in words else words[1:]  # after it a command of the user
        for word in own:
            flag = word.split("=")[0].rstrip(".,;:)")
            if re.match(r"--?[a-zA-Z]", flag) and not known.intersection(flag.split("|")) and flag != "--framework":
                wrong.append(f"{where}: {command}: {flag}")
    assert checked > 100
    assert not wrong, "\n".join(wrong)


def test_every_long_option_in_a_message_of_a_command_is_one(modules, options):
    everywhere = set().union(*options.values()) | {"--framework", "--version", "--help"}
    others = {"--no-deps", "--upgrade"}
    wrong = []
    for module in modules:
        if not module.name.startswith(
            ("msprobe.compare", "msprobe.doctor", "msprobe.cli", "msprobe.graph_save.gather")
        ):
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for flag in re.findall(r"(?<![\w-])--[a-z][a-z_-]+", node.value):
                    if flag not in everywhere | others:
                        wrong.append(f"{module.file}:{node.lineno}: {flag}")
    assert not wrong, "\n".join(wrong)


def rows(page, heading):
    """The names in the table below a heading, those of its cells but the last."""
    text = page.read_text()
    part = re.split(r"^## ", text, flags=re.MULTILINE)[heading]
    lines = [line for line in part.splitlines() if line.startswith("|")][2:]
    return [re.findall(r"`([^`]+)`", line.rsplit("|", 2)[0]) for line in lines]


@pytest.mark.parametrize("page", ["docs/en/reference/not-available.md", "docs/zh/reference/not-available.md"])
def test_the_page_lists_what_is_refused_and_nothing_else(page, root):
    file = root / page
    flat = {part: [name for row in rows(file, at) for name in row] for part, at in (("commands", 1), ("settings", 5))}
    assert sorted(flat["commands"]) == sorted(COMMANDS)
    assert sorted(flat["settings"]) == sorted(WITHOUT_EFFECT)
    assert {name for row in rows(file, 3) for name in row} == {"run_ut"}
    listed = {name for row in rows(file, 2) for name in row if name.startswith("-")}
    assert listed == {*NOT_BUILT, "-m", *REFUSED}
    assert not set(COMMANDS) & {*VERBS, *OLDER}, "a command that is there has left the table"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_start_page_leads_to_the_page(language, root):
    assert "(reference/not-available.md)" in (root / "docs" / language / "index.md").read_text("utf-8")
