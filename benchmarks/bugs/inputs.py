"""Weights and batches of the nets, in NumPy alone: both frameworks' sides of a case are filled from here."""

import zlib

import numpy as np

TOKENS, CLASSES, FEATURES = 19, 7, 12
BATCH, LENGTH, PICTURE = 3, 8, 10

# MindSpore's names of parameters of layers, and PyTorch's. Buffers of BatchNorm are left at their start, 0 and 1.
CANONICAL = {"gamma": "weight", "beta": "bias", "embedding_table": "weight"}
NORMS = ("norm",)


def canonical(name):
    """A parameter's name by which its weight is drawn: the same for both frameworks."""
    path, _, last = name.rpartition(".")
    last = CANONICAL.get(last, last)
    return f"{path}.{last}" if path else last


def weight(name, shape, seed):
    """The weight of a parameter as float32 of this shape: around 1 for scales of norms, else scaled by the fan-in."""
    name = canonical(name)
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    drawn = rng.standard_normal(shape)
    path, _, last = name.rpartition(".")
    if any(norm in path.rpartition(".")[2] for norm in NORMS) or last == "scale":
        value = 0.1 * drawn if last == "bias" else 1 + 0.1 * drawn
    elif len(shape) == 1:
        value = 0.1 * drawn
    else:
        value = drawn / np.sqrt(np.prod(shape[1:]))
    return value.astype(np.float32)


def batch(net, seed, step):
    """The arrays that a net is given at a step, in the order of its arguments."""
    rng = np.random.default_rng([seed, step, zlib.crc32(net.encode())])
    return BATCHES[net](rng)


def _rows(rng):
    return rng.standard_normal((8, FEATURES)).astype(np.float32), _labels(rng, 8)


def _pictures(rng):
    return rng.standard_normal((4, 3, PICTURE, PICTURE)).astype(np.float32), _labels(rng, 4)


def _next_tokens(rng):
    tokens = rng.integers(0, TOKENS, (BATCH, LENGTH + 1)).astype(np.int32)
    return tokens[:, :-1].copy(), tokens[:, 1:].copy()


def _padded_tokens(rng):
    tokens = rng.integers(1, TOKENS, (BATCH, LENGTH)).astype(np.int32)
    lengths = np.array([LENGTH, LENGTH - 3, LENGTH - 1])
    keep = np.arange(LENGTH) < lengths[:, None]
    return tokens * keep, keep, rng.integers(0, TOKENS, (BATCH, LENGTH)).astype(np.int32)


def _series(rng):
    return (
        rng.standard_normal((5, BATCH, FEATURES)).astype(np.float32),
        rng.standard_normal((BATCH, 3)).astype(np.float32),
    )


def _labels(rng, count):
    return rng.integers(0, CLASSES, count).astype(np.int32)


BATCHES = {
    "mlp": _rows,
    "cnn": _pictures,
    "decoder": _next_tokens,
    "encoder": _padded_tokens,
    "moe": _rows,
    "recurrent": _series,
}
