"""What the columns say of all pairs at once is what is said of each pair alone."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.compare.core.reason import Cause
from msprobe.compare.judge.judged import EQUAL
from msprobe.compare.judge.pairs import PairJudge, judge_columns
from msprobe.compare.judge.verdict import GRADES
from msprobe.compare.match.dumps import match
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
        "digest": draw(st.sampled_from(["", "0badcafe", "deadbeef", "crc32c:deadbeef"])),
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


def dump(made, framework="mindspore", version=0, lost=()):
    call = Call("Mint.exp.0.forward", tuple(made), missing=tuple(lost), lost=tuple(lost))
    parents = {"Mint.exp.0.forward": None}
    return Dump("there", "there", "statistics", "mix", framework, (call,), parents, format_version=version)


PAIRS = st.integers(1, 6).flatmap(lambda n: st.tuples(*(st.tuples(records(at), records(at)) for at in range(n))))


LOST = st.lists(st.sampled_from([*(f"input.{n}" for n in range(6)), "input", "output", "input.0.1"]), max_size=3)


MADE_BY = [("mindspore", 0), ("mindspore", 1), ("", 0), ("pytorch", 0)]


@given(PAIRS, st.booleans(), st.sampled_from(MADE_BY), LOST, LOST)
def test_every_pair_has_the_verdict_that_it_has_alone(pairs, is_same, made_by, lost_here, lost_there):
    target = dump((t for t, _ in pairs), "mindtorch" if "pytorch" in made_by else "mindspore", lost=lost_here)
    golden = target if is_same else dump((g for _, g in pairs), *made_by, lost_there)
    found = compare(target, golden)
    alone = PairJudge(found.mode, found.pairs)
    for row in range(len(found.grades)):
        judged = found.judged(row)
        verdict, equal = alone(judged.pair, "Mint.exp.0.forward", row)
        # Not the reasons themselves: one NaN in them is not another.
        mine, its = ((v.grade, v.cause, v.reason) for v in (judged.verdict, verdict))
        assert (mine, found.equal[row]) == (its, equal), judged.pair
        assert GRADES[found.grades[row]] == verdict.grade


def test_a_record_without_a_partner_has_the_reason_that_it_has_alone():
    """Also in a call that the other side has, backward ones, and where nothing of a kind was collected."""

    def one(call, *places, part="output"):
        four = Statistics(1.0, 0.0, 0.5, 2.0)
        look = "tensor", "mindspore.Tensor", "Float32", (2,), four
        return Call(call, tuple(Record(f"{call}.{part}.{at}", part, (str(at),), *look) for at in places))

    def made(*calls):
        return Dump("there", "there", "statistics", "mix", "mindspore", calls, {call.name: None for call in calls})

    both, left, right = "Mint.exp.0.forward", "Mint.sin.0.forward", "Mint.cos.0.forward"
    target = made(one(both, 0, 1), one(left, 0, 1), one("Mint.exp.0.backward", 0, part="input"))
    golden = made(one(both, 0, 2), one(right, 0))
    found = compare(target, golden)
    alone = PairJudge(found.mode, found.pairs)
    for row in range(len(found.grades)):
        judged = found.judged(row)
        if judged.verdict.cause is not Cause.REWRITTEN:  # that is known of whole runs alone
            assert judged.verdict == alone(judged.pair, found.pairs.name(int(found.pairs.call_of[row])), row)[0]
    reasons = {found.judged(row).pair.record.name: found.reason(row) for row in range(len(found.grades))}
    of_target, of_golden = "Only on the target side.", "Only on the golden side."
    unused = "Only on the target side."
    assert reasons == {
        f"{both}.output.0": "",
        f"{both}.output.1": of_target,
        f"{both}.output.2": of_golden,
        f"{left}.output.0": unused,
        f"{left}.output.1": unused,
        f"{right}.output.0": of_golden,
        "Mint.exp.0.backward.input.0": f"{of_target[:-1]}: values of this kind were not collected on the golden side.",
    }


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


def test_exactly_what_is_allowed_passes():
    """The golden's scale is 1: 1e-5 + 1.3e-6."""

    def one(maximum):
        s = Statistics(maximum, -1.0, 0.0, 1.0)
        return dump([Record("a.input.0", "input", ("0",), "tensor", "T", "Float32", (2, 2), s)])

    allowed = 1e-5 + 1.3e-6
    assert compare(one(allowed), one(0.0)).counts == {"pass": 1}
    assert compare(one(math.nextafter(allowed, 1)), one(0.0)).counts == {"warning": 1}


@pytest.mark.parametrize("number", [int, float])
def test_mean_and_norm_of_integers_are_rounded_by_each_tool_in_its_way(number):
    """Of 3, 1, 3, 1, 7, 2, 11: sqrt(194) as float64 and as float32, which are apart by 2.3e-8 of it."""

    def one(norm, *made_by):
        s = Statistics(number(11), number(1), 4.0, norm)
        return dump([Record("a.input.0", "input", ("0",), "tensor", "T", "Int64", (7,), s)], *made_by)

    target, norm = one(194**0.5, "mindspore", 1), 13.928388595581055
    assert compare(target, one(norm, "mindspore", 0)).counts == {"pass": 1}
    assert compare(target, one(norm, "pytorch", 1)).counts == {"pass": 1}
    assert compare(target, one(norm, "mindspore", 1)).counts == {"error": 1}, "one tool rounds alike"
    assert compare(target, one(norm * 1.00005, "mindspore", 0)).counts == {"error": 1}


def test_what_is_not_finite_is_the_reason_before_what_differs_by_any_amount():
    """Of a golden of zeros nothing is allowed, so a mean that differs is beyond it without end, as a NaN is."""

    def one(mean, norm):
        s = Statistics(0.0, 0.0, mean, norm)
        return dump([Record("a.input.0", "input", ("0",), "tensor", "T", "Float32", (2, 2), s)])

    found = compare(one(0.0, 0.0), one(1.0, math.nan))
    assert found.reason(0) == "NaN or infinity differs: the norm is 0.0, golden nan."


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
    assert "uninitialized memory" in found.reason(1)
    assert compare(one("Mint.zeros.0.forward", 1.0), one("Mint.zeros.0.forward", 7.0)).counts["error"] == 1


def test_four_times_nothing_says_nothing():
    """Of a dtype without statistics a dump may tell four times null: nothing was compared, so nothing passes."""

    def one(shape, number):
        s = Statistics(number, number, number, number)
        return dump([Record("a.input.0", "input", ("0",), "tensor", "T", "Float8", shape, s)])

    assert compare(one((3,), None), one((3,), None)).counts == {"unjudged": 1}
    assert compare(one((3,), None), one((3,), 1.0)).counts == {"unjudged": 1}
    assert compare(one((0,), None), one((0,), None)).counts == {"pass": 1}


def test_pairs_of_very_many_looks_are_told_apart():
    """46,341 looks on each side have more pairs than 31 bits count."""

    def many():
        s = Statistics(1.0, 1.0, 1.0, 1.0)
        return dump(
            Record(f"a.input.{n}", "input", (str(n),), "tensor", "T", "Float32", (n + 1,), s) for n in range(46_500)
        )

    pairs = match(many(), many())
    found = judge_columns(pairs, by_digest=False, by_statistics=True, same_rounding=True)
    assert found.settled.all()
