"""What the columns say of all pairs at once is what is said of each pair alone."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msprobe.compare.judge.judged import EQUAL
from msprobe.compare.judge.one_by_one import OneByOne
from msprobe.compare.judge.verdict import GRADES
from msprobe.compare.run import compare
from msprobe.store.record import Call, Dump, Record, Statistics

NUMBERS = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, 1.0000001, 1.00002, -1.0, 2.0, 1e-30, 1e30, math.nan, math.inf, -math.inf]),
    st.floats(-10, 10),
)
ODD = st.one_of(st.none(), st.booleans(), st.integers(-(2**60), 2**60))


@st.composite
def tensors(draw):
    made = None
    if draw(st.integers(0, 9)):
        number = NUMBERS if draw(st.integers(0, 4)) else st.one_of(NUMBERS, ODD)
        true_count = draw(st.sampled_from([None, None, None, 1, 2]))
        made = Statistics(draw(number), draw(number), draw(number), draw(number), true_count)
    return {
        "type": "mindspore.Tensor",
        "dtype": draw(st.sampled_from(["Float32", "Float32", "Float32", "Float16", "Int64", "Bool"])),
        "shape": draw(st.sampled_from([(2, 2), (2, 2), (2, 2), (), (1,), (0,), None])),
        "statistics": made,
        "digest": draw(st.sampled_from(["", "0badcafe", "deadbeef"])),
        "gradient": draw(st.sampled_from(["own", "own", "own", "accumulated", "unavailable"])),
    }


@st.composite
def records(draw, place):
    kind = draw(st.sampled_from(["tensor", "tensor", "tensor", "value", "null"]))
    path = (str(place),)
    name = f"Mint.exp.0.forward.input.{place}"
    if kind == "tensor":
        return Record(name, "input", path, "tensor", **draw(tensors()))
    if kind == "null":
        return Record(name, "input", path, "null", "")
    value = draw(st.sampled_from([1, 1.0, True, math.nan, "x", None, (1, 2)]))
    return Record(name, "input", path, "value", type(value).__name__, value=value)


def dump(made):
    call = Call("Mint.exp.0.forward", tuple(made))
    return Dump("there", "there", "statistics", "mix", "mindspore", (call,), {"Mint.exp.0.forward": None})


PAIRS = st.integers(1, 6).flatmap(lambda n: st.tuples(*(st.tuples(records(at), records(at)) for at in range(n))))


@settings(max_examples=400, deadline=None)
@given(PAIRS, st.booleans())
def test_every_pair_has_the_verdict_that_it_has_alone(pairs, is_same):
    target = dump(t for t, _ in pairs)
    golden = target if is_same else dump(g for _, g in pairs)
    found = compare(target, golden)
    alone = OneByOne(target, golden, found.mode)
    for row in range(len(found.grades)):
        judged = found.judged(row)
        verdict, equal = alone(judged.pair, "Mint.exp.0.forward")
        assert (judged.verdict, found.equal[row]) == (verdict, equal), judged.pair
        assert GRADES[found.grades[row]] == verdict.grade


def test_an_equal_dump_is_equal_in_every_row_that_can_be_judged():
    made = Record("a.input.0", "input", ("0",), "tensor", "T", "Float32", (2,), Statistics(1.0, math.nan, 0.5, 2.0))
    found = compare(dump([made]), dump([made]))
    assert found.equal.tolist() == [EQUAL]
    assert found.counts == {"pass": 1}


@pytest.mark.parametrize(
    ("golden", "grade"),
    [
        (1.0, "pass"),
        (1.00001, "pass"),
        (1.00005, "warning"),
        (1.001, "error"),
        (math.inf, "error"),
        (math.nan, "error"),
    ],
)
def test_grades_by_hand(golden, grade):
    """float32: 1.3e-6 * 1 + 1e-5 * min(1, |golden|) = 1.13e-5 allowed, ten times that is a warning."""

    def one(maximum):
        s = Statistics(maximum, 0.0, 0.0, 0.0)
        return dump([Record("a.input.0", "input", ("0",), "tensor", "T", "Float32", (2, 2), s)])

    found = compare(one(1.0), one(golden))
    assert found.counts == {grade: 1}
    assert found.reason(0) == compare(one(1.0), one(golden)).judged(0).verdict.reason
    assert bool(found.reason(0)) == (grade != "pass")


def test_uninitialised_memory_is_never_judged():
    def one(name, maximum):
        s = Statistics(maximum, 0.0, 0.0, 0.0)
        rows = [
            Record(f"{name}.input.0", "input", ("0",), "value", "int", value=3),
            Record(f"{name}.output.0", "output", ("0",), "tensor", "T", "Float32", (3,), s),
        ]
        return Dump("there", "there", "statistics", "L1", "mindspore", (Call(name, tuple(rows)),))

    found = compare(one("Mint.empty.0.forward", 1.0), one("Mint.empty.0.forward", 7.0))
    assert [j.verdict.grade for j in found.calls[0].judged] == ["pass", "unjudged"]
    assert "uninitialised memory" in found.reason(1)
    assert compare(one("Mint.zeros.0.forward", 1.0), one("Mint.zeros.0.forward", 7.0)).counts["error"] == 1
