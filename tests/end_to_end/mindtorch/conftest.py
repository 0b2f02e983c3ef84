"""Fixtures of tests that collect PyTorch's API on MindSpore in this very process.

The layer takes the place of `torch`, and PyTorch cannot be used beside it: `make mindtorch` puts it before everything
else and runs this folder alone. Elsewhere its tests are skipped, those of the detection apart.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # the modules of this folder stand beside each other


@pytest.fixture
def debugger_class():
    """The debugger of MindSpore, which knows the layer."""
    import mindspore as ms

    from msprobe.mindspore import PrecisionDebugger

    ms.set_context(mode=ms.PYNATIVE_MODE)
    return PrecisionDebugger


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
