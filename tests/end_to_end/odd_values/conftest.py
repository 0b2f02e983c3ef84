"""Trainings whose layers and functions are given odd values, in each framework that is installed."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # the modules of this folder stand beside each other
from odd import ODD
from trainings import MAKERS, accepted


@pytest.fixture(params=MAKERS, scope="session")
def training(request):
    """One training for each framework; skipped where it is not installed."""
    pytest.importorskip(request.param, reason="the trainings of this framework are what is collected")
    return MAKERS[request.param]()


@pytest.fixture(scope="session")
def taken(training):
    """The odd values that the framework lets a layer have."""
    found = accepted(training, ODD)
    assert len(found) > len(ODD) - 5, set(ODD) - set(found)
    return found


@pytest.fixture
def ending():
    """Debuggers that are put in here end when the test does."""
    made = []
    yield made
    for debugger in made:
        debugger._retire()
