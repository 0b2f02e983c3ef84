"""Fixtures of tests that collect a training with PyTorch in this very process."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # the modules of this folder stand beside each other
sys.path.append(str(Path(__file__).parents[2] / "end_to_end" / "odd_values"))  # states that are of no framework

HAS_TORCH = find_spec("torch") is not None
collect_ignore_glob = [] if HAS_TORCH else ["test_*.py"]  # what is collected is PyTorch; it is not installed


@pytest.fixture
def debugger_class():
    from msprobe.pytorch import PrecisionDebugger

    return PrecisionDebugger
