"""Differences that are exempt although nothing else in these folders is about them."""

import pytest
from two_frameworks import W1, W2, H, R, Twin, X, Y, found, verdict  # in the folder above, which is no package

from msprobe.compare.core.reason import Cause, Why
from msprobe.compare.run import compare

EXP, SIN = "Mint.exp.0.forward", "Mint.sin.0.forward"


def kinds(found):
    return [reason.why for reason in found.reasons]


def test_memory_that_was_not_written_is_not_judged(builder):
    dumps = []
    for side, value in (("target", 1.0), ("golden", None)):
        build = builder(side).call(EXP, [1.0, 2.0], [3.0])
        if value is not None:
            unwritten = {"type": "uninitialized", "value": ["mindspore.Tensor", "Float32", [2, 2]]}
            build.data[EXP]["input_args"][1] = unwritten
        dumps.append(build.dump())
    comparison = compare(*dumps)
    of_input = verdict(comparison, f"{EXP}.input.1")
    assert (of_input.cause, kinds(of_input)) == (Cause.UNUSED, [Why.UNWRITTEN])
    assert comparison.is_clean


@pytest.mark.parametrize("order", [(EXP, SIN), (SIN, EXP)])
def test_a_value_that_neither_side_could_collect_is_exempt_if_a_later_result_is_compared(builder, order):
    dumps = []
    for side in ("target", "golden"):
        build = builder(side)
        for name in order:
            build.call(name, [1.0], [None if name == EXP else 2.0])
        build.extra = {"missing": [{"name": EXP, "part": "output", "cause": "RuntimeError: no data"}]}
        dumps.append(build.dump())
    comparison = compare(*dumps)
    is_followed = order[0] == EXP
    expected = Cause.LOST_WITHIN if is_followed else Cause.LOST_ON_BOTH_SIDES
    assert verdict(comparison, f"{EXP}.output.0").cause is expected
    assert comparison.is_clean is is_followed


def test_the_gradient_of_an_inner_node_needs_no_counterpart(builder, tensor, value):
    """PyTorch's dumps by msprobe have the gradients of an inner node, here with one more."""
    dumps = []
    for framework in ("mindspore", "pytorch"):
        side = Twin(builder, tensor, value, framework, framework, reference=True)
        t, call = side.tensor, side.build.call
        function = "Functional.matmul.0" if side.is_ms else "Torch.matmul.0"
        call(f"{function}.forward", [t(R), t(W2.T)], [t(Y)])
        call(f"{function}.backward", [t(Y)], [t(R), t(W2.T), *([] if side.is_ms else [t(W1)])])
        dumps.append(side.build.dump())
    comparison, located = found(tuple(dumps))
    additional = verdict(comparison, "Torch.matmul.0.backward.output.2")
    assert (additional.cause, kinds(additional)) == (Cause.NO_COUNTERPART, [Why.INNER_NODE])
    assert located.findings == ()


def test_of_two_frameworks_a_part_of_a_sum_of_gradients_is_exempt(builder, tensor, value):
    dumps = []
    for framework in ("mindspore", "pytorch"):
        side = Twin(builder, tensor, value, framework, framework)
        t, call = side.tensor, side.build.call
        function = "Functional.matmul.0" if side.is_ms else "Torch.matmul.0"
        call(f"{function}.forward", [t(R), t(W2.T)], [t(Y)])
        gradient = t(R) if side.is_ms else t(3 * R, gradient="accumulated")
        call(f"{function}.backward", [t(Y)], [gradient, t(W2.T)])
        dumps.append(side.build.dump())
    comparison, located = found(tuple(dumps))
    part = verdict(comparison, "Functional.matmul.0.backward.output.0")
    assert (part.cause, kinds(part)) == (Cause.INTERNAL, [Why.COMPARED_LATER])
    assert comparison.is_clean
    assert located.findings == ()


def test_the_argument_of_a_block_is_exempt_if_the_calls_inside_are_compared(written, value):
    def fill(side):
        t, call = side.tensor, side.build.call
        cell = side("Cell.a.Dense.forward.0", "Module.a.Linear.forward.0")
        product = side("Functional.matmul.0.forward", "Torch.matmul.0.forward")
        call(product, [t(X), t(W1.T)], [t(H)], parent=cell)
        call(cell, [t(X), value(side(3, 5))], [t(H)], parameters={"weight": t(W1)})
        side.dense("b", R, Y, W2)

    comparison, located = written(fill)
    received = verdict(comparison, "Cell.a.Dense.forward.0.input.1")
    assert (received.cause, kinds(received)) == (Cause.NO_COUNTERPART, [Why.OTHER_STEP])
    assert comparison.is_clean
    assert located.findings == ()
