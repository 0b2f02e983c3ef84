"""Published bugs of trainings on several ranks: each is planted in a distributed training, and named.

Those that one run shows are found by `msprobe check`, the others by comparing with a training in one process. The
mechanisms are in `sharded.BUGS`.
"""

import json
from math import sqrt

import pytest
import torch
from sharded import batch, classes, loss_of, made

from msprobe.checks.invariants.judgement import Status, Why
from msprobe.checks.invariants.table import ROWS
from msprobe.checks.invariants.verb import read_run
from msprobe.compare.dispatch import answer_of, compare_paths
from msprobe.compare.request import Request
from msprobe.findings.catalogue.parallel import SHARD_DIFFERS

pytestmark = [
    pytest.mark.torch,
    pytest.mark.ranks,
    pytest.mark.skipif(
        not torch.distributed.is_gloo_available(), reason="the ranks talk by gloo, which is not built in"
    ),
    pytest.mark.part(8),
]

ROWS_OF_RANKS = (
    *("equal-parameters", "reduced-gradients", "own-batches", "gradients", "updates", "written-memory"),
    *("gradient-norm", "clipping", "loss-weights"),
)


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
    if kind == "fsdp":
        assert [one.why for one in found["equal-parameters"]] == [Why.NOT_REPLICATED]


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
        shards = [each for each in answer.findings if each.kind is SHARD_DIFFERS]
        assert (row, rank) in {(f"{each.place.name}.{each.place.record}", each.place.rank) for each in shards}


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


# Clipping, and losses over tokens.

verify = pytest.mark.verify


@pytest.mark.parametrize(
    ("kind", "ranks", "options"),
    [
        ("fsdp", 2, {"clip": "torch", "loss": "none"}),
        ("ddp", 2, {"clip": "hand", "loss": "sum"}),
        pytest.param("ddp", 2, {"clip": "torch", "loss": "mean", "task": "tensor"}, marks=verify),
        pytest.param("fsdp", 2, {"clip": "hand", "loss": "mean", "task": "tensor", "micro": 2}, marks=verify),
        pytest.param("fsdp", 4, {"clip": "hand", "loss": "sum"}, marks=verify),
        pytest.param("fsdp", 4, {"clip": "torch", "loss": "mean", "task": "tensor"}, marks=verify),
        pytest.param("ddp", 4, {"clip": "hand", "loss": "none"}, marks=verify),
        pytest.param("tp", 2, {"clip": "hand"}, marks=verify),
        pytest.param("2d", 4, {"clip": "hand"}, marks=verify),
    ],
)
def test_correct_clipping_and_weights_hold(kind, ranks, options, ran):
    found = judgements(ran(kind, ranks, collects=1, **options))
    assert not violations(found)
    expected = {"clipping", *(["loss-weights"] if "loss" in options else [])}
    # clip_grad_norm_ of DDP's gradients: they are reduced in C++, and the norms are computed there too
    expected |= {"gradient-norm"} if (kind, options["clip"]) != ("ddp", "torch") else set()
    assert {name for name in expected if any(one.status is Status.HOLDS for one in found[name])} == expected


def squares():
    """The square of the norm of each gradient of the whole model on the whole batch, by name."""
    net = made("tp")
    out, wanted = net(batch(0)[0]), batch(0)[1]
    loss_of(out, wanted, "sum", (classes(wanted) != -100).sum(), 1, "").backward()
    return {name: parameter.grad.square().sum().item() for name, parameter in net.named_parameters()}


@pytest.mark.parametrize(
    ("kind", "ranks"), [("tp", 2), *(pytest.param(*each, marks=verify) for each in (("ddp", 2), ("ddp", 4), ("2d", 4)))]
)
def test_replicated_weights_that_are_counted_on_each_rank(kind, ranks, ran):
    found = judgements(ran(kind, ranks, collects=1, clip="hand", loss="sum", bug="counted"))
    (one,) = [one for one in found["gradient-norm"] if one.status is Status.VIOLATED]
    assert (one.what, one.step, one.ranks) == ("counted", 0, tuple(range(ranks)))
    if kind == "ddp":
        assert one.value == pytest.approx(sqrt(ranks), rel=1e-4)
    elif kind == "tp":
        parts = ("up.weight", "up.bias", "down.weight")
        every = squares()
        copies = {name: square for name, square in every.items() if not name.endswith(parts)}
        assert one.subject == max(copies, key=copies.get)
        total = sum(every.values())
        assert one.value == pytest.approx(sqrt((total + sum(copies.values())) / total), rel=1e-3)


@verify
def test_a_norm_that_is_reduced_in_one_group_of_a_mesh(ran):
    """The ranks of one tensor parallel place have the shards of two of four ranks."""
    found = judgements(ran("2d", 4, collects=1, clip="hand", bug="one_group"))
    (one,) = [one for one in found["gradient-norm"] if one.status is Status.VIOLATED]
    assert (one.step, one.ranks, one.what) == (0, (0, 2), "shards left out")
    assert one.value < 1


@pytest.mark.parametrize(
    ("kind", "ranks", "how"),
    [
        ("fsdp", 2, "hand"),
        *(
            pytest.param(*each, marks=verify)
            for each in (("fsdp", 4, "hand"), ("ddp", 2, "torch"), ("ddp", 4, "torch"))
        ),
    ],
)
def test_clipping_by_the_norm_of_one_rank(kind, ranks, how, ran):
    """FSDP2: by that of its shards; DDP: before gradients are reduced."""
    found = judgements(ran(kind, ranks, collects=1, clip=how, bug="local_norm"))["clipping"]
    wrong = [one for one in found if one.status is Status.VIOLATED]
    assert {one.step for one in wrong} == {0}
    if kind == "ddp":
        assert [(one.subject, one.ranks) for one in wrong] == [("Torch.vector_norm.0.forward", tuple(range(ranks)))]
    else:
        names = {name for name, parameter in made(kind).named_parameters() if parameter.numel() > ranks}
        assert {one.subject for one in wrong} >= names, "a shard of one element is not enough"
        assert all(set(one.ranks) < set(range(ranks)) for one in wrong)


@pytest.mark.parametrize(
    ("kind", "ranks", "options"),
    [
        ("fsdp", 2, {"loss": "mean"}),
        *(
            pytest.param(*each, marks=verify)
            for each in (("fsdp", 4, {"loss": "sum"}), ("ddp", 2, {"loss": "none"}), ("ddp", 4, {"loss": "mean"}))
        ),
    ],
)
def test_a_mean_of_the_means_of_ranks(kind, ranks, options, ran):
    found = judgements(ran(kind, ranks, collects=1, task="tensor", bug="mean_of_means", **options))
    wrong = [one for one in found["loss-weights"] if one.status is Status.VIOLATED]
    for step, one in enumerate(wrong):
        counts = [(classes(share) != -100).sum().item() for share in batch(step)[1].chunk(ranks)]
        assert one.subject == "Functional.cross_entropy.0.forward"
        assert (one.what, one.step) == ("ranks", step)
        assert one.ranks == tuple(rank for rank, count in enumerate(counts) if count == min(counts))
        assert one.value == pytest.approx(max(counts) / min(counts), rel=1e-4)
    assert len(wrong) == 2


@verify
def test_a_mean_of_the_means_of_micro_batches(ran):
    """Two micro batches of one process have halves of the batch; the tokens of the smaller one weigh more."""
    found = judgements(ran("one", 1, collects=1, task="tensor", micro=2, loss="sum", bug="mean_of_means"))
    first = next(one for one in found["loss-weights"] if one.status is Status.VIOLATED)
    counts = [(classes(share) != -100).sum().item() for share in batch(0)[1].chunk(2)]
    assert (first.what, first.step, first.subject) == (
        "micro batches",
        0,
        f"Functional.cross_entropy.{counts.index(min(counts))}.forward",
    )
    assert first.value == pytest.approx(max(counts) / min(counts), rel=1e-4)
