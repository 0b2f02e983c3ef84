"""Collectives and ranks: two real processes, with PyTorch's gloo and MindSpore's msrun."""

import csv
import json
import subprocess
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from preloaded import python

pytestmark = [pytest.mark.mindspore, pytest.mark.torch, pytest.mark.ranks]

HERE = Path(__file__).parent


def by_rank(root):
    """rank: kind: rows."""
    found = defaultdict(lambda: defaultdict(list))
    for path in sorted(root.rglob("*.csv")):
        rank = int(path.parent.name.partition("-rank")[2].partition("-")[0])
        with path.open(newline="") as file:
            found[rank][path.name.rpartition("_")[0]] += csv.DictReader(file)
    return found


def numbers(row):
    return {name: float(row[name]) for name in ("norm", "min", "max", "nans", "mean")}


def check(found):
    """What two ranks sent and received, by hand: gradients of 2 rows of (rank + 1 + step), and the small tensors."""
    assert set(found) == {0, 1}
    for rank in range(2):
        for step in range(2):
            own = 2.0 * (rank + 1 + step)
            total = 2.0 * (1 + step) + 2.0 * (2 + step)
            (into,) = [r for r in found[rank]["other"] if r["name"] == "all_reduce.input" and int(r["step"]) == step]
            (out,) = [r for r in found[rank]["other"] if r["name"] == "all_reduce.output" and int(r["step"]) == step]
            # weight (3 equal elements), bias (2, since it is summed over two rows), and the tensor of the handle
            sent = ([own] * 3, [2.0], [float(rank)] * 2)
            received = ([total] * 3, [4.0], [1.0] * 2)
            for row, arrays in ((into, sent), (out, received)):
                got = numbers(row)
                assert got["norm"] == pytest.approx(sum(np.linalg.norm(a) for a in arrays), rel=1e-5)
                assert got["min"] == min(min(a) for a in arrays)
                assert got["max"] == max(max(a) for a in arrays)
                assert got["mean"] == pytest.approx(np.mean([np.mean(a) for a in arrays]), rel=1e-5)
                assert got["nans"] == 0
            unreduced = {r["name"]: r for r in found[rank]["grad_unreduced"] if int(r["step"]) == step}
            assert float(unreduced["weight"]["max"]) == own
    reduced = {r["name"]: r for r in found[0]["grad_reduced"] if r["step"] == "1"}
    assert float(reduced["weight"]["max"]) == 2.0 * 2 + 2.0 * 3
    assert "grad_reduced" not in found[1], "replicated over dp_group: the first rank writes them"
    losses = [[float(r["value"]) for r in found[rank]["local"] if r["name"] == "loss"] for rank in range(2)]
    assert len(losses[0]) == len(losses[1]) == 2
    assert losses[0] != losses[1], "each rank's own"


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """The folder of two ranks of PyTorch that have run, and what they said."""
    folder = tmp_path_factory.mktemp("ranks")
    command = [python("torch", "torch._dynamo"), HERE / "ranks_pytorch.py"]
    ranks = [
        subprocess.Popen([*command, str(rank), "2", folder], stderr=subprocess.PIPE, text=True) for rank in range(2)
    ]
    said = [rank.communicate(timeout=120)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(said)
    return folder, said


def test_two_ranks_of_pytorch(two):
    found = by_rank(two[0] / "out")
    check(found)
    gathered = [r for r in found[1]["other"] if r["name"] == "all_gather.output" and r["step"] == "0"]
    assert len(gathered) == 1
    assert (float(gathered[0]["min"]), float(gathered[0]["max"])) == (1.0, 2.0)


def test_messages_between_ranks_are_measured_when_they_were_waited_for(two):
    found = by_rank(two[0] / "out")
    for rank in range(2):
        rows = {r["name"]: r for r in found[rank]["other"] if r["step"] == "1"}
        assert {"isend", "irecv"} & {name.partition(".")[0] for name in rows} == set()
        sent, got = [5.0 + rank] * 4, [6.0 - rank] * 4
        row = numbers(rows["batch_isend_irecv.output"])
        assert row["norm"] == pytest.approx(np.linalg.norm(sent) + np.linalg.norm(got), rel=1e-6)
        assert (row["min"], row["max"], row["mean"]) == (5.0, 6.0, 5.5)
        before, after = (numbers(rows[f"broadcast.{side}"]) for side in ("input", "output"))
        assert before["nans"] == (0, 2)[rank]
        assert (after["nans"], after["min"], after["max"]) == (0, 1, 1)


def test_of_a_split_group_the_first_rank_alone_writes_what_all_have(two):
    found = by_rank(two[0] / "split")
    assert {row["name"] for row in found[0]["grad_reduced"]} == {"weight", "bias"}
    assert {row["name"] for row in found[1]["grad_reduced"]} == {"weight"}
    assert {row["name"] for row in found[1]["grad_unreduced"]} == {"weight", "bias"}
    assert "other" not in found[0]


def test_gradients_of_a_rank_are_its_own_before_they_are_averaged(two):
    """DistributedDataParallel reduces while the backward goes on."""
    for rank, rows in by_rank(two[0] / "averaged").items():
        for kind, expected in (("grad_unreduced", rank + 1.0), ("grad_reduced", 1.5)):
            (weight,) = [row for row in rows[kind] if row["name"] == "module.weight"]
            assert (float(weight["min"]), float(weight["max"])) == (expected, expected)


def check_accumulated(found):
    """Three micro steps of 100 step + 10 micro + rank + 1: each rank's own sum, and the average of both."""
    assert set(found) == {0, 1}
    for step in range(2):
        own = [3 * (100.0 * step + rank + 1) + 30 for rank in range(2)]
        for rank in range(2):
            for kind, expected in (("grad_unreduced", own[rank]), ("grad_reduced", sum(own) / 2)):
                rows = [r for r in found[rank][kind] if int(r["step"]) == step]
                (weight,) = [r for r in rows if r["name"].endswith("weight")]
                assert (float(weight["min"]), float(weight["max"])) == (expected, expected)
            (norm,) = [r for r in found[rank]["local"] if int(r["step"]) == step and r["name"] == "grad_norm"]
            assert float(norm["value"]) == pytest.approx(np.sqrt(3 * own[rank] ** 2 + 3**2), rel=1e-6)


@pytest.mark.parametrize("name", ["unsynchronized", "views"])
def test_gradients_of_a_rank_are_the_sum_of_its_micro_steps_before_they_are_averaged(name, two):
    check_accumulated(by_rank(two[0] / name))


def test_where_each_micro_step_is_averaged_what_goes_into_the_last_average_is_measured(two):
    """DistributedDataParallel without `no_sync`: the last average receives the averages before, and the rank's own."""
    for rank, rows in by_rank(two[0] / "synchronized").items():
        (weight,) = [r for r in rows["grad_unreduced"] if r["name"] == "module.weight" and r["step"] == "0"]
        assert float(weight["max"]) == (1.5 + 11.5 + 20.0 + rank + 1)


def test_the_stage_of_an_anomaly_is_the_rank_in_the_pipelines_group(two):
    for rank in range(2):
        path = two[0] / "pipeline" / "anomaly_detected" / f"rank{rank}" / "anomaly.json"
        entries = json.loads(path.read_text()).values()
        assert entries
        assert {entry["pp_stage"] for entry in entries} == {rank}


def test_without_pre_hook_the_results_alone_are_measured_of_what_was_waited_for(two):
    for rank, rows in by_rank(two[0] / "plain").items():
        (row,) = rows["other"]
        assert row["name"] == "all_reduce.output"
        assert numbers(row)["max"] == 2.0, rank


def test_lines_of_code_choose_calls_and_can_be_logged_alone(two):
    folder, said = two
    for name in ("elsewhere", "logged"):
        found = by_rank(folder / name)
        assert set(found) == {0, 1}
        assert not any("other" in rows for rows in found.values())
    for text in said:
        lines = [line for line in text.splitlines() if "is called at" in line]
        assert len(lines) == len(set(lines)) == 2
        assert all("all_reduce is called at" in line and "ranks_pytorch.py[" in line for line in lines)


@pytest.mark.turns("ranks", 2)
def test_two_ranks_of_mindspore(tmp_path, msrun):
    msrun(HERE / "ranks_mindspore.py", tmp_path, folder=tmp_path, count=2)
    check(by_rank(tmp_path / "out"))
    check_accumulated(by_rank(tmp_path / "accumulated"))
