"""Where non-finite values begin on one rank; every expected call follows from the records by hand."""

import pytest
from story import Rank, tensor, value, write

from msprobe.checks.dumps import dumps_of
from msprobe.checks.nonfinite.search import search
from msprobe.checks.nonfinite.values import Amount
from msprobe.checks.nonfinite.wording import full
from msprobe.findings.catalogue import nonfinite as kinds

EXP, LOG, ADD, DIV = (f"Functional.{word}.0.forward" for word in ("exp", "log", "add", "div"))


def only(found):
    (first,) = found.first
    return first


def test_finite_values_are_no_finding(answer):
    found = answer({0: Rank().call(EXP, [1], [2]).call(LOG, [2], [3])})
    assert (found.first, found.others, found.masks) == ((), (), 0)


def test_the_first_call_with_finite_inputs_is_named_with_its_counts_and_line(answer):
    rank = Rank().call(EXP, [1], [2]).call(DIV, [2, 3], [4, "3 inf"], parent="Cell.net.Net.forward.0", line=17)
    found = only(answer({0: rank.call(LOG, ["3 inf"], ["2 nan"])}))
    assert (found.name, found.cell, found.kind, found.rank) == (DIV, "net", kinds.MADE, 0)
    assert found.outputs == (Amount("output.1", inf=3, is_counted=True),)
    assert full(found) == f"{DIV} in net on rank 0: inputs finite, output.1 has 3 inf (/train/net.py:17)"


@pytest.mark.parametrize(
    ("what", "words"), [("nan", "nan"), ("inf", "inf"), ("-inf", "-inf"), ("inf -inf", "inf and -inf")]
)
def test_dumps_without_counts_say_what_without_how_many(answer, what, words):
    found = only(answer({0: Rank().call(EXP, [1], [what])}, version=0, framework="pytorch"))
    assert full(found) == f"{EXP} in the root on rank 0: inputs finite, output.0 has {words}"


@pytest.mark.parametrize("nested", [{"a": [[tensor("nan")]]}, [[tensor(1), [tensor("nan")]]]])
def test_nested_results_are_looked_into(answer, nested):
    assert only(answer({0: Rank().call(EXP, [1], [nested])})).outputs[0].nan == 1


def test_nested_inputs_are_looked_into(answer):
    """The reference looks at direct members only, and names the concatenation."""
    rank = Rank().call(EXP, [1], ["nan"]).call("Functional.cat.0.forward", [[tensor("nan"), tensor(1)]], ["nan"])
    assert only(answer({0: rank})).name == EXP


@pytest.mark.parametrize("call", ["Torch.empty.0.forward", "Tensor.new_empty.0.forward", "Mint.empty.0.forward"])
def test_memory_that_nobody_wrote_is_no_finding(answer, call):
    assert not answer({0: Rank().call(call, [value(2)], ["nan"]).call(EXP, [1], [2])}).first


def test_who_reads_memory_that_nobody_wrote_is_named(answer):
    rank = Rank().call("Torch.empty.0.forward", [value(2)], ["nan"])
    rank.call("Tensor.copy_.0.forward", [tensor("nan", "call Torch.empty.0.forward.output.0"), 1], [2])
    rank.call(ADD, [tensor("2 nan", "call Torch.empty.0.forward.output.0"), 1], ["2 nan"])
    found = only(answer({0: rank}))
    assert (found.name, found.kind, found.source) == (ADD, kinds.UNINITIALISED, "Torch.empty.0.forward")


def test_a_literal_nan_is_named_with_its_place(answer):
    found = only(answer({0: Rank().call("Tensor.__mul__.0.forward", [1, value(float("nan"))], ["4 nan"])}))
    assert (found.kind, found.inputs[0].place) == (kinds.ARGUMENT, "input.1")
    assert full(found).endswith("input.1 is nan, output.0 has 4 nan")


def masked(rank, gives, of="Tensor.masked_fill.0.forward", softmax="Functional.softmax.0.forward"):
    rank.call(of, [1, value(True), value(float("-inf"))], ["2 -inf"])
    rank.call("Tensor.__truediv__.0.forward", [tensor("2 -inf", f"call {of}.output.0"), value(8.0)], ["2 -inf"])
    rank.call(softmax, [tensor("2 -inf", "call Tensor.__truediv__.0.forward.output.0")], [gives])
    return rank.call(EXP, [tensor(gives, f"call {softmax}.output.0")], [gives])


def test_a_mask_of_infinities_that_a_softmax_takes_is_no_finding(answer):
    found = answer({0: masked(Rank(), 0.5)})
    assert (found.first, found.masks) == ((), 1)


def test_a_mask_in_a_dump_without_dataflow_is_no_finding_either(answer):
    rank = Rank().call("Tensor.masked_fill.0.forward", [1, value(float("-inf"))], ["-inf"])
    rank.call("Functional.softmax.0.forward", ["-inf"], [0.5])
    assert not answer({0: rank}, version=0).first


def test_a_row_that_is_masked_as_a_whole_is_named_at_its_softmax(answer):
    found = answer({0: masked(Rank(), "2 nan")})
    assert (only(found).name, only(found).kind) == ("Functional.softmax.0.forward", kinds.OF_INFINITIES)
    assert full(only(found)).endswith("input.0 has 2 -inf and no nan, output.0 has 2 nan")


def test_zero_times_an_infinite_mask_is_named(answer):
    rank = Rank().call("Tensor.__mul__.0.forward", [1, value(float("-inf"))], ["2 nan 2 -inf"])
    rank.call("Functional.softmax.0.forward", ["2 nan 2 -inf"], ["4 nan"])
    assert only(answer({0: rank})).name == "Tensor.__mul__.0.forward"


def test_an_infinity_that_later_calls_absorb_comes_after_one_that_they_do_not(answer):
    rank = Rank().call(EXP, [1], ["2 inf"])
    rank.call("Functional.tanh.0.forward", [tensor("2 inf", f"call {EXP}.output.0")], [1])
    rank.call(LOG, [tensor(1, "call Functional.tanh.0.forward.output.0")], ["nan"])
    found = answer({0: rank})
    assert only(found).name == LOG
    assert [(one.name, one.is_absorbed) for one in found.others] == [(EXP, True)]


def test_an_absorbed_infinity_alone_is_named(answer):
    rank = Rank().call(EXP, [1], ["2 inf"])
    rank.call("Functional.tanh.0.forward", [tensor("2 inf", f"call {EXP}.output.0")], [1])
    found = only(answer({0: rank}))
    assert (found.name, found.is_absorbed) == (EXP, True)


def test_an_infinity_that_only_the_backward_cannot_take_is_not_absorbed(answer):
    """`where(mask, log(x), 0)`: finite forward, 0 * inf backward."""
    rank = Rank().call(LOG, [0], ["2 -inf"])
    rank.call("Functional.where.0.forward", [value(True), tensor("2 -inf", f"call {LOG}.output.0"), value(0.0)], [1])
    rank.call("Functional.where.0.backward", [1], [None, 0, None])
    rank.call("Functional.log.0.backward", [0], ["2 nan"])
    found = only(answer({0: rank}))
    assert (found.name, found.is_absorbed) == (LOG, False)


def test_a_backward_call_is_named_with_its_forwards_line(answer):
    rank = Rank().call("Functional.sqrt.0.forward", [0], [0], parent="Cell.a.A.forward.0", line=9)
    rank.call("Functional.sqrt.0.backward", [1], ["1 inf"], parent="Cell.a.A.backward.0")
    found = only(answer({0: rank}))
    assert (found.name, found.cell, found.line) == ("Functional.sqrt.0.backward", "a", 9)


def test_gradients_of_parameters_alone(answer):
    """Level L0: the gradient of the weight overflows, that of the input does not."""
    rank = Rank().call("Cell.fc.Dense.forward.0", [1], [2], parameters={"weight": 1}, line=3)
    rank.call("Cell.fc.Dense.backward.0", [1], [2])
    found = only(answer({0: rank.gradients("Cell.fc.Dense.parameters_grad", weight="2 inf")}))
    assert (found.name, found.kind, found.line) == ("Cell.fc.Dense.parameters_grad", kinds.MADE, 3)
    assert found.outputs[0].place == "gradient of weight"


def test_gradients_of_parameters_that_only_received(answer):
    rank = Rank().call("Cell.fc.Dense.forward.0", [1], [2]).call(EXP, [1], [1])
    rank.call("Functional.exp.0.backward", [1], ["nan"]).call("Cell.fc.Dense.backward.0", ["nan"], ["nan"])
    found = answer({0: rank.gradients("Cell.fc.Dense.parameters_grad", weight="nan")})
    assert [one.name for one in (*found.first, *found.others)] == ["Functional.exp.0.backward"]


def test_a_parameter_that_is_not_finite_is_named_not_the_cell(answer):
    found = only(answer({0: Rank().call("Cell.fc.Dense.forward.0", [1], ["nan"], parameters={"weight": "2 nan"})}))
    assert (found.kind, found.source, found.previous) == (kinds.PARAMETER, "fc.weight", None)


def test_the_update_after_a_finite_step_is_named(tmp_path):
    weight = "parameter fc.weight"
    write(tmp_path, {0: Rank().call(EXP, [tensor(1, weight)], [1])}, step=3)
    write(tmp_path, {0: Rank().call(EXP, [tensor("2 nan", weight)], ["nan"])}, step=4)
    before, after = search(dumps_of(tmp_path), workers=1)
    assert not before.first
    assert (only(after).kind, only(after).source, only(after).previous, after.step) == (
        kinds.PARAMETER,
        "fc.weight",
        3,
        4,
    )


def test_steps_after_the_first_finding_are_not_looked_at(tmp_path):
    for step in range(3):
        write(tmp_path, {0: Rank().call(EXP, [1], ["nan" if step else 1])}, step=step)
    assert [(one.step, len(one.first)) for one in search(dumps_of(tmp_path), workers=1)] == [(0, 0), (1, 1)]


@pytest.mark.parametrize(("source", "kind"), [("leaf", kinds.LEAF), ("code", kinds.UNRECORDED), ("", kinds.UNRECORDED)])
def test_what_came_in_from_outside(answer, source, kind):
    assert (
        only(answer({0: Rank().call(EXP, [tensor("nan", source)], ["nan"]).call(LOG, ["nan"], ["nan"])})).kind is kind
    )


def test_a_mask_that_is_a_buffer_is_no_finding(answer):
    rank = Rank().call(ADD, [1, tensor("2 -inf", "leaf")], ["2 -inf"])
    rank.call("Functional.softmax.0.forward", [tensor("2 -inf", f"call {ADD}.output.0")], [0.5])
    assert not answer({0: rank}).first


def test_inputs_that_were_not_collected(answer):
    found = only(answer({0: Rank().call(EXP, None, [1]).call(LOG, None, ["nan"])}))
    assert (found.name, found.kind) == (LOG, kinds.INPUTS_UNKNOWN)


def test_a_cell_around_an_unrecorded_operation_is_named(answer):
    rank = Rank().call(EXP, [1], [2], parent="Cell.a.A.forward.0").call("Cell.a.A.forward.0", [1], ["nan"])
    assert only(answer({0: rank})).name == "Cell.a.A.forward.0"


def test_dumps_of_digests_are_not_judged(answer):
    record = {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [2], "md5": "00000000"}
    found = answer({0: Rank().call(EXP, [record], [record])})
    assert not found.first
    assert found.unjudged[0][0] == 0


@pytest.mark.parametrize(("level", "kind"), [("L0", kinds.MADE), ("mix", kinds.UNRECORDED)])
def test_at_level_l0_what_a_cell_received_is_charged_to_the_cell_around_it(level, kind, answer):
    outer, inner = "Cell.a.Outer.forward.0", "Cell.a.fc.Dense.forward.0"
    rank = Rank().call(inner, ["4 nan"], ["4 nan"], parent=outer).call(outer, [1], ["4 nan"])
    found = only(answer({0: rank}, level=level))
    assert (found.name, found.kind) == (outer if level == "L0" else inner, kind)


def test_the_line_of_a_backward_call_is_that_of_its_forward_also_where_that_was_not_recorded(answer):
    rank = Rank().call("Torch.sqrt.0.backward", [1], ["4 inf"])
    rank.stack["0"] = [["Torch.sqrt.0.forward"], ["File /train/net.py, line 9, in construct, \n y = f(x)"]]
    found = only(answer({0: rank}))
    assert (found.file, found.line) == ("/train/net.py", 9)


def test_an_empty_dump_of_task_overflow_check_says_that_everything_was_finite(answer):
    found = answer({0: Rank()}, task="overflow_check")
    assert (found.first, found.unjudged) == ((), ())


@pytest.mark.parametrize("made", ["3 nan", "3 inf", "1 nan 2 -inf"])
def test_what_reaches_the_loss_is_not_absorbed(answer, made):
    """A cross entropy is made for masks of -inf; NaN and inf it passes on, and its backward gives NaN of a finite 1."""
    loss = "Functional.cross_entropy.0"
    rank = Rank().call(EXP, [1], [made])
    rank.call(f"{loss}.forward", [tensor(made, f"call {EXP}.output.0"), 2], ["nan"])
    found = only(answer({0: rank.call(f"{loss}.backward", [1], ["4 nan"])}))
    assert (found.name, found.is_absorbed) == (EXP, False)
