"""Cells in graph mode on two ranks: real processes, started by `msrun`, whose gradients are averaged in the graph."""

import json
from pathlib import Path

import numpy as np
import pytest

pytestmark = [pytest.mark.mindspore, pytest.mark.ranks]

SCRIPT = Path(__file__).parents[1] / "training" / "graph_ranks.py"
STEPS = 2
RANKS = ("rank0", "rank1")


@pytest.fixture(scope="module")
def trained(tmp_path_factory, msrun):
    """The folder of a launch."""
    folder = tmp_path_factory.mktemp("ranks")
    msrun(SCRIPT, folder, folder=folder)
    return folder


def data_of(folder, rank, step):
    return json.loads((folder / f"step{step}" / rank / "dump.json").read_text())["data"]


def test_the_training_is_bit_by_bit_that_without_us(trained):
    received = [json.loads((trained / f"{rank}.json").read_text()) for rank in RANKS]
    for each in received:
        assert each["graph"] == each["bare"] == each["python"]
    assert received[0]["graph"][1] == received[1]["graph"][1], "the ranks have the same weights"
    assert received[0]["graph"][0] != received[1]["graph"][0], "and other data"


@pytest.mark.parametrize("step", range(STEPS))
@pytest.mark.parametrize("rank", RANKS)
def test_every_rank_writes_what_it_writes_in_pynative(rank, step, trained):
    ours, python = (data_of(trained / side, rank, step) for side in ("graph", "python"))
    calls = [name for name in ours if "parameters_grad" not in name]
    assert calls == [name for name in python if "parameters_grad" not in name]
    assert len(calls) == 6
    folders = [trained / side / f"step{step}" / rank / "dump_tensor_data" for side in ("graph", "python")]
    files = [{file.name for file in folder.iterdir() if "parameters_grad" not in file.name} for folder in folders]
    assert files[0] == files[1]
    assert len(files[0]) > 12
    for name in files[0]:
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes(), name


def test_gradients_of_parameters_are_what_the_optimizer_is_given(trained):
    """In graph mode that is the mean over the ranks, in PyNative mode each rank's own."""
    name = "Cell.first.Dense.parameters_grad.weight.npy"
    arrays = {
        (side, rank): np.load(trained / side / "step0" / rank / "dump_tensor_data" / name)
        for side in ("graph", "python")
        for rank in RANKS
    }
    mean = (arrays["python", "rank0"] + arrays["python", "rank1"]) / 2
    assert not np.array_equal(arrays["python", "rank0"], arrays["python", "rank1"])
    for rank in RANKS:
        np.testing.assert_array_equal(arrays["graph", rank], mean)
