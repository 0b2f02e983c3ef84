"""Fused optimizers against numpy, element by element. Needs torch."""

from math import sqrt

import numpy as np
import pytest

pytestmark = [pytest.mark.mindspore, pytest.mark.torch]

CLEAN = 1e-6
LR, B1, B2, EPS, DECAY, T, MU = 0.01, 0.9, 0.99, 1e-8, 0.1, 3, 0.8


@pytest.fixture
def state(random):
    """Parameter, first and second moment, gradient, all of one shape."""
    return random(4, 3), random(4, 3), np.abs(random(4, 3)) + np.float32(0.1), random(4, 3)


def each(function, *arrays):
    """A function of the elements, in Python's floats."""
    found = [function(*map(float, values)) for values in zip(*(a.ravel() for a in arrays), strict=True)]
    return [np.float32(column).reshape(arrays[0].shape) for column in zip(*found, strict=True)]


def moments(m, v, g):
    return B1 * m + (1 - B1) * g, B2 * v + (1 - B2) * g * g


def adam(w, m, v, g):
    m, v = moments(m, v, g)
    return w - LR * sqrt(1 - B2**T) / (1 - B1**T) * m / (sqrt(v) + EPS), m, v


def nesterov_adam(w, m, v, g):
    m, v = moments(m, v, g)
    ahead = B1 * m + (1 - B1) * g
    return w - LR * sqrt(1 - B2**T) / (1 - B1**T) * ahead / (sqrt(v) + EPS), m, v


def adam_weight_decay(w, m, v, g):
    m, v = moments(m, v, g)
    return w - LR * (m / (sqrt(v) + EPS) + DECAY * w), m, v


def adam_w(w, m, v, g):
    m, v = moments(m, v, g)
    return w - LR * DECAY * w - LR * m / (1 - B1**T) / (sqrt(v / (1 - B2**T)) + EPS), m, v


def adamax(w, m, v, g):
    m, v = B1 * m + (1 - B1) * g, max(B2 * v, abs(g))
    return w - LR / (1 - B1**T) * m / (v + EPS), m, v


def momentum(w, m, v, g):
    return (w - LR * (MU * m + g),)


def nesterov(w, m, v, g):
    return (w - LR * (g + MU * (MU * m + g)),)


def rmsprop(w, m, v, g):
    return (w - (MU * m + LR * g / sqrt(B1 * v + (1 - B1) * g * g + EPS)),)


RATES = [LR, B1, B2, EPS]
CASES = {
    "Adam": (adam, lambda w, m, v, g: [w, m, v, B1**T, B2**T, *RATES, g], "nesterov=False"),
    "Adam nesterov": (nesterov_adam, lambda w, m, v, g: [w, m, v, B1**T, B2**T, *RATES, g], "nesterov=True"),
    "AdamWeightDecay": (adam_weight_decay, lambda w, m, v, g: [w, m, v, *RATES, DECAY, g], ""),
    "AdamW": (adam_w, lambda w, m, v, g: [w, m, v, v, g, np.float32(T), LR, B1, B2, DECAY, EPS], "ahead=0"),
    "AdamW ahead": (adam_w, lambda w, m, v, g: [w, m, v, v, g, np.float32(T - 1), LR, B1, B2, DECAY, EPS], "ahead=1"),
    "ApplyAdaMax": (adamax, lambda w, m, v, g: [w, m, v, B1**T, *RATES, g], ""),
    "ApplyMomentum": (momentum, lambda w, m, v, g: [w, m, LR, g, MU], "nesterov=False"),
    "ApplyMomentum nesterov": (nesterov, lambda w, m, v, g: [w, m, LR, g, MU], "nesterov=True"),
    "SGD": (momentum, lambda w, m, v, g: [w, g, np.float32(LR), m, np.float32(MU), g * 0], "nesterov=False"),
    "ApplyRMSProp": (rmsprop, lambda w, m, v, g: [w, v, m, LR, g, B1, MU, EPS], ""),
}


@pytest.mark.parametrize("case", CASES)
def test_an_update_is_that_of_the_paper(writer, best, state, case):
    function, arguments, wanted = CASES[case]
    dump, name = writer("mindspore"), f"Primitive.opt.{case.split()[0]}.0.forward"
    arguments = [np.array(a) if isinstance(a, np.float32) else a for a in arguments(*state)]
    outputs = each(function, *state)
    dump.forward(name, arguments, outputs=outputs)
    found, label = best(dump.replayed(name))
    assert len(found) == len(outputs)
    assert max(one.eta for one in found) < CLEAN
    assert label == wanted
    outputs[0] = outputs[0] + np.float32(0.1 * LR) * state[0]
    dump.forward(name.replace(".0.", ".1."), arguments, outputs=outputs)
    found, _ = best(dump.replayed(name.replace(".0.", ".1.")))
    assert max(one.eta for one in found) > 1e-4


def test_momentum_without_a_past_takes_the_gradient(writer, best, state):
    w, m, _, g = state
    dump, name = writer("mindspore"), "Primitive.opt.SGD.0.forward"
    scalars = np.array(LR, np.float32), np.array(MU, np.float32)
    y = (w - scalars[0].astype(np.float64) * g).astype(np.float32)
    dump.forward(name, [w, g, scalars[0], m, scalars[1], g * 0 + 1], outputs=[y])
    assert best(dump.replayed(name))[0][0].eta < CLEAN


@pytest.mark.parametrize("name", ["Adam", "AdamWeightDecay", "ApplyMomentum", "SGD", "ApplyRMSProp", "ApplyAdaMax"])
def test_kernels_of_a_cpu_agree(name, writer, best, state):
    ms = pytest.importorskip("mindspore", reason="the kernels are run")
    from mindspore import Parameter, Tensor, ops

    arguments = [np.array(a) if isinstance(a, np.float32) else a for a in CASES[name][1](*state)]
    given = [Tensor(a if isinstance(a, float) else a.copy(), ms.float32) for a in arguments]
    if name in ("AdamWeightDecay", "ApplyMomentum", "ApplyRMSProp"):  # take numbers as numbers
        given = [a if isinstance(a, float) else t for a, t in zip(arguments, given, strict=True)]
    places = {"SGD": (0, 3), "ApplyMomentum": (0, 1)}.get(name, range(3))
    parameters = {place: Parameter(given[place]) for place in places}
    getattr(ops, name)()(*[parameters.get(place, value) for place, value in enumerate(given)])
    # by the parameters, for three of these kernels return memory that nobody has written
    made = [each.asnumpy() for each in parameters.values()][: len(CASES[name][0](1.0, 1.0, 1.0, 1.0))]
    dump, call = writer("mindspore"), f"Primitive.opt.{name}.0.forward"
    dump.forward(call, arguments, outputs=made)
    found, _ = best(dump.replayed(call))
    assert max(one.eta for one in found) < 2e-6
