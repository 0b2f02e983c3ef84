"""Which calls of a step are kept.

The network of the worked example: `b1` is `B`, made of `d` (`Dense`) and `ops.relu`; `b2` is the same; then `ops.exp`
and `ops.mean`. `+` is the begin of a cell's call, `-` its end, everything else is asked for once.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.base.names import parse
from msprobe.base.scope import Scope, bounds_problem

FORWARD = """
+Cell.b1.B.forward.0
  +Cell.b1.d.Dense.forward.0
    Primitive.shape_op.Shape.0.forward
    Primitive.matmul.MatMul.0.forward
    Primitive.bias_add.BiasAdd.0.forward
  -Cell.b1.d.Dense.forward.0
  Functional.relu.0.forward
-Cell.b1.B.forward.0
+Cell.b2.B.forward.0
  +Cell.b2.d.Dense.forward.0
    Primitive.shape_op.Shape.1.forward
    Primitive.matmul.MatMul.1.forward
    Primitive.bias_add.BiasAdd.1.forward
  -Cell.b2.d.Dense.forward.0
  Functional.relu.1.forward
-Cell.b2.B.forward.0
Functional.exp.0.forward
Functional.mean.0.forward
"""
BACKWARD = """
Functional.mean.0.backward
Functional.exp.0.backward
+Cell.b2.B.backward.0
  Functional.relu.1.backward
  +Cell.b2.d.Dense.backward.0
    Primitive.bias_add.BiasAdd.1.backward
    Primitive.matmul.MatMul.1.backward
    Cell.b2.d.Dense.parameters_grad
  -Cell.b2.d.Dense.backward.0
-Cell.b2.B.backward.0
+Cell.b1.B.backward.0
  Functional.relu.0.backward
  +Cell.b1.d.Dense.backward.0
    Primitive.bias_add.BiasAdd.0.backward
    Primitive.matmul.MatMul.0.backward
    Cell.b1.d.Dense.parameters_grad
  -Cell.b1.d.Dense.backward.0
-Cell.b1.B.backward.0
"""
STEP = FORWARD + BACKWARD


def play(scope, level, script):
    """Tell the scope of a scripted step as a collector of that level sees it; what it keeps, in order of begin."""
    kept = []
    for line in script.split():
        mark, name = (line[0], line[1:]) if line[0] in "+-" else ("", line)
        is_cells = parse(name).kind in ("cell", "parameters_grad")
        if (level == "L0" and not is_cells) or (level == "L1" and is_cells):
            continue
        if mark == "-":
            scope.leave(name)
        elif scope.enter(name) if mark == "+" else scope.wants(name):
            kept.append(name)
    return kept


def every(script):
    return [line.lstrip("+") for line in script.split() if line[0] != "-"]


def test_worked_example_mix_list_keeps_everything_inside_matching_cells():
    assert play(Scope("mix", patterns=("b1",)), "mix", STEP) == [
        "Cell.b1.B.forward.0",
        "Cell.b1.d.Dense.forward.0",
        "Primitive.shape_op.Shape.0.forward",
        "Primitive.matmul.MatMul.0.forward",
        "Primitive.bias_add.BiasAdd.0.forward",
        "Functional.relu.0.forward",
        "Cell.b1.B.backward.0",
        "Functional.relu.0.backward",
        "Cell.b1.d.Dense.backward.0",
        "Primitive.bias_add.BiasAdd.0.backward",
        "Primitive.matmul.MatMul.0.backward",
        "Cell.b1.d.Dense.parameters_grad",
    ]


def test_worked_example_api_list():
    assert play(Scope("L1", patterns=("relu",)), "L1", STEP) == [
        "Functional.relu.0.forward",
        "Functional.relu.1.forward",
        "Functional.relu.1.backward",
        "Functional.relu.0.backward",
    ]


def test_worked_example_api_scope():
    scope = Scope("L1", ("Functional.relu.0.forward", "Functional.exp.0.forward"))
    assert play(scope, "L1", STEP) == [
        "Functional.relu.0.forward",
        "Primitive.shape_op.Shape.1.forward",
        "Primitive.matmul.MatMul.1.forward",
        "Primitive.bias_add.BiasAdd.1.forward",
        "Functional.relu.1.forward",
        "Functional.exp.0.forward",
    ]


def test_worked_example_cell_scope_from_forward_into_backward():
    scope = Scope("L0", ("Cell.b1.d.Dense.forward.0", "Cell.b2.d.Dense.backward.0"))
    assert play(scope, "L0", STEP) == [
        "Cell.b1.d.Dense.forward.0",
        "Cell.b2.B.forward.0",
        "Cell.b2.d.Dense.forward.0",
        "Cell.b2.B.backward.0",
        "Cell.b2.d.Dense.backward.0",
        "Cell.b2.d.Dense.parameters_grad",
    ]


def test_cell_scope_of_one_cell_keeps_its_children():
    scope = Scope("L0", ("Cell.b2.B.forward.0", "Cell.b2.B.forward.0"))
    assert play(scope, "L0", STEP) == ["Cell.b2.B.forward.0", "Cell.b2.d.Dense.forward.0"]


def test_cell_list_at_level_L0_does_not_keep_what_is_inside():
    assert play(Scope("L0", patterns=("B.",)), "L0", STEP) == [
        "Cell.b1.B.forward.0",
        "Cell.b2.B.forward.0",
        "Cell.b2.B.backward.0",
        "Cell.b1.B.backward.0",
    ]


def test_api_scope_from_forward_into_backward_is_one_sequence():
    scope = Scope("L1", ("Functional.mean.0.forward", "Functional.exp.0.backward"))
    assert play(scope, "L1", STEP) == [
        "Functional.mean.0.forward",
        "Functional.mean.0.backward",
        "Functional.exp.0.backward",
    ]


def test_mix_scope_may_begin_with_a_cell_and_end_with_an_api():
    scope = Scope("mix", ("Cell.b2.d.Dense.forward.0", "Functional.relu.1.forward"))
    assert play(scope, "mix", STEP) == [
        "Cell.b2.d.Dense.forward.0",
        "Primitive.shape_op.Shape.1.forward",
        "Primitive.matmul.MatMul.1.forward",
        "Primitive.bias_add.BiasAdd.1.forward",
        "Functional.relu.1.forward",
    ]


def test_mix_scope_may_begin_with_an_api_and_end_with_a_cell():
    scope = Scope("mix", ("Functional.mean.0.backward", "Cell.b2.d.Dense.backward.0"))
    assert play(scope, "mix", STEP) == [
        "Functional.mean.0.backward",
        "Functional.exp.0.backward",
        "Cell.b2.B.backward.0",
        "Functional.relu.1.backward",
        "Cell.b2.d.Dense.backward.0",
        "Primitive.bias_add.BiasAdd.1.backward",
        "Primitive.matmul.MatMul.1.backward",
        "Cell.b2.d.Dense.parameters_grad",
    ]


@pytest.mark.parametrize(
    ("level", "kept"),
    [
        ("L1", ["Functional.relu.1.forward"]),
        ("mix", ["Functional.relu.1.forward"]),
    ],
)
def test_scope_and_list_must_both_agree(level, kept):
    scope = Scope(level, ("Primitive.matmul.MatMul.1.forward", "Functional.mean.0.forward"), ("relu",))
    assert play(scope, level, STEP) == kept


def test_a_cell_that_matched_before_the_scope_began_still_keeps_what_is_inside_of_it_in_scope():
    scope = Scope("mix", ("Primitive.bias_add.BiasAdd.0.forward", "Functional.mean.0.forward"), ("b1.B",))
    assert play(scope, "mix", STEP) == ["Primitive.bias_add.BiasAdd.0.forward", "Functional.relu.0.forward"]


def test_list_of_several_texts_keeps_what_contains_any():
    assert play(Scope("L1", patterns=("exp.0.b", "Shape")), "L1", STEP) == [
        "Primitive.shape_op.Shape.0.forward",
        "Primitive.shape_op.Shape.1.forward",
        "Functional.exp.0.backward",
    ]


def test_parameter_gradients_follow_the_backward_that_was_kept():
    scope = Scope("L0", patterns=("Cell.b1.d.Dense.backward",))
    assert play(scope, "L0", STEP) == ["Cell.b1.d.Dense.backward.0", "Cell.b1.d.Dense.parameters_grad"]
    assert not scope.wants("Cell.b2.d.Dense.parameters_grad.0")
    assert scope.wants("Cell.b1.d.Dense.parameters_grad.1"), "also after the backward ended, and with a number"


def test_parameter_gradients_follow_the_cells_name():
    assert play(Scope("L0", patterns=("b2.d.Dense",)), "L0", "Cell.b2.d.Dense.parameters_grad") != []
    assert play(Scope("L0", patterns=("b2.d.Dense.forward",)), "L0", STEP) == ["Cell.b2.d.Dense.forward.0"]


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_without_scope_and_list_everything_is_kept(level):
    scope = Scope(level)
    assert scope.trivial
    assert len(play(scope, level, STEP)) == len(play(Scope(level, patterns=(".",)), level, STEP)) > 0
    assert play(Scope("mix"), "mix", STEP) == every(STEP)


def test_with_scope_or_list_the_questions_matter():
    assert not Scope("L1", patterns=("relu",)).trivial
    assert not Scope("L1", ("Functional.relu.0.forward", "Functional.exp.0.forward")).trivial


def test_the_next_step_begins_anew():
    scope = Scope("mix", ("Cell.b1.d.Dense.forward.0", "Functional.mean.0.backward"), ("Dense", "mean"))
    first = play(scope, "mix", STEP)
    scope.reset()
    assert play(scope, "mix", STEP) == first
    assert "Functional.mean.0.backward" in first


def test_a_step_that_was_cut_off_leaves_nothing_to_the_next():
    scope = Scope("mix", patterns=("b1",))
    scope.enter("Cell.b1.B.forward.0")  # and never left
    assert scope.wants("Functional.exp.0.forward")
    scope.reset()
    assert not scope.wants("Functional.exp.0.forward")
    assert not scope.wants("Cell.b2.d.Dense.parameters_grad")


def test_a_scope_that_was_open_is_closed_in_the_next_step():
    scope = Scope("L1", ("Functional.relu.0.forward", "Functional.never.0.forward"))
    assert play(scope, "L1", STEP)[-1] == "Primitive.matmul.MatMul.0.backward", "without its end it reaches to the last"
    scope.reset()
    assert not scope.wants("Functional.exp.0.forward")


def test_an_inner_cell_that_an_exception_left_ends_with_the_cell_around_it():
    scope = Scope("mix", patterns=("bad",))
    scope.enter("Cell.outer.A.forward.0")
    scope.enter("Cell.outer.bad.B.forward.0")
    scope.enter("Cell.outer.bad.inner.C.forward.0")
    # B and C end by an exception that A catches
    assert scope.wants("Functional.fallback.0.forward"), "not known yet"
    scope.leave("Cell.outer.A.forward.0")
    assert not scope.wants("Functional.exp.0.forward")


def test_the_end_of_scope_is_met_when_an_exception_left_its_cell():
    scope = Scope("L0", ("Cell.outer.A.forward.0", "Cell.outer.bad.B.forward.0"))
    assert scope.enter("Cell.outer.A.forward.0")
    assert scope.enter("Cell.outer.bad.B.forward.0")
    scope.leave("Cell.outer.A.forward.0")
    assert not scope.enter("Cell.next.D.forward.0")


def test_ends_without_a_begin_are_harmless():
    scope = Scope("mix", ("Cell.b1.B.forward.0", "Cell.b2.B.forward.0"), ("Dense",))
    scope.leave("Cell.b2.B.forward.0")
    scope.leave("Cell.unheard.of.forward.0")
    scope.leave("loss")
    assert "Cell.b1.d.Dense.forward.0" in play(scope, "mix", STEP)


@pytest.mark.parametrize("order", [("a.A", "a.b.B"), ("a.b.B", "a.A")])
def test_overlapping_backward_cells_keep_until_the_last_matching_one_ends(order):
    scope = Scope("mix", patterns=("Cell.a",))
    scope.enter("Cell.a.A.backward.0")
    scope.enter("Cell.a.b.B.backward.0")
    first, second = (f"Cell.{cell}.backward.0" for cell in order)
    scope.leave(first)
    assert scope.wants("Functional.relu.0.backward")
    scope.leave(second)
    assert not scope.wants("Functional.exp.0.backward")


def test_a_backward_cell_that_ends_late_does_not_end_its_neighbours():
    scope = Scope("mix", patterns=("late", "next"))
    scope.enter("Cell.late.A.backward.0")
    scope.enter("Cell.next.B.backward.0")
    scope.leave("Cell.late.A.backward.0")
    assert scope.wants("Functional.relu.0.backward")


def test_a_forward_during_backward_nests_in_it():
    """Recomputation: the forward runs again inside the backward."""
    scope = Scope("mix", patterns=("Cell.a.A.forward",))
    scope.enter("Cell.a.A.backward.0")
    scope.enter("Cell.a.A.forward.1")
    assert scope.wants("Functional.relu.1.forward")
    scope.leave("Cell.a.A.forward.1")
    assert not scope.wants("Functional.relu.0.backward")


def test_another_thread_does_not_end_the_cells_of_this_one():
    scope = Scope("mix", patterns=("mine",))
    with ThreadPoolExecutor(max_workers=1) as other:
        other.submit(scope.enter, "Cell.theirs.B.forward.0").result()
        scope.enter("Cell.mine.A.forward.0")
        other.submit(scope.leave, "Cell.theirs.B.forward.0").result()
    assert scope.wants("Functional.relu.0.forward")


def test_what_was_never_met_can_be_asked_for():
    scope = Scope("mix", ("Cell.b1.B.forward.0", "Cell.b3.B.forward.0"), ("relu", "gelu", "Dense"))
    assert scope.unmatched_patterns() == ("relu", "gelu", "Dense", "Cell.b1.B.forward.0", "Cell.b3.B.forward.0")
    play(scope, "mix", STEP)
    assert scope.unmatched_patterns() == ("gelu", "Cell.b3.B.forward.0")
    scope.reset()
    assert scope.unmatched_patterns() == ("gelu", "Cell.b3.B.forward.0"), "over all steps"


def test_nothing_is_unmatched_where_nothing_was_asked():
    assert Scope("mix").unmatched_patterns() == ()


@given(st.lists(st.integers(0, 50), min_size=1, max_size=20, unique=True), st.data())
def test_an_api_scope_is_a_slice_of_the_sequence(numbers, data):
    names = [f"Functional.f.{number}.forward" for number in numbers]
    first = data.draw(st.integers(0, len(names) - 1))
    last = data.draw(st.integers(first, len(names) - 1))
    scope = Scope("L1", (names[first], names[last]))
    assert [name for name in names if scope.wants(name)] == names[first : last + 1]


@given(st.lists(st.sampled_from(every(STEP)), max_size=30), st.data())
def test_any_order_of_calls_is_survived(names, data):
    scope = Scope("mix", ("Cell.b1.d.Dense.forward.0", "Functional.exp.0.forward"), ("b1", "relu"))
    for name in names:
        data.draw(st.sampled_from([scope.enter, scope.leave, scope.wants]))(name)
    scope.reset()
    assert play(scope, "mix", STEP)[0] == "Cell.b1.d.Dense.forward.0"


API, CELL = "Functional.relu.0.forward", "Cell.fc.Dense.forward.0"


@pytest.mark.parametrize(
    ("level", "bound"),
    [
        ("L0", CELL),
        ("L0", "Module.layers.0.MLP.backward.3"),
        ("L1", API),
        ("L1", "MintDistributed.all_reduce.0.forward"),
        ("L1", "MintFunctional.silu.2.backward"),
        ("L1", "Primitive.matmul.MatMul.0.forward"),
        ("L1", "Jit.train_step.0.forward"),
        ("L1", "Torch.add.0.forward"),
        ("L1", "NPU.npu_rms_norm.0.forward"),
        ("L1", "Aten.copy.0.forward"),
        ("L1", "VF.lstm.0.forward"),
        ("mix", API),
        ("mix", CELL),
    ],
)
def test_a_call_of_the_level_may_bound_the_scope(level, bound):
    assert bounds_problem(level, (bound, bound)) == ""


@pytest.mark.parametrize(
    ("level", "bound", "message"),
    [
        (
            "L0",
            API,
            'not a call of a cell; write a name such as "Cell.fc.Dense.forward.0"; APIs are collected at level L1',
        ),
        (
            "L1",
            CELL,
            'not a call of an API; write a name such as "Functional.relu.0.forward"; cells are collected at level L0',
        ),
        ("L0", "Cell.fc.Dense.0.forward", "not a call of a cell"),
        ("L1", "Functional.relu.forward.0", "not a call of an API"),
        ("L1", "Funktional.relu.0.forward", "not a call of an API"),
        ("L1", "Functional.0.forward", "not a call of an API"),
        ("mix", "relu", "not a call of a cell or API"),
        ("mix", "Cell.fc.Dense.parameters_grad", "not a call of a cell or API"),
    ],
)
def test_what_cannot_bound_the_scope_is_said(level, bound, message):
    good = CELL if level == "L0" else API
    for bounds in ((bound, good), (good, bound)):
        assert message in bounds_problem(level, bounds)
        assert f'"{bound}"' in bounds_problem(level, bounds)


@pytest.mark.parametrize("bounds", [(API,), (API, API, API)])
def test_a_scope_has_no_or_two_names(bounds):
    assert "name(s); write none, or two" in bounds_problem("L1", bounds)
    assert bounds_problem("L1", ()) == ""


@pytest.mark.parametrize("level", ["L2", "debug"])
def test_levels_without_scope_take_any_names(level):
    assert bounds_problem(level, ("a", "b")) == ""
