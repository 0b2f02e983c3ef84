"""Does a call of one framework compute the function of its counterpart? Calls written by hand. Needs torch."""

from math import erf, sqrt
from pathlib import Path

import numpy as np
import pytest

from msprobe.replay.recorded import Cause, NotReplayed, Replayed
from msprobe.replay.replay import Partner, crossed

pytestmark = pytest.mark.torch

CLEAN = 6e-7
INPUT, OUTPUT = (False, "input", ("0",)), (False, "output", ("0",))


def gelu(x):
    return (0.5 * x * (1 + np.vectorize(erf)(x.astype(np.float64) / sqrt(2)))).astype(np.float32)


def gelu_by_tanh(x):
    wide = x.astype(np.float64)
    return (0.5 * wide * (1 + np.tanh(sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)))).astype(np.float32)


@pytest.fixture
def pair(writer, random):
    """`pair(target's function)`: a call of each framework on inputs of its own; both dumps."""

    def make(function):
        target, golden = writer("mindspore"), writer("pytorch")
        for side, name, of in ((target, "Mint", function), (golden, "Functional", gelu)):
            x = random(6, 8)
            side.forward(f"{name}.gelu.0.forward", [x], outputs=[of(x)])
        return golden.dump(), target.dump()

    return make


def rows(dump):
    """Part and path -> row."""
    columns = dump.columns
    parts = "input", "parameters", "output", "parameters_grad", "debug"
    return {(parts[columns.part[row]], columns.paths[columns.path[row]]): row for row in range(len(columns))}


def partners(target, *wanted):
    known = rows(target)
    return {(False, part, path): Partner(known[part, path]) for part, path in wanted}


def both(target):
    return partners(target, ("input", ("0",)), ("output", ("0",)))


def test_the_same_function_of_other_inputs_leaves_only_rounding(pair):
    golden, target = pair(gelu)
    result = crossed(golden, 0, target, both(target))
    assert isinstance(result, Replayed)
    [[found]] = result.residuals.values()
    assert found.eta < CLEAN
    assert (found.part, found.path, found.count) == ("output", ("0",), 48)


def test_another_function_of_the_same_name_stands_out(pair):
    golden, target = pair(gelu_by_tanh)
    x = np.load(Path(target.folder) / "dump_tensor_data" / "Mint.gelu.0.forward.input.0.npy")
    result = crossed(golden, 0, target, both(target))
    [[found]] = result.residuals.values()
    apart = np.linalg.norm((gelu_by_tanh(x) - gelu(x)).astype(np.float64)) / np.linalg.norm(gelu(x).astype(np.float64))
    assert found.relative == pytest.approx(apart, rel=1e-2)
    assert found.eta > 100 * CLEAN


def test_tensors_are_brought_to_the_golden_s_layout(writer, random):
    target, golden = writer("mindspore"), writer("pytorch")
    x, w = random(5, 7), random(7, 3)
    target.forward("Mint.matmul.0.forward", [x, np.ascontiguousarray(w.T)], outputs=[x @ w])
    golden.forward("Torch.matmul.0.forward", [random(5, 7), w], outputs=[random(5, 3)])
    golden, target = golden.dump(), target.dump()
    found = partners(target, ("input", ("0",)), ("output", ("0",)))
    second = rows(target)["input", ("1",)]
    turned = crossed(golden, 0, target, found | {(False, "input", ("1",)): Partner(second, "transpose(1, 0)")})
    [[residual]] = turned.residuals.values()
    assert residual.eta < CLEAN
    as_it_is = crossed(golden, 0, target, found | {(False, "input", ("1",)): Partner(second)})
    assert as_it_is == NotReplayed(Cause.OTHER_SHAPE, "Mint.matmul.0.forward.input.1")


def test_every_input_needs_a_partner_and_an_output_without_one_is_left_out(pair):
    golden, target = pair(gelu)
    result = crossed(golden, 0, target, partners(target, ("output", ("0",))))
    assert result == NotReplayed(Cause.MISSING_TENSOR, "Functional.gelu.0.forward.input.0")
    result = crossed(golden, 0, target, partners(target, ("input", ("0",))))
    assert isinstance(result, NotReplayed)
    assert result.cause is Cause.NOTHING_TO_MEASURE


def test_a_value_in_another_form_is_the_golden_s_own(writer, random):
    target, golden = writer("mindspore"), writer("pytorch")
    x = random(4, 3)
    half = np.array(0.5, np.float32)
    target.forward("Mint.mul.0.forward", [x, 0.5], outputs=[x * half])
    golden.forward("Torch.mul.0.forward", [random(4, 3), half], outputs=[random(4, 3)])
    golden, target = golden.dump(), target.dump()
    result = crossed(golden, 0, target, both(target) | {(False, "input", ("1",)): Partner(-1)})
    [[found]] = result.residuals.values()
    assert found.eta < CLEAN


def test_a_backward_call_takes_the_forward_s_tensors_and_its_gradients(writer, random):
    target, golden = writer("mindspore"), writer("pytorch")
    for side, name in ((target, "Mint"), (golden, "Torch")):
        x, w, g = random(5, 7), random(7, 3), random(5, 3)
        side.forward(f"{name}.matmul.0.forward", [x, w], outputs=[x @ w])
        wrong = np.float32(1.01 if side is target else 1)
        side.backward(f"{name}.matmul.0.backward", [g], [g @ w.T, x.T @ g * wrong])
    golden, target = golden.dump(), target.dump()
    places = {}
    for row in range(len(target.columns)):
        is_backward = row >= target.columns.starts[1]
        part = ("input", "parameters", "output")[target.columns.part[row]]
        places[is_backward, part, target.columns.paths[target.columns.path[row]]] = Partner(row)
    result = crossed(golden, 1, target, places)
    [[of_x, of_w]] = result.residuals.values()
    assert of_x.eta < CLEAN
    assert of_w.relative == pytest.approx(0.01, rel=1e-3)
    assert of_w.slope == pytest.approx(1, abs=1e-3)
