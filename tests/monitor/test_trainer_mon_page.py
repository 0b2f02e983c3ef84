"""The page on the monitor: its programs run with its files, and leave what the page shows; so do its callbacks."""

import csv
import json
import re
from dataclasses import MISSING
from pathlib import Path

import pytest
import yaml

pytest.importorskip("mindspore", reason="the page trains with it")
pytest.importorskip("torch", reason="the page trains with it")

import mindspore as ms
import numpy as np
from mindspore import nn
from mindspore.train import Model

from msprobe.base.setting import settings_of
from msprobe.mindspore import MsprobeMonitor
from msprobe.monitor import sectioned_settings
from msprobe.monitor.settings import Collectives, MonitorSettings, OnAlert, load
from msprobe.store.monitor.layout import STATISTICS

pytestmark = pytest.mark.mindspore

DOCS = Path(__file__).parents[2] / "docs"
PAGE = "en/how-to/collecting/trainer-mon.md"
REFERENCE = "reference/trainer-mon.md"


@pytest.fixture
def files(tmp_path, monkeypatch, blocks):
    """A folder with the page's configuration files."""
    monkeypatch.chdir(tmp_path)
    ms.set_context(mode=ms.PYNATIVE_MODE)
    first, targets, alert, second = blocks(PAGE, "json")
    for name, text in (("monitor", first), ("targets", targets), ("alert", alert), ("second", second)):
        Path(f"{name}.json").write_text(text)
    return tmp_path


def rows(file):
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened))


def only(pattern):
    (found,) = Path().glob(pattern)
    return found


def written():
    return sorted(path.name for path in only("monitor_output/*-rank0-*").iterdir())


@pytest.mark.parametrize("number", [0, 1], ids=["mindspore", "pytorch"])
def test_the_start_leaves_the_tables_that_the_page_shows(files, blocks, number):
    exec(blocks(PAGE, "python")[number], {"__name__": "page"})  # the framework asks functions for their module
    tables, header = blocks(PAGE, "text")
    assert written() == tables.split()
    folder = only("monitor_output/*")
    assert re.fullmatch(r"[A-Z][a-z]{2}\d\d_\d\d-\d\d-\d\d-rank0-[0-9a-f]{8}", folder.name)
    assert (folder / "grad_reduced_0-999.csv").read_text().startswith(header)
    for table in tables.split():
        first = 1 if number and table.startswith("exp_avg") else 0  # PyTorch makes the moments in the first update
        assert {int(row["step"]) for row in rows(folder / table)} == set(range(first, 5))
    weights = rows(folder / "param_updated_0-999.csv")
    names = ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert [row["name"] for row in weights if row["step"] == "0"] == names
    assert {row["name"] for row in rows(folder / "local_0-999.csv")} == {"loss", "grad_norm"}


def test_the_second_monitor_goes_on_with_the_training_of_the_page(files, blocks):
    first, *_, second = blocks(PAGE, "python")
    place = {"__name__": "page"}
    exec(first, place)
    exec(second, place)
    (row, *_) = rows(Path("second/rank_0/weight_grad_step0-999.csv"))
    assert list(row) == ["vpp_stage", "step", "module_name", "scope", "norm", "max"]
    assert len(list(Path("second/rank_0").iterdir())) == 1


def test_the_other_files_of_the_page_mean_what_it_says(files):
    assert load(Path("targets.json")).targets == ("2",)
    assert load(Path("alert.json")).on_alert == OnAlert(steps=2, dump_path="alert_dump")


def test_the_entry_of_the_page_monitors_a_model(files, blocks):
    (text,) = blocks(PAGE, "yaml")
    (entry,) = yaml.safe_load(text)["callbacks"]
    assert entry.pop("auto_register") == "msprobe_callbacks.MsprobeMonitor"
    assert entry.pop("type") == "MsprobeMonitor"
    made = {}
    exec(next(each for each in blocks(PAGE, "python") if "auto_register" in each), made)
    assert made["MsprobeMonitor"] is MsprobeMonitor
    net = nn.SequentialCell(nn.Dense(4, 8), nn.ReLU(), nn.Dense(8, 2))
    data = {"x": np.ones((6, 4), np.float32), "y": np.ones((6, 2), np.float32)}
    batches = ms.dataset.NumpySlicesDataset(data, shuffle=False).batch(2)
    model = Model(net, loss_fn=nn.MSELoss(), optimizer=nn.Adam(net.trainable_params(), 1e-2))
    model.train(1, batches, callbacks=[MsprobeMonitor(**entry)])
    found = rows(only("monitor_output/*/grad_reduced_*.csv"))
    assert {row["step"] for row in found} == {"0", "1", "2"}


def test_both_languages_show_the_same_code(blocks):
    for language in ("json", "python", "yaml", "text"):
        assert [code(each) for each in blocks(PAGE, language)] == [
            code(each) for each in blocks(PAGE.replace("en/", "zh/"), language)
        ]


def code(text):
    return re.sub(r" *#.*$", "", text, flags=re.MULTILINE)


# ---- the reference ---------------------------------------------------------------------------------------------------


def listed(language):
    """Setting to the defaults that the tables of the page name for it."""
    text = (DOCS / language / REFERENCE).read_text("utf-8")
    found = {}
    for line in re.findall(r"^\| (`.*) \|$", text, re.MULTILINE):
        cells = line.split(" | ")
        for name in re.findall(r"`([^`]+)`", cells[0]):
            found.setdefault(name, []).append(cells[2] if len(cells) > 3 else "")
    return found


SECTIONS = (MonitorSettings, Collectives, sectioned_settings.SectionedSettings)
INNER = (sectioned_settings.WeightGradient, sectioned_settings.Collective, sectioned_settings.Monitors)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_reference_lists_every_setting(language):
    text = (DOCS / language / REFERENCE).read_text("utf-8")
    known = {key for section in (*SECTIONS, *INNER, OnAlert) for key in settings_of(section)}
    assert not [key for key in sorted(known) if f"`{key}`" not in text]
    rows_of = listed(language)
    assert {key for section in SECTIONS for key in settings_of(section)} <= set(rows_of)


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("section", SECTIONS)
def test_the_defaults_of_the_reference_are_those_of_the_code(section, language):
    rows_of, checked = listed(language), 0
    for key, field in settings_of(section).items():
        shown = [cell.strip("`") for cell in rows_of[key] if cell.startswith("`")]
        if shown and isinstance(field.default, bool | int | float | str) and field.default is not MISSING:
            checked += 1
            assert field.default in [json.loads(each) for each in shown], key
    assert checked > 2


def test_every_statistic_has_its_row():
    for language in ("en", "zh"):
        assert set(STATISTICS) <= set(listed(language))
