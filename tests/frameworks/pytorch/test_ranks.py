"""Several ranks, as real processes: folders by rank, collectives with their results, and a training left as it is."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = [
    pytest.mark.torch,
    pytest.mark.ranks,
    pytest.mark.skipif(
        not torch.distributed.is_gloo_available(), reason="the ranks talk by gloo, which is not built in"
    ),
]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """The folder of two ranks that have run, and what each reports."""
    folder = tmp_path_factory.mktemp("ranks")
    script = Path(__file__).with_name("ranks.py")
    commands = [[sys.executable, str(script), str(rank), "2", str(folder)] for rank in range(2)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    running = [subprocess.Popen(c, stderr=subprocess.PIPE, text=True, env=environment) for c in commands]
    errors = [process.communicate(timeout=300)[1] for process in running]
    assert [p.returncode for p in running] == [0, 0], "\n".join(errors)
    return folder, [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(2)]


def data(folder, rank):
    return json.loads((folder / "step0" / f"rank{rank}" / "dump.json").read_text())


def test_a_training_on_ranks_is_bit_identical(two):
    for report in two[1]:
        assert report["collected"] == report["bare"]


def test_each_rank_is_grafted_with_the_values_of_its_own_rank(two):
    for report in two[1]:
        assert report["faulty"] != report["bare"]
        assert report["grafted"] == report["bare"]
    assert two[1][0]["bare"] != two[1][1]["bare"]


def test_each_rank_has_its_folder_with_its_own_values(two):
    folder = two[0] / "ddp"
    name = "Module.module.0.Linear.forward.0"
    inputs = [data(folder, rank)["data"][name]["input_args"][0]["Max"] for rank in (0, 1)]
    assert inputs == [1.0, 2.0]


def test_a_collective_has_its_arguments_before_and_its_results_after_the_exchange(two):
    folder, reports = two
    for rank in (0, 1):
        dump = data(folder / "exchange", rank)
        calls = dump["data"]
        reduced = calls["Distributed.all_reduce.0.forward"]
        assert reduced["input_args"][0]["Max"] == rank + 1
        assert reduced["output"][0]["Max"] == 3.0
        gathered = calls["Distributed.all_gather.0.forward"]
        assert [r["Max"] for r in gathered["input_args"][0]] == [0.0, 0.0], "asked when it was called"
        assert [r["Max"] for r in gathered["output"][0]] == [3.0, 4.0], "and read when it was waited for"
        assert list(calls).index("Distributed.all_gather.0.forward") > list(calls).index("Tensor.__mul__.0.forward")
        message = calls["Distributed.batch_isend_irecv.0.forward"]["input_args"][0][0]
        assert (message["class_type"], message["op"], message["peer"]) == ("torch.distributed.P2POp", "isend", 1 - rank)
        assert reports[rank]["exchange"] == [[3.0, 3.0], [[3.0, 3.0], [4.0, 4.0]], [12.0, 12.0], [1.0 - rank]]


def test_the_operation_of_a_reduction_is_recorded(two):
    for rank in (0, 1):
        calls = data(two[0] / "exchange", rank)["data"]
        found = [calls[f"Distributed.all_reduce.{n}.forward"]["input_args"][1] for n in (2, 3)]
        assert found == [{"type": "reduction", "value": name} for name in ("max", "prod")]
        scattered = calls["Distributed.reduce_scatter.0.forward"]
        assert scattered["input_kwargs"] == {"op": {"type": "reduction", "value": "min"}}
        assert scattered["output"][0]["Max"] == (3.0, 6.0)[rank], "the smallest of both ranks, which are equal"


def test_a_call_that_was_not_waited_for_says_so(two):
    dump = data(two[0] / "exchange", 0)
    assert dump["data"]["Distributed.all_reduce.1.forward"]["missing"] == ["output"]
    assert [m["name"] for m in dump["missing"]] == ["Distributed.all_reduce.1.forward"]
