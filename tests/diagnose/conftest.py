"""What the tests of the diagnosis share: two sides made by hand, and what is found of them."""

import json
import sys
from pathlib import Path

import pytest

from msprobe.base.settings import load
from msprobe.compare.request import Request
from msprobe.diagnose.walk import diagnose

sys.path.append(str(Path(__file__).parent))  # the modules of this folder stand beside each other
from three_cells import Run


@pytest.fixture
def sides(tmp_path):
    """`sides(fill)`: the folders of both sides, as `fill(run, is_target)` writes them."""

    def make(fill, golden="mindspore", **more):
        runs = Run(tmp_path / "target", **more), Run(tmp_path / "golden", golden)
        for run in runs:
            run.path.mkdir(exist_ok=True)
            fill(run, run is runs[0])
        return runs[0].path, runs[1].path

    return make


@pytest.fixture
def found(sides, tmp_path):
    """`found(fill)`: the diagnosis of the two sides. Its next collection is read as a debugger reads it."""

    def make(fill, **more):
        options = {key: more.pop(key) for key in ("steps", "ranks") if key in more}
        target, golden = sides(fill, **more)
        made = diagnose(Request(target, golden, tmp_path / "tables", format="csv", workers=1, **options))
        for side in made.next.sides if made.next else ():
            file = tmp_path / f"next_{side}.json"
            file.write_text(json.dumps(made.next.of(side)))
            assert load(str(file)).task == made.next.of(side)["task"]
        return made

    return make
