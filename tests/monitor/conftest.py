"""Trainings that are monitored in this very process, and what was written of them."""

import csv
import json
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from msprobe.base import log

ALL = ["norm", "min", "max", "zeros", "nans", "mean"]

sys.path.append(str(Path(__file__).parent))  # the modules of this folder stand beside each other


@pytest.fixture
def configured(tmp_path, monkeypatch):
    """Makes configuration files; monitors write to `tmp_path/out`."""
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path / "out"))

    def make(**settings):
        path = tmp_path / "monitor.json"
        path.write_text(json.dumps({"ops": ALL, **settings}))
        return path

    return make


@pytest.fixture
def written(tmp_path):
    """Reads what was written, with the csv module: by kind, the rows as dictionaries, in the order of the files."""

    def read(root=None):
        rows = defaultdict(list)
        for path in sorted((root or tmp_path / "out").rglob("*.csv"), key=lambda path: _first_step(path.name)):
            with path.open(newline="") as file:
                rows[path.name.rpartition("_")[0] or path.stem] += csv.DictReader(file)
        return dict(rows)

    return read


def _first_step(name):
    number = name.rpartition("_")[2].removeprefix("step").partition("-")[0]
    return int(number) if number.isdecimal() else -1


@pytest.fixture
def logged(capsys):
    """The lines that were said, also those that were said before in this process."""
    log._logged.clear()
    return lambda: [line for line in capsys.readouterr().err.splitlines() if line.startswith("msprobe")]
