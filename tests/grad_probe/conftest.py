"""Fixtures of the probe's tests: how its files are read, and debuggers of this process."""

import csv
import importlib
from pathlib import Path

import numpy as np
import pytest

from msprobe.base import log


class Output:
    """The files of one rank."""

    def __init__(self, folder):
        self.folder = Path(folder)

    @property
    def steps(self):
        """The steps that have a table."""
        return sorted(int(path.stem.rpartition("_")[2]) for path in self.folder.glob("grad_summary_*.csv"))

    def table(self, step):
        """The rows of a step by parameter, each a dict of its columns in order."""
        raw = (self.folder / f"grad_summary_{step}.csv").read_bytes()
        assert raw[:3] == b"\xef\xbb\xbf", "with a byte order mark"
        return {row["param_name"]: row for row in csv.DictReader(raw[3:].decode().splitlines())}

    def signs(self, step, name):
        """The signs of a gradient."""
        return np.load(self.folder / f"step{step}" / f"{name}.npy", allow_pickle=False)

    @property
    def files(self):
        """Every file but the tables, by its path in the folder."""
        return sorted(
            str(path.relative_to(self.folder))
            for path in self.folder.rglob("*")
            if path.is_file() and path.suffix != ".csv"
        )


@pytest.fixture
def output():
    """`output(folder)`: what is in the folder of a rank; `output(debugger)`: in that of rank 0."""
    return lambda of: Output(of if isinstance(of, str | Path) else of._own_folder(of._rank()).folder / "rank0")


@pytest.fixture
def notes(monkeypatch, capsys):
    """What was noted on standard error, as lines; every cause is new again."""
    monkeypatch.setattr(log, "_logged", set())
    return lambda: capsys.readouterr().err.splitlines()


@pytest.fixture
def debugger_class(request):
    """The debugger of PyTorch, or of the framework that the module's FRAMEWORK names."""
    framework = getattr(request.module, "FRAMEWORK", "pytorch")
    return importlib.import_module(f"msprobe.frameworks.{framework}.debugger").PrecisionDebugger
