"""Fixtures of tests that collect PyTorch's API on MindSpore in this very process.

The layer takes the place of `torch`, and PyTorch cannot be used beside it: `make mindtorch` puts it before everything
else and runs this folder alone. Elsewhere its tests are skipped, those of the detection apart.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # the modules of this folder stand beside each other


@pytest.fixture
def collecting(tmp_path):
    """Makes debuggers that write below `tmp_path`; all are ended when the test ends."""
    import mindspore as ms

    from msprobe.mindspore import PrecisionDebugger

    ms.set_context(mode=ms.PYNATIVE_MODE)
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
    """What one step of a single process left."""

    def __init__(self, debugger, step=0):
        self.folder = Path(debugger._settings.dump_path) / f"step{step}" / "rank"
        self.dump = json.loads(next(self.folder.glob("d*.json")).read_text())  # dump.json, or debug.json
        self.data = self.dump["data"]

    @property
    def names(self):
        return list(self.data)


@pytest.fixture
def dumped():
    """Reads what a debugger wrote."""
    return Dumped


@pytest.fixture(scope="session")
def pytorch_dump(tmp_path_factory):
    """The dump of two steps of `small_net.py` with PyTorch itself, made by a process that does not have the layer."""
    folder = tmp_path_factory.mktemp("pytorch")
    script = Path(__file__).with_name("small_net.py")
    done = subprocess.run(
        [sys.executable, script, folder / "dump"],
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        cwd=folder,
        capture_output=True,
        text=True,
    )
    if "No module named 'torch'" in done.stderr:
        pytest.skip("PyTorch itself is not installed beside the layer")
    assert done.returncode == 0, done.stderr
    return folder / "dump"
