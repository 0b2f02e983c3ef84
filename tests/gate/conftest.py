"""Goldens and runs of the trainings in tests/gate/runs."""

import shutil
from pathlib import Path

import pytest

from msprobe.gate.golden import Golden, Wanted, write
from msprobe.gate.recording import Collection

SAMPLES = Path(__file__).with_name("runs")


@pytest.fixture
def run_of(tmp_path):
    """`run_of("eps")`: a copy of the dump of a variant."""

    def copied(variant):
        return Path(shutil.copytree(SAMPLES / variant, tmp_path / f"run-{variant}", dirs_exist_ok=True))

    return copied


@pytest.fixture
def golden_of(tmp_path):
    """`golden_of("base")`: the golden file of a variant, read."""

    def written(variant="base", **wanted):
        path = tmp_path / "goldens" / f"{variant}.golden"
        write(path, SAMPLES / variant, Wanted(Collection(), **wanted))
        return Golden.read(path)

    return written
