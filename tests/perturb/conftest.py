"""Trainings in this process whose calls are run a second time, and what they left."""

import importlib
import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from msprobe.base import log
from msprobe.store.free_benchmark import read_table


@dataclass
class Perturbed:
    """A debugger with the task, and its files."""

    debugger: object
    root: Path

    def __enter__(self):
        self.debugger.start()
        return self

    def __exit__(self, *_):
        self.debugger.stop()

    @property
    def rows(self):
        """The rows of the table, by call."""
        table = self.root / "free_benchmark.csv"
        return {(row.api, row.output): row for row in read_table(table)} if table.exists() else {}

    @property
    def summary(self):
        return json.loads((self.root / "free_benchmark_summary.json").read_text())

    @property
    def conditions(self):
        """The condition of the worst call of each API."""
        return {line["api"]: line["condition"] for line in reversed(self.summary["lines"])}


@pytest.fixture
def notes(monkeypatch, capsys):
    """What was logged, as lines; every cause is new again."""
    monkeypatch.setattr(log, "_logged", set())
    return lambda: [line for line in capsys.readouterr().err.splitlines() if line.startswith("msprobe")]


@pytest.fixture
def perturb(request, tmp_path, notes):
    """`perturb("bit_noise", "torch.relu", stage="backward")`: a debugger of the module's FRAMEWORK."""
    made = []

    def make(mode, *apis, stage="forward", handler="check", section=None, **common):
        module = importlib.import_module(f"msprobe.frameworks.{request.module.FRAMEWORK}.debugger")
        root = tmp_path / f"dump{len(made)}"
        written = {"list": list(apis), "pert_mode": mode, "fuzz_stage": stage, "handler_type": handler}
        config = tmp_path / f"config{len(made)}.json"
        settings = {
            "task": "free_benchmark",
            "dump_path": str(root),
            **common,
            "free_benchmark": {**written, **(section or {})},
        }
        config.write_text(json.dumps(settings))
        made.append(Perturbed(module.PrecisionDebugger(config), root))
        return made[-1]

    yield make
    for each in made:
        each.debugger._end_step()
        type(each.debugger)._known.pop(each.debugger._requested, None)
