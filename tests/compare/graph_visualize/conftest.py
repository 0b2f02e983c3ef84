"""What the tests of drawn networks share: to draw, and the samples."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # the dumps stand beside the tests

from drawings import SAMPLES, read

from msprobe.cli import main


@pytest.fixture
def draw(tmp_path):
    """`draw("-tp", target, ...)` runs the command and gives what it wrote."""

    def drawing(*words, code=0):
        output = tmp_path / "drawn"
        before = set(output.glob("*")) if output.exists() else set()
        assert main(["graph_visualize", *map(str, words), "-o", str(output)]) == code
        (path,) = set(output.glob("*")) - before
        return read(path)

    return drawing


@pytest.fixture
def sample():
    """The folder of the one rank of a sample's one step."""

    def folder(name):
        (found,) = (SAMPLES / name / "step0").iterdir()
        return found

    return folder
