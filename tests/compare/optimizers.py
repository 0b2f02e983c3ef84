"""Optimizers written out by hand in float32, one step after the other, and two trainings of them that see the same
gradients but for noise."""

from dataclasses import dataclass, field

import numpy as np

NAMES = ("emb", "up", "down", "gain", "shift", "bias")
"""Two matrices of usual size, a large one, a gain that begins with ones, vectors that begin with zeros."""

SHAPES = {"emb": (40, 32), "up": (32, 64), "down": (64, 32), "gain": (64,), "shift": (64,), "bias": (48,)}


@dataclass
class Optimizer:
    """One of SGD, momentum, nesterov, adam, adamw; `skips` are not updated, `undecayed` have no weight decay, `rates`
    are factors of the learning rate by parameter, `max_norm` clips. `eps_first`: eps is added before the correction."""

    rule: str = "adam"
    lr: float = 1e-3
    wd: float = 0.0
    mu: float = 0.9
    b1: float = 0.9
    b2: float = 0.999
    eps: float = 1e-8
    corrects: bool = True
    eps_first: bool = False
    max_norm: float = float("inf")
    skips: tuple = ()
    undecayed: tuple = ()
    rates: dict = field(default_factory=dict)

    def __post_init__(self):
        self.m, self.v, self.steps = {}, {}, 0

    def step(self, weights, gradients):
        self.steps += 1
        norm = np.sqrt(sum(float((g.astype(np.float64) ** 2).sum()) for g in gradients.values()))
        scale = np.float32(min(1.0, self.max_norm / norm))
        return {
            n: w if n in self.skips else self._one(n, w, (gradients[n] * scale).astype(np.float32))
            for n, w in weights.items()
        }

    def _one(self, name, w, g):
        wd = 0.0 if name in self.undecayed else self.wd
        lr = np.float32(self.lr * self.rates.get(name, 1.0))
        if self.rule != "adamw":
            g = g + np.float32(wd) * w
        m, v = self.m.get(name, np.zeros_like(w)), self.v.get(name, np.zeros_like(w))
        if self.rule == "sgd":
            return w - lr * g
        if self.rule in ("momentum", "nesterov"):
            self.m[name] = m = np.float32(self.mu) * m + g
            return w - lr * (g + np.float32(self.mu) * m if self.rule == "nesterov" else m)
        self.m[name] = m = np.float32(self.b1) * m + np.float32(1 - self.b1) * g
        self.v[name] = v = np.float32(self.b2) * v + np.float32(1 - self.b2) * g * g
        eps = self.eps
        if self.corrects:
            m = m / np.float32(1 - self.b1**self.steps)
            v = v / np.float32(1 - self.b2**self.steps)
            eps /= np.sqrt(1 - self.b2**self.steps) if self.eps_first else 1
        if self.rule == "adamw":
            w = w - np.float32(float(lr) * wd) * w
        return (w - lr * m / (np.sqrt(v) + np.float32(eps))).astype(np.float32)


def first_weights():
    rng = np.random.default_rng(0)
    weights = {n: (rng.standard_normal(SHAPES[n]) * 0.15).astype(np.float32) for n in NAMES}
    weights["gain"][:] = 1
    weights["shift"][:] = weights["bias"][:] = 0
    return weights


def train(optimizer, steps=3, noise=0.0, scale=1e-2, seed=1, cancelling=()):
    """Weights of steps 0 to `steps`, and gradients of all but the last: those of a quadratic bowl with a batch's own
    part. `noise` is relative to the root mean square of a gradient, as where products round to bfloat16. The gradient
    of `cancelling` parameters, as the bias of the keys before a softmax, is nothing else, and 1e-7 without noise."""
    weights, found = first_weights(), ([], [])
    batches, rounding = np.random.default_rng(seed), np.random.default_rng(99)
    for _ in range(steps):
        gradients = {}
        for n, w in weights.items():
            g = scale * (batches.standard_normal(w.shape) + 0.5 * w)
            own = rounding.standard_normal(w.shape)
            g = (noise or -1e-7) * scale * own if n in cancelling else g + noise * scale * own
            gradients[n] = g.astype(np.float32)
        found[0].append(weights)
        found[1].append(gradients)
        weights = optimizer.step(weights, gradients)
    found[0].append(weights)
    return found
