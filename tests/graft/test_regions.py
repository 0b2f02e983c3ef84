"""What is replaced around calls that one run alone makes, that have another order, or that were not recorded."""

from dataclasses import replace

import numpy as np
import pytest
from small_trainings import Calls, record, write

from msprobe.compare.locate.finding import Parameters
from msprobe.findings.catalogue import comparison as kinds
from msprobe.graft.gap import LOSS, gap_of
from msprobe.graft.hypotheses import everything_before, hypotheses
from msprobe.graft.runs import studied

pytestmark = pytest.mark.part(2)


def write_layers(run, is_swapped):
    """Two layers that run the same line of code, `relu(norm(x))`; swapped, `norm(relu(x))`. Then a call that takes the
    result. The values are made up: all differ between the two orders, except for the first input."""
    folder = run / "step0" / "rank0"
    data, origin, shift = {}, "leaf", 100.0 if is_swapped else 0.0
    value = [1.0, -2.0]
    for number in range(2):
        scale = f"Functional.mul.{number}.forward"
        data[scale] = {
            "input_args": [record(folder, f"{scale}.input.0", value, **{"from": origin})],
            "output": [record(folder, f"{scale}.output.0", [each * 2 for each in value])],
        }
        value, origin = [each * 2 for each in value], f"call {scale}.output.0"
        order = ("relu", "layer_norm") if is_swapped else ("layer_norm", "relu")
        for at, function in enumerate(order):
            name = f"Functional.{function}.{number}.forward"
            made = [each + 10 * (at + 1) + shift for each in value]
            data[name] = {
                "input_args": [record(folder, f"{name}.input.0", value, **{"from": origin})],
                "output": [record(folder, f"{name}.output.0", made)],
            }
            value, origin = made, f"call {name}.output.0"
    total = "Functional.sum.0.forward"
    data[total] = {
        "input_args": [record(folder, f"{total}.input.0", value, **{"from": origin})],
        "output": [record(folder, f"{total}.output.0", sum(value))],
    }
    return write(run, data, {"mul": 6, "sum": 9, "relu": 7, "layer_norm": 7})


@pytest.mark.always
def test_calls_in_another_order_are_replaced_in_all_layers_that_run_the_same_line(tmp_path):
    study = studied(write_layers(tmp_path / "target", True), write_layers(tmp_path / "golden", False))
    step, finding = next(study.findings)
    assert finding.line == 7
    first = hypotheses(step, finding, [0])[0]
    both = {f"Functional.{function}.{number}.forward" for function in ("relu", "layer_norm") for number in (0, 1)}
    assert set(first.covers) == both
    assert first.number == 4
    # What leaves the two regions: the input of the second layer's first call, and that of the call after both.
    forward = {("Functional.mul.1.forward", "input.0"), ("Functional.sum.0.forward", "input.0")}
    assert {value for value in first.graft.values if value[0].endswith("forward")} == forward


def write_cut(run, is_cut):
    """Two layers; cut, `stop_gradient` is between them, so that the first one has no backward."""
    folder, data, value, origin = run / "step0" / "rank0", {}, [1.0, 2.0], "leaf"
    for number in range(2):
        name, weight = f"Functional.mul.{number}.forward", [3.0, 4.0 + number]
        made = [a * b for a, b in zip(value, weight, strict=True)]
        of_weight = {"from": f"parameter net.weight{number}"}
        data[name] = {
            "input_args": [
                record(folder, f"{name}.input.0", value, **{"from": origin}),
                record(folder, f"{name}.input.1", weight, **of_weight),
            ],
            "output": [record(folder, f"{name}.output.0", made)],
        }
        value, origin = made, f"call {name}.output.0"
        if is_cut and number == 0:
            stop = "Functional.stop_gradient.0.forward"
            data[stop] = {
                "input_args": [record(folder, f"{stop}.input.0", value, **{"from": origin})],
                "output": [record(folder, f"{stop}.output.0", value)],
            }
            origin = f"call {stop}.output.0"
    for number in (1,) if is_cut else (1, 0):
        name = f"Functional.mul.{number}.backward"
        gradient = [1.0, 1.0] if number else [3.0, 5.0]
        data[name] = {
            "input": [record(folder, f"{name}.input.0", gradient)],
            "output": [record(folder, f"{name}.output.{at}", [a * (2 + at) for a in gradient]) for at in (0, 1)],
        }
    return write(run, data, {"mul": 6, "stop_gradient": 7})


@pytest.mark.always
def test_where_the_target_computes_no_gradient_those_of_the_parameters_count_as_replaced(tmp_path):
    study = studied(write_cut(tmp_path / "target", True), write_cut(tmp_path / "golden", False))
    step, finding = next(study.findings)
    assert finding.name == "Functional.mul.0.backward"
    first = hypotheses(step, finding, [0])[0]
    assert first.graft.missing == {"net.weight0"}
    assert first.graft.parameters == {"net.weight0"}
    assert "Functional.stop_gradient.0.forward" not in {name for name, _ in first.graft.values}


def write_half_cut(run, is_cut):
    """`mul`, whose result is added to itself and used again; cut, `stop_gradient` is before the second argument of
    `add`, which has no gradient then."""
    calls = Calls(run)
    x = calls.forward("mul.0", [2.0, 6.0], ([1.0, 3.0], "leaf"))
    other = calls.forward("stop_gradient.0", [2.0, 6.0], x) if is_cut else x
    both = calls.forward("add.0", [4.0, 12.0], x, other)
    calls.forward("sum.0", [6.0, 18.0], both, x)
    calls.backward("sum.0", [1.0, 1.0], [1.0, 1.0], [1.0, 1.0])
    calls.backward("add.0", [1.0, 1.0], [1.0, 1.0], [0.0, 0.0] if is_cut else [1.0, 1.0])
    calls.backward("mul.0", [2.0, 2.0] if is_cut else [3.0, 3.0], [4.0, 4.0] if is_cut else [6.0, 6.0])
    return calls.write()


@pytest.mark.always
def test_a_gradient_that_is_cut_is_replaced_where_it_would_arrive(tmp_path):
    """Replacing what `add` returns has no effect, because `stop_gradient` drops it."""
    study = studied(write_half_cut(tmp_path / "target", True), write_half_cut(tmp_path / "golden", False))
    step, finding = next(study.findings)
    assert (finding.kind, finding.name) == (kinds.COMPUTES, "Functional.add.0.backward")
    first, *others = hypotheses(step, finding, [0])
    assert first.graft.values == {("Functional.mul.0.backward", "input")}
    assert others[0].graft.values == {("Functional.add.0.backward", "output")}


def write_far_cut(run, is_cut):
    """`add` takes a result of `mul` as it is, and reshaped and scaled by a weight; cut, `stop_gradient` is after the
    scaling, and no gradient flows through the three calls."""
    calls = Calls(run)
    x = calls.forward("mul.0", [2.0, 6.0], ([1.0, 3.0], "leaf"))
    shaped = calls.forward("reshape.0", [2.0, 6.0], x)
    scaled = calls.forward("scale.0", [4.0, 12.0], shaped, ([2.0, 2.0], "parameter net.weight"))
    other = calls.forward("stop_gradient.0", [4.0, 12.0], scaled) if is_cut else scaled
    both = calls.forward("add.0", [6.0, 18.0], x, other)
    calls.forward("sum.0", 24.0, both)
    calls.backward("sum.0", 1.0, [1.0, 1.0])
    calls.backward("add.0", [1.0, 1.0], [1.0, 1.0], [0.0, 0.0] if is_cut else [1.0, 1.0])
    if not is_cut:
        calls.backward("scale.0", [1.0, 1.0], [2.0, 2.0], [2.0, 6.0])
        calls.backward("reshape.0", [2.0, 2.0], [2.0, 2.0])
    calls.backward("mul.0", [1.0, 1.0] if is_cut else [3.0, 3.0], [2.0, 2.0] if is_cut else [6.0, 6.0])
    calls.gradients("net", {"weight": [0.0, 0.0] if is_cut else [2.0, 6.0]})
    return calls.write()


@pytest.mark.always
def test_calls_on_the_way_to_where_a_gradient_is_cut_are_replaced_with_their_parameters(tmp_path):
    study = studied(write_far_cut(tmp_path / "target", True), write_far_cut(tmp_path / "golden", False))
    step, finding = next(study.findings)
    assert finding.name == "Functional.add.0.backward"
    first = hypotheses(step, finding, [0])[0]
    assert first.graft.values == {("Functional.mul.0.backward", "input")}
    assert first.graft.parameters == first.graft.missing == {"net.weight"}
    names = ("reshape", "scale", "stop_gradient")
    assert first.covers == tuple(f"Functional.{name}.0.forward" for name in names)


def write_missing(run, missing, dtype, spelled):
    """Three calls, of which the middle one is missing in the target; it returns tensors of a dtype, `spelled` so in the
    dump. The last one's result is 1 higher in the golden run."""
    folder, data = run / "step0" / "rank0", {}
    calls = [("mul", "float32"), *([("middle", dtype)] if missing else []), ("sum", "float32")]
    origin, value = "leaf", [1.0, 2.0]
    for function, made in calls:
        name = f"Functional.{function}.0.forward"
        result = [each + (3 if missing and function == "sum" else 1) for each in value]
        data[name] = {
            "input_args": [record(folder, f"{name}.input.0", value, **{"from": origin})],
            "output": [record(folder, f"{name}.output.0", result, made)],
        }
        if function == "middle":
            data[name]["output"][0]["dtype"] = spelled
        value, origin = result, f"call {name}.output.0"
    for function, _ in reversed(calls):
        name = f"Functional.{function}.0.backward"
        data[name] = {
            "input": [record(folder, f"{name}.input.0", [1.0, 1.0])],
            "output": [record(folder, f"{name}.output.0", [1.0, 1.0])],
        }
    return write(run, data, {"mul": 6, "middle": 7, "sum": 8})


@pytest.mark.always
@pytest.mark.parametrize(
    ("dtype", "spelled", "is_replaced"),
    [("float32", "Float32", True), ("float32", "torch.float32", True), ("bool", "Bool", False)],
)
def test_the_gradient_before_a_region_is_replaced_if_one_flows_through_it(tmp_path, dtype, spelled, is_replaced):
    runs = [write_missing(tmp_path / name, name == "golden", dtype, spelled) for name in ("target", "golden")]
    step, finding = next(studied(*runs).findings)
    assert finding.kind is kinds.STRUCTURE
    values = hypotheses(step, finding, [0])[0].graft.values
    assert ("Functional.sum.0.forward", "input.0") in values
    assert (("Functional.mul.0.backward", "input") in values) == is_replaced


def write_modules(run, shift):
    """Two blocks at level L0, each of modules `up` and `down`, and a function between them that is not recorded."""
    folder, data, value = run / "step0" / "rank0", {}, [1.0, 2.0]
    for number in range(2):
        for module in ("up", "down"):
            name = f"Module.{module}.Linear.forward.{number}"
            result = [each * 2 for each in value]
            origin = "leaf" if (module, number) == ("up", 0) else "unknown"
            data[name] = {
                "input_args": [record(folder, f"{name}.input.0", value, **{"from": origin})],
                "output": [record(folder, f"{name}.output.0", result)],
            }
            value = [each + shift for each in result] if module == "up" else result
    for number in (1, 0):
        for module in ("down", "up"):
            name = f"Module.{module}.Linear.backward.{number}"
            data[name] = {
                "input": [record(folder, f"{name}.input.0", [1.0, 1.0])],
                "output": [record(folder, f"{name}.output.0", [2.0, 2.0])],
            }
    return write(run, data, {"up": 6, "down": 7}, level="L0")


@pytest.mark.always
def test_code_between_modules_is_replaced_with_its_backward_in_all_blocks(tmp_path):
    study = studied(write_modules(tmp_path / "target", 1.5), write_modules(tmp_path / "golden", 1.0))
    step, finding = next(study.findings)
    assert (finding.kind, finding.name) == (kinds.CODE, "Module.down.Linear.forward.0")
    assert hypotheses(step, finding, [0])[0].graft.values == {
        *((f"Module.down.Linear.forward.{number}", "input.0") for number in (0, 1)),
        *((f"Module.up.Linear.backward.{number}", "input") for number in (0, 1)),
    }


def test_a_finding_at_a_replaced_input_is_explained(tmp_path):
    """A run with the graft records the input as it was before."""
    study = studied(write_modules(tmp_path / "target", 1.5), write_modules(tmp_path / "golden", 1.0))
    step, finding = next(study.findings)
    first = hypotheses(step, finding, [0])[0]
    other_kind = replace(finding, kind=kinds.STRUCTURE)
    assert first.explains(other_kind)
    difference = replace(finding.evidence.difference, place="input.1")
    assert not first.explains(replace(other_kind, evidence=replace(finding.evidence, difference=difference)))
    assert not first.explains(replace(other_kind, name="Module.up.Linear.forward.1"))
    assert not first.explains(replace(other_kind, name="Module.down.Linear.backward.0"))


def write_chosen(run, number):
    """The `number` largest of four numbers are kept: those that are at least as large as the last of them."""
    folder, data, x = run / "step0" / "rank0", {}, [4.0, 1.0, 3.0, 2.0]
    largest = sorted(x, reverse=True)[:number]
    kept = [a >= largest[-1] for a in x]
    topk, narrow, ge, where = (f"Functional.{name}.0.forward" for name in ("topk", "narrow", "ge", "where"))

    def of_x(name, place):
        return record(folder, f"{name}.input.{place}", x, **{"from": "leaf"})

    def of_call(name, place, made, value, dtype="float32"):
        return record(folder, f"{name}.input.{place}", value, dtype, **{"from": f"call {made}.output.0"})

    def output(name, value, dtype="float32"):
        return [record(folder, f"{name}.output.0", value, dtype)]

    data[topk] = {"input_args": [of_x(topk, 0), {"type": "int", "value": number}], "output": output(topk, largest)}
    data[narrow] = {"input_args": [of_call(narrow, 0, topk, largest)], "output": output(narrow, largest[-1:])}
    data[ge] = {
        "input_args": [of_x(ge, 0), of_call(ge, 1, narrow, largest[-1:])],
        "output": output(ge, kept, "bool"),
    }
    data[where] = {
        "input_args": [of_call(where, 0, ge, kept, "bool"), of_x(where, 1)],
        "output": output(where, [a * b for a, b in zip(x, kept, strict=True)]),
    }
    return write(run, data, {"topk": 6, "narrow": 7, "ge": 8, "where": 9})


@pytest.mark.always
def test_a_region_ends_after_a_call_that_compares_its_result(tmp_path):
    """The threshold of the golden run is not compared with the numbers of the target."""
    study = studied(write_chosen(tmp_path / "target", 3), write_chosen(tmp_path / "golden", 2))
    step, finding = next(study.findings)
    assert (finding.kind, finding.name) == (kinds.ARGUMENT, "Functional.topk.0.forward")
    assert hypotheses(step, finding, [0])[0].graft.values == {("Functional.where.0.forward", "input.0")}


def write_exchanged(run, is_exchanged):
    """`matmul` of q and the transpose of k; exchanged, k and q are the other way around."""
    calls = Calls(run)
    q, k = (calls.forward(f"scale.{at}", [2.0 + at, 5.0 - at], ([1.0, 3.0 + at], "leaf")) for at in range(2))
    if is_exchanged:
        q, k = k, q
    turned = calls.forward("transpose.0", k[0][::-1], k)
    score = calls.forward("matmul.0", [a * b for a, b in zip(q[0], turned[0], strict=True)], q, turned)
    calls.forward("softmax.0", [each / 7 for each in score[0]], score)
    gradients = [[1.0, 4.0], [5.0, 2.0]]
    calls.backward("softmax.0", [1.0, 2.0], [3.0, 1.0])
    calls.backward("matmul.0", [3.0, 1.0], *gradients[:: -1 if is_exchanged else 1])
    for at in (1, 0):
        calls.backward(f"scale.{at}", gradients[at], [1.0, 1.0 + at])
    return calls.write()


@pytest.mark.always
def test_calls_with_exchanged_operands_are_one_region_without_their_gradients(tmp_path):
    """The gradients that `matmul` returns are those of the other operand in the golden run."""
    study = studied(write_exchanged(tmp_path / "target", True), write_exchanged(tmp_path / "golden", False))
    step, finding = next(study.findings)
    assert (finding.kind, finding.name) == (kinds.CODE, "Functional.transpose.0.forward")
    first = hypotheses(step, finding, [0])[0]
    assert first.covers == ("Functional.transpose.0.forward", "Functional.matmul.0.forward")
    assert first.graft.values == {
        ("Functional.softmax.0.forward", "input.0"),
        *((f"Functional.scale.{at}.backward", "input") for at in (0, 1)),
    }


@pytest.mark.always
def test_regions_that_make_the_same_calls_come_first_and_all_calls_of_one_run_last(tmp_path):
    study = studied(write_blocks(tmp_path / "target", False), write_blocks(tmp_path / "golden", True))
    step, finding = next(study.findings)
    assert finding.kind is kinds.STRUCTURE
    covers = [set(one.covers) for one in hypotheses(step, finding, [0])]
    same = {"golden Functional.relu.0.forward", "golden Functional.relu.1.forward"}
    assert covers[:2] == [same, {"golden Functional.relu.0.forward"}]
    assert covers[-1] == {*same, "golden Functional.clamp.0.forward"}


def write_blocks(run, is_golden):
    """Two layers of `mul`, `relu` and `sub`, of which the target has no `relu`; and `clamp`, which it does not have,
    either, and which changes nothing."""
    calls, x = Calls(run), ([1.0, -2.0], "leaf")
    for at in range(2):
        x = calls.forward(f"mul.{at}", [each * 3 for each in x[0]], x)
        if is_golden:
            x = calls.forward(f"relu.{at}", [max(each, 0.0) for each in x[0]], x)
        x = calls.forward(f"sub.{at}", [each - 1 for each in x[0]], x)
    x = calls.forward("neg.0", [-each for each in x[0]], x)
    if is_golden:
        x = calls.forward("clamp.0", x[0], x)
    calls.forward("sum.0", sum(x[0]), x)
    return calls.write()


@pytest.mark.always
def test_a_loss_that_a_region_returns_counts_as_replaced(tmp_path):
    def write_loss(run, is_golden):
        calls = Calls(run)
        x = calls.forward("mul.0", [2.0, 6.0], ([1.0, 3.0], "leaf"))
        name, loss = ("mean.0", 4.0) if is_golden else ("sum.0", 8.0)
        calls.forward(name, loss, x)
        calls.backward(name, 1.0, [0.5, 0.5] if is_golden else [1.0, 1.0])
        calls.backward("mul.0", [0.5, 0.5] if is_golden else [1.0, 1.0], [1.0, 1.0] if is_golden else [2.0, 2.0])
        return calls.write()

    study = studied(write_loss(tmp_path / "target", False), write_loss(tmp_path / "golden", True))
    step, finding = next(study.findings)
    first = hypotheses(step, finding, [0])[0]
    assert first.graft.missing == {LOSS}
    assert first.graft.values == {("Functional.mul.0.backward", "input")}
    assert (gap_of(study).loss, gap_of(study, first.graft.missing).loss) == (1.0, 0.0)


def write_choice_of_axis(run, is_golden):
    """Two heads of two places, repeated by an axis of size 1 that is put before or after the heads."""
    calls, x = Calls(run), ([[1.0, 2.0], [3.0, 4.0]], "leaf")
    x = calls.forward("mul.0", [[2.0, 4.0], [6.0, 8.0]], x)
    one = np.array(x[0])[:, None] if is_golden else np.array(x[0])[None]
    one = calls.forward("unsqueeze.0", one, x, values=[1 if is_golden else 0])
    every = calls.forward("broadcast_to.0", np.broadcast_to(one[0], (2, 2, 2)), one)
    heads = calls.forward("reshape.0", every[0].reshape(4, 2), every)
    calls.forward("sum.0", float(heads[0][1].sum()), heads)
    return calls.write()


@pytest.mark.always
def test_a_call_that_returns_another_shape_is_a_region_up_to_calls_that_take_the_same_shape(tmp_path):
    """The elements that `unsqueeze` returns are the same in both, so that replacing them changes nothing."""
    study = studied(write_choice_of_axis(tmp_path / "target", False), write_choice_of_axis(tmp_path / "golden", True))
    step, finding = next(study.findings)
    assert finding.name == "Functional.unsqueeze.0.forward"
    first = hypotheses(step, finding, [0])[0]
    assert first.covers == ("Functional.unsqueeze.0.forward", "Functional.broadcast_to.0.forward")
    assert first.graft.values == {("Functional.reshape.0.forward", "input.0")}


def write_heads(run, shape, total):
    """`dense` returns four elements, which `reshape` gives a shape and `transpose` brings into one row again."""
    calls = Calls(run)
    x = calls.forward("dense.0", [1.0, 2.0, 3.0, 4.0], ([1.0, 3.0], "leaf"))
    heads = calls.forward("reshape.0", np.reshape(x[0], shape), x)
    calls.forward("sum.0", total, calls.forward("transpose.0", [[1.0, 2.0, 3.0, 4.0]], heads))
    calls.backward("sum.0", 1.0, [[1.0, 1.0, 1.0, 1.0]])
    calls.backward("transpose.0", [[1.0, 1.0, 1.0, 1.0]], np.ones(shape))
    calls.backward("reshape.0", np.ones(shape), [1.0, 1.0, 1.0, 1.0])
    calls.backward("dense.0", [1.0, 1.0, 1.0, 1.0], [2.0, 2.0])
    return calls.write()


@pytest.mark.always
def test_a_call_whose_gradient_has_another_shape_is_replaced_with_those_before_it(tmp_path):
    target, golden = (
        write_heads(tmp_path / "target", (1, 4, 1, 1), 10.0),
        write_heads(tmp_path / "golden", (2, 2), 11.0),
    )
    step, of_sum = next(studied(target, golden).findings)
    transpose = next(event for event in step.events if event.called == "Functional.transpose.0.forward")
    first, second = hypotheses(step, replace(of_sum, name=transpose.called, at=transpose.at), [0])
    assert first.covers == ("Functional.reshape.0.forward", "Functional.transpose.0.forward")
    assert first.graft.values == {("Functional.sum.0.forward", "input.0"), ("Functional.dense.0.backward", "input")}
    assert second.graft.values == {("Functional.transpose.0.forward", "output")}


def write_weights(run, *, has_bias=True, is_frozen=False):
    """`scale` by a weight, `bias` with another one, and a loss; without the bias, or with a frozen weight, their
    gradients are missing."""
    calls = Calls(run)
    x = calls.forward("scale.0", [2.0, 6.0], ([1.0, 3.0], "leaf"), ([2.0, 2.0], "parameter net.weight"))
    if has_bias:
        x = calls.forward("bias.0", [3.0, 7.0], x, ([1.0, 1.0], "parameter net.bias"))
    calls.forward("mse.0", sum(x[0]), x)
    calls.backward("mse.0", 1.0, [1.0, 1.0])
    if has_bias:
        calls.backward("bias.0", [1.0, 1.0], [1.0, 1.0], [1.0, 1.0])
    calls.backward("scale.0", [1.0, 1.0], [2.0, 2.0], None if is_frozen else [1.0, 3.0])
    gradients = {"weight": None if is_frozen else [1.0, 3.0], "bias": [1.0, 1.0] if has_bias else [0.0, 0.0]}
    calls.gradients("net", {name: value for name, value in gradients.items() if value is not None})
    return calls.write()


@pytest.mark.always
def test_a_parameter_that_no_call_of_the_target_takes_counts_as_replaced(tmp_path):
    """Its gradient is recorded, but it is 0."""
    study = studied(write_weights(tmp_path / "target", has_bias=False), write_weights(tmp_path / "golden"))
    step, finding = next(study.findings)
    assert finding.kind is kinds.STRUCTURE
    first = hypotheses(step, finding, [0])[0]
    assert first.graft.missing == {"net.bias"}
    # The golden's gradients are 1, 3, 1, 1, of which the target has the first two.
    assert gap_of(study).gradients == pytest.approx((2 / 12) ** 0.5)
    assert gap_of(study, first.graft.missing).gradients == 0.0


@pytest.mark.always
def test_a_call_whose_result_the_target_does_not_use_belongs_to_the_region(tmp_path):
    """The target looks up its second weight, but does not add the result."""

    def write_added(run, is_added):
        calls = Calls(run)
        x = calls.forward("mul.0", [2.0, 6.0], ([1.0, 3.0], "leaf"), ([2.0, 2.0], "parameter net.weight"))
        other = calls.forward("gather.0", [5.0, 4.0], ([4.0, 5.0], "parameter net.table"))
        if is_added:
            x = calls.forward("add.0", [7.0, 10.0], x, other)
        calls.forward("mse.0", sum(x[0]), x)
        calls.backward("mse.0", 1.0, [1.0, 1.0])
        gradients = {"weight": [1.0, 3.0], "table": [0.0, 0.0]}
        if is_added:
            calls.backward("add.0", [1.0, 1.0], [1.0, 1.0], [1.0, 1.0])
            calls.backward("gather.0", [1.0, 1.0], [1.0, 1.0])
            gradients["table"] = [1.0, 1.0]
        calls.backward("mul.0", [1.0, 1.0], [2.0, 2.0], [1.0, 3.0])
        calls.gradients("net", gradients)
        return calls.write()

    study = studied(write_added(tmp_path / "target", False), write_added(tmp_path / "golden", True))
    step, finding = next(study.findings)
    assert finding.name == "Functional.add.0.forward"
    first = hypotheses(step, finding, [0])[0]
    assert (first.graft.parameters, first.graft.missing) == ({"net.table"}, {"net.table"})
    assert set(first.covers) == {"Functional.gather.0.forward", "golden Functional.add.0.forward"}


@pytest.mark.always
def test_a_frozen_parameter_is_replaced_and_its_gradient_counts_as_replaced(tmp_path):
    study = studied(write_weights(tmp_path / "target", is_frozen=True), write_weights(tmp_path / "golden"))
    step, finding = next(study.findings)
    assert (finding.kind, finding.name) == (kinds.COMPUTES, "Functional.scale.0.backward")
    first = hypotheses(step, finding, [0])[0]
    assert (first.graft.parameters, first.graft.missing) == ({"net.weight"}, {"net.weight"})


@pytest.mark.always
def test_a_gradient_without_a_counterpart_is_replaced_where_it_arrives(tmp_path):
    """The arguments of two functions cannot be paired, nor the gradients that they return."""

    def write_turned(run, function, is_wrong):
        calls = Calls(run)
        x = calls.forward("mul.0", [[2.0, 4.0], [6.0, 8.0]], ([[1.0, 2.0], [3.0, 4.0]], "leaf"))
        turned = x[0] if is_wrong else [[2.0, 6.0], [4.0, 8.0]]
        x = calls.forward(f"{function}.0", turned, x, values=[2, 2] if is_wrong else [0, 1])
        calls.forward("sum.0", 11.0 if is_wrong else 10.0, x)
        calls.backward("sum.0", 1.0, [[1.0, 2.0], [3.0, 4.0]])
        calls.backward(f"{function}.0", [[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0 + is_wrong], [3.0 - is_wrong, 4.0]])
        calls.backward("mul.0", [[1.0, 2.0 + is_wrong], [3.0 - is_wrong, 4.0]], [[2.0, 4.0], [6.0, 8.0]])
        return calls.write(framework="mindspore" if is_wrong else "pytorch")

    target = write_turned(tmp_path / "target", "permute", True)
    study = studied(target, write_turned(tmp_path / "golden", "transpose", False))
    step, finding = next(study.findings)
    assert finding.name == "Functional.permute.0.forward"
    values = hypotheses(step, finding, [0])[-1].graft.values
    assert values == {("Functional.permute.0.forward", "output"), ("Functional.mul.0.backward", "input")}


@pytest.mark.always
def test_everything_before_a_region_ends_at_its_first_call(tmp_path):
    study = studied(write_exchanged(tmp_path / "target", True), write_exchanged(tmp_path / "golden", False))
    step, finding = next(study.findings)
    first = hypotheses(step, finding, [0])[0]
    later = replace(first, finding=replace(finding, at=max(each.at for each in step.events)))
    assert everything_before(later).values == everything_before(first).values
    assert {name for name, _ in everything_before(first).values} == {f"Functional.scale.{at}.forward" for at in (0, 1)}


@pytest.mark.always
def test_a_call_of_the_golden_settles_no_call_of_the_target_of_the_same_name(tmp_path):
    study = studied(write_blocks(tmp_path / "target", False), write_blocks(tmp_path / "golden", True))
    step, finding = next(study.findings)
    assert finding.evidence.side == "golden"
    first = hypotheses(step, finding, [0])[0]
    assert first.explains(finding)
    assert not first.explains(replace(finding, evidence=replace(finding.evidence, side="target")))


def write_detached(run, is_detached):
    """A layer `dense` and a call after it that takes its result; detached, no gradient flows through both of them."""
    calls = Calls(run)
    x = calls.forward("mul.0", [2.0, 6.0], ([1.0, 3.0], "leaf"))
    value = calls.forward("dense.0", [4.0, 12.0], x, ([2.0, 2.0], "parameter net.weight"))
    value = calls.forward("reshape.0", [4.0, 12.0], value)
    x = calls.forward("add.0", [6.0, 18.0], x, value)
    calls.forward("mse.0", 24.0, x)
    calls.backward("mse.0", 1.0, [1.0, 1.0])
    calls.backward("add.0", [1.0, 1.0], [1.0, 1.0], [0.0, 0.0] if is_detached else [1.0, 1.0])
    if not is_detached:
        calls.backward("reshape.0", [1.0, 1.0], [1.0, 1.0])
        calls.backward("dense.0", [1.0, 1.0], [2.0, 2.0], [2.0, 6.0])
    calls.backward("mul.0", [1.0, 1.0] if is_detached else [3.0, 3.0], [2.0, 2.0] if is_detached else [6.0, 6.0])
    calls.gradients("net", {"weight": [0.0, 0.0] if is_detached else [2.0, 6.0]})
    return calls.write()


@pytest.mark.always
def test_layers_through_which_only_the_golden_computes_a_gradient_are_replaced_with_it(tmp_path):
    study = studied(write_detached(tmp_path / "target", True), write_detached(tmp_path / "golden", False))
    step, finding = next(study.findings)
    assert finding.name == "Functional.add.0.backward"
    first = hypotheses(step, finding, [0])[0]
    assert first.graft.values == {("Functional.mul.0.backward", "input")}
    assert (first.graft.parameters, first.graft.missing) == ({"net.weight"}, {"net.weight"})


@pytest.mark.always
def test_parameters_before_a_region_have_no_gradient_if_the_target_has_no_backward_on_the_way(tmp_path):
    """The golden adds a branch of many layers, whose result the target computes, but does not add."""

    def write_branch(run, is_added):
        calls = Calls(run)
        x = calls.forward("mul.0", [2.0, 6.0], ([1.0, 3.0], "leaf"))
        branch = calls.forward("embed.0", [1.0, 2.0], ([1.0, 2.0], "parameter net.weight"))
        for at in range(20):
            branch = calls.forward(f"neg.{at}", [-each for each in branch[0]], branch)
        if is_added:
            x = calls.forward("add.0", [3.0, 8.0], x, branch)
        calls.forward("mse.0", sum(x[0]), x)
        calls.backward("mse.0", 1.0, [1.0, 1.0])
        if is_added:
            calls.backward("add.0", [1.0, 1.0], [1.0, 1.0], [1.0, 1.0])
            for at in reversed(range(20)):
                calls.backward(f"neg.{at}", [1.0, 1.0], [-1.0, -1.0])
            calls.backward("embed.0", [1.0, 1.0], [1.0, 1.0])
        calls.backward("mul.0", [1.0, 1.0], [2.0, 2.0])
        calls.gradients("net", {"weight": [1.0, 1.0] if is_added else [0.0, 0.0]})
        return calls.write()

    study = studied(write_branch(tmp_path / "target", False), write_branch(tmp_path / "golden", True))
    step, finding = next(study.findings)
    assert finding.name == "Functional.add.0.forward"
    assert hypotheses(step, finding, [0])[0].graft.missing == {"net.weight"}


STEPS_OF_A_LOOP = 5


def write_loop(run, *, has_gate):
    """Each step of a loop multiplies a part of `split` by a gate, which `add` and `sigmoid` make of the other part;
    without the product, the target computes no gradient of the gate."""
    calls = Calls(run)
    x, two = ([1.0, 3.0], "leaf"), [2.0, 2.0]
    for number in range(STEPS_OF_A_LOOP):
        x = calls.forward(f"split.{number}", two, x)
        gate = calls.forward(f"sigmoid.{number}", two, calls.forward(f"add.{number}", two, x))
        x = calls.forward(f"mul.{number}", [4.0, 4.0], x, gate) if has_gate else x
        x = calls.forward(f"tanh.{number}", two, x)
    calls.forward("mse.0", 4.0, x)
    calls.backward("mse.0", 1.0, two)
    for number in reversed(range(STEPS_OF_A_LOOP)):
        calls.backward(f"tanh.{number}", two, two)
        if has_gate:
            calls.backward(f"mul.{number}", two, two, two)
            calls.backward(f"sigmoid.{number}", two, two)
            calls.backward(f"add.{number}", two, two)
        calls.backward(f"split.{number}", [3.0, 3.0] if has_gate else two, two, further=[two if has_gate else None])
    return calls.write()


@pytest.mark.always
def test_the_calls_before_a_region_belong_to_it_at_each_of_its_places(tmp_path):
    target, golden = (write_loop(tmp_path / name, has_gate=name == "golden") for name in ("target", "golden"))
    study = studied(target, golden)
    step, finding = next(study.findings)
    assert (finding.kind, finding.name) == (kinds.STRUCTURE, "Functional.mul.0.forward")
    first = hypotheses(step, finding, [0])[0]
    own = {f"Functional.{function}.{number}.forward" for function in ("add", "sigmoid") for number in range(5)}
    assert own <= set(first.covers)
    # No gradient of the second part arrives in the target, where one could be replaced.
    parts = [(f"Functional.split.{number}.backward", part) for number in range(5) for part in ("input", "output")]
    assert first.graft.values.issuperset(parts)


def write_position(run, *, is_rolled):
    """`add` takes a parameter as it is, or rolled by one element, with the gradient of the other order."""
    calls = Calls(run)
    x = calls.forward("mul.0", [2.0, 6.0], ([1.0, 3.0], "leaf"))
    position = [5.0, 7.0], "parameter net.position"
    if is_rolled:
        position = calls.forward("roll.0", [7.0, 5.0], position)
    calls.forward("mse.0", 20.0, calls.forward("add.0", [9.0, 11.0] if is_rolled else [7.0, 13.0], x, position))
    calls.backward("mse.0", 1.0, [1.0, 2.0])
    calls.backward("add.0", [1.0, 2.0], [1.0, 2.0], [1.0, 2.0])
    if is_rolled:
        calls.backward("roll.0", [1.0, 2.0], [2.0, 1.0])
    calls.backward("mul.0", [1.0, 2.0], [2.0, 4.0])
    calls.gradients("net", {"position": [2.0, 1.0] if is_rolled else [1.0, 2.0]})
    return calls.write()


@pytest.mark.always
def test_an_input_that_is_a_parameter_in_the_golden_is_replaced_and_its_gradient_counts_as_replaced(tmp_path):
    target, golden = (write_position(tmp_path / name, is_rolled=name == "target") for name in ("target", "golden"))
    step, finding = next(studied(target, golden).findings)
    assert (finding.kind, finding.name) == (kinds.STRUCTURE, "Functional.roll.0.forward")
    (first,) = hypotheses(step, finding, [0])
    assert first.graft.values == {("Functional.add.0.forward", "input.1")}
    assert first.graft.missing == {"net.position"}
    # Between frameworks, which often call other functions, the parameter is what the comparison finds.
    add = next(event for event in step.events if event.called == "Functional.add.0.forward")
    evidence = Parameters(names=("net.position",), total=1, step=0)
    found = hypotheses(
        step, replace(finding, name=add.called, at=add.at, kind=kinds.PARAMETERS, evidence=evidence), [0]
    )
    assert found[0].graft == first.graft


def write_shared(run, layers):
    """A layer with one weight that runs several times, and a loss."""
    calls = Calls(run)
    x = calls.forward("mul.0", [1.0, 3.0], ([1.0, 3.0], "leaf"))
    for number in range(layers):
        scaled = [2.0 * each for each in x[0]]
        x = calls.forward(f"scale.{number}", scaled, x, ([2.0, 2.0], "parameter net.weight"))
    calls.forward("mse.0", sum(x[0]), x)
    calls.backward("mse.0", 1.0, [1.0, 1.0])
    gradient = 1.0
    for number in reversed(range(layers)):
        calls.backward(f"scale.{number}", [gradient] * 2, [2 * gradient] * 2, [gradient * 2**number, 3 * gradient])
        gradient *= 2
    calls.backward("mul.0", [gradient] * 2, [gradient] * 2)
    calls.gradients("net", {"weight": [layers * 2.0, layers * 3.0]})
    return calls.write()


@pytest.mark.always
def test_the_gradient_of_a_weight_of_which_a_layer_is_missing_is_replaced(tmp_path):
    step, finding = next(studied(write_shared(tmp_path / "target", 1), write_shared(tmp_path / "golden", 2)).findings)
    assert (finding.kind, finding.name) == (kinds.STRUCTURE, "Functional.scale.1.forward")
    first = hypotheses(step, finding, [0])[0]
    assert ("Module.net.Linear.parameters_grad", "weight") in first.graft.values
    assert not first.graft.missing, "it is replaced, and does not only count as replaced"


def write_tied(run, is_cut):
    """`gather` and, transposed, `matmul` take a table; cut, `stop_gradient` is before `matmul`."""
    calls = Calls(run)
    table = [2.0, 3.0], "parameter net.table"
    x = calls.forward("gather.0", [2.0, 3.0], ([0.0, 1.0], "leaf"), table)
    tied = calls.forward("transpose.0", [2.0, 3.0], table)
    tied = calls.forward("stop_gradient.0", [2.0, 3.0], tied) if is_cut else tied
    calls.forward("mse.0", 13.0, calls.forward("matmul.0", 13.0, x, tied))
    calls.backward("mse.0", 1.0, 1.0)
    calls.backward("matmul.0", 1.0, [2.0, 3.0], None if is_cut else [2.0, 3.0])
    if not is_cut:
        calls.backward("transpose.0", [2.0, 3.0], [2.0, 3.0])
    calls.backward("gather.0", [2.0, 3.0], None, [2.0, 3.0])
    calls.gradients("net", {"table": [2.0, 3.0] if is_cut else [4.0, 6.0]})
    return calls.write()


@pytest.mark.always
def test_the_gradient_of_a_tied_weight_is_replaced_where_one_of_its_uses_is_cut(tmp_path):
    step, finding = next(
        studied(write_tied(tmp_path / "target", True), write_tied(tmp_path / "golden", False)).findings
    )
    assert (finding.kind, finding.name) == (kinds.COMPUTES, "Functional.matmul.0.backward")
    first = hypotheses(step, finding, [0])[0]
    assert first.graft.values == {("Module.net.Linear.parameters_grad", "table")}
    assert first.covers == ("Functional.transpose.0.forward", "Functional.stop_gradient.0.forward")


def write_head(run, parameter):
    """`gather` takes `table`, and `matmul` this parameter or another one."""
    calls = Calls(run)
    tables = {"table": [2.0, 3.0], "head": [5.0, 7.0]}
    x = calls.forward("gather.0", [2.0, 3.0], ([0.0, 1.0], "leaf"), (tables["table"], "parameter net.table"))
    head = tables[parameter], f"parameter net.{parameter}"
    calls.forward("mse.0", 1.0, calls.forward("matmul.0", 2 * head[0][0] + 3 * head[0][1], x, head))
    calls.backward("mse.0", 1.0, 1.0)
    calls.backward("matmul.0", 1.0, head[0], [2.0, 3.0])
    calls.backward("gather.0", head[0], None, head[0])
    gradients = {"table": [4.0, 6.0]} if parameter == "table" else {"table": [5.0, 7.0], "head": [2.0, 3.0]}
    calls.gradients("net", gradients)
    return calls.write()


@pytest.mark.always
def test_the_gradient_of_a_weight_that_is_tied_in_the_golden_alone_is_replaced(tmp_path):
    step, finding = next(
        studied(write_head(tmp_path / "target", "head"), write_head(tmp_path / "golden", "table")).findings
    )
    assert (finding.kind, finding.name) == (kinds.PARAMETERS, "Functional.matmul.0.forward")
    found = [one.graft for one in hypotheses(step, finding, [0, 1])]
    tied = next(one for one in found if ("Module.net.Linear.parameters_grad", "table") in one.values)
    assert tied.steps == {0, 1}
