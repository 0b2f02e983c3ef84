"""Distributed trainings are compared with one process, and with each other, although no rank has a whole tensor."""

import json
import shutil

import numpy as np
import pytest
import torch
from sharded_runs import records_of, trained

from msprobe.base.errors import UsageError
from msprobe.compare.dispatch import answer_of, compare_paths
from msprobe.compare.explain.command import explained
from msprobe.compare.jobs.plan import side
from msprobe.compare.jobs.shard_layouts import layouts_of_shards
from msprobe.compare.request import Request
from msprobe.findings.catalogue import parallel as kinds
from msprobe.store.reader import entries_of, find

pytestmark = [
    pytest.mark.torch,
    pytest.mark.ranks,
    pytest.mark.skipif(
        not torch.distributed.is_gloo_available(), reason="the ranks talk by gloo, which is not built in"
    ),
    pytest.mark.part(12),
]


@pytest.fixture
def compared(tmp_path):
    """`compared(target, golden)`: the result, its answer, and the verdicts of the first and the second step by name."""

    def result(target, golden):
        request = Request(target / "dump", golden / "dump", tmp_path / "out", "json", workers=1)
        found = compare_paths(request)
        verdicts = []
        for step in range(2):
            (table,) = (tmp_path / "out" / f"step{step}").glob("*.json")
            verdicts.append({row["NPU Name"]: row["Verdict"] for row in json.loads(table.read_text())["rows"]})
        return found, answer_of(found, request), verdicts

    return result


PARAMETERS = [
    *(f"{layer}.{part}" for layer in ("embed.Linear", "head.Linear") for part in ("weight", "bias")),
    *(
        f"blocks.{n}.{layer}.{part}"
        for n in range(2)
        for layer in ("norm.LayerNorm", "up.Linear", "down.Linear")
        for part in ("weight", "bias")
    ),
]


def judged_rows(parameter):
    """The rows of a parameter and of its gradient."""
    layer, part = parameter.rsplit(".", 1)
    return f"Module.{layer}.forward.0.parameters.{part}", f"Module.{layer}.parameters_grad.{part}"


@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize(
    ("kind", "ranks"),
    [
        ("fsdp", 4),
        *(pytest.param(k, n, marks=pytest.mark.verify) for k, n in (("fsdp", 2), ("uneven", 4), ("tp", 2), ("2d", 4))),
    ],
)
def test_every_parameter_gradient_and_update_is_judged_against_one_process(kind, ranks, task, ran, compared):
    """An update is judged by the parameters of the second step."""
    like = {"like": "uneven"} if kind == "uneven" else {}
    one = ran("one", 1, collects=1, task=task, **like)
    found, answer, verdicts = compared(ran(kind, ranks, collects=1, task=task), one)
    assert not found.differs
    assert answer.first is None
    for step in range(2):
        for parameter in PARAMETERS:
            assert [verdicts[step][row] for row in judged_rows(parameter)] == ["pass", "pass"], (step, parameter)
    assert verdicts[0]["Module.embed.Linear.forward.0.input.0"] == "pass", "the shares of the batch, together"
    assert verdicts[0]["Module.head.Linear.forward.0.output.0"] == "pass"


def test_merged_tensors_and_statistics_are_those_of_the_whole(ran, compared, tmp_path):
    compared(ran("fsdp", 4, collects=1, task="tensor"), ran("one", 1, collects=1, task="tensor"))
    folder = tmp_path / "out" / "merged" / "target" / "step0" / "rank0"
    entries = entries_of(find(folder))[1]
    weights, gradients = trained()[0]
    for part, whole, rtol in (("parameters", weights, 0), ("parameters_grad", gradients, 1e-4)):
        for name, record in records_of(entries, part).items():
            expected = whole[name].numpy()
            merged = np.load(folder / "dump_tensor_data" / record["data_name"])
            np.testing.assert_allclose(merged, expected, rtol=rtol, atol=rtol and 1e-7)
            assert record["shape"] == list(expected.shape)
            assert record["Norm"] == pytest.approx(np.linalg.norm(expected.astype(np.float64)), rel=rtol or 1e-12)
            assert "shard" not in record


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_a_fault_in_one_shard_is_named_with_rank_and_parameter(task, ran, compared, tmp_path):
    """After the first update rank 2 adds 1 to one element of its shard."""
    target = ran("fsdp", 4, collects=1, task=task, fault="0:2:blocks.1.up.weight")
    found, answer, verdicts = compared(target, ran("one", 1, collects=1, task=task))
    assert found.differs
    assert (answer.first.place.step, "blocks.1.up" in str(answer.first.place.cell)) == (1, True)
    assert verdicts[1]["Module.blocks.1.up.Linear.forward.0.parameters.weight"] == "error"
    shard = next(one for one in answer.findings if one.kind is kinds.SHARD_DIFFERS)
    assert (shard.place.name, shard.place.record) == ("Module.blocks.1.up.Linear.forward.0", "parameters.weight")
    assert (shard.place.rank, shard.fields["ranks"]) == (2, (2,))
    reports = (tmp_path / "out" / "merged" / "target").glob("step*/rank0/merge.json")
    merged = [json.loads(report.read_text()) for report in reports]
    every = sum(len(each["shard_differs"]["found"]) for each in merged if "shard_differs" in each)
    listed = sum(one.kind is kinds.SHARD_DIFFERS for one in answer.findings)
    assert listed + found.omitted == every
    assert answer.omitted >= found.omitted


def test_the_shards_that_differ_are_data(ran, compared, tmp_path):
    target = ran("fsdp", 4, collects=1, task="tensor", fault="0:2:blocks.1.up.weight")
    compared(target, ran("one", 1, collects=1, task="tensor"))
    report = json.loads((tmp_path / "out" / "merged" / "target" / "step1" / "rank0" / "merge.json").read_text())
    (first, *_) = report["shard_differs"]["found"]
    assert (first["call"], first["place"], first["ranks"]) == (
        "Module.blocks.1.up.Linear.forward.0",
        "parameters.weight",
        [2],
    )


@pytest.mark.parametrize(
    ("target", "golden"),
    [
        (("fsdp", 4), ("fsdp", 2)),
        *(
            pytest.param(*pair, marks=pytest.mark.verify)
            for pair in ((("2d", 4), ("fsdp", 2)), (("fsdp", 2), ("2d", 4)), (("one", 1), ("fsdp", 4)))
        ),
    ],
)
def test_two_ways_of_distributing_agree(target, golden, ran, compared):
    found, _, verdicts = compared(*(ran(*each, collects=1, task="tensor") for each in (target, golden)))
    assert not found.differs
    for step in range(2):
        for parameter in PARAMETERS:
            assert {verdicts[step][row] for row in judged_rows(parameter)} == {"pass"}, (step, parameter)


def test_equal_layouts_are_compared_rank_by_rank(ran):
    assert layouts_of_shards(*[side(ran("fsdp", 4, collects=1) / "dump")] * 2) is None


def test_a_run_on_other_ranks_is_merged(ran):
    found = layouts_of_shards(side(ran("fsdp", 4, collects=1) / "dump"), side(ran("one", 1, collects=1) / "dump"))
    assert (found.target.ranks, found.golden.ranks) == (4, 1)


def test_a_run_on_other_ranks_is_not_explained_rank_by_rank(ran, tmp_path):
    sides = (ran("fsdp", 4, collects=1) / "dump", ran("one", 1, collects=1) / "dump")
    with pytest.raises(UsageError, match="compare without --explain first"):
        explained(Request(*sides, tmp_path / "out", "json", workers=1), "Module.head.Linear.forward.0")


def test_replicas_without_shards_are_compared_rank_by_rank(ran):
    assert layouts_of_shards(*(side(ran(*each, collects=1) / "dump") for each in (("ddp", 2), ("one", 1)))) is None


def test_ranks_with_gaps_are_compared_rank_by_rank_with_a_finding(ran, tmp_path):
    """Ranks 0, 1 and 3 of four."""
    whole = ran("fsdp", 4, collects=1) / "dump"
    for rank in (0, 1, 3):
        shutil.copytree(whole / "step0" / f"rank{rank}", tmp_path / "some" / "step0" / f"rank{rank}")
    request = Request(tmp_path / "some", ran("fsdp", 2, collects=1) / "dump", tmp_path / "out", "json", workers=1)
    answer = answer_of(compare_paths(request), request)
    (found,) = [each for each in answer.findings if each.kind is kinds.NOT_NUMBERED]
    assert (found.fields["side"], list(found.fields["ranks"])) == ("target", [0, 1, 3])


def test_absent_stacks_are_a_finding(ran, tmp_path):
    """Without them, functions of FSDP2 cannot be told from those of the training; parameters are compared."""
    shutil.copytree(ran("fsdp", 2, collects=1) / "dump" / "step0", tmp_path / "some" / "step0")
    for stack in (tmp_path / "some").glob("step0/rank*/stack.json"):
        stack.unlink()
    request = Request(tmp_path / "some", ran("one", 1, collects=1) / "dump", tmp_path / "out", "json", workers=1)
    answer = answer_of(compare_paths(request), request)
    assert [each.fields["side"] for each in answer.findings if each.kind is kinds.NO_STACKS] == ["target"]
