"""Inputs and weights, drawn by numpy from the names: every process draws the same."""

import hashlib

import numpy as np
from models import BATCH, LENGTH


def generator(text):
    """Random numbers that depend on the text alone."""
    return np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little"))


def inputs(model, step):
    """The inputs of one step as arrays: int64 for indices and masks, float32 for the rest."""
    return {key: _input(generator(f"{model.name} {key} {step}"), *how) for key, how in model.inputs.items()}


def _input(random, kind, argument=None):
    if kind == "ids":
        return random.integers(3, argument, (BATCH, LENGTH))
    if kind == "class":
        return random.integers(0, argument, (BATCH,))
    if kind == "values":
        return np.array(argument)
    if kind == "mask":
        mask = np.ones((BATCH, LENGTH), np.int64)
        mask[-1, -2:] = 0
        return mask
    return random.standard_normal(argument).astype(np.float32)


def weight(name, shape):
    """A weight such that activations keep their scale; nothing is zero, or one, that a fault could hide behind."""
    random = generator(name)
    drawn = random.standard_normal(shape)
    if name.endswith("running_var"):
        return (1 + 0.2 * np.abs(drawn)).astype(np.float32)
    if len(shape) == 1:
        is_scale = name.endswith("weight") or name.endswith("gamma")
        return (is_scale + 0.1 * drawn).astype(np.float32)
    if len(shape) == 0:
        return drawn.astype(np.float32)
    spread = (
        0.5 if "embed" in name or "wte" in name or "wpe" in name or "shared" in name else np.prod(shape[1:]) ** -0.5
    )
    return (spread * drawn).astype(np.float32)


def loss_weights(shape, step):
    """The weights of the mean that is the loss where a model has none of its own."""
    return generator(f"loss {step}").standard_normal(shape).astype(np.float32)
