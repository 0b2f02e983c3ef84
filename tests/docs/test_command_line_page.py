"""The reference page of the command line is what the declarations say."""

import importlib.util
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
