"""The first differing call among several ranks: never one that only received, whatever the exchange."""

import json

import pytest
from rank_stories import WRONG, api, named, reduce
from three_calls import EXP, SIN

from msprobe.cli import main
from msprobe.compare.core.exchanges import word_of
from msprobe.compare.locate.find import locate
from msprobe.compare.ranks.collectives import Exchange, RankSummary, connect, traffic_of
from msprobe.compare.ranks.search import as_objects, first_over_ranks, summarize
from msprobe.compare.run import compare

# What communicates.


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("Distributed.all_reduce.0.forward", "all_reduce"),
        ("MintDistributed.irecv.3.forward", "irecv"),
        ("communication.comm_func.reduce_scatter_tensor.0.forward", "reduce_scatter_tensor"),
        ("Distributed._all_gather_base.0.forward", "_all_gather_base"),
        ("Primitive.reduce.AllReduce.0.forward", "all_reduce"),
        ("Primitive.reduce.AllReduce.0.backward", "all_reduce"),
        ("MintDistributed.all_reduce.0.backward", ""),
        ("Mint.scatter.0.forward", ""),
        ("Primitive.reduce.ReduceSum.0.forward", ""),
        ("Distributed.get_rank.0.forward", ""),
        ("Cell.all_reduce.Dense.forward.0", ""),
    ],
)
def test_what_communicates_is_told_by_its_name(name, word):
    assert word_of(name) == word


@pytest.mark.parametrize(
    ("traffic", "words"),
    [
        ("all", "all_reduce all_gather _all_gather_base all_gather_into_tensor reduce_scatter reduce_scatter_tensor"),
        ("all", "_reduce_scatter_base all_to_all all_to_all_single"),
        ("from_one", "broadcast scatter broadcast_object_list"),
        ("to_one", "reduce gather"),
        ("send", "send isend send_object_list"),
        ("receive", "recv irecv recv_object_list"),
    ],
)
def test_whose_data_reach_whom_is_told_by_the_word(traffic, words):
    assert {traffic_of(word) for word in words.split()} == {traffic}


# Before, during, after.


def test_a_rank_that_only_receives_through_a_reduction_is_not_named(history):
    stories = {
        0: history((EXP, [1.0], [2.0]), reduce(0, 2.0), (SIN, [WRONG], [WRONG])),
        1: history((EXP, [1.0], [WRONG]), reduce(0, WRONG), (SIN, [WRONG], [WRONG])),
    }
    assert named(stories) == [(1, EXP)]


def test_before_communication_the_first_of_every_rank_is_named(history):
    stories = {
        0: history((EXP, [1.0], [WRONG]), (SIN, [WRONG], [WRONG]), reduce(0, WRONG)),
        1: history((EXP, [1.0], [2.0]), reduce(0, 2.0)),
        2: history((EXP, [1.0], [2.0]), (SIN, [2.0], [WRONG]), reduce(0, WRONG)),
    }
    assert named(stories) == [(0, EXP), (2, SIN)]


def test_between_two_reductions(history):
    stories = {
        0: history(reduce(0, 1.0, 2.0), (EXP, [2.0], [3.0]), reduce(1, 3.0), (SIN, [WRONG], [WRONG])),
        1: history(reduce(0, 1.0, 2.0), (EXP, [2.0], [WRONG]), reduce(1, WRONG), (SIN, [WRONG], [WRONG])),
    }
    assert named(stories) == [(1, EXP)]


def test_behind_the_last_exchange(history):
    stories = {
        0: history(reduce(0, 1.0, 2.0), (EXP, [2.0], [3.0])),
        1: history(reduce(0, 1.0, 2.0), (EXP, [2.0], [WRONG])),
    }
    assert named(stories) == [(1, EXP)]


def test_a_reduction_that_itself_computes_differently_is_named_on_every_rank(history):
    stories = {rank: history((EXP, [1.0], [2.0]), reduce(0, 2.0)) for rank in range(3)}
    assert named(stories) == [(rank, "Distributed.all_reduce.0.forward") for rank in range(3)]


def test_of_four_ranks_in_two_groups_the_earliest_place_counts(history):
    """Ranks 0 and 1 reduce among themselves, so do 2 and 3, then all. Rank 3 differs first, rank 0 later by itself."""
    stories = {}
    for rank in range(4):
        first, second = WRONG if rank == 3 else 2.0, WRONG if rank >= 2 else 3.0
        third = WRONG if rank in (0, 2, 3) else 4.0
        stories[rank] = history(
            (EXP, [1.0], [first]),
            reduce(0, first, second, group=f"group of {rank // 2}"),
            (SIN, [second], [third]),
            reduce(1, third),
        )
    assert named(stories) == [(3, EXP)]
    assert named({rank: stories[rank] for rank in (0, 1)}) == [(0, SIN)], "without the others 0 is the first"


def test_ranks_that_have_gone_through_more_exchanges_are_later(history):
    """Ranks 0 and 1 exchange twice, all of them then once. 2 differs before that, and has come from nowhere."""
    group = {"group": [0, 1]}
    stories = {
        0: history(reduce(0, 1.0, 2.0, **group), reduce(1, 1.0, 2.0, **group), (EXP, [2.0], [WRONG]), reduce(2, WRONG)),
        1: history(reduce(0, 1.0, 2.0, **group), reduce(1, 1.0, 2.0, **group), reduce(2, 2.0)),
        2: history((SIN, [1.0], [WRONG]), reduce(0, WRONG)),
    }
    layers = connect(stories).layers
    assert [layers[0, n] for n in range(3)] == [1, 2, 3]
    assert layers[2, 0] == layers[1, 2] == 3
    assert named(stories) == [(2, SIN)]


def test_nothing_differs(history):
    stories = {rank: history((EXP, [1.0], [2.0]), reduce(0, 2.0, 3.0)) for rank in range(2)}
    assert named(stories) == []
    assert named({}) == []


def test_the_story_of_a_clean_rank_has_its_exchanges(history):
    summary = history(
        (EXP, [1.0], [2.0]), reduce(0, 2.0, 3.0, group=[0, 1]), (SIN, [3.0], [4.0]), api("send", 4.0, 4.0, 1)
    )
    assert summary == RankSummary(
        (
            Exchange("Distributed.all_reduce.0.forward", "all", "all_reduce", (0, 1)),
            Exchange("MintDistributed.send.0.forward", "send", "send", None, 1),
        ),
        ("", "", ""),
    )


def test_a_call_that_only_the_golden_made_counts_in_its_place(builder):
    target, golden = builder("target"), builder("golden")
    for made in (target, golden):
        made.call("Distributed.all_reduce.0.forward", [1.0], [2.0])
    golden.call(EXP, [2.0], [3.0])
    for made in (target, golden):
        made.call("Distributed.all_reduce.1.forward", [1.0], [2.0])
    comparison = compare(target.dump(), golden.dump())
    assert summarize(comparison, locate(comparison)).between == ("", EXP, "")


# What is told.


def test_uninitialised_memory_is_never_named(history):
    stories = {0: history(("Torch.empty.0.forward", [], [WRONG]), ("Tensor.__setitem__.0.forward", [1.0], [WRONG]))}
    assert named(stories) == []


def test_a_node_says_its_values_its_cells_and_its_stack(builder, tensor):
    dumps = []
    for side, out in (("target", 5.0), ("golden", 1.0)):
        made = builder(side)
        made.construct["Cell.net.Net.forward.0"] = None
        made.call(
            EXP,
            [tensor(1.0)],
            [out],
            parent="Cell.net.fc.Dense.forward.0",
            stack=["File /home/user/net.py, line 3, in f, \n y"],
        )
        made.construct["Cell.net.fc.Dense.forward.0"] = "Cell.net.Net.forward.0"
        dumps.append(made.dump())
    comparison = compare(*dumps)
    (first,) = first_over_ranks({4: summarize(comparison, locate(comparison))})
    (node,) = as_objects([first])["rank_4"]
    assert list(node) == ["op_name", "data_info", "construct_info", "stack_info"]
    assert node["op_name"] == EXP
    assert node["construct_info"] == ["Cell.net.Net.forward.0", "Cell.net.fc.Dense.forward.0", EXP]
    assert node["stack_info"] == ["File /home/user/net.py, line 3, in f, \n y"]
    assert list(node["data_info"]) == ["input_args", "input_kwargs", "output"]
    (output,) = node["data_info"]["output"]
    assert (output["full_op_name"], output["shape"], output["Max"], output["verdict"]) == (
        f"{EXP}.output.0",
        [2, 2],
        5.75,
        "error",
    )


def test_the_command_names_the_rank_and_writes_each_ranks_calls(builder, tmp_path):
    for side, out in (("target", 5.0), ("golden", 2.0)):
        for rank in range(2):
            made = builder(side)
            made.folder = tmp_path / side / "step0" / f"rank{rank}"
            made.call(EXP, [1.0], [out if rank else 2.0])
            made.call("Distributed.all_reduce.0.forward", [out if rank else 2.0], [out])
            made.call(SIN, [out], [out])
            made.write()
    words = ["-tp", tmp_path / "target", "-gp", tmp_path / "golden", "-o", tmp_path / "out", "--format", "csv", "-da"]
    assert main(["compare", *map(str, words)]) == 1
    (first,) = (tmp_path / "out").glob("diff_analyze_*.json")
    ((rank, (node,)),) = json.loads(first.read_text()).items()
    assert (rank, node["op_name"], node["step"]) == ("rank_1", EXP, 0)
    (calls,) = (tmp_path / "out" / "step0").glob("compare_result_rank0_*.json")
    text = json.loads(calls.read_text())
    assert {name: entry["is_same"] for name, entry in text.items()} == {
        EXP: True,
        "Distributed.all_reduce.0.forward": False,
        SIN: False,
    }
    assert [row["NPU Name"] for row in text[EXP]["op_items"]] == [f"{EXP}.input.0", f"{EXP}.output.0"]
