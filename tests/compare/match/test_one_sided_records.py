"""Records that only one side of a pair of calls of two frameworks has: each kind is exempt for its own reason."""

import pytest
from two_frameworks import W1, W2, H, R, X, Y, verdict  # beside this file, which is no package

from msprobe.compare.core.reason import Cause, Why


@pytest.fixture
def compared(written):
    """`compared(fill)`: a layer, the calls that `fill(side)` writes, and a layer that follows, compared."""

    def make(fill):
        def network(side):
            side.dense("a", X, H, W1)
            fill(side)
            side.dense("b", R, Y, W2)

        comparison, located = written(network)
        assert comparison.is_clean
        assert located.findings == ()
        return comparison

    return make


def call(side, names, inputs=(), outputs=(), kwargs=None):
    """Write a call from H to R with further inputs and outputs of this side."""
    side.build.call(side(*names), [side.tensor(H), *inputs], [side.tensor(R), *outputs], kwargs=kwargs)


RELU = "Mint.relu.0.forward", "Functional.relu.0.forward"


def value_in_other_form(side, value):
    kernel = side(value(2), [value(2), value(2)])
    call(side, ("Mint.nn.functional.avg_pool2d.0.forward", "Functional.avg_pool2d.0.forward"), [kernel])


def none(side, value):
    call(side, RELU, side([None], []))


def additional_output(side, value):
    call(side, RELU, outputs=side([side.tensor(H)], []))


def gradient_of_additional_output(side, value):
    additional_output(side, value)
    gradients = [side.tensor(R), *side([side.tensor(H)], [])]
    side.build.call(side("Mint.relu.0.backward", "Functional.relu.0.backward"), gradients, [side.tensor(H)])


def default(side, value):
    call(side, ("MintFunctional.relu.0.forward", "Torch.relu.0.forward"), kwargs=side({"inplace": value(False)}, {}))


def argument_without_counterpart(side, value):
    name = "Functional.softmax.0.forward"
    call(side, (name, name), [value(-1)], kwargs=side({}, {"_stacklevel": value(3)}))


def argument_of_one_side(side, value):
    call(side, RELU, side([value(7)], []))


def cell_argument(side, value):
    cell = side("Cell.attn.Attention.forward.0", "Module.attn.Attention.forward.0")
    side.build.call(cell, [side.tensor(H), *side([side.tensor(W2)], [])], [side.tensor(R)])


def argument_in_other_way(side, value):
    call(side, RELU, side([side.tensor(W2)], []))


def unused_output(side, value):
    additional = side({"bias": side.tensor(X)}, {})
    cell = side("Cell.a.Dense", "Module.a.Linear")
    call(side, RELU)
    side.build.call(f"{cell}.backward.0", [side.tensor(H)], [side.tensor(X)])
    side.build.gradients(f"{cell}.parameters_grad.0", weight=side.tensor(W1), **additional)


CASES = {
    "value-in-other-form": (
        value_in_other_form,
        "Mint.nn.functional.avg_pool2d.0.forward.input.1",
        Cause.INTERNAL,
        Why.ONE_VALUE_EQUAL,
    ),
    "none": (none, "Mint.relu.0.forward.input.1", Cause.INTERNAL, Why.NULL),
    "output": (additional_output, "Mint.relu.0.forward.output.1", Cause.INTERNAL, Why.NO_RESULT_OF_CALL),
    "gradient-of-output": (
        gradient_of_additional_output,
        "Mint.relu.0.backward.input.1",
        Cause.INTERNAL,
        Why.NO_RESULT_OF_GRADIENT,
    ),
    "default": (default, "MintFunctional.relu.0.forward.input.inplace", Cause.INTERNAL, Why.DEFAULT),
    "argument-without-counterpart": (
        argument_without_counterpart,
        "Functional.softmax.0.forward.input._stacklevel",
        Cause.INTERNAL,
        Why.NO_ARGUMENT,
    ),
    "cell-argument": (
        cell_argument,
        "Cell.attn.Attention.forward.0.input.1",
        Cause.NO_COUNTERPART,
        Why.CELL_ARGUMENT,
    ),
    "argument-in-other-way": (argument_in_other_way, "Mint.relu.0.forward.input.1", Cause.INTERNAL, Why.OTHER_WAY),
    "unused-output": (unused_output, "Cell.a.Dense.parameters_grad.0.bias", Cause.NO_COUNTERPART, Why.NOBODY_USES),
    "argument-of-one-side": (
        argument_of_one_side,
        "Mint.relu.0.forward.input.1",
        Cause.NO_COUNTERPART,
        Why.ONE_ARGUMENT,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_record_of_one_side_is_exempt_for_a_reason(compared, value, case):
    fill, record, cause, why = CASES[case]
    found = verdict(compared(lambda side: fill(side, value)), record)
    assert (found.grade, found.cause) == ("unjudged", cause)
    assert [reason.why for reason in found.reasons] == [why]


def test_another_value_than_the_default_is_not_exempt_for_that_reason(compared, value):
    """It is harmless here, because the call returns the same."""
    names = "MintFunctional.relu.0.forward", "Torch.relu.0.forward"
    comparison = compared(lambda side: call(side, names, kwargs=side({"inplace": value(True)}, {})))
    found = verdict(comparison, "MintFunctional.relu.0.forward.input.inplace")
    assert (found.cause, found.reasons[-1].why) == (Cause.HARMLESS, Why.OTHER_DEFAULT)
