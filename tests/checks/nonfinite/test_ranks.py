"""The first origin among several ranks; every expected call and rank follows from the records by hand."""

import pytest
from story import Rank, group, value

from msprobe.findings.catalogue import nonfinite as kinds

EXP, LOG, SIN = (f"Torch.{word}.0.forward" for word in ("exp", "log", "sin"))


def reduce(rank, number, before, after, *ranks, word="all_reduce"):
    """A collective in place, in a group of ranks if there are any."""
    keywords = {"group": group(*ranks)} if ranks else {}
    return rank.call(f"Distributed.{word}.{number}.forward", [before], [after], **keywords)


def named(found):
    return [(one.rank, one.name) for one in found.first]


def test_the_example_of_the_specification(answer):
    ranks = {n: reduce(Rank(), 0, 1, 2) for n in range(2)}
    for n, rank in ranks.items():
        rank.call("Torch.mul.0.forward", [2, 3], ["nan" if n else 3])
        reduce(rank, 1, "nan" if n else 3, "nan").call(LOG, ["nan"], ["nan"])
    assert named(answer(ranks)) == [(1, "Torch.mul.0.forward")]


def test_before_communication_every_rank_is_named(answer):
    ranks = {n: Rank().call(EXP, [1], [1 if n == 1 else "inf"]) for n in range(3)}
    for n, rank in ranks.items():
        reduce(rank, 0, 1 if n == 1 else "inf", "inf")
    assert named(answer(ranks)) == [(0, EXP), (2, EXP)]


def test_after_the_last_communication(answer):
    ranks = {n: reduce(Rank(), 0, 1, 2).call(EXP, [2], ["nan" if n else 2]) for n in range(2)}
    assert named(answer(ranks)) == [(1, EXP)]


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_a_sum_that_overflows_is_named_on_every_rank(answer, size):
    ranks = {n: reduce(Rank(), 0, 1, "4 inf", *range(size)).call(EXP, ["4 inf"], ["nan"]) for n in range(size)}
    found = answer(ranks)
    assert named(found) == [(n, "Distributed.all_reduce.0.forward") for n in range(size)]
    assert {one.kind for one in found.first} == {kinds.EXCHANGE}


@pytest.mark.parametrize("size", [2, 4, 8])
@pytest.mark.parametrize("wrong", [0, 1])
def test_one_wrong_rank_of_many(answer, size, wrong):
    ranks = {}
    for n in range(size):
        bad = n == wrong
        rank = reduce(Rank(), 0, 1, 2).call(LOG, [2], ["1 nan" if bad else 2])
        ranks[n] = reduce(rank, 1, "1 nan" if bad else 2, "1 nan").call(EXP, ["1 nan"], ["1 nan"])
    assert named(answer(ranks)) == [(wrong, LOG)]


@pytest.mark.parametrize("wrong", range(4))
def test_two_groups_that_know_nothing_of_each_other(answer, wrong):
    """Ranks {0, 1} and {2, 3} reduce among themselves, then {0, 2} and {1, 3}: the other pair gets it in the end."""
    ranks = {}
    for n in range(4):
        first, second = (0, 1) if n < 2 else (2, 3), (0, 2) if n % 2 == 0 else (1, 3)
        mine = "nan" if n == wrong else 1
        rank = Rank().call(EXP, [1], [mine])
        got = "nan" if wrong in first else 1
        reduce(rank, 0, mine, got, *first).call(SIN, [got], [got])
        ranks[n] = reduce(rank, 1, got, "nan", *second).call(LOG, ["nan"], ["nan"])
    assert named(answer(ranks)) == [(wrong, EXP)]


def test_the_n_th_call_of_one_group_is_not_that_of_another(answer):
    """Rank 1 is in both groups, so the first call in group {1, 2} is its second, and the first of rank 2."""
    ranks = {
        0: reduce(Rank(), 0, 1, 1, 0, 1),
        1: reduce(reduce(Rank(), 0, 1, 1, 0, 1), 1, 1, "nan", 1, 2).call(SIN, ["nan"], ["nan"]),
        2: reduce(Rank().call(EXP, [1], ["nan"]), 0, "nan", "nan", 1, 2),
    }
    assert named(answer(ranks)) == [(2, EXP)]


def test_behind_an_exchange_of_another_group_is_later(answer):
    """Both begin by themselves; that of rank 0 has no exchange before it, that of rank 3 has two."""
    ranks = {
        0: reduce(Rank().call(EXP, [1], ["nan"]), 0, "nan", "nan", 0, 1),
        1: reduce(Rank(), 0, 1, "nan", 0, 1),
        2: reduce(reduce(Rank(), 0, 1, 1, 2, 3), 1, 1, 1, 2, 3),
        3: reduce(reduce(Rank(), 0, 1, 1, 2, 3), 1, 1, 1, 2, 3).call(LOG, [1], ["nan"]),
    }
    found = answer(ranks)
    assert named(found) == [(0, EXP)]
    assert [(one.rank, one.name) for one in found.others] == [(3, LOG)]


def test_handles_that_are_waited_for_in_another_order(answer):
    """Rank 0 waits for the second call first; its NaN went into the first, and comes out there on rank 1."""
    ranks = {
        0: reduce(reduce(Rank().call(EXP, [1], ["nan"]), 1, 1, 2), 0, "nan", "nan"),
        1: reduce(reduce(Rank(), 0, 1, "nan"), 1, 1, 2),
    }
    assert named(answer(ranks)) == [(0, EXP)]
    assert not answer_of_kind(answer, ranks, kinds.EXCHANGE)


def answer_of_kind(answer, ranks, kind):
    found = answer(ranks, step=1)
    return [one for one in (*found.first, *found.others) if one.kind is kind]


def test_the_result_of_a_handle_that_nobody_waited_for(answer):
    """Rank 0's result was not recorded; what it computes with afterwards came from rank 1."""
    quiet = Rank().call("Distributed.all_reduce.0.forward", [1], [], missing=["output"])
    ranks = {
        0: quiet.call(SIN, ["nan"], ["nan"]),
        1: reduce(Rank().call(EXP, [1], ["nan"]), 0, "nan", "nan"),
    }
    assert named(answer(ranks)) == [(1, EXP)]


def test_unrecorded_results_that_nobody_can_explain(answer):
    ranks = {n: Rank().call("Distributed.all_reduce.0.forward", [1], [], missing=["output"]) for n in range(2)}
    ranks[0].call(SIN, ["nan"], ["nan"])
    (found,) = answer(ranks).first
    assert (found.rank, found.name, found.kind) == (0, SIN, kinds.UNRECORDED)
    assert found.source == "Distributed.all_reduce.0.forward"


def test_a_rank_that_is_not_in_the_dump(answer):
    ranks = {n: reduce(Rank(), 0, 1, "nan", 0, 1, 2) for n in (0, 1)}
    found = answer(ranks)
    assert {(one.kind, one.ranks) for one in found.first} == {(kinds.MISSING_RANK, (2,))}


def test_a_gap_in_the_numbers_of_the_ranks(answer):
    found = answer({n: reduce(Rank(), 0, 1, "nan") for n in (0, 2)})
    assert {(one.kind, one.ranks) for one in found.first} == {(kinds.MISSING_RANK, (1,))}


@pytest.mark.parametrize("words", [("send", "recv"), ("isend", "irecv"), ("isend", "recv")])
def test_a_message_is_charged_to_its_sender(answer, words):
    sent, received = (f"Distributed.{word}.0.forward" for word in words)
    ranks = {
        0: Rank().call(received, ["nan"], ["nan"], src=value(1)).call(SIN, ["nan"], ["nan"]),
        1: Rank().call(EXP, [1], ["nan"]).call(sent, ["nan"], [], dst=value(0)),
    }
    assert named(answer(ranks)) == [(1, EXP)]


def test_the_buffer_of_a_receiver_says_nothing(answer):
    ranks = {
        0: Rank().call("Distributed.recv.0.forward", ["nan"], [1], src=value(1)).call(SIN, [1], [1]),
        1: Rank().call("Distributed.send.0.forward", [1], [], dst=value(0)),
    }
    assert not answer(ranks).first


@pytest.mark.parametrize(("root", "expected"), [(1, [(1, EXP)]), (0, [])])
def test_a_broadcast_spreads_the_roots_values_only(answer, root, expected):
    """Rank 1's own value is overwritten unless it is the root."""
    ranks = {n: Rank().call(EXP, [1], ["nan" if n == root == 1 else 1]) for n in range(2)}
    for n, rank in ranks.items():
        before = "nan" if n == 1 else 1
        rank.call("Distributed.broadcast.0.forward", [before, value(root)], ["nan" if root else 1])
    assert named(answer(ranks)) == expected


def test_a_pipeline_of_four(answer):
    """Each stage sends on; stage 1 makes the NaN, stage 3 is where it is seen."""
    ranks = {}
    for n in range(4):
        got, gives = ("nan" if n > 1 else 1), ("nan" if n >= 1 else 1)
        rank = Rank()
        if n:
            rank.call("Distributed.recv.0.forward", [0, value(n - 1)], [got])
        rank.call(EXP, [got], [gives])
        if n < 3:
            rank.call("Distributed.send.0.forward", [gives, value(n + 1)], [])
        ranks[n] = rank
    assert named(answer(ranks)) == [(1, EXP)]


def test_a_primitive_that_reduces_backward(answer):
    ranks = {}
    for n in range(2):
        rank = Rank().call("Primitive.reduce.AllReduce.0.forward", [1], [2]).call(EXP, [2], [2])
        bad = "inf" if n else 1
        rank.call("Torch.exp.0.backward", [1], [bad])
        ranks[n] = rank.call("Primitive.reduce.AllReduce.0.backward", [bad], ["inf"])
    assert named(answer(ranks)) == [(1, "Torch.exp.0.backward")]


def bare(rank, number, *ranks):
    """A collective as task overflow_check records it where all is finite: without statistics."""
    what = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 2]}
    keywords = {"group": group(*ranks)} if ranks else {}
    return rank.call(f"Distributed.all_reduce.{number}.forward", [what], [what], **keywords)


def ended(rank):
    rank.is_over = True
    return rank


@pytest.mark.parametrize("numbers", [(), (0, 1)], ids=["world", "group"])
def test_a_rank_whose_collection_ended_before_an_exchange_is_where_the_others_received_from(answer, numbers):
    wrong = ended(bare(Rank(), 0, *numbers).call(LOG, [1], ["4 nan"]))
    other = ended(reduce(bare(Rank(), 0, *numbers), 1, 1, "4 nan", *numbers))
    assert named(answer({0: other, 1: wrong}, task="overflow_check")) == [(1, LOG)]


def test_an_exchange_that_overflows_itself_is_named_on_all_its_ranks(answer):
    ranks = {n: ended(reduce(bare(Rank(), 0), 1, 1, "4 inf")) for n in range(2)}
    found = answer(ranks, task="overflow_check")
    assert named(found) == [(n, "Distributed.all_reduce.1.forward") for n in range(2)]
    assert {one.kind for one in found.first} == {kinds.EXCHANGE}


def test_a_rank_that_ended_in_another_group_gave_nothing_to_an_exchange(answer):
    first = {n: ended(reduce(Rank(), 0, 1, "4 inf", 0, 1)) for n in (0, 1)}
    found = answer({**first, 2: ended(bare(Rank(), 0, 2, 3).call(LOG, [1], ["4 nan"]))}, task="overflow_check")
    assert (0, "Distributed.all_reduce.0.forward") in [(o.rank, o.name) for o in (*found.first, *found.others)]


def test_what_came_from_an_ended_rank_is_no_fault_of_the_exchange_however_early_that_is(answer):
    """Rank 1 had exchanged more with rank 2 before its overflow than rank 0 with anybody."""
    busy = {rank: Rank() for rank in (1, 2)}
    for rank in busy.values():
        for number in range(3):
            bare(rank, number, 1, 2)
    busy[1] = ended(busy[1].call(LOG, [1], ["4 nan"]))
    other = ended(reduce(Rank(), 0, 1, "4 nan", 0, 1))
    assert named(answer({0: other, **busy}, task="overflow_check")) == [(1, LOG)]
