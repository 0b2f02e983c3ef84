"""The page of the JSON output: its example is of the schema, its tables name every member, the schema is published."""

import json
import re
from pathlib import Path

import jsonschema
import pytest

from msprobe.cli import VERBS
from msprobe.findings.document import SCHEMA_FILE
from msprobe.findings.kinds import BY_CODE

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA = json.loads(SCHEMA_FILE.read_text("utf-8"))


def page(language):
    return (DOCS / language / "reference/json.md").read_text("utf-8")


def example(language):
    return json.loads(re.search(r"^```json\n(.*?)^```\n", page(language), re.MULTILINE | re.DOTALL)[1])


def test_the_published_schema_is_that_of_the_package():
    published = DOCS / "en/reference/findings-1.schema.json"
    assert published.read_bytes() == SCHEMA_FILE.read_bytes(), "copy msprobe_ms/findings/schema/findings-1.json"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_example_is_a_document(language):
    jsonschema.Draft202012Validator(SCHEMA).validate(found := example(language))
    assert found["command"] in VERBS
    assert all(BY_CODE[one["code"]].name == one["kind"] for one in found["findings"])
    assert found == example("en")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_tables_name_every_member_and_state(language):
    cells = re.findall(r"^\| ([^|]*) \|", page(language), re.MULTILINE)
    named = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    states = set(SCHEMA["properties"]["state"]["enum"])
    assert named == {*SCHEMA["properties"], *SCHEMA["$defs"]["finding"]["properties"], *states}
    for member in (*SCHEMA["$defs"]["place"]["properties"], *SCHEMA["$defs"]["suggestion"]["properties"]):
        assert f"`{member}`" in page(language)
