"""The first differing call among several ranks: never one that only received, whatever the exchange."""

import json
import pickle
import time
import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msprobe.cli import main
from msprobe.compare.locate.find import locate
from msprobe.compare.ranks.communication import traffic_of, word_of
from msprobe.compare.ranks.connect import connect
from msprobe.compare.ranks.diff_analyze import as_objects
from msprobe.compare.ranks.search import first_over_ranks
from msprobe.compare.ranks.story import Exchange, Node, RankStory
from msprobe.compare.ranks.summarise import summarise
from msprobe.compare.run import compare

EXP, SIN, TAN = "Mint.exp.0.forward", "Mint.sin.0.forward", "Mint.tan.0.forward"


WRONG = (5.0, 1.0)
"""A tensor that differs: of 5 in the target, of 1 in the golden."""


@pytest.fixture
def compared(builder, value):
    """`compared(*calls)`: the comparison of a rank.

    A call is its name, what it is given, what it gives, and its keyword arguments. A float stands for a tensor, a pair
    of floats for one in the target and one in the golden; everything else stands for itself.
    """
    made = iter(range(1000))

    def of(given, side):
        given = given[side] if isinstance(given, tuple) else given
        return given if isinstance(given, float) else value(given)

    def make(*calls):
        number = next(made)
        dumps = []
        for side, name in enumerate(("target", "golden")):
            built = builder(f"{name}{number}")
            for call, inputs, outputs, *more in calls:
                keywords = {key: of(v, side) for key, v in (more or [{}])[0].items()}
                built.call(call, [of(v, side) for v in inputs], [of(v, side) for v in outputs], kwargs=keywords)
            dumps.append(built.dump())
        return compare(*dumps)

    return make


@pytest.fixture
def story(compared):
    """`story(*calls)`: the story of a rank with these calls."""

    def make(*calls):
        comparison = compared(*calls)
        return pickle.loads(pickle.dumps(summarise(comparison, locate(comparison))))

    return make


def named(stories):
    """Rank and name of what differs first."""
    return [(first.rank, first.node.name) for first in first_over_ranks(stories)]


def node(name):
    return Node(name, {}, (name,), ())


def reduce(number, given, gives=WRONG, **keywords):
    return f"Distributed.all_reduce.{number}.forward", [given], [gives], keywords


def api(word, given, gives, *others, number=0, **keywords):
    """A call of a function that communicates: its tensor, then further arguments."""
    return f"MintDistributed.{word}.{number}.forward", [given, *others], [gives], keywords


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


def test_a_rank_that_only_receives_through_a_reduction_is_not_named(story):
    stories = {
        0: story((EXP, [1.0], [2.0]), reduce(0, 2.0), (SIN, [WRONG], [WRONG])),
        1: story((EXP, [1.0], [WRONG]), reduce(0, WRONG), (SIN, [WRONG], [WRONG])),
    }
    assert named(stories) == [(1, EXP)]


def test_before_communication_the_first_of_every_rank_is_named(story):
    stories = {
        0: story((EXP, [1.0], [WRONG]), (SIN, [WRONG], [WRONG]), reduce(0, WRONG)),
        1: story((EXP, [1.0], [2.0]), reduce(0, 2.0)),
        2: story((EXP, [1.0], [2.0]), (SIN, [2.0], [WRONG]), reduce(0, WRONG)),
    }
    assert named(stories) == [(0, EXP), (2, SIN)]


def test_between_two_reductions(story):
    stories = {
        0: story(reduce(0, 1.0, 2.0), (EXP, [2.0], [3.0]), reduce(1, 3.0), (SIN, [WRONG], [WRONG])),
        1: story(reduce(0, 1.0, 2.0), (EXP, [2.0], [WRONG]), reduce(1, WRONG), (SIN, [WRONG], [WRONG])),
    }
    assert named(stories) == [(1, EXP)]


def test_behind_the_last_exchange(story):
    stories = {
        0: story(reduce(0, 1.0, 2.0), (EXP, [2.0], [3.0])),
        1: story(reduce(0, 1.0, 2.0), (EXP, [2.0], [WRONG])),
    }
    assert named(stories) == [(1, EXP)]


def test_a_reduction_that_itself_computes_differently_is_named_on_every_rank(story):
    stories = {rank: story((EXP, [1.0], [2.0]), reduce(0, 2.0)) for rank in range(3)}
    assert named(stories) == [(rank, "Distributed.all_reduce.0.forward") for rank in range(3)]


def test_of_four_ranks_in_two_groups_the_earliest_place_counts(story):
    """Ranks 0 and 1 reduce among themselves, so do 2 and 3, then all. Rank 3 differs first, rank 0 later by itself."""
    stories = {}
    for rank in range(4):
        first, second = WRONG if rank == 3 else 2.0, WRONG if rank >= 2 else 3.0
        third = WRONG if rank in (0, 2, 3) else 4.0
        stories[rank] = story(
            (EXP, [1.0], [first]),
            reduce(0, first, second, group=f"group of {rank // 2}"),
            (SIN, [second], [third]),
            reduce(1, third),
        )
    assert named(stories) == [(3, EXP)]
    assert named({rank: stories[rank] for rank in (0, 1)}) == [(0, SIN)], "without the others 0 is the first"


def test_ranks_that_have_gone_through_more_exchanges_are_later(story):
    """Ranks 0 and 1 exchange twice, all of them then once. 2 differs before that, and has come from nowhere."""
    group = {"group": [0, 1]}
    stories = {
        0: story(reduce(0, 1.0, 2.0, **group), reduce(1, 1.0, 2.0, **group), (EXP, [2.0], [WRONG]), reduce(2, WRONG)),
        1: story(reduce(0, 1.0, 2.0, **group), reduce(1, 1.0, 2.0, **group), reduce(2, 2.0)),
        2: story((SIN, [1.0], [WRONG]), reduce(0, WRONG)),
    }
    layers = connect(stories).layers
    assert [layers[0, n] for n in range(3)] == [1, 2, 3]
    assert layers[2, 0] == layers[1, 2] == 3
    assert named(stories) == [(2, SIN)]


def test_nothing_differs(story):
    stories = {rank: story((EXP, [1.0], [2.0]), reduce(0, 2.0, 3.0)) for rank in range(2)}
    assert named(stories) == []
    assert named({}) == []


def test_the_story_of_a_clean_rank_has_its_exchanges(story):
    told = story((EXP, [1.0], [2.0]), reduce(0, 2.0, 3.0, group=[0, 1]), (SIN, [3.0], [4.0]), api("send", 4.0, 4.0, 1))
    assert told == RankStory(
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
    assert summarise(comparison, locate(comparison)).between == ("", EXP, "")


# Exchanges with a direction.


@pytest.mark.parametrize("how", ["argument", "src", "group_src"])
def test_what_a_broadcast_gives_came_from_its_source(story, how):
    def broadcast(given):
        if how == "argument":
            return api("broadcast", given, WRONG, 2)
        return api("broadcast", given, WRONG, group=[0, 1, 2], **{how: 2})

    stories = {
        0: story(broadcast(1.0)),
        1: story(broadcast((7.0, 8.0))),  # a buffer to be filled: whatever it held
        2: story((EXP, [1.0], [WRONG]), broadcast(WRONG)),
    }
    assert named(stories) == [(2, EXP)]


def test_the_buffer_of_a_rank_that_receives_is_no_evidence():
    """Rank 1 hands over a buffer that held something else; the source's data differ."""
    stories = {
        0: RankStory((Exchange("b", "from_one", "broadcast", peer=0, given_differs=True),), ("", ""), (node("b"),)),
        1: RankStory(
            (Exchange("b", "from_one", "broadcast", peer=0, given_differs=True, result_differs=True),),
            ("", ""),
            (node("b"),),
        ),
    }
    assert named(stories) == [(0, "b")]


def test_a_message_that_differs_came_from_its_sender(story):
    """Through a pipeline of three: what 0 computed wrong arrives at 1, and from there at 2."""
    stories = {
        0: story((EXP, [1.0], [WRONG]), api("send", WRONG, WRONG, 1)),
        1: story(api("recv", 0.0, WRONG, 0), (SIN, [WRONG], [WRONG]), api("isend", WRONG, WRONG, dst=2)),
        2: story(api("irecv", 0.0, WRONG, src=1), (SIN, [WRONG], [WRONG])),
    }
    layers = connect(stories).layers
    assert layers == {(0, 0): 1, (1, 0): 2, (1, 1): 3, (2, 0): 4}
    assert named(stories) == [(0, EXP)]


def test_what_is_received_without_the_sender_having_differed_is_named(story):
    """The message was changed on its way, or by what was not recorded."""
    stories = {0: story(api("send", 1.0, 1.0, 1)), 1: story(api("recv", 0.0, WRONG, 0), (SIN, [WRONG], [WRONG]))}
    assert named(stories) == [(1, "MintDistributed.recv.0.forward")]


def test_a_message_without_a_partner_stands_alone(story):
    stories = {
        0: story((EXP, [1.0], [2.0]), api("send", 2.0, 2.0, 3)),
        1: story(api("recv", 0.0, WRONG, 7), (SIN, [WRONG], [WRONG])),
    }
    connected = connect(stories)
    assert connected.sources(1, 0) == connected.sources(0, 0) == []
    assert named(stories) == [(1, "MintDistributed.recv.0.forward")]


def test_messages_are_joined_in_their_order_and_recv_from_anyone_takes_what_is_left(story):
    stories = {
        0: story(api("send", 1.0, 1.0, 1), api("send", 2.0, 2.0, 1, number=1), api("send", 3.0, 3.0, 2, number=2)),
        1: story(api("recv", 0.0, 1.0, 0), api("recv", 0.0, 2.0, src=0, number=1)),
        2: story(api("recv", 0.0, 3.0)),
    }
    connected = connect(stories)
    assert [connected.sources(*at) for at in ((1, 0), (1, 1), (2, 0))] == [[(0, 0)], [(0, 1)], [(0, 2)]]


def test_a_reduction_to_one_rank_tells_nothing_at_the_others(story):
    """`reduce` to rank 1: what it leaves in the others' tensors is not looked at; what they put in is."""
    stories = {
        0: story((EXP, [1.0], [2.0]), api("reduce", 2.0, WRONG, 1)),
        1: story((EXP, [1.0], [2.0]), api("reduce", 2.0, WRONG, 1)),
        2: story((EXP, [1.0], [2.0]), (SIN, [2.0], [WRONG]), api("reduce", WRONG, WRONG, 1)),
    }
    assert named(stories) == [(2, SIN)]
    assert named({rank: stories[rank] for rank in (0, 1)}) == [(1, "MintDistributed.reduce.0.forward")]


def test_slices_of_a_reduce_scatter_that_differ_came_from_any_rank(story):
    """The first argument is the buffer for the slice, and holds whatever it held."""
    clean = api("reduce_scatter_tensor", (7.0, 8.0), WRONG, 2.0)
    dirty = api("reduce_scatter_tensor", (7.0, 8.0), WRONG, WRONG)
    stories = {
        0: story((EXP, [1.0], [2.0]), clean),
        1: story((EXP, [1.0], [WRONG]), dirty),
    }
    assert stories[0].exchanges[0].given_differs is False
    assert stories[1].exchanges[0].given_differs is True
    assert named(stories) == [(1, EXP)]


def test_of_a_tensor_alone_the_first_argument_is_no_buffer(story):
    (exchange,) = story(("Distributed.reduce_scatter_tensor.0.forward", [WRONG], [WRONG])).exchanges
    assert exchange.given_differs


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
    told = summarise(comparison, locate(comparison)).exchanges
    assert [(e.traffic, e.word, e.peer) for e in told] == [("send", "send", 1), ("receive", "send", 3)]


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
    told = summarise(comparison, locate(comparison)).exchanges
    assert [e.group for e in told] == [(0, 2), None, "2-1163", None, "3-77"]


def test_a_group_of_all_ranks_is_the_same_with_and_without_its_name(story):
    stories = {0: story(reduce(0, 1.0, 1.0, group=[0, 1])), 1: story(reduce(0, 1.0, 1.0))}
    assert connect(stories).sources(0, 0) == [(1, 0)]


def test_stories_that_contradict_each_other_are_gone_along_all_the_same():
    """Two exchanges in crossed order, as where one was not recorded on one rank."""
    a, b = Exchange("a", "all", "all_reduce"), Exchange("b", "all", "all_gather")
    stories = {0: RankStory((a, b), ("", "", "")), 1: RankStory((b, a), ("", "", ""))}
    layers = connect(stories).layers
    assert set(layers) == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert min(layers.values()) >= 1


def test_hundreds_of_ranks_are_searched_in_seconds_and_little_memory():
    """Every rank hands on what rank 200 began between its reductions 300 and 301."""
    stories = {}
    for rank in range(256):
        exchanges = tuple(
            Exchange(
                f"all_reduce.{n}",
                "all",
                "all_reduce",
                given_differs=n > 301 or (n == 301 and rank == 200),
                result_differs=n >= 301,
            )
            for n in range(400)
        )
        between = [""] * 401
        between[302:] = ["mul"] * 99
        if rank == 200:
            between[301] = "add"
        stories[rank] = RankStory(exchanges, tuple(between), (node("add"), node("all_reduce.301"), node("mul")))
    tracemalloc.start()
    start = time.perf_counter()
    found = named(stories)
    seconds, (_, peak) = time.perf_counter() - start, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == [(200, "add")]
    assert seconds < 30
    assert peak < 300e6


class Training:
    """Ranks that compute and exchange in one order; what is wrong is handed on, and the true origins are known."""

    def __init__(self, ranks):
        self.is_wrong = [False] * ranks
        self.exchanges = [[] for _ in range(ranks)]
        self.between = [[""] for _ in range(ranks)]
        self.origins = []
        self.count = 0

    def compute(self, rank, is_fault):
        self.count += 1
        name = f"call {self.count}"
        if is_fault and not self.is_wrong[rank]:
            self.origins.append((rank, name))
            self.is_wrong[rank] = True
        if self.is_wrong[rank] and not self.between[rank][-1]:
            self.between[rank][-1] = name

    def exchange(self, ranks, traffic, root):
        group = tuple(ranks)
        sources = [rank for rank in ranks if traffic in ("all", "to_one") or rank == root]
        was_wrong = list(self.is_wrong)
        for rank in ranks:
            made = Exchange(f"{traffic} {len(self.exchanges[rank])}", traffic, traffic, group, root)
            if made.takes(rank):
                self.is_wrong[rank] = any(was_wrong[source] for source in sources)
            self._add(rank, made, was_wrong[rank], self.is_wrong[rank])

    def message(self, sender, receiver):
        self._add(sender, Exchange("send", "send", "send", None, receiver), self.is_wrong[sender], False)
        self.is_wrong[receiver] = self.is_wrong[sender]
        made = Exchange(f"recv {len(self.exchanges[receiver])}", "receive", "send", None, sender)
        self._add(receiver, made, True, self.is_wrong[receiver])

    def _add(self, rank, exchange, given, result):
        self.exchanges[rank].append(replace(exchange, given_differs=given, result_differs=result))
        self.between[rank].append("")

    def stories(self):
        names = [
            {e.name for e in made} | {*between} for made, between in zip(self.exchanges, self.between, strict=True)
        ]
        return {
            rank: RankStory(tuple(made), tuple(self.between[rank]), tuple(map(node, names[rank])))
            for rank, made in enumerate(self.exchanges)
        }


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_only_what_differs_by_itself_is_named_whatever_the_ranks_exchange(data):
    ranks = data.draw(st.integers(2, 5))
    training = Training(ranks)
    one = st.integers(0, ranks - 1)
    for _ in range(data.draw(st.integers(1, 25))):
        what = data.draw(st.sampled_from(["compute", "compute", "all", "from_one", "to_one", "message"]))
        if what == "compute":
            training.compute(data.draw(one), data.draw(st.integers(0, 5)) == 0)
            continue
        group = data.draw(st.lists(one, min_size=2, max_size=ranks, unique=True))
        if what == "message":
            training.message(*group[:2])
        else:
            training.exchange(sorted(group), what, -1 if what == "all" else group[0])
    found = named(training.stories())
    assert set(found) <= set(training.origins)
    assert bool(found) == bool(training.origins)
    if len(training.origins) == 1:
        assert found == training.origins


# What is told.


def test_uninitialised_memory_is_never_named(story):
    stories = {0: story(("Torch.empty.0.forward", [], [WRONG]), ("Tensor.__setitem__.0.forward", [1.0], [WRONG]))}
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
    (first,) = first_over_ranks({4: summarise(comparison, locate(comparison))})
    (told,) = as_objects([first])["rank_4"]
    assert list(told) == ["op_name", "data_info", "construct_info", "stack_info"]
    assert told["op_name"] == EXP
    assert told["construct_info"] == ["Cell.net.Net.forward.0", "Cell.net.fc.Dense.forward.0", EXP]
    assert told["stack_info"] == ["File /home/user/net.py, line 3, in f, \n y"]
    assert list(told["data_info"]) == ["input_args", "input_kwargs", "output"]
    (output,) = told["data_info"]["output"]
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
    ((rank, (told,)),) = json.loads(first.read_text()).items()
    assert (rank, told["op_name"], told["step"]) == ("rank_1", EXP, 0)
    (calls,) = (tmp_path / "out" / "step0").glob("compare_result_rank0_*.json")
    text = json.loads(calls.read_text())
    assert {name: entry["is_same"] for name, entry in text.items()} == {
        EXP: True,
        "Distributed.all_reduce.0.forward": False,
        SIN: False,
    }
    assert [row["NPU Name"] for row in text[EXP]["op_items"]] == [f"{EXP}.input.0", f"{EXP}.output.0"]
