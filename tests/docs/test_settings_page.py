"""docs/en/reference/configuration.md: every setting with its default and its effect."""

import json
import re
from pathlib import Path

import pytest

from msprobe.base.scope import DataMode
from msprobe.base.sections import SECTIONS
from msprobe.base.setting import settings_of
from msprobe.base.settings import Settings, load

DOCS = Path(__file__).parents[2] / "docs"


def documented(page):
    """Each heading that names a setting, with the first paragraph below it."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return dict(re.findall(r"^### `([^`]+)`\n\n(.+?)(?:\n\n|\Z)", text, re.DOTALL | re.MULTILINE))


def defaults():
    """Each setting with its default as JSON writes it, empty where it must be given."""
    found = {key: each.default for key, each in settings_of(Settings).items()}
    for name, section in SECTIONS.items():
        found.update({f"{name}.{key}": each.default for key, each in settings_of(section).items()})
    described = {key: each.described() if isinstance(each, DataMode) else each for key, each in found.items()}
    return {key: "" if key == "dump_path" else json.dumps(each) for key, each in described.items()}


@pytest.mark.parametrize(
    ("page", "word"),
    [("en/reference/configuration.md", "Default: "), ("zh/reference/configuration.md", "默认值\N{FULLWIDTH COLON}")],
)
def test_every_setting_has_a_heading_with_its_default_and_every_heading_a_setting(page, word):
    paragraphs = documented(page)
    assert sorted(paragraphs) == sorted(defaults())
    for key, default in defaults().items():
        assert not default or f"{word}`{default}`" in paragraphs[key], key


@pytest.mark.parametrize(
    ("page", "words"),
    [("en/reference/configuration.md", "No effect:"), ("zh/reference/configuration.md", "无作用\N{FULLWIDTH COLON}")],
)
def test_a_setting_that_is_never_used_is_documented_as_such(page, words):
    paragraphs = documented(page)
    for owner, prefix in [(Settings, ""), *((section, f"{name}.") for name, section in SECTIONS.items())]:
        for key, each in settings_of(owner).items():
            never = (
                bool(each.metadata["inert"])
                and each.metadata["when"] is None
                and "kernel" not in each.metadata["inert"]
            )
            assert (words in paragraphs[prefix + key]) == never, prefix + key


@pytest.mark.parametrize("page", ["en/reference/configuration.md", "zh/reference/configuration.md"])
def test_the_example_of_the_documentation_loads(page, tmp_path, blocks):
    path = tmp_path / "config.json"
    path.write_text(blocks(page, "json")[0])
    settings = load(path)
    assert (settings.rank, settings.step) == ((0, 4, 5, 6), (1, 10, 11, 12))
    assert settings.section.patterns == ("decoder.layers.0",)
