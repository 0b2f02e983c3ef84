"""What is replaced around calls that one run alone makes, that have another order, or that were not recorded."""

from dataclasses import replace

import pytest
from small_trainings import record, write

from msprobe.findings.catalogue import comparison as kinds
from msprobe.graft.hypotheses import hypotheses
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
    folder, data = run / "step0" / "rank0", {}
    mul, stop, add, total = (f"Functional.{name}.0.forward" for name in ("mul", "stop_gradient", "add", "sum"))

    def call(name, value, *arguments):
        inputs = [
            record(folder, f"{name}.input.{at}", given, **{"from": origin})
            for at, (given, origin) in enumerate(arguments)
        ]
        data[name] = {"input_args": inputs, "output": [record(folder, f"{name}.output.0", value)]}
        return value, f"call {name}.output.0"

    def backward(name, gradient, *returned):
        name = name.replace("forward", "backward")
        outputs = [record(folder, f"{name}.output.{at}", each) for at, each in enumerate(returned)]
        data[name] = {"input": [record(folder, f"{name}.input.0", gradient)], "output": outputs}

    x = call(mul, [2.0, 6.0], ([1.0, 3.0], "leaf"))
    other = call(stop, [2.0, 6.0], x) if is_cut else x
    both = call(add, [4.0, 12.0], x, other)
    call(total, [6.0, 18.0], both, x)
    backward(total, [1.0, 1.0], [1.0, 1.0], [1.0, 1.0])
    backward(add, [1.0, 1.0], [1.0, 1.0], [0.0, 0.0] if is_cut else [1.0, 1.0])
    backward(mul, [2.0, 2.0] if is_cut else [3.0, 3.0], [4.0, 4.0] if is_cut else [6.0, 6.0])
    return write(run, data, {"mul": 6, "stop_gradient": 7, "add": 8, "sum": 9})


@pytest.mark.always
def test_a_gradient_that_is_cut_is_replaced_where_it_would_arrive(tmp_path):
    """Replacing what `add` returns has no effect, because `stop_gradient` drops it."""
    study = studied(write_half_cut(tmp_path / "target", True), write_half_cut(tmp_path / "golden", False))
    step, finding = next(study.findings)
    assert (finding.kind, finding.name) == (kinds.COMPUTES, "Functional.add.0.backward")
    first, *others = hypotheses(step, finding, [0])
    assert first.graft.values == {("Functional.mul.0.backward", "input")}
    assert others[0].graft.values == {("Functional.add.0.backward", "output")}


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
