"""The environment variable that replaces the settings of every debugger, as `msprobe gate check` sets it."""

import json

import pytest

from msprobe.base.errors import SettingsError
from msprobe.base.settings import REPLACED_BY, load, stage_settings


@pytest.fixture
def replaced(tmp_path, monkeypatch):
    file = tmp_path / "gate.json"
    file.write_text(
        json.dumps({"task": "tensor", "level": "mix", "step": ["0-2"], "dump_path": str(tmp_path / "dump")})
    )
    monkeypatch.setenv(REPLACED_BY, str(file))
    return file


def test_it_replaces_file_and_arguments(replaced, tmp_path):
    own = tmp_path / "own.json"
    own.write_text(json.dumps({"task": "structure", "level": "L0", "dump_path": str(tmp_path / "own")}))
    settings = load(own, task="statistics", level="L1", dump_path=tmp_path / "other", step=[7])
    assert (settings.task, settings.level, settings.step) == ("tensor", "mix", (0, 1, 2))
    assert settings.dump_path == tmp_path / "dump"
    assert load("there is no such file.json") == settings


def test_a_stage_has_the_settings_of_its_debugger(replaced, tmp_path):
    above = load()
    stage = stage_settings(above, "actor", None, {"level": "L0", "task": "statistics"})
    assert (stage.task, stage.level, stage.dump_path) == ("tensor", "mix", above.dump_path / "actor")


def test_a_missing_file_is_a_mistake_at_construction(monkeypatch, tmp_path):
    monkeypatch.setenv(REPLACED_BY, str(tmp_path / "none.json"))
    with pytest.raises(SettingsError, match="no such file"):
        load()
