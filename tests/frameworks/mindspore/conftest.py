"""Fixtures of tests that collect in this very process."""

import sys
from pathlib import Path

import mindspore as ms
import pytest

from msprobe.base import log
from msprobe.frameworks.mindspore.debugger import PrecisionDebugger

sys.path.append(str(Path(__file__).parent))  # the modules of this folder stand beside each other
sys.path.append(str(Path(__file__).parents[2] / "end_to_end" / "odd_values"))  # states that are of no framework
from saved_by_hand import Run

pytest.register_assert_rewrite("shown_tensors")


@pytest.fixture(autouse=True)
def _pynative():
    ms.set_context(mode=ms.PYNATIVE_MODE)


@pytest.fixture
def debugger_class():
    return PrecisionDebugger


@pytest.fixture
def running(tmp_path):
    """Makes runs; all are ended when the test ends."""
    made = []

    def make(task="statistics", **section):
        made.append(Run(tmp_path / f"dump{len(made)}", task, **section))
        return made[-1]

    yield make
    for run in made:
        run.saves.end_step()


@pytest.fixture
def logged(capsys):
    """The lines that were said, also those that were said before in this process."""
    log._logged.clear()
    return lambda: [line for line in capsys.readouterr().err.splitlines() if line.startswith("msprobe")]
