"""Which graft tests which finding, of the dumps of trainings whose only change is known (tests/gate/runs)."""

from functools import cache
from pathlib import Path

import pytest
from small_trainings import record, write

from msprobe.findings.catalogue import comparison as kinds
from msprobe.graft.calls import called, calls_graft
from msprobe.graft.hypotheses import What, differing_calls, everything_before, hypotheses, of_call
from msprobe.graft.runs import studied

pytestmark = pytest.mark.part(2)

RUNS = Path(__file__).parents[1] / "gate" / "runs"


@pytest.fixture(scope="module")
def of():
    """`of("eps")`: the hypotheses for the first finding of a variant, with its step and finding."""

    @cache
    def made(variant):
        study = studied(RUNS / variant, RUNS / "base")
        step, finding = next(study.findings)
        return step, finding, hypotheses(step, finding, [each.step for each in study.steps if each.step >= step.step])

    return made


def test_a_call_with_another_argument_is_grafted_forward_and_backward(of):
    _, finding, found = of("eps")
    assert finding.kind is kinds.ARGUMENT
    assert found[0].what == (What.FORWARD, What.BACKWARD)
    assert {name for name, _ in found[0].graft.values} == {
        "Functional.layer_norm.0.forward",
        "Functional.layer_norm.0.backward",
    }
    assert found[0].graft.steps is None


def test_run_inputs_are_grafted_where_they_are_taken(of):
    _, finding, found = of("permuted")
    assert finding.kind is kinds.RUN_INPUTS
    assert found[0].what == (What.INPUTS,)
    assert ("Functional.linear.0.forward", "input.0") in found[0].graft.values
    assert not any("linear.1" in name for name, _ in found[0].graft.values)


def test_updates_are_grafted_from_their_step_on(of):
    step, finding, found = of("still")
    assert finding.kind is kinds.PARAMETERS
    assert step.step == 1
    assert found[0].what == (What.UPDATE,)
    assert found[0].graft.steps == {1, 2}
    assert found[0].graft.parameters == {
        f"{layer}.{name}" for layer in ("first", "norm", "last") for name in ("weight", "bias")
    }


def test_everything_before_a_finding_ends_there(of):
    graft = everything_before(of("eps")[2][0])
    assert {name for name, _ in graft.values if name.startswith("Functional")} == {"Functional.linear.0.forward"}
    assert len(graft.parameters) == 6
    assert graft.steps == {0}


def test_the_calls_that_differ_are_in_execution_order(of):
    step, _, _ = of("eps")
    found = differing_calls(step)
    assert found[0] == "Functional.linear.0.forward"  # its gradients differ
    assert found.index("Functional.layer_norm.0.forward") < found.index("Functional.gelu.0.forward")
    assert not any(name.startswith("Module") for name in found)
    assert {name for name, _ in calls_graft(step, found[:1]).values} == {
        "Functional.linear.0.forward",
        "Functional.linear.0.backward",
    }


def write_loop(run, is_swapped):
    """Three steps of a loop: each splits the state of the last one, and adds its second half to its first; swapped, the
    first one twice."""
    folder = run / "step0" / "rank0"
    data, state, origin = {}, [1.0, 2.0, 5.0, 9.0], "leaf"
    for number in range(3):
        split, add = f"Functional.split.{number}.forward", f"Functional.add.{number}.forward"
        first, second = state[:2], state[2:]
        other, taken = (first, 0) if is_swapped else (second, 1)
        total = [a + b for a, b in zip(first, other, strict=True)]
        data[split] = {
            "input_args": [record(folder, f"{split}.input.0", state, **{"from": origin})],
            "output": [record(folder, f"{split}.output.{at}", each) for at, each in enumerate((first, second))],
        }
        data[add] = {
            "input_args": [
                record(folder, f"{add}.input.0", first, **{"from": f"call {split}.output.0"}),
                record(folder, f"{add}.input.1", other, **{"from": f"call {split}.output.{taken}"}),
            ],
            "output": [record(folder, f"{add}.output.0", total)],
        }
        state, origin = [*total, *second], "unknown"
    return write(run, data, {"add": 7, "split": 6})


@pytest.mark.always
def test_all_calls_of_a_line_that_is_executed_again_are_grafted_last(tmp_path):
    study = studied(write_loop(tmp_path / "target", True), write_loop(tmp_path / "golden", False))
    step, finding = next(study.findings)
    assert (finding.name, finding.line) == ("Functional.add.0.forward", 7)
    found = hypotheses(step, finding, [0])
    assert {name for name, _ in found[0].graft.values} == {"Functional.add.0.forward"}
    assert {name for name, _ in found[-1].graft.values} == {f"Functional.add.{n}.forward" for n in range(3)}
    assert found[-1].number == 3


def write_choice(run, second):
    """Two calls with a parameter each: the first takes weight `a`, the second weight `second`; `a` and `b` differ."""
    folder, data = run / "step0" / "rank0", {}
    weights = {"a": [3.0, 4.0], "b": [5.0, 7.0]}
    for number, which in enumerate(("a", second)):
        name = f"Functional.mul.{number}.forward"
        data[name] = {
            "input_args": [
                record(folder, f"{name}.input.0", [1.0, 2.0], **{"from": "leaf"}),
                record(folder, f"{name}.input.1", weights[which], **{"from": f"parameter net.{which}"}),
            ],
            "output": [record(folder, f"{name}.output.0", [weights[which][0], 2 * weights[which][1]])],
        }
    return write(run, data, {"mul": 6})


@pytest.mark.always
def test_a_call_that_takes_another_parameter_is_grafted_with_both(tmp_path):
    study = studied(write_choice(tmp_path / "target", "a"), write_choice(tmp_path / "golden", "b"))
    step, finding = next(study.findings)
    assert (finding.kind, finding.name) == (kinds.PARAMETERS, "Functional.mul.1.forward")
    first = hypotheses(step, finding, [0])[0]
    assert {name for name, _ in first.graft.values} == {"Functional.mul.1.forward"}
    assert first.graft.missing == {"net.a", "net.b"}


@pytest.mark.always
def test_everything_before_a_cell_ends_at_the_first_call_inside(of):
    step, finding, _ = of("eps")
    cell = next(each for each in step.events if each.kind == "cell" and each.direction == "forward" and each.at > 2)
    inside = [each.at for each in step.events if cell.called in each.keys]
    found = everything_before(of_call(step, finding, cell.called))
    assert inside
    assert {name for name, _ in found.values} == {called(step, each) for each in step.events[: min(inside)]}
