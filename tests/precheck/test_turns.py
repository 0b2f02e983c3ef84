"""Whose turn it is. Needs neither framework."""

from msprobe.precheck.judge import Status
from msprobe.precheck.turns import Turns


def key(function, *shape, direction="forward"):
    return function, direction, (("input.0", "Float32", shape),)


def step(turns, calls, most=100):
    """One step: places of the calls that were checked, of which the budget allows so many."""
    found = []
    for place, call in enumerate(calls):
        if turns.count(call) and len(found) < most:
            turns.note_checked(call, Status.PASS)
            found.append(place)
    turns.end_step()
    return found


def test_each_distinct_call_is_checked_once_and_another_layer_in_the_next_round():
    turns, calls = Turns(), [key("mul", 2), key("mul", 2), key("mul", 3), key("add", 2), key("mul", 2)]
    assert step(turns, calls) == [0, 2, 3]
    assert step(turns, calls) == [1, 2, 3]
    assert step(turns, calls) == [2, 3, 4]
    assert step(turns, calls) == [0, 2, 3]


def test_what_had_no_time_comes_before_anything_is_checked_again():
    turns, calls = Turns(), [key("mul", n) for n in range(5)]
    assert [step(turns, calls, most=2) for _ in range(3)] == [[0, 1], [2, 3], [4]]
    assert step(turns, calls, most=2) == [0, 1]
    assert (turns.waiting, turns.known) == (0, 5)


def test_what_can_never_be_checked_holds_nobody_up():
    turns, calls = Turns(), [key("dropout", 2), key("mul", 2)]
    step(turns, calls)
    turns[calls[0]].closed = "random"
    assert step(turns, calls) == [1]
    assert not turns.is_due("dropout")
    assert turns.is_due("mul")
    assert turns.is_due("new")


def test_a_call_that_awaits_its_gradients_has_its_turn():
    turns, call = Turns(), key("mul", 2, direction="backward")
    assert turns.count(call)
    turns[call].is_awaited = True
    assert not turns.count(call)
    for _ in range(3):
        turns.note_missing(call, 3)
    turns.end_step()
    assert turns[call].closed
    assert not turns.count(call)


def test_a_call_of_another_shape_that_never_comes_again_holds_nobody_up():
    turns = Turns()
    assert step(turns, [key("mul", 7), key("mul", 2)], most=0) == []
    assert step(turns, [key("mul", 2)]) == [0]
    assert step(turns, [key("mul", 2)]) == [0]
