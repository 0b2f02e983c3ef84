"""Saves by hand below a folder, and what must stand in their records."""

import json

import numpy as np
import pytest

from msprobe.base.sections import StatisticsSettings, TensorSettings
from msprobe.base.settings import Settings
from msprobe.cell_dump.saves import Saves
from msprobe.frameworks.mindspore.collecting import CAPABILITY as FRAMEWORK
from msprobe.store.writer import Writer

SECTIONS = {"statistics": StatisticsSettings, "tensor": TensorSettings}
GRID = np.arange(8, dtype=np.float32).reshape(2, 4)


class Run:
    """Saves below a folder, a dump a step, and what stands in them."""

    def __init__(self, root, task="statistics", **section):
        made = SECTIONS[task](**section)
        self.saves = Saves(Settings(task=task, dump_path=root, level="debug", section=made), FRAMEWORK)
        self.root, self.task, self.steps = root, task, 0

    def folder(self, step=0):
        return self.root / f"step{step}" / "rank"

    def writer(self):
        header = {"task": self.task, "level": "debug", "framework": "mindspore"}
        return Writer(self.folder(self.steps), header)

    def save(self, variable, name, save_backward=True):
        self.saves.save(variable, name, save_backward, self.writer)

    def step(self):
        self.saves.end_step()
        self.steps += 1

    def dump(self, step=0):
        return json.loads((self.folder(step) / "debug.json").read_text())

    def data(self, step=0):
        return self.dump(step)["data"]

    def npy(self, name, step=0):
        return np.load(self.folder(step) / "dump_tensor_data" / f"{name}.npy")


def statistics(array):
    """The record of a finite float32 array, by numpy in float64."""
    wide = array.astype(np.float64)
    return {
        "type": "mindspore.Tensor",
        "dtype": "Float32",
        "shape": list(array.shape),
        "Max": float(array.max()),
        "Min": float(array.min()),
        "Mean": pytest.approx(float(wide.mean()), rel=1e-12),
        "Norm": pytest.approx(float(np.sqrt((wide**2).sum())), rel=1e-12),
    }
