"""The data of each twin: sizes are distinct, so that no shape can be mistaken for another."""

import numpy as np


def _tokens(rng, vocabulary, batch, length):
    tokens = rng.integers(0, vocabulary, (batch, length + 1))
    following = tokens[:, 1:].copy()
    following[0, -2:] = -1  # the first sequence is shorter
    return tokens[:, :-1].astype(np.int64), following.astype(np.int64)


def gpt(rng):
    """Three sequences of 7 tokens, and the tokens that follow."""
    return _tokens(rng, 53, 3, 7)


def llama(rng):
    """Two sequences of 9 tokens."""
    return _tokens(rng, 61, 2, 9)


def resnet(rng):
    """Six pictures of 19 x 17 in three channels, of 7 classes."""
    return rng.standard_normal((6, 3, 19, 17)).astype(np.float32), rng.integers(0, 7, 6).astype(np.int64)


def vit(rng):
    """Four pictures of 12 x 20 in three channels, of 9 classes."""
    return rng.standard_normal((4, 3, 12, 20)).astype(np.float32), rng.integers(0, 9, 4).astype(np.int64)


def lstm(rng):
    """Five sequences of 6 tokens, and the tokens that follow."""
    return _tokens(rng, 43, 5, 6)


def batch(net, step, micro_batch=0):
    """The arrays of one step."""
    name = net.removesuffix("_cell")
    return globals()[name](np.random.default_rng([17, step, micro_batch]))
