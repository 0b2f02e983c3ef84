"""Fixtures of tests that collect a training with PyTorch in this very process."""

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # the modules of this folder stand beside each other

HAS_TORCH = find_spec("torch") is not None
collect_ignore_glob = [] if HAS_TORCH else ["test_*.py"]  # what is collected is PyTorch; it is not installed


@pytest.fixture
def collecting(tmp_path):
    """Makes debuggers that write below `tmp_path`; all are ended when the test ends."""
    from msprobe.pytorch import PrecisionDebugger

    made = []

    def make(config=None, **settings):
        path = None
        if config is not None:
            path = tmp_path / f"config{len(made)}.json"
            path.write_text(json.dumps(config))
        settings.setdefault("level", "mix")
        debugger = PrecisionDebugger(path, dump_path=str(tmp_path / f"dump{len(made)}"), **settings)
        made.append(debugger)
        return debugger

    yield make
    for debugger in made:
        debugger._collectors.end_step()
        debugger._saves.end_step()
        PrecisionDebugger._known.pop(debugger._settings, None)
    PrecisionDebugger._latest = None


class Dumped:
    """The three files of one step of a single process."""

    def __init__(self, debugger, step=0):
        self.folder = Path(debugger._settings.dump_path) / f"step{step}" / "rank"
        self.dump = json.loads(next(self.folder.glob("d*.json")).read_text())  # dump.json, or debug.json
        self.data = self.dump["data"]
        construct = self.folder / "construct.json"
        self.construct = json.loads(construct.read_text()) if construct.exists() else {}

    @property
    def missing(self):
        """What could not be collected."""
        return self.dump.get("missing", [])

    def stack(self, name):
        """The frames of a call."""
        groups = json.loads((self.folder / "stack.json").read_text()).values()
        return next(frames for names, frames in groups if name in names)


@pytest.fixture
def dumped():
    """Reads what a debugger wrote."""
    return Dumped
