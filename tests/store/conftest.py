"""What the tests of the store share."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from msprobe.store.writer import Writer

sys.path.append(str(Path(__file__).parent))  # the modules of this folder stand beside each other
from leaves import HEADER


@pytest.fixture
def samples():
    return Path(__file__).parents[1] / "samples"


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "step3" / "rank1"


@pytest.fixture
def writer(folder):
    """A writer of level mix; closed at the end if the test did not."""
    made = Writer(folder, HEADER)
    yield made
    made.close()


@pytest.fixture
def files(folder):
    """The JSON files of the dump, parsed at the moment of asking."""

    class Files(SimpleNamespace):
        def __getattr__(self, name):
            return json.loads((folder / f"{name}.json").read_text("ascii"))

    return Files()


@pytest.fixture
def write(tmp_path):
    """Write a dump.json by hand and give its folder; for what no writer would write."""

    def make(data, *, inside="step0/rank", construct=None, stack=None, **header):
        where = tmp_path / inside
        where.mkdir(parents=True, exist_ok=True)
        text = {**HEADER, "dump_data_dir": None, **header, "data": data}
        (where / "dump.json").write_text(json.dumps(text, indent=1))
        for name, made in (("construct", construct), ("stack", stack)):
            if made is not None:
                (where / f"{name}.json").write_text(json.dumps(made))
        return where

    return make
