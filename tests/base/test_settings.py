"""The settings of a collection: what is meant, which steps and ranks are taken, how they are described."""

import json
from pathlib import Path

import pytest

from msprobe.base.scope import DataMode
from msprobe.base.sections import SECTIONS, StatisticsSettings, TensorSettings
from msprobe.base.settings import load


def test_without_a_file_everything_has_its_default(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = load()
    assert settings.task == "statistics"
    assert settings.level == "L1"
    assert settings.dump_path == tmp_path / "dump_path"
    assert settings.rank == settings.step == ()
    assert settings.extra_info is True
    assert settings.async_dump is False
    assert settings.section == StatisticsSettings()
    assert settings.section.scope == settings.section.patterns == settings.section.tensor_list == ()
    assert settings.section.data_mode == DataMode(True, True, True, True)
    assert settings.section.summary_mode == "statistics"
    assert not (tmp_path / "dump_path").exists(), "reading settings creates nothing"


def test_a_file_is_read_with_the_section_of_its_task(config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = load(
        config(
            task="tensor",
            level="mix",
            rank=[0, "4-6"],
            step=[1, "10-12"],
            precision="high",
            extra_info=False,
            tensor={
                "scope": ["Cell.a.B.forward.0", "Functional.relu.0.backward"],
                "list": ["decoder.layers.0"],
                "data_mode": ["forward"],
            },
            statistics={"list": ["another task's"]},
        )
    )
    assert settings.task == "tensor"
    assert settings.level == "mix"
    assert settings.dump_path == tmp_path / "dump"
    assert settings.rank == (0, 4, 5, 6)
    assert settings.step == (1, 10, 11, 12)
    assert settings.precision == "high"
    assert settings.extra_info is False
    assert isinstance(settings.section, TensorSettings)
    assert settings.section.scope == ("Cell.a.B.forward.0", "Functional.relu.0.backward")
    assert settings.section.patterns == ("decoder.layers.0",)
    assert settings.section.data_mode == DataMode(forward=True, backward=False, input=True, output=True)
    assert settings.section.summary_mode == "statistics"
    assert settings.section.tensor_list == ()


def test_arguments_stand_in_place_of_the_file(config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = config(
        task="statistics",
        level="L1",
        step=[7],
        statistics={"list": ["from statistics"]},
        tensor={"list": ["from tensor"]},
    )
    settings = load(path, task="tensor", dump_path="/elsewhere/x", level="L0", step=[0, "2-3"])
    assert settings.task == "tensor"
    assert settings.section.patterns == ("from tensor",)
    assert settings.dump_path == Path("/elsewhere/x")
    assert settings.level == "L0"
    assert settings.step == (0, 2, 3)
    assert load(path).step == (7,)
    assert load(path, step=[]).step == ()


def test_an_argument_heals_what_is_wrong_or_missing_in_the_file(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"level": "L9"}')
    assert load(path, level="mix", dump_path=tmp_path / "d").level == "mix"


def test_null_means_not_given(config):
    names = ("task", "rank", "step", "level", "async_dump", "precision", "extra_info", "dump_enable", "risk_level")
    inner = ("scope", "list", "tensor_list", "data_mode", "summary_mode", "device", "precision")
    contents = load(config(**dict.fromkeys(names), statistics=dict.fromkeys(inner)))
    assert contents == load(config()) == load(config(statistics=None)) == load(config(statistics={}))


def test_sections_of_other_tasks_are_not_looked_at(config):
    others = {name: ["not", "even", "an", "object"] for name in SECTIONS if name != "statistics"}
    assert load(config(**others, run_ut=3)) == load(config())


@pytest.mark.parametrize("name", ["all-sections", "dump-statistics", "dump-tensor"])
def test_configurations_that_users_have_load_without_a_note(name, configs, notes):
    load(configs / f"{name}.json")
    assert notes() == []


def test_a_users_debug_configuration_is_meant(configs):
    settings = load(configs / "debug.json")
    assert (settings.level, settings.section) == ("debug", StatisticsSettings())


def test_the_dump_path_may_hold_spaces_and_any_script(config, tmp_path):
    assert load(config(dump_path=f"{tmp_path}/数据 采集")).dump_path == tmp_path / "数据 采集"


def test_the_dump_path_may_lead_through_a_symbolic_link(config, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert load(config(dump_path=f"{tmp_path}/link")).dump_path == tmp_path / "link"


# Decisions


def test_the_steps_and_ranks_that_are_taken(config):
    settings = load(config(step=[1, "3-4"], rank=[2]))
    assert [step for step in range(7) if settings.collects_step(step)] == [1, 3, 4]
    assert [rank for rank in range(4) if settings.collects_rank(rank)] == [2]
    assert settings.collects_rank(None), "a single card has no rank"
    assert settings.last_step == 4


def test_empty_lists_take_all(config):
    settings = load(config())
    assert settings.collects_step(0)
    assert settings.collects_step(10**9)
    assert settings.collects_rank(123)
    assert settings.last_step is None


@pytest.mark.parametrize(
    "contents",
    [
        {},
        {"task": "tensor", "level": "mix", "step": [0, 1, 5, 6, 7], "rank": ["0-1"], "precision": "high"},
        {"extra_info": False, "statistics": {"data_mode": ["backward", "input"], "list": ["a", "层"]}},
        {"statistics": {"scope": ["Functional.relu.0.forward", "Mint.sum.3.backward"], "summary_mode": ["max", "md5"]}},
    ],
)
def test_a_description_is_json_and_reads_back(config, tmp_path, contents):
    settings = load(config(**contents))
    described = json.loads(json.dumps(settings.described()))
    path = tmp_path / "described.json"
    path.write_text(json.dumps(described))
    assert load(path) == settings


def test_a_description_speaks_the_users_words(config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = load(config(step=["1-3"], enable_dataloader=True, statistics={"list": ["relu"], "device": "device"}))
    assert settings.described() == {
        "task": "statistics",
        "dump_path": str(tmp_path / "dump"),
        "rank": [],
        "step": ["1-3"],
        "level": "L1",
        "async_dump": False,
        "precision": "low",
        "extra_info": True,
        "names_from": "",
        "disk_budget": 0,
        "format": "json",
        "gradients": "own",
        "dispatch": False,
        "jit_cells": "joined",
        "statistics": {
            "file_format": "npy",
            "scope": [],
            "list": ["relu"],
            "data_mode": ["all"],
            "summary_mode": "statistics",
            "tensor_list": [],
            "trigger": None,
        },
    }


# What this tool adds


@pytest.mark.parametrize(
    ("written", "meant_bytes"),
    [(0, 0), (123, 123), ("20GB", 20 * 10**9), ("1.5 KiB", 1536), ("7mb", 7_000_000), ("2TiB", 2 * 2**40)],
)
def test_a_disk_budget_is_bytes_or_a_text_with_a_unit(config, written, meant_bytes):
    assert load(config(disk_budget=written)).disk_budget == meant_bytes


@pytest.mark.parametrize("written", [-1, True, 1.5, "20", "GB", "-3GB", "3 apples", []])
def test_a_disk_budget_that_is_no_size_is_refused(config, written, refusal):
    assert 'is not a size; write a number of bytes, or a string such as "20GB"' in refusal(config(disk_budget=written))


def test_names_come_from_a_dump_that_is_there(config, tmp_path, refusal):
    golden = tmp_path / "golden"
    golden.mkdir()
    assert load(config(names_from=str(golden))).names_from == str(golden)
    assert load(config(names_from="")).names_from == ""
    assert "does not exist; give a dump" in refusal(config(names_from=str(tmp_path / "nowhere")))


@pytest.mark.parametrize(("level", "taken"), [("L0", "L0"), ("mix", "mix"), ("L1", "mix"), ("debug", "mix")])
def test_a_structure_has_cells(config, notes, level, taken):
    assert load(config(task="structure", level=level)).level == taken
    assert any("structure" in note for note in notes()) == (level != taken)


def test_async_dump_is_noted_for_the_memory_that_it_takes(config, notes):
    load(config(async_dump=True))
    (note,) = [note for note in notes() if "async_dump" in note]
    assert "tensors are kept in memory" in note
