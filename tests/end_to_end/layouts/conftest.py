"""The trainings of these tests: a small transformer in one process, and on four, each run once a session."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parent))  # the training stands beside the tests

from megatron import Training
from merged_files import tensors

FAULTS = (None, ("layers.2.mlp.linear_fc1", 1), ("norm", 1))
"""By step of the run `plain`: a product that is wrong on the second tensor parallel rank, a copy that goes astray."""

RUNS = {
    "plain": {"faults": FAULTS},
    "virtual": {"vpp": 2, "level": "L0"},
    "sequence": {"sequence": True},
}


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """The folders of the dumps: `whole` (with its tensors) and `cells` of one process, the other runs of four."""
    root = tmp_path_factory.mktemp("layouts")
    one = Training(root / "one", runs={"whole": {"task": "tensor"}, "cells": {"level": "L0"}})
    four = Training(root / "four", tp=2, pp=2, runs=RUNS)
    folders = {name: one.end() / name for name in ("whole", "cells")}
    return folders | {name: four.end() / name for name in RUNS}


@pytest.fixture(scope="session")
def whole(trained):
    """The dump of one process: its entries, and its statistics worked out by numpy from the saved tensors."""
    (folder,) = (trained["whole"] / "step0").iterdir()
    data = json.loads((folder / "dump.json").read_text())["data"]
    by_numpy = {}
    for call, entry in data.items():
        for place, record in tensors(entry):
            array = np.load(folder / "dump_tensor_data" / record["data_name"]).astype(np.float64)
            norm = np.sqrt(np.square(array).sum())
            by_numpy[call, place] = array.shape, array.max(), array.min(), array.mean(), norm
    return data, by_numpy
