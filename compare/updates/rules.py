"""The update rules of the usual optimizers in float64, with what the learning rate and weight decay multiply left open.

Every rule here is `w_N - w_(N-1) = -lr * a - lr * wd * b`, with columns `a` and `b` that follow from the gradients and
weights of all steps so far (from a state of zero) and from a `Form`: everything else that an optimizer is told.

| rule | a | b |
|---|---|---|
| SGD | g | w |
| momentum | m(g) | m(w), m(x)_k = momentum * m(x)_(k-1) + x_k |
| Nesterov | g + momentum * m(g) | w + momentum * m(w) |
| Adam | m / (sqrt(v) + eps) of g + wd * w | none: weight decay is part of the form, as it is not linear |
| AdamW | m / (sqrt(v) + eps) of g | w |

m and v of Adam are the moving averages of x and x^2 with beta1 and beta2, divided by 1 - beta^k. An optimizer without
this bias correction takes, in its k-th step, `uncorrected(form, k)` times the learning rate; one that adds eps before
the correction has another eps in each step. One step cannot tell these, so a `Form` always corrects.

Sources: Sutskever et al. 2013 as in `torch.optim.SGD` and `mindspore.nn.Momentum`; Kingma and Ba, arXiv:1412.6980,
algorithm 1 (`torch.optim.Adam`) and the order of computation in section 2, where eps is added before the correction
(`mindspore.nn.Adam`); Loshchilov and Hutter, arXiv:1711.05101 (`torch.optim.AdamW`, and without bias correction
`mindspore.nn.AdamWeightDecay`). Clipping by the global norm multiplies all gradients of a step with
min(1, max_norm / norm).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Rule(Enum):
    """Which update rule."""

    SGD = "SGD"
    MOMENTUM = "momentum"
    NESTEROV = "Nesterov momentum"
    ADAM = "Adam"
    ADAMW = "AdamW"


@dataclass(frozen=True, slots=True)
class Form:
    """A rule with all that is no factor of its columns.

    `eps` is what is added to the corrected square root. `l2` is the weight decay of Adam, 0 for other rules.
    """

    rule: Rule
    momentum: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    l2: float = 0.0
    max_norm: float = inf

    @property
    def is_adaptive(self) -> bool:
        """Whether it divides by a root of squared gradients."""
        return self.rule in (Rule.ADAM, Rule.ADAMW)


def columns(form: Form, weights: Sequence[Floats], gradients: Sequence[Floats], norms: Sequence[float]) -> list[Floats]:
    """The columns `a` and, where the rule has one, `b` of the last step; arrays of any shape, one per step from 0 on.

    `norms` are the global norms of the gradients, used where the form clips. Weights beyond the last gradient's step
    are not looked at.
    """
    if form.max_norm < inf:
        gradients = [g * min(1.0, form.max_norm / norm) for g, norm in zip(gradients, norms, strict=True)]
    last_g, last_w = gradients[-1], weights[len(gradients) - 1]
    if form.is_adaptive:
        if form.l2:
            gradients = [g + form.l2 * w for g, w in zip(gradients, weights, strict=False)]
        direction = _adam(form, gradients)
        return [direction, last_w] if form.rule is Rule.ADAMW else [direction]
    if form.rule is Rule.SGD:
        return [last_g, last_w]
    found = [_accumulated(gradients, form.momentum), _accumulated(weights[: len(gradients)], form.momentum)]
    if form.rule is Rule.NESTEROV:
        found = [last + form.momentum * m for last, m in zip((last_g, last_w), found, strict=True)]
    return found


def _accumulated(values: Sequence[Floats], momentum: float) -> Floats:
    total = np.zeros_like(values[0])
    for value in values:
        total = momentum * total + value
    return total


def _adam(form: Form, gradients: Sequence[Floats]) -> Floats:
    mean, square = np.zeros_like(gradients[0]), np.zeros_like(gradients[0])
    for g in gradients:
        mean = form.beta1 * mean + (1 - form.beta1) * g
        square = form.beta2 * square + (1 - form.beta2) * g * g
    steps = len(gradients)
    root = np.sqrt(square / (1 - form.beta2**steps))
    # Where all gradients were zero and eps is zero too, frameworks give NaN; nothing is updated in earnest.
    direction: Floats = mean / (1 - form.beta1**steps) / np.maximum(root + form.eps, np.finfo(np.float64).tiny)
    return direction


def uncorrected(form: Form, steps: int) -> float:
    """By what an Adam without bias correction multiplies the learning rate in its step of that number, from 1 on."""
    return (1 - form.beta1**steps) / sqrt(1 - form.beta2**steps)
