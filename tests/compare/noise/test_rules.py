"""The rules of the judgement along the dataflow by the states that they give, in pairs of dumps of few calls."""

import numpy as np
import pytest

from msprobe.compare.core.noise import State
from msprobe.compare.noise.inputs import INPUT_RULES
from msprobe.compare.noise.outputs import CALL_RULES, CELL_RULES
from msprobe.compare.run import compare
from msprobe.store.reader import read

X = np.random.default_rng(3).standard_normal((12, 16)).astype(np.float32)
CELL = "Cell.net.block.Block.forward.0"


@pytest.fixture
def states(builder, tensor, value):
    """`states(fill)`: `fill(call, is_target)` writes the calls of each side; the states by the names of records. `lost`
    are tensors whose files are deleted."""

    def make(fill, mode="statistics", lost=()):
        sides = []
        for side in ("target", "golden"):
            build = builder(side, mode=mode, level="mix")

            def call(name, inputs, outputs, *, parent=None, build=build):
                given = [tensor(*one) if isinstance(one, tuple) else value(one) for one in inputs]
                build.call(name, given, outputs, parent=parent)

            fill(call, side == "target")
            folder = build.write()
            for name in lost:
                (folder / "dump_tensor_data" / f"{name}.npy").unlink()
            sides.append(read(folder))
        comparison = compare(*sides)
        names = [comparison.pairs.pair(row).record.name for row in range(len(comparison.grades))]
        return dict(zip(names, map(State, comparison.noise.states.tolist()), strict=True))

    return make


def wrong_exp(call, is_target):
    """A call that is wrong on the target side, of an equal input; returns its output."""
    found = np.exp(X) * (np.float32(1.5) if is_target else 1)
    call("Mint.exp.0.forward", [(X, "leaf")], [found])
    return found, "call Mint.exp.0.forward.output.0"


def test_a_call_receives_a_difference_and_returns_it_unless_an_output_is_equal(states):
    def fill(call, is_target):
        found = wrong_exp(call, is_target)
        order = np.argsort(X[0])
        call("Mint.sort.0.forward", [found], [np.sort(found[0]), order])

    found = states(fill)
    assert found["Mint.exp.0.forward.input.0"] is State.EQUAL
    assert found["Mint.exp.0.forward.output.0"] is State.DIVERGENT
    assert found["Mint.sort.0.forward.input.0"] is State.PROPAGATED
    assert found["Mint.sort.0.forward.output.0"] is State.PROPAGATED
    assert found["Mint.sort.0.forward.output.1"] is State.EQUAL


@pytest.mark.parametrize(("is_after", "state"), [(False, State.DIVERGENT), (True, State.PROPAGATED)])
def test_another_dtype_of_an_output_begins_a_difference_if_its_inputs_agree(is_after, state, states, tensor):
    half = X.astype(np.float16)  # elements that both dtypes have

    def fill(call, is_target):
        given = wrong_exp(call, is_target) if is_after else (X, "leaf")
        call("Mint.cos.0.forward", [(X, "leaf")], [np.cos(X) * np.float32(1 + is_target * 1e-6)])
        call("Mint.abs.0.forward", [given], [tensor(half, dtype="Float16") if is_target else half.astype(np.float32)])

    assert states(fill)["Mint.abs.0.forward.output.0"] is state


@pytest.mark.parametrize(("is_after", "state"), [(False, State.DIVERGENT), (True, State.PROPAGATED)])
def test_a_value_begins_a_difference_if_the_inputs_of_its_call_agree(is_after, state, states):
    def fill(call, is_target):
        given = wrong_exp(call, is_target) if is_after else (X, "leaf")
        call("Mint.argmax.0.forward", [given], [3 if is_target else 4, X])
        call("Mint.mul.0.forward", [given, 2.0 if is_target else 3.0], [X * 2])

    found = states(fill)
    assert found["Mint.argmax.0.forward.output.0"] is state
    assert found["Mint.mul.0.forward.input.1"] is State.DIVERGENT


def test_the_result_of_a_cell_is_judged_at_the_call_inside(states):
    def fill(call, is_target):
        found = wrong_exp(lambda name, *more: call(name, *more, parent=CELL), is_target)
        call(CELL, [(X, "leaf")], [found[0]])

    found = states(fill)
    assert found["Mint.exp.0.forward.output.0"] is State.DIVERGENT
    assert found[f"{CELL}.output.0"] is State.PROPAGATED


@pytest.mark.parametrize("rules", [INPUT_RULES, CALL_RULES, CELL_RULES])
def test_each_rule_describes_when_it_applies(rules):
    assert len(set(rules)) == len(rules)
    assert all(rule.__doc__ for rule in rules)


def test_an_input_of_another_producer_begins_a_difference_also_after_one(states):
    def fill(call, is_target):
        found = wrong_exp(call, is_target)
        made = {}
        for name in ("sin", "cos"):
            made[name] = getattr(np, name)(found[0])
            call(f"Mint.{name}.0.forward", [found], [made[name]])
        taken = "sin" if is_target else "cos"
        call("Mint.tanh.0.forward", [(made[taken], f"call Mint.{taken}.0.forward.output.0")], [np.tanh(made[taken])])

    found = states(fill)
    assert found["Mint.cos.0.forward.output.0"] is State.PROPAGATED
    assert found["Mint.tanh.0.forward.input.0"] is State.DIVERGENT


def test_an_equal_result_of_a_cell_is_equal_whatever_is_inside(states):
    def fill(call, is_target):
        wrong_exp(lambda name, *more: call(name, *more, parent=CELL), is_target)
        call(CELL, [(X, "leaf")], [X * 2, X * (3 if is_target else 4)])

    found = states(fill)
    assert found[f"{CELL}.output.0"] is State.EQUAL
    assert found[f"{CELL}.output.1"] is State.PROPAGATED


def test_the_result_of_a_cell_follows_from_the_difference_inside(states):
    """Code that was not recorded multiplies the result of the call."""

    def fill(call, is_target):
        found = wrong_exp(lambda name, *more: call(name, *more, parent=CELL), is_target)
        call(CELL, [(X, "leaf")], [found[0] * found[0]])

    assert states(fill)[f"{CELL}.output.0"] is State.PROPAGATED


def test_an_output_that_cannot_be_read_has_no_verdict(states):
    """Neither has the result of the cell that returns it."""

    def fill(call, is_target):
        found = wrong_exp(lambda name, *more: call(name, *more, parent=CELL), is_target)
        call(CELL, [(X, "leaf")], [found[0]])
        call("Cell.net.other.Block.forward.0", [(X, "leaf")], [found[0] + 1])

    lost = "Mint.exp.0.forward.output.0"
    found = states(fill, mode="tensor", lost=[lost])
    assert found[lost] is State.UNKNOWN
    assert found[f"{CELL}.output.0"] is State.UNKNOWN
    assert found["Cell.net.other.Block.forward.0.output.0"] is State.DIVERGENT
    lost = "Cell.net.other.Block.forward.0.output.0"
    assert states(fill, mode="tensor", lost=[lost])[lost] is State.UNKNOWN


def test_between_two_frameworks_an_amplified_difference_was_received(written):
    """Statistics contain little information about the function: a logarithm of numbers near one amplifies errors."""

    def fill(side):
        t = side.tensor
        near = np.exp(X / 100) * np.float32(1.5 if side.is_ms else 1)
        exp = side("Mint.exp.0.forward", "Torch.exp.0.forward")
        side.build.call(exp, [t(X / 100, source="leaf")], [t(near)])
        log = side("Mint.log.0.forward", "Torch.log.0.forward")
        side.build.call(log, [t(near, source=f"call {exp}.output.0")], [t(np.log(near))])

    comparison, located = written(fill)
    assert located.first.name == "Mint.exp.0.forward"
    names = [comparison.pairs.pair(row).record.name for row in range(len(comparison.grades))]
    found = dict(zip(names, map(State, comparison.noise.states.tolist()), strict=True))
    assert found["Mint.log.0.forward.output.0"] is State.PROPAGATED
