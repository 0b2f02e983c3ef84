"""The training stands beside the tests."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))


@pytest.fixture(scope="session")
def ran(made_once):
    """`ran(kind, ranks, **options)`: the folder of a training, which is run once for all tests."""
    from sharded_runs import run

    def folder(kind, ranks, **options):
        name = "_".join([kind, str(ranks), *(f"{key}-{value}" for key, value in sorted(options.items()))])
        return made_once(f"sharded_{name}".replace(":", "-"), lambda path: run(path, kind, ranks, **options))

    return folder
