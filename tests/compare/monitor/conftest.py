"""The trusted training, made once."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # the modules of this folder stand beside each other

from dense_training import train


@pytest.fixture(scope="session")
def golden():
    return train()
