"""Distributed tensors are recorded by their local shards, and the training keeps every bit.

What a shard must be is worked out by `torch.chunk` from the model before it was distributed, and from a training of
the whole model in this process.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sharded import made
from sharded_runs import dump, records_of, run, trained
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.placement_types import _StridedShard

from msprobe.frameworks.pytorch.shards import _block
from msprobe.store.npy import load_npy

pytestmark = [
    pytest.mark.torch,
    pytest.mark.ranks,
    pytest.mark.skipif(
        not torch.distributed.is_gloo_available(), reason="the ranks talk by gloo, which is not built in"
    ),
    pytest.mark.part(12),
]

KINDS = [
    *(("fsdp", 2), ("ddp", 2), ("tp", 2), ("fsdp_recompute", 2)),
    *(
        pytest.param(kind, ranks, marks=pytest.mark.verify)
        for kind, ranks in (("fsdp", 4), ("2d", 4), ("uneven", 4), ("fsdp_recompute", 4), ("fsdp1", 2), ("zero", 2))
    ),
]


@pytest.mark.parametrize(("kind", "ranks"), KINDS)
def test_a_distributed_training_is_bit_identical(kind, ranks, tmp_path):
    """Losses, and all bits of parameters, gradients and states of the optimizer, after each step on each rank."""
    for report in run(tmp_path, kind, ranks):
        assert report["1"] == report["0"]
        assert len({bits for _, bits in report["1"]}) == 2, "the training moves"
    for step in range(2):
        assert not any(dump(tmp_path, step, rank)[0].get("missing") for rank in range(ranks))


@pytest.mark.parametrize("part", ["parameters", "parameters_grad"])
def test_parameters_and_gradients_are_recorded_by_shards(part, ran):
    folder = ran("fsdp", 2, collects=1)
    for step in range(2):
        whole = trained()[step][part == "parameters_grad"]
        for rank in range(2):
            found = records_of(dump(folder, step, rank)[1], part)
            assert found.keys() == whole.keys()
            for name, record in found.items():
                expected = whole[name].chunk(2)[rank]
                assert record["shape"] == list(expected.shape)
                assert record["Norm"] == pytest.approx(expected.double().norm().item(), rel=1e-4)
                shard = record["shard"]
                first = rank * -(-whole[name].shape[0] // 2)
                assert shard == {
                    **{"mesh": [2], "names": ["dp"], "first": 0, "strides": [1], "at": [rank]},
                    **{"placements": ["Shard(0)"], "shape": list(whole[name].shape)},
                    "offset": [first, *[0] * (whole[name].dim() - 1)],
                }


def test_what_a_recorded_shard_says_is_exact_before_the_first_update(ran):
    whole = dict(made("fsdp").named_parameters())
    for rank in range(2):
        for name, record in records_of(dump(ran("fsdp", 2, collects=1), 0, rank)[1], "parameters").items():
            expected = whole[name].chunk(2)[rank]
            assert (record["Max"], record["Min"]) == (expected.max().item(), expected.min().item())


def test_a_function_of_a_gathered_parameter_names_it(ran):
    entry = dump(ran("fsdp", 2, collects=1), 0, 1)[1]["Functional.linear.1.forward"]
    weight = entry["input_args"][1]
    assert (weight["shape"], weight["from"]) == ([24, 12], "parameter blocks.0.up.weight")
    assert "shard" not in weight


def test_modules_keep_the_name_of_their_class(ran):
    calls = [name for name in dump(ran("fsdp", 2, collects=1), 0, 0)[1] if name.startswith("Module.")]
    assert "Module.blocks.0.Block.forward.0" in calls
    assert "Module.head.Linear.forward.0" in calls
    assert not any("FSDP" in name for name in calls)


def test_unequal_and_empty_shards(ran):
    folder = ran("uneven", 2, collects=1)
    of_rank = [records_of(dump(folder, 0, rank)[1], "parameters_grad") for rank in range(2)]
    shards = [(each["blocks.0.up.weight"]["shape"], each["blocks.0.up.weight"]["shard"]["offset"]) for each in of_rank]
    assert shards == [([3, 12], [0, 0]), ([2, 12], [3, 0])], "five rows"
    one, none = (each["blocks.1.up.weight"] for each in of_rank)
    assert (one["shape"], none["shape"]) == ([1, 12], [0, 12])
    assert none["shard"]["offset"] == [1, 0]
    assert [none[key] for key in ("Max", "Min", "Mean", "Norm")] == [None] * 4


def test_tensor_parallel_parameters_and_their_gradients(ran):
    folder = ran("tp", 2, collects=1)
    weights, gradients = trained()[0]
    for part, whole in (("parameters", weights), ("parameters_grad", gradients)):
        for rank in range(2):
            found = records_of(dump(folder, 0, rank)[1], part)
            for name, axis in (("blocks.0.up.weight", 0), ("blocks.0.down.weight", 1)):
                assert found[name]["shard"]["placements"] == [f"Shard({axis})"]
                expected = whole[name].chunk(2, axis)[rank]
                assert found[name]["shape"] == list(expected.shape)
                assert found[name]["Norm"] == pytest.approx(expected.double().norm().item(), rel=1e-4)
            assert found["blocks.0.down.bias"]["shard"]["placements"] == ["Replicate"]
            assert "shard" not in found["embed.weight"], "not distributed"


@pytest.mark.parametrize("form", ["json", "columnar"])
def test_the_elements_of_a_shard_are_saved(form, ran):
    folder = ran("fsdp", 2, collects=1, task="tensor", format=form)
    weight = made("fsdp").head.weight
    for rank in range(2):
        record = records_of(dump(folder, 0, rank)[1], "parameters")["head.weight"]
        saved = load_npy(folder / "dump" / "step0" / f"rank{rank}" / "dump_tensor_data" / record["data_name"])
        assert np.array_equal(saved, weight.detach().numpy()[2 * rank : 2 * rank + 2])


def test_both_formats_have_the_same_records(ran):
    texts = []
    for form in ("json", "columnar"):
        entries = dump(ran("fsdp", 2, collects=1, task="tensor", format=form), 1, 1)[1]
        found = records_of(entries, "parameters") | records_of(entries, "parameters_grad")
        assert all("shard" in record for record in found.values())
        texts.append(json.dumps(found))
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("sizes", "placements", "shape", "expected"),
    [
        # by hand: chunks are of one length, the last ones shorter or empty
        ([2], [Shard(0)], (5, 3), [([0, 0], [3, 3]), ([3, 0], [2, 3])]),
        ([4], [Shard(0)], (5,), [([0], [2]), ([2], [2]), ([4], [1]), ([5], [0])]),
        ([2], [Shard(1)], (4, 6), [([0, 0], [4, 3]), ([0, 3], [4, 3])]),
        ([2], [Replicate()], (4,), [([0], [4]), ([0], [4])]),
        # both dimensions cut rows: the first into halves, the second into quarters
        ([2, 2], [Shard(0), Shard(0)], (8,), [([0], [2]), ([2], [2]), ([4], [2]), ([6], [2])]),
        # FSDP of tensor parallel shards: the second dimension cuts first
        ([2, 2], [_StridedShard(0, split_factor=2), Shard(0)], (8,), [([0], [2]), ([4], [2]), ([2], [2]), ([6], [2])]),
    ],
)
def test_where_a_shard_is_in_the_whole(sizes, placements, shape, expected):
    coordinates = [list(map(int, at)) for at in np.ndindex(*sizes)]
    assert [_block(sizes, at, placements, shape) for at in coordinates] == expected


def test_a_strided_shard_of_odd_length_is_not_one_block():
    assert _block([2, 2], [0, 0], [_StridedShard(0, split_factor=2), Shard(0)], (7,)) is None


STAGES = Path(__file__).with_name("stages.py")


@pytest.mark.parametrize(
    ("kind", "ranks"),
    [
        ("pipeline", 2),
        *(pytest.param(*each, marks=pytest.mark.verify) for each in (("experts", 4), ("context", 4), ("pipeline", 4))),
    ],
)
def test_exchanges_of_stages_experts_and_contexts_are_recorded(kind, ranks, tmp_path):
    """All bits are equal; each exchange is recorded with its group and what was received."""
    reports = run(tmp_path, kind, ranks, STAGES)
    assert all(report["1"] == report["0"] for report in reports)
    for rank in range(ranks):
        members, entries = dump(tmp_path, 1, rank)
        assert not members.get("missing")
        exchanges = {name: entry for name, entry in entries.items() if name.startswith("Distributed.")}
        words = {name.split(".")[1] for name in exchanges}
        if kind == "pipeline":
            assert words == {"isend", "irecv"}
        else:
            assert words == {"all_reduce", *(["all_to_all_single"] if kind == "experts" else [])}
            group = next(iter(exchanges.values()))["input_kwargs"]["group"]
            assert group["group_ranks"] == [rank // 2 * 2, rank // 2 * 2 + 1]
