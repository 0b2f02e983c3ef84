"""configurations.json: everything that JSON knows as it is, everything else as its text."""

import json
import subprocess
import sys
from collections import UserDict
from enum import IntEnum

import numpy as np
import pytest

from msprobe.store.rl_roots import plain, write_configurations


class Broken:
    def __str__(self):
        raise RuntimeError("no text")


class Mode(IntEnum):
    FAST = 2


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"lr": 0.1, "on": True, "path": None}, {"lr": 0.1, "on": True, "path": None}),
        ([1, (2, "x")], [1, [2, "x"]]),
        (UserDict(a=UserDict(b=1)), {"a": {"b": 1}}),
        ({1: "a", None: "b", (1, 2): "d"}, {"1": "a", "null": "b", "(1, 2)": "d"}),
        ({"dtype": np.dtype("float32")}, {"dtype": "float32"}),
        ({"n": np.float32(0.5), "a": np.arange(2)}, {"n": "0.5", "a": "[0 1]"}),
        ({"mode": Mode.FAST, "x": {1}}, {"mode": 2, "x": "{1}"}),
        ({"b": Broken()}, {"b": "<Broken>"}),
        (
            {"f": plain, "o": [object()], "t": "<x at 0x7f11aa>"},
            {"f": "<function plain>", "o": ["<object object>"], "t": "<x>"},
        ),
        ({plain: {object()}}, {"<function plain>": "{<object object>}"}),
        ({"half": "\ud800", "中": "文"}, {"half": "\ud800", "中": "文"}),
        ([float("inf")], [float("inf")]),
        (3, 3),
    ],
)
def test_what_json_cannot_hold_becomes_its_text(value, written, tmp_path):
    write_configurations(tmp_path / "new", value)
    assert json.loads((tmp_path / "new" / "configurations.json").read_text()) == written


def test_a_configuration_that_holds_itself_ends():
    around = {"name": "x"}
    around["self"] = around
    made = plain(around)
    for _ in range(49):
        made = made["self"]
    assert made["name"] == "x"
    assert isinstance(made["self"], str)


def test_a_later_configuration_takes_the_place_of_the_earlier_one(tmp_path):
    write_configurations(tmp_path, {"a": 1})
    write_configurations(tmp_path, {"b": 2})
    assert [p.name for p in tmp_path.iterdir()] == ["configurations.json"]
    assert (tmp_path / "configurations.json").read_text() == '{\n    "b": 2\n}'


def test_ranks_that_write_at_the_same_time_leave_a_whole_file(tmp_path):
    write = (
        "import sys; from pathlib import Path; from msprobe.store.rl_roots import write_configurations\n"
        "for _ in range(300): write_configurations(Path(sys.argv[1]), {'rank': sys.argv[2] * 2000})"
    )
    ranks = [subprocess.Popen([sys.executable, "-c", write, str(tmp_path), rank]) for rank in ("0", "1")]
    assert [rank.wait() for rank in ranks] == [0, 0]
    assert [p.name for p in tmp_path.iterdir()] == ["configurations.json"]
    assert json.loads((tmp_path / "configurations.json").read_text())["rank"] in ("0" * 2000, "1" * 2000)
