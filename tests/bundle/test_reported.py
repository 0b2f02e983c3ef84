"""Reported bundles: each comparison gives the answer that was found to be right.

`tests/samples/bundles/NAME.zip` is what was reported, and `NAME.json` what the answer must be: `exit_code`,
`first_wrong` (the name of the call, null for none) and `rows` (the verdict of records of the target, by name).
"""

import json
from pathlib import Path

import pytest

BUNDLES = Path(__file__).parents[1] / "samples" / "bundles"
NAMES = sorted(path.stem for path in BUNDLES.glob("*.zip"))


def test_each_bundle_has_its_answer():
    assert NAMES
    assert sorted(path.stem for path in BUNDLES.glob("*.json")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_reported_bundle_has_the_right_answer(name, runs):
    wanted = json.loads((BUNDLES / f"{name}.json").read_text())
    assert wanted.keys() == {"exit_code", "first_wrong", "rows"}
    found = runs.compare(BUNDLES / f"{name}.zip")
    tables = [table for table in found.tables.values() if "rows" in table]
    first = next((one["name"] for table in tables for one in table["first_wrong"]), None)
    verdicts = {row["NPU Name"]: row["Verdict"] for table in tables for row in table["rows"]}
    assert (found.code, first) == (wanted["exit_code"], wanted["first_wrong"])
    assert {record: verdicts.get(record) for record in wanted["rows"]} == wanted["rows"]
