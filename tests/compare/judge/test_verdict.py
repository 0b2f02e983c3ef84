"""Verdicts: what passes, what does not, and what is never judged."""

import math

import numpy as np
import pytest

from msprobe.compare.core.reason import Cause, Reason, Why
from msprobe.compare.run import compare


def verdicts(target, golden):
    found = compare(target.dump(), golden.dump())
    return [judged.verdict for call in found.calls for judged in call.judged], found


def one(builder, first, second, **more):
    """The verdict on one output, first against second."""
    t = builder("t", **more).call("Mint.exp.0.forward", [], [first])
    g = builder("g", **more).call("Mint.exp.0.forward", [], [second])
    (verdict,), found = verdicts(t, g)
    return verdict, found


MODES = ["statistics", "tensor", "digest"]


@pytest.mark.parametrize("mode", MODES)
def test_equal_tensors_pass(builder, mode):
    verdict, found = one(builder, 1.0, 1.0, mode=mode)
    assert (verdict.grade, verdict.reason, found.is_clean) == ("pass", "", True)


@pytest.mark.parametrize("mode", ["statistics", "tensor"])
@pytest.mark.parametrize(
    ("difference", "grade"),
    [(0.0, "pass"), (5e-6, "pass"), (1e-4 * 0.9, "warning"), (1e-3, "error"), (math.nan, "error")],
)
def test_grades_of_float32(builder, mode, difference, grade):
    """Allowed at 1.0 is 1e-5 + 1.3e-6; ten times that is a warning."""
    base = np.array([1.0, 0.5, 0.25, 0.125], np.float32)
    other = base + np.array([difference, 0, 0, 0], np.float32)
    verdict, found = one(builder, other, base, mode=mode)
    assert verdict.grade == grade
    assert bool(verdict.reason) == (grade != "pass")
    assert found.is_clean == (grade == "pass")


def test_the_reason_of_an_error_names_place_amount_and_limit(builder):
    golden = np.zeros((2, 3), np.float32) + 1
    target = golden.copy()
    target[1, 2] = 1.5
    verdict, _ = one(builder, target, golden, mode="tensor")
    assert verdict.reason == (
        "1 of 6 elements beyond 1.3e-06*|golden| + 1e-05*min(1, max|golden|), worst at [1, 2] by 4.42e+04 times; "
        "largest absolute difference 0.5."
    )


@pytest.mark.parametrize("mode", ["statistics", "tensor"])
@pytest.mark.parametrize("dtype", [np.int32, np.bool_, np.uint8])
def test_integers_and_booleans_must_be_equal(builder, tensor, mode, dtype):
    names = {np.int32: "Int32", np.bool_: "Bool", np.uint8: "UInt8"}
    golden = np.array([0, 0, 1], dtype)
    target = np.array([1, 0, 1], dtype) if dtype is not np.bool_ else np.array([1, 1, 1], dtype)
    verdict, _ = one(builder, tensor(target, dtype=names[dtype]), tensor(golden, dtype=names[dtype]), mode=mode)
    assert verdict.grade == "error"


@pytest.mark.parametrize("mode", MODES)
def test_another_shape_is_an_error_with_a_reason(builder, mode):
    verdict, _ = one(builder, np.zeros((2, 3), np.float32), np.zeros((3, 2), np.float32), mode=mode)
    assert (verdict.grade, verdict.reason) == ("error", "Shapes differ: [2, 3], golden [3, 2].")


@pytest.mark.parametrize("mode", MODES)
def test_another_dtype_is_an_error_with_a_reason_whatever_the_values(builder, tensor, mode):
    verdict, _ = one(builder, tensor(1.0, dtype="Float16"), tensor(1.0), mode=mode)
    assert (verdict.grade, verdict.reason) == ("error", "Dtypes differ: Float16, golden Float32.")


def test_across_frameworks_a_dtype_of_another_width_is_no_error(builder, tensor):
    t = builder("t").call("Mint.argmax.0.forward", [], [tensor(np.array([1, 2], np.int32), dtype="Int32")])
    inputs = tensor(np.array([1, 2], np.int64), dtype="torch.int64")
    g = builder("g", framework="pytorch").call("Mint.argmax.0.forward", [], [inputs])
    (verdict,), _ = verdicts(t, g)
    assert verdict.grade == "pass"


@pytest.mark.parametrize(
    ("first", "second", "grade"),
    [
        (1, 1, "pass"),
        (0.5, 0.5, "pass"),
        (math.nan, math.nan, "pass"),
        ("same", "valid", "error"),
        (1e-3, 1e-5, "error"),
    ],
)
def test_values_are_equal_or_an_error(builder, value, first, second, grade):
    verdict, _ = one(builder, value(first), value(second))
    assert verdict.grade == grade


def test_a_value_in_the_place_of_a_tensor_is_an_error(builder, value):
    verdict, _ = one(builder, value(1), 1.0)
    assert (verdict.grade, verdict.reason) == ("error", "output.0 is 1, golden a tensor Float32[2, 2].")
    assert one(builder, None, value(2))[0].reason == "output.0 is None, golden 2."


def test_none_on_both_sides_passes(builder):
    assert one(builder, None, None)[0].grade == "pass"


@pytest.mark.parametrize("mode", MODES)
def test_empty_tensors_pass(builder, mode):
    empty = np.zeros((0, 4), np.float32)
    assert one(builder, empty, empty, mode=mode)[0].grade == "pass"


def test_a_record_without_partner_is_unjudged_and_the_comparison_not_clean(builder):
    t = builder("t").call("Mint.split.0.forward", [], [1.0, 2.0])
    g = builder("g").call("Mint.split.0.forward", [], [1.0])
    found, comparison = verdicts(t, g)
    assert [v.grade for v in found] == ["pass", "unjudged"]
    assert found[1].reason == "Only on the target side."
    assert not comparison.is_clean


def test_a_call_without_partner_is_unjudged_and_the_comparison_not_clean(builder):
    t = builder("t").call("Mint.exp.0.forward", [], [1.0]).call("Mint.sin.0.forward", [], [1.0])
    g = builder("g").call("Mint.exp.0.forward", [], [1.0])
    found, comparison = verdicts(t, g)
    assert [v.grade for v in found] == ["pass", "unjudged"]
    assert not comparison.is_clean


@pytest.mark.parametrize("damage", ["missing", "broken"])
def test_a_file_that_cannot_be_read_is_unjudged_never_a_pass(builder, damage):
    t = builder("t", mode="tensor").call("Mint.exp.0.forward", [], [1.0]).call("Mint.sin.0.forward", [], [1.0])
    g = builder("g", mode="tensor").call("Mint.exp.0.forward", [], [1.0]).call("Mint.sin.0.forward", [], [1.0])
    dumps = t.dump(), g.dump()
    file = g.folder / "dump_tensor_data" / "Mint.sin.0.forward.output.0.npy"
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-3])
    comparison = compare(*dumps)
    verdict = comparison.calls[1].judged[0].verdict
    assert verdict.grade == "unjudged"
    assert str(file) in verdict.reason
    assert (verdict.cause, comparison.unjudged, comparison.is_clean) == (Cause.UNREADABLE, {Cause.UNREADABLE: 1}, False)


def test_without_statistics_nothing_is_judged(builder):
    t, g = builder("t").call("Mint.exp.0.forward", [], [1.0]), builder("g").call("Mint.exp.0.forward", [], [1.0])
    record = t.data["Mint.exp.0.forward"]["output"][0]
    for key in ("Max", "Min", "Mean", "Norm"):
        del record[key]
    (verdict,), found = verdicts(t, g)
    assert (verdict.grade, verdict.reason) == ("unjudged", "No statistics on the target side.")
    assert not found.is_clean


@pytest.mark.parametrize(
    ("first", "second", "grade"),
    [
        ("own", "own", "pass"),
        ("accumulated", "accumulated", "pass"),
        ("own", "accumulated", "pass"),
        ("unavailable", "unavailable", "unjudged"),
        ("own", "unavailable", "unjudged"),
    ],
)
def test_gradients_are_judged_where_they_mean_the_same(builder, tensor, first, second, grade):
    verdict, _ = one(builder, tensor(1.0, gradient=first), tensor(1.0, gradient=second))
    assert verdict.grade == grade
    assert bool(verdict.reason) == (grade == "unjudged")


@pytest.mark.parametrize("mode", ["statistics", "tensor"])
def test_a_contribution_that_is_not_the_whole_gradient_is_unjudged(builder, tensor, mode):
    verdict, _ = one(builder, tensor(1.0, gradient="own"), tensor(2.0, gradient="accumulated"), mode=mode)
    assert (verdict.grade, verdict.cause) == ("unjudged", Cause.OTHER_GRADIENT)


@pytest.mark.parametrize("wrong", [0.0, 1.0])
def test_a_sum_that_is_compared_as_an_incoming_gradient_is_exempt(builder, tensor, wrong):
    """The norm's input has two users: one side has the norm's contribution, the other what both contribute."""
    dumps = []
    for side, given, gradient in (("target", tensor(1.0, gradient="own"), 5.0 + wrong), ("golden", None, 5.0)):
        build = builder(side)
        build.call("Cell.fc.Dense.forward.0", [tensor(0.5)], [tensor(3.0)])
        build.call("Cell.norm.Norm.forward.0", [tensor(3.0)], [tensor(4.0)])
        handed_on = given or tensor(gradient, gradient="accumulated")
        build.call("Cell.norm.Norm.backward.0", [tensor(6.0)], [handed_on])
        build.call("Cell.fc.Dense.backward.0", [tensor(gradient)], [tensor(7.0)])
        dumps.append(build.dump())
    comparison = compare(*dumps)
    assert comparison.unjudged == {Cause.SUMMED: 1}
    assert comparison.is_clean is (wrong == 0.0)


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_calls_that_the_other_level_leaves_out_are_exempt(builder, tensor, level):
    dumps = []
    for side, of in (("target", "mix"), ("golden", level)):
        build = builder(side, level=of)
        if side == "target":
            build.call("Mint.exp.0.forward", [tensor(1.0)], [tensor(2.0)], parent="Cell.fc.Fc.forward.0")
        build.call("Cell.fc.Fc.forward.0", [tensor(1.0)], [tensor(2.0)])
        dumps.append(build.dump())
    comparison = compare(*dumps)
    assert comparison.is_clean is (level == "L0")
    assert (Cause.OTHER_LEVEL in comparison.unjudged) is (level == "L0")


def test_the_reason_names_the_level_that_leaves_out_a_call(builder):
    target = builder("target", level="L1").call("Mint.exp.0.forward", [], [1.0])
    golden = builder("golden", level="L0").call("Cell.fc.Fc.forward.0", [], [1.0])
    comparison = compare(target.dump(), golden.dump())
    reasons = {one.pair.record.name: one.verdict.reasons for call in comparison.calls for one in call.judged}
    assert reasons == {
        "Mint.exp.0.forward.output.0": (Reason(Why.OTHER_LEVEL, name="L0"),),
        "Cell.fc.Fc.forward.0.output.0": (Reason(Why.OTHER_LEVEL, name="L1"),),
    }


def test_statistics_against_tensors_are_compared_as_statistics(builder):
    t = builder("t", mode="tensor").call("Mint.exp.0.forward", [], [1.0])
    g = builder("g").call("Mint.exp.0.forward", [], [1.0])
    _, found = verdicts(t, g)
    assert (found.mode, found.counts["pass"]) == ("statistics", 1)


def test_digests_on_one_side_only_are_compared_as_statistics(builder):
    _, found = verdicts(
        builder("t", mode="digest").call("Mint.exp.0.forward", [], [1.0]),
        builder("g").call("Mint.exp.0.forward", [], [1.0]),
    )
    assert (found.mode, found.counts["pass"]) == ("statistics", 1)


def two_kinds(builder, target, golden):
    return verdicts(
        builder("t", mode="crc32c").call("Mint.exp.0.forward", [], [target]),
        builder("g", mode="digest").call("Mint.exp.0.forward", [], [golden]),
    )


def test_digests_of_one_kind_are_held_against_each_other_whichever_it_is(builder):
    for amount, grade in ((1.0, "pass"), (np.nextafter(np.float32(1), np.float32(2)), "error")):
        verdict, found = one(builder, amount, 1.0, mode="crc32c")
        assert (found.mode, verdict.grade) == ("digest", grade)


def test_digests_of_two_kinds_say_nothing_of_each_other(builder):
    (verdict,), found = two_kinds(builder, 1.0, 1.0)
    assert (found.mode, verdict.grade, verdict.cause) == ("digest", "unjudged", Cause.DIGESTS_OF_TWO_KINDS)
    assert [reason.why for reason in verdict.reasons] == [Why.DIGESTS_OF_TWO_KINDS]
    assert not found.is_clean


def test_beside_digests_of_two_kinds_statistics_that_differ_are_a_difference(builder):
    (verdict,), _ = two_kinds(builder, 1.5, 1.0)
    assert (verdict.grade, verdict.cause) == ("error", None)
    assert [reason.why for reason in verdict.reasons] == [Why.STATISTIC, Why.DIGESTS_OF_TWO_KINDS]


def test_digests_that_differ_are_an_error(builder):
    verdict, _ = one(builder, 1.0, np.nextafter(np.full((2, 2), 1.0, np.float32), np.float32(2)), mode="digest")
    assert verdict.grade == "error"
    assert verdict.reason.startswith("Digests differ: ")


@pytest.mark.parametrize("mode", ["statistics", "tensor"])
@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("Functional.gather.0.forward", 1),
        ("Tensor.scatter.0.forward", 0),
        ("Distributed.gather.0.forward", 0),
        ("Tensor.scatter.0.forward", 2),
        ("Distributed.all_gather_into_tensor.0.forward", 1),
    ],
)
def test_what_a_call_reads_is_judged_whatever_its_name(builder, mode, name, at):
    inputs = [1.0, 2.0, 3.0]
    changed = [value + 0.5 * (n == at) for n, value in enumerate(inputs)]
    found, _ = verdicts(
        *(
            builder(side, mode=mode).call(name, given, [1.0])
            for side, given in zip("tg", (changed, inputs), strict=True)
        )
    )
    assert [verdict.grade for verdict in found][at] == "error"


@pytest.mark.parametrize("mode", ["statistics", "tensor"])
def test_the_first_tensor_of_a_collective_is_judged_where_it_is_the_only_one(builder, mode):
    """`comm_func.all_gather_into_tensor(tensor)` returns its result; `(output, tensor)` fills the first."""

    def grades(*inputs):
        name = "Distributed.all_gather_into_tensor.0.forward"
        sides = [
            builder(side, mode=mode).call(name, [first, *inputs], [1.0]) for side, first in (("t", 9.0), ("g", 1.0))
        ]
        return [verdict.grade for verdict in verdicts(*sides)[0]]

    assert grades()[0] == "error"
    assert grades(2.0) == ["unjudged", "pass", "pass"]
