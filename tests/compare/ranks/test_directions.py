"""The first differing call among several ranks, where an exchange has a direction or goes through a group."""

import pytest
from rank_stories import WRONG, api, named, node, reduce
from three_calls import EXP, SIN

from msprobe.compare.locate.find import locate
from msprobe.compare.ranks.collectives import Exchange, RankSummary, connect
from msprobe.compare.ranks.search import summarize
from msprobe.compare.run import compare


@pytest.mark.parametrize("how", ["argument", "src", "group_src"])
def test_what_a_broadcast_gives_came_from_its_source(history, how):
    def broadcast(value):
        if how == "argument":
            return api("broadcast", value, WRONG, 2)
        return api("broadcast", value, WRONG, group=[0, 2, 1], **{how: 1 if how == "group_src" else 2})

    stories = {
        0: history(broadcast(1.0)),
        1: history(broadcast((7.0, 8.0))),  # a buffer to be filled: whatever it held
        2: history((EXP, [1.0], [WRONG]), broadcast(WRONG)),
    }
    assert {exchange.peer for summary in stories.values() for exchange in summary.exchanges} == {2}
    assert named(stories) == [(2, EXP)]


def test_the_buffer_of_a_rank_that_receives_is_no_evidence():
    """Rank 1 hands over a buffer that held something else; the source's data differ."""
    stories = {
        0: RankSummary((Exchange("b", "from_one", "broadcast", peer=0, input_differs=True),), ("", ""), (node("b"),)),
        1: RankSummary(
            (Exchange("b", "from_one", "broadcast", peer=0, input_differs=True, result_differs=True),),
            ("", ""),
            (node("b"),),
        ),
    }
    assert named(stories) == [(0, "b")]


def test_a_message_that_differs_came_from_its_sender(history):
    """Through a pipeline of three: what 0 computed wrong arrives at 1, and from there at 2."""
    stories = {
        0: history((EXP, [1.0], [WRONG]), api("send", WRONG, WRONG, 1)),
        1: history(api("recv", 0.0, WRONG, 0), (SIN, [WRONG], [WRONG]), api("isend", WRONG, WRONG, dst=2)),
        2: history(api("irecv", 0.0, WRONG, src=1), (SIN, [WRONG], [WRONG])),
    }
    layers = connect(stories).layers
    assert layers == {(0, 0): 1, (1, 0): 2, (1, 1): 3, (2, 0): 4}
    assert named(stories) == [(0, EXP)]


def test_what_is_received_without_the_sender_having_differed_is_named(history):
    """The message was changed on its way, or by what was not recorded."""
    stories = {0: history(api("send", 1.0, 1.0, 1)), 1: history(api("recv", 0.0, WRONG, 0), (SIN, [WRONG], [WRONG]))}
    assert named(stories) == [(1, "MintDistributed.recv.0.forward")]


def test_a_message_without_a_partner_stands_alone(history):
    stories = {
        0: history((EXP, [1.0], [2.0]), api("send", 2.0, 2.0, 3)),
        1: history(api("recv", 0.0, WRONG, 7), (SIN, [WRONG], [WRONG])),
    }
    connected = connect(stories)
    assert connected.sources(1, 0) == connected.sources(0, 0) == []
    assert named(stories) == [(1, "MintDistributed.recv.0.forward")]


def test_messages_are_joined_in_their_order_and_recv_from_anyone_takes_what_is_left(history):
    stories = {
        0: history(api("send", 1.0, 1.0, 1), api("send", 2.0, 2.0, 1, number=1), api("send", 3.0, 3.0, 2, number=2)),
        1: history(api("recv", 0.0, 1.0, 0), api("recv", 0.0, 2.0, src=0, number=1)),
        2: history(api("recv", 0.0, 3.0)),
    }
    connected = connect(stories)
    assert [connected.sources(*at) for at in ((1, 0), (1, 1), (2, 0))] == [[(0, 0)], [(0, 1)], [(0, 2)]]
    stories = {
        0: history(api("send", 1.0, 1.0, 1)),
        1: history(api("recv", 0.0, 2.0), api("recv", 0.0, 1.0, src=0, number=1)),
        2: history(api("send", 2.0, 2.0, 1)),
    }
    connected = connect(stories)
    assert [connected.sources(1, n) for n in (0, 1)] == [[(2, 0)], [(0, 0)]]


def test_a_reduction_to_one_rank_tells_nothing_at_the_others(history):
    """`reduce` to rank 1: what it leaves in the others' tensors is not looked at; what they put in is."""
    stories = {
        0: history((EXP, [1.0], [2.0]), api("reduce", 2.0, WRONG, 1)),
        1: history((EXP, [1.0], [2.0]), api("reduce", 2.0, WRONG, 1)),
        2: history((EXP, [1.0], [2.0]), (SIN, [2.0], [WRONG]), api("reduce", WRONG, WRONG, 1)),
    }
    assert named(stories) == [(2, SIN)]
    assert named({rank: stories[rank] for rank in (0, 1)}) == [(1, "MintDistributed.reduce.0.forward")]


def test_slices_of_a_reduce_scatter_that_differ_came_from_any_rank(history):
    """The first argument is the buffer for the slice, and holds whatever it held."""
    clean = api("reduce_scatter_tensor", (7.0, 8.0), WRONG, 2.0)
    dirty = api("reduce_scatter_tensor", (7.0, 8.0), WRONG, WRONG)
    stories = {
        0: history((EXP, [1.0], [2.0]), clean),
        1: history((EXP, [1.0], [WRONG]), dirty),
    }
    assert stories[0].exchanges[0].input_differs is False
    assert stories[1].exchanges[0].input_differs is True
    assert named(stories) == [(1, EXP)]


def test_of_a_tensor_alone_the_first_argument_is_no_buffer(history):
    (exchange,) = history(("Distributed.reduce_scatter_tensor.0.forward", [WRONG], [WRONG])).exchanges
    assert exchange.input_differs


def test_a_batch_is_one_message_for_each_of_its_operations(builder):
    made = builder("target")
    made.call("MintDistributed.batch_isend_irecv.0.forward", [], [])
    kind = "mindspore.mint.distributed.P2POp"
    made.data["MintDistributed.batch_isend_irecv.0.forward"]["input_args"] = [
        [
            {"class_type": kind, "tensor": None, "op": op, "peer": peer, "tag": 0}
            for op, peer in (("isend", 1), ("irecv", 3))
        ]
    ]
    dump = made.dump()
    comparison = compare(dump, dump)
    exchanges = summarize(comparison, locate(comparison)).exchanges
    assert [(e.traffic, e.word, e.peer) for e in exchanges] == [("send", "send", 1), ("receive", "send", 3)]


def test_groups_are_told_by_their_ranks_or_their_name(builder):
    made = builder("target")
    name = "Distributed.all_reduce.{}.forward"
    groups = [
        {"type": "mindspore.ProcessGroup", "group_ranks": [0, 2], "group_id": "8a1d3c90"},
        {"type": "str", "value": "hccl_world_group"},
        {"type": "str", "value": "2-1163"},
        None,
    ]
    for n, group in enumerate(groups):
        made.call(name.format(n), [1.0], [1.0])
        made.data[name.format(n)]["input_kwargs"]["group"] = group
    made.call(name.format(4), [1.0], [1.0])
    made.data[name.format(4)]["input_args"] += [{"type": "str", "value": "sum"}, {"type": "str", "value": "3-77"}]
    dump = made.dump()
    comparison = compare(dump, dump)
    exchanges = summarize(comparison, locate(comparison)).exchanges
    assert [e.group for e in exchanges] == [(0, 2), None, "2-1163", None, "3-77"]


def test_a_group_of_all_ranks_is_the_same_with_and_without_its_name(history):
    stories = {0: history(reduce(0, 1.0, 1.0, group=[0, 1])), 1: history(reduce(0, 1.0, 1.0))}
    assert connect(stories).sources(0, 0) == [(1, 0)]
