"""Plans: which values of the golden they name, and in which layout."""

from dataclasses import replace

import numpy as np
import pytest
from small_trainings import LOSS, Calls, write_run

from msprobe.compare.match.pairs import View
from msprobe.graft.hypotheses import hypotheses
from msprobe.graft.plan import INPUTS, OUTPUTS, Graft, _layout, counterparts, plan_of, united
from msprobe.graft.runs import studied
from msprobe.store.graft_plan import GoldenValue, GraftedCall, GraftedStep, GraftPlan

RUN = {
    "losses": [3.0, 4.0],
    "weights": [{"weight": [1.0, 1.0]}, {"weight": [1.0, 3.0]}],
    "gradients": [{"weight": [3.0, 0.0]}, {"weight": [0.0, 4.0]}],
}


@pytest.fixture
def study(tmp_path):
    return studied(write_run(tmp_path / "target", **RUN), write_run(tmp_path / "golden", **RUN))


def test_the_outputs_of_a_call_in_all_steps(study):
    name = LOSS.format("forward")
    plan = plan_of(study, [Graft(frozenset({(name, OUTPUTS)}))])
    assert set(plan.steps) == {0, 1}
    for step in plan.steps.values():
        assert dict(step.calls[name].values) == {"output.0": GoldenValue("output.0")}
        assert step.calls[name].golden == name
        assert not step.parameters


def test_inputs_are_selected_by_their_place(study):
    name = LOSS.format("backward")
    plan = plan_of(study, [Graft(frozenset({(name, "input.0")}), steps=frozenset({1}))])
    assert set(plan.steps) == {1}
    assert set(plan.steps[1].calls[name].values) == {"input.0"}
    every = plan_of(study, [Graft(frozenset({(name, INPUTS), (name, OUTPUTS)}))])
    assert set(every.steps[0].calls[name].values) == {"input.0", "output.0"}


def test_parameters_of_one_step(study):
    plan = plan_of(study, [Graft(parameters=frozenset({"fc.weight"}), steps=frozenset({0}))])
    assert set(plan.steps) == {0}
    assert plan.steps[0].parameters == {"fc.weight": GoldenValue("fc.weight")}
    assert not plan.steps[0].calls


def test_plans_are_united_place_by_place():
    def plan(step, golden, place, **parameters):
        call = GraftedCall(golden, {place: GoldenValue(place)})
        return GraftPlan("golden", {step: GraftedStep({"mul": call}, parameters)})

    weight = GoldenValue("weight")
    found = united([plan(1, "a", "input.0", weight=weight), plan(1, "a", "output.0"), plan(0, "a", "output.0")])
    assert list(found.steps) == [0, 1]
    assert found.steps[0].calls["mul"].values.keys() == {"output.0"}
    assert found.steps[1].calls["mul"].values.keys() == {"input.0", "output.0"}
    assert found.steps[1].parameters == {"weight": weight}
    other = united([plan(1, "a", "input.0"), plan(1, "b", "output.0")]).steps[1].calls["mul"]
    assert (other.golden, other.values.keys()) == ("b", {"output.0"})


def test_what_the_golden_does_not_have_is_left_out(study):
    assert not plan_of(study, [Graft(frozenset({("Functional.other.0.forward", OUTPUTS)}))]).steps
    assert not counterparts(study.steps[0]).has(LOSS.format("forward"), "output.1")


@pytest.mark.parametrize(
    ("view", "theirs", "expected"),
    [
        (View(), (4, 6), lambda array: array),
        (View("", "transpose(1, 0)"), (4, 6), lambda array: array.T),
        (View("transpose(1, 0)", ""), (4, 6), lambda array: array.T),
        (View("", "unsqueeze(2)"), (4, 6), lambda array: array[:, :, None]),
        (View("", "transpose(0, 2, 1) | reshape(2, 12)"), (2, 3, 4), lambda array: array.swapaxes(1, 2).reshape(2, 12)),
        (View("reshape(2, 12)", "reshape(2, 12)"), (2, 3, 4), lambda array: array),
    ],
)
def test_a_layout_is_a_permutation_and_a_reshape(view, theirs, expected):
    golden = np.arange(np.prod(theirs)).reshape(theirs)
    wanted = expected(golden)
    value = GoldenValue("output.0", *_layout(view, theirs, wanted.shape))
    assert value.shape(theirs) == wanted.shape
    np.testing.assert_array_equal(value.laid_out(golden), wanted)


def test_another_shape_of_the_same_elements_is_a_reshape():
    assert _layout(View(), (4, 1), (4,)) == (None, (4,))
    assert _layout(View(), (4, 1), (5,)) is None


def test_a_result_of_another_shape_is_taken_only_if_the_graft_says_so(tmp_path):
    def write_repeated(run, times):
        calls = Calls(run)
        repeated = calls.forward("repeat.0", [1.0, 2.0] * times, ([1.0, 2.0], "leaf"))
        calls.forward("sum.0", 3.0 * times, repeated)
        calls.backward("repeat.0", [1.0, 1.0] * times, [1.0 * times, 1.0 * times])
        return calls.write()

    study = studied(write_repeated(tmp_path / "target", 1), write_repeated(tmp_path / "golden", 2))
    known, forward, backward = (
        counterparts(study.steps[0]),
        "Functional.repeat.0.forward",
        "Functional.repeat.0.backward",
    )
    assert known.has(forward, OUTPUTS, is_resizing=True)
    assert not known.has(forward, OUTPUTS)
    assert not known.has_alike(forward, OUTPUTS)
    assert not known.has(backward, INPUTS, is_resizing=True), "what arrives has to have the shape of the result"
    graft = Graft(frozenset({(forward, OUTPUTS), (backward, OUTPUTS)}))
    assert plan_of(study, [graft]).steps[0].calls.keys() == {backward}
    plan = plan_of(study, [replace(graft, is_resizing=True)])
    assert plan.steps[0].calls[forward].values == {"output.0": GoldenValue("output.0", is_resized=True)}
    step, finding = next(study.findings)
    assert finding.name == forward
    assert hypotheses(step, finding, [0])[-1].graft == replace(graft, is_resizing=True)


@pytest.mark.parametrize("view", [View("", "flip(0)"), View("", "negate"), View("", "slice(0, 0, 2)", True)])
def test_other_layouts_have_no_value(view):
    assert _layout(view, (4, 6), (4, 6)) is None
