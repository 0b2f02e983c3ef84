"""Published bugs of trainings on several ranks: each is planted in a distributed training, and named.

Those that one run shows are found by `msprobe check`, the others by comparing with a training in one process. The
mechanisms are in `sharded.BUGS`.
"""

import json

import pytest
import torch

from msprobe.checks.invariants.judgement import Status
from msprobe.checks.invariants.table import ROWS
from msprobe.checks.invariants.verb import read_run
from msprobe.compare.dispatch import answer_of, compare_paths
from msprobe.compare.request import Request

pytestmark = [
    pytest.mark.torch,
    pytest.mark.ranks,
    pytest.mark.skipif(
        not torch.distributed.is_gloo_available(), reason="the ranks talk by gloo, which is not built in"
    ),
]

ROWS_OF_RANKS = ("equal-parameters", "reduced-gradients", "own-batches", "gradients", "updates", "written-memory")


def judgements(folder):
    """By invariant: its judgements."""
    run = read_run(folder / "dump")
    return {row.name: list(row.predicate(run, None)) for row in ROWS if row.name in ROWS_OF_RANKS}


def violations(found):
    """Invariant, parameter, ranks and step of each violation."""
    return {
        (name, one.subject, one.ranks, one.step)
        for name, each in found.items()
        for one in each
        if one.status is Status.VIOLATED
    }


@pytest.mark.parametrize(
    ("kind", "ranks"),
    [
        ("fsdp", 2),
        ("tp", 2),
        *(pytest.param(k, n, marks=pytest.mark.verify) for k, n in (("ddp", 2), ("ddp", 4), ("fsdp", 4), ("2d", 4))),
    ],
)
def test_a_correct_training_holds(kind, ranks, ran):
    found = judgements(ran(kind, ranks, collects=1))
    assert not violations(found)
    holding = {name for name, each in found.items() if any(one.status is Status.HOLDS for one in each)}
    assert holding >= {"updates", "gradients"}
    if kind in ("fsdp", "2d"):
        assert "reduced-gradients" in holding
    assert ("own-batches" if kind == "fsdp" else "equal-parameters") in holding


def test_a_replicated_parameter_that_differs_is_named_with_its_rank(ran):
    """The bias of a row-parallel layer has placement `Replicate`; rank 1 changes its own after the first update."""
    found = judgements(ran("tp", 2, collects=1, fault="0:1:blocks.0.down.bias"))
    assert ("equal-parameters", "blocks.0.down.bias", (1,), 1) in violations(found)


def test_ranks_with_the_same_batch(ran):
    found = violations(judgements(ran("fsdp", 2, collects=1, steps=3, bug="same_batch")))
    assert found == {("own-batches", "", (0, 1), 0)}


@pytest.mark.verify
def test_a_parameter_that_is_left_out_of_the_reduction(ran):
    found = violations(judgements(ran("fsdp", 2, collects=1, steps=3, bug="not_reduced")))
    for part in ("weight", "bias"):
        assert ("reduced-gradients", f"blocks.1.norm.{part}", (1,), 0) in found
    assert all(subject.startswith("blocks.1.norm.") for _, subject, *_ in found)


@pytest.mark.verify
def test_a_rank_that_skips_an_update(ran):
    """The second update of three steps: the shards of rank 0 are in the third step as they were in the second."""
    found = violations(judgements(ran("fsdp", 2, collects=1, steps=3, bug="skips")))
    assert found == {("updates", "", (0,), 2)}


@pytest.mark.verify
def test_a_replica_of_data_parallelism_that_differs(ran):
    found = violations(judgements(ran("ddp", 2, collects=1, fault="0:1:module.head.bias")))
    assert ("equal-parameters", "module.head.bias", (1,), 1) in found


@pytest.mark.verify
@pytest.mark.parametrize(
    ("bug", "step", "row", "rank"),
    [
        # the weights of rank 1 are not those that the golden began with, and neither are those of rank 0
        ("own_seed", 0, "Module.head.Linear.forward.0.parameters.weight", None),
        # every gradient is twice that of the golden
        ("sum", 0, "Module.head.Linear.parameters_grad.weight", None),
        # no parameter moves
        ("old_parameters", 1, "Module.head.Linear.forward.0.parameters.weight", None),
        # the update of the last rank's shard has no gradient
        ("lossy", 1, "Module.head.Linear.forward.0.parameters.weight", 1),
        # gradients of the first step are in those of the second, and so in the update after it
        ("leak", 2, "Module.head.Linear.forward.0.parameters.weight", None),
        # the update after the gradient of half of the batch
        ("last_micro_batch", 1, "Module.blocks.0.norm.LayerNorm.forward.0.parameters.bias", None),
        # the shards of rank 0 are those of the step before
        ("skips", 2, "Module.embed.Linear.forward.0.parameters.weight", 0),
    ],
)
def test_a_bug_is_seen_against_one_process(bug, step, row, rank, ran, tmp_path):
    """No earlier step differs, and in this one the row does."""
    options = {"collects": 1, "steps": 3, "task": "tensor", **({"micro": 2} if bug == "last_micro_batch" else {})}
    target, golden = ran("fsdp", 2, bug=bug, **options), ran("one", 1, shares=2, **options)
    request = Request(target / "dump", golden / "dump", tmp_path / "out", "json", workers=1)
    result = compare_paths(request)
    answer = answer_of(result, request)
    assert result.differs
    assert answer.first.place.step == step
    (table,) = (tmp_path / "out" / f"step{step}").glob("*.json")
    verdicts = {each["NPU Name"]: each["Verdict"] for each in json.loads(table.read_text())["rows"]}
    assert verdicts[row] == "error"
    if rank is not None:
        assert any(row in note and f"rank {rank}," in note for note in map(str, answer.notes))


@pytest.mark.verify
def test_accumulated_gradients_of_a_correct_training_do_not_differ(ran, tmp_path):
    """FSDP2 adds the second micro batch to the first; the golden records it alone."""
    options = {"collects": 1, "steps": 3, "task": "tensor", "micro": 2}
    target, golden = ran("fsdp", 2, **options), ran("one", 1, shares=2, **options)
    result = compare_paths(Request(target / "dump", golden / "dump", tmp_path / "out", "json", workers=1))
    assert not result.differs
    (table,) = (tmp_path / "out" / "step0").glob("*.json")
    verdicts = {each["NPU Name"]: each["Verdict"] for each in json.loads(table.read_text())["rows"]}
    assert verdicts["Module.head.Linear.parameters_grad.weight"] == "pass"
    assert verdicts["Module.head.Linear.parameters_grad.1.weight"] == "unjudged"
