"""What a finding and a verdict hold as data; their sentences are held by the tests of the parts that make them."""

import json

import pytest

from msprobe.compare.core.reason import Reason, TensorLook, Why
from msprobe.compare.judge import wording
from msprobe.compare.locate.find import locate
from msprobe.compare.locate.finding import (
    Argument,
    ArgumentKind,
    Between,
    Beyond,
    Computed,
    Dataflow,
    Missing,
    OtherCall,
    Unclear,
)
from msprobe.compare.locate.wording import reason, where_to_look
from msprobe.compare.run import compare
from msprobe.compare.tables.json_file import as_object
from msprobe.findings.catalogue import comparison as kinds

EXP, MUL, SIN = "Mint.exp.0.forward", "Mint.mul.0.forward", "Mint.sin.0.forward"


def first(target, golden):
    return locate(compare(target.dump(), golden.dump())).first


def test_an_argument_that_differs_has_both_values(builder, value):
    found = first(*(builder(s).call(MUL, [1.0, value(v)], [2.0]) for s, v in (("t", 2.0), ("g", 3.0))))
    assert found.kind is kinds.ARGUMENT
    assert isinstance(found.evidence, Argument)
    assert found.evidence.kind is ArgumentKind.VALUE
    assert found.evidence.difference.place == "input.1"
    assert found.evidence.difference.reasons == (Reason(Why.VALUES, name="input.1", target=2.0, golden=3.0),)
    assert not found.is_from_outside


def test_a_tensor_from_nowhere_is_from_outside(builder, tensor):
    def run(side, mask):
        return builder(side).call(EXP, [1.0], [2.0]).call(MUL, [tensor(2.0, f"call {EXP}.output.0"), mask], [6.0])

    found = first(run("t", 3.0), run("g", 5.0))
    assert (found.kind, found.name) == (kinds.ARGUMENT, MUL)
    assert found.evidence.kind is ArgumentKind.TENSOR
    assert found.is_from_outside


def test_a_result_within_tolerance_says_where_it_grows_beyond(builder):
    def run(side, result, last):
        return builder(side).call(EXP, [1.0], [result]).call(SIN, [result], [last])

    found = first(run("t", 2.00001, 4.0), run("g", 2.0, 5.0))
    assert isinstance(found.evidence, Computed)
    assert (found.kind, found.grade, found.beyond) == (kinds.COMPUTES, "pass", Beyond("error", SIN))
    assert found.evidence.difference.reasons == ()


def test_a_call_of_one_side_names_what_stands_in_its_place(builder):
    target = builder("t").call(EXP, [1.0], [2.5]).call(MUL, [2.5], [3.5])
    golden = builder("g").call(SIN, [1.0], [2.0]).call(MUL, [2.0], [3.0])
    found = first(target, golden)
    assert found.kind is kinds.STRUCTURE
    assert found.evidence == OtherCall("target", (SIN,), MUL, "")


@pytest.mark.parametrize("side", ["target", "golden"])
def test_a_gradient_that_one_side_does_not_ask_for_is_no_kernels_fault(side, builder, tensor):
    def run(name):
        gradient = None if name == side else 3.0
        forward = builder(name).call(MUL, [1.0, tensor(2.0, "parameter net.weight")], [2.0])
        return forward.call("Mint.mul.0.backward", [1.0], [2.0, gradient])

    found = first(run("target"), run("golden"))
    assert (found.kind, found.name) == (kinds.COMPUTES, "Mint.mul.0.backward")
    assert found.evidence.without_gradient == side
    assert reason(found).endswith(f"; the {side} requires no gradient there")
    assert "frozen" in str(where_to_look(found))


def test_swapped_arguments_are_named_by_their_places(builder):
    target = builder("t").call(EXP, [1.0], [2.0]).call(MUL, [5.0, 2.0], [9.0])
    golden = builder("g").call(EXP, [1.0], [2.0]).call(MUL, [2.0, 5.0], [9.0])
    found = first(target, golden)
    assert found.kind is kinds.CODE
    assert isinstance(found.evidence, Between)
    assert (found.evidence.dataflow, found.evidence.names) == (Dataflow.SWAPPED, ("input.0", "input.1"))
    assert found.evidence.after == EXP


def test_what_could_not_be_judged_is_named(builder):
    target = builder("t").call(EXP, [], [2.0])
    golden = builder("g").call(EXP, [], [3.0])
    found = first(target, golden)
    assert found.kind is kinds.UNKNOWN
    assert isinstance(found.evidence, Unclear)
    assert (found.evidence.missing, found.evidence.side) == (Missing.INPUTS, "target")


def test_the_evidence_is_json(builder):
    nan = float("nan")
    found = first(builder("t").call(EXP, [1.0], [nan]), builder("g").call(EXP, [1.0], [2.0]))
    report = json.loads(json.dumps(as_object(found, 0, 0), allow_nan=False))["evidence"]
    assert report["type"] == "Computed"
    assert report["difference"]["place"] == "output.0"
    assert report["difference"]["reasons"][0]["target"] == "nan"
    assert (report["hidden"], report["beyond"]) == ([], None)


@pytest.mark.parametrize("why", Why)
def test_every_reason_has_a_sentence(why):
    reason = Reason(why, "target", "n", ("a", "b"), (1, 2, 3), (1, 2, 4), 1, 2, (0,), 2.0, 3.0, 4.0)
    assert wording.sentence(reason).strip()
    assert wording.sentences([reason]).endswith(".")


def test_a_long_value_is_cut_and_a_tensor_is_described():
    assert wording.value_phrase("a" * 100) == "'" + "a" * 56 + "..."
    assert str(wording.value_phrase(TensorLook("Float32", (2, 3)))) == "a tensor Float32[2, 3]"
