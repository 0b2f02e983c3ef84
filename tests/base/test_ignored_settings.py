"""Keys of configurations that some release of mindstudio-probe reads and this version does not have."""

import re
from pathlib import Path

import pytest

from msprobe.base.errors import SettingsError
from msprobe.base.sections import SECTIONS
from msprobe.base.setting import settings_of
from msprobe.base.settings import Settings, ignored_settings, load
from msprobe.base.unavailable import IGNORED_KEYS

DOCS = Path(__file__).parents[2] / "docs"
ROWS = [(row, section) for row in IGNORED_KEYS for section in row.sections]


@pytest.mark.parametrize(("row", "section"), ROWS, ids=lambda each: getattr(each, "key", each))
@pytest.mark.parametrize("value", [1234, True, "", [], {}, None], ids=repr)
def test_a_key_that_a_release_reads_is_ignored_and_changes_nothing(row, section, value, config):
    task = section or "statistics"
    level = "L1"
    plain = load(config(task=task, level=level))
    contents = {row.key: value} if not section else {section: {row.key: value}}
    assert load(config(task=task, level=level, **contents)) == plain


def test_it_is_logged_once_where_it_is_who_reads_it_and_what_to_do(config, caplog):
    path = config(seed=1234, statistics={"request_id": 3})
    for _ in range(3):
        load(path)
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}, seed: the setting is ignored; mindstudio-probe 1.0.4 reads it; seed_all(seed) seeds a training",
        f"{path}, statistics.request_id: the setting is ignored; mindstudio-probe 26.2.0 reads it; it is not "
        "available in this version",
    ]


def test_a_key_of_another_section_is_ignored_only_where_it_asks_for_nothing(config):
    plain = load(config(task="overflow_check"))
    nothing = {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "statistics"}
    assert load(config(task="overflow_check", overflow_check=nothing)) == plain
    with pytest.raises(SettingsError, match='"list" is not valid here'):
        load(config(task="overflow_check", overflow_check={"list": ["relu"]}))


@pytest.mark.parametrize(
    ("contents", "meant"),
    [
        ({"stpe": [1]}, "step"),
        ({"levl": "L1"}, "level"),
        ({"statistics": {"summary_mod": "md5"}}, "summary_mode"),
        ({"statistics": {"liste": []}}, "list"),
        ({"dump_paht": "x"}, "dump_path"),
        ({"acc_chek": {}}, "acc_check"),
    ],
)
def test_a_misspelling_still_fails_and_names_the_nearest_key(contents, meant, config):
    with pytest.raises(SettingsError, match=f'did you mean "{meant}"'):
        load(config(**contents))


@pytest.mark.parametrize("key", ["seeed_all", "determinism", "zzz"])
def test_a_key_that_no_release_reads_is_refused(key, config):
    with pytest.raises(SettingsError, match=f'unknown setting "{key}"'):
        load(config(**{key: 1}))


@pytest.mark.parametrize("task", ["", *SECTIONS])
def test_a_refusal_lists_each_key_once(task, config):
    contents = {task: {"zzz": 1}} if task else {"zzz": 1}
    levels = {"overflow_check": "L1"}
    with pytest.raises(SettingsError, match='unknown setting "zzz"') as refused:
        load(config(task=task or "statistics", level=levels.get(task, "L1"), **contents))
    names = re.findall('"([^"]+)"', str(refused.value).partition("choose from")[2])
    assert len(names) == len(set(names))
    known = {*settings_of(SECTIONS[task])} if task else {*settings_of(Settings), *SECTIONS, "run_ut"}
    assert set(names) == known


def test_no_ignored_key_is_a_setting_of_the_place_where_it_is_ignored():
    for row, section in ROWS:
        assert row.key not in settings_of(SECTIONS[section] if section else Settings)


def test_only_the_section_of_the_task_is_looked_at():
    assert not list(ignored_settings({"task": "tensor", "statistics": {"request_id": 1}}))
    assert not list(ignored_settings({"task": ["tensor"], "tensor": {"request_id": 1}}))
    assert not list(ignored_settings({"task": "tensor", "tensor": [1]}))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_ignored_key_is_documented_with_its_source(language):
    text = (DOCS / language / "reference" / "not-available.md").read_text(encoding="utf-8")
    for row in IGNORED_KEYS:
        lines = [line for line in text.splitlines() if line.startswith(f"| `{row.key}` | ")]
        line = next((line for line in lines if f"| {row.source} |" in line), "")
        assert line, row.key
        for section in filter(None, row.sections):
            assert f"`{section}`" in line, (row.key, section)
