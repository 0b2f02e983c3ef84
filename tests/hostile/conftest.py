"""A small whole dump that the hostile tests spoil."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from msprobe.store.writer import Writer

sys.path.append(str(Path(__file__).parent))  # the modules of this folder stand beside each other

NAME = "Functional.relu.0.forward"
FILE = f"{NAME}.input.0.npy"


@pytest.fixture
def dump(tmp_path):
    """The folder of a whole dump with two calls and one tensor."""
    folder = tmp_path / "step0" / "rank0"
    writer = Writer(folder, {"task": "tensor", "level": "mix", "framework": "mindspore"})
    writer.tensor(FILE, np.arange(6, dtype=np.float32).reshape(2, 3))
    leaf = {
        "type": "mindspore.Tensor",
        "dtype": "Float32",
        "shape": [2, 3],
        "Max": 5.0,
        "Min": 0.0,
        "Mean": 2.5,
        "Norm": 7.4,
        "data_name": FILE,
    }
    parent = "Cell.a.A.forward.0"
    entry = json.dumps({"input_args": [leaf], "output": [None]}, separators=(",", ":"))
    writer.call(NAME, parent, writer.stack(["File a.py, line 1, in f, \n x"]), entry)
    writer.call(parent, None, None, json.dumps({"input_args": [], "output": [leaf]}))
    writer.close()
    return folder


@pytest.fixture
def spoil(dump):
    """Change the parsed dump.json with a function and write it back; gives the folder."""

    def change(function):
        path = dump / "dump.json"
        text = json.loads(path.read_text())
        function(text)
        path.write_text(json.dumps(text))
        return dump

    return change
