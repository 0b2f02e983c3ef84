"""The reference page of the command line is what the declarations say."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def generator():
    spec = importlib.util.spec_from_file_location("command_line_page", ROOT / "docs" / "command_line.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_page_is_what_the_declarations_say(generator, language):
    text = (ROOT / "docs" / language / "reference" / "command-line.md").read_text("utf-8")
    assert text == generator.page(language), "run `make options`"


def test_every_option_has_a_help_in_both_languages(generator):
    from msprobe.cli import VERBS
    from msprobe.options.declaration import declared

    for verb, each in VERBS.items():
        options = generator.import_module(each.module).Options
        for name, option in declared(options).items():
            assert option.help, (verb, name)
            assert option.zh, (verb, name)
            same = option.help == option.zh
            assert same == (not re.search(r"[a-z]{3,} [a-z]", option.help)), (verb, name)
