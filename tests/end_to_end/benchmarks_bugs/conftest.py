"""The bench of seeded faults is a folder of scripts: its modules are imported from there, and forgotten behind."""

import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[3] / "benchmarks" / "bugs"


@pytest.fixture(scope="module", autouse=True)
def bench():
    """The bench's folder, on the path while a file's tests run."""
    known = set(sys.modules)
    sys.path.insert(0, str(BENCH))
    yield BENCH
    sys.path.remove(str(BENCH))
    for name in set(sys.modules) - known:
        if str(BENCH) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
