"""What the tests of the checks share: runs made by hand, and what is found in them."""

import sys
from pathlib import Path

import pytest

from msprobe.checks.dumps import dumps_of
from msprobe.checks.nonfinite.search import search

sys.path.append(str(Path(__file__).parent))  # the modules of this folder stand beside each other
from story import write


@pytest.fixture
def answer(tmp_path):
    """`answer({rank: Rank()})`: what is found in one step of these ranks."""

    def find(ranks, **extra):
        path = write(tmp_path / "run", ranks, **extra)
        (found,) = search(dumps_of(path), workers=1)
        return found

    return find
