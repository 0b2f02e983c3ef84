"""Fixtures of tests that collect in this very process."""

import json
from pathlib import Path

import mindspore as ms
import pytest

from msprobe.mindspore_debugger import PrecisionDebugger


@pytest.fixture(autouse=True)
def _synchronous():
    ms.set_context(mode=ms.PYNATIVE_MODE, pynative_synchronize=True)


@pytest.fixture
def collecting(tmp_path):
    """Makes debuggers that write below `tmp_path`; all are ended when the test ends."""
    made = []

    def make(**settings):
        settings.setdefault("level", "mix")
        debugger = PrecisionDebugger(dump_path=str(tmp_path / f"dump{len(made)}"), **settings)
        made.append(debugger)
        return debugger

    yield make
    for debugger in made:
        debugger._collectors.end_step()
        PrecisionDebugger._known.pop(debugger._settings, None)
    PrecisionDebugger._latest = None


class Dumped:
    """The three files of one step of a single process."""

    def __init__(self, debugger, step=0):
        self.folder = Path(debugger._settings.dump_path) / f"step{step}" / "rank"
        self.dump = json.loads((self.folder / "dump.json").read_text())
        self.data = self.dump["data"]
        self.construct = json.loads((self.folder / "construct.json").read_text())

    def stack(self, name):
        """The frames of a call."""
        groups = json.loads((self.folder / "stack.json").read_text()).values()
        return next(frames for names, frames in groups if name in names)


@pytest.fixture
def dumped():
    """Reads what a debugger wrote."""
    return Dumped
