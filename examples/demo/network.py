"""A small language model: two pre-norm blocks, every formula written with `mindspore.ops`.

`fault` plants a mistake of the kind that people make when they port a network; see `FAULTS`.
"""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

VOCABULARY, LENGTH, WIDTH, HEADS = 32, 24, 64, 4

FAULTS = {
    "scale": "the second block's attention scores are not divided by the square root of the head's width",
    "eps": "the RMS norm before the second block's MLP adds 1e-3 instead of 1e-5",
}


def normal(*shape, seed):
    """First values of a parameter, of its own generator, so that a fault moves no other random number."""
    values = np.random.default_rng(seed).standard_normal(shape) * shape[0] ** -0.5
    return Tensor(values.astype(np.float32))


class RMSNorm(nn.Cell):
    """x / sqrt(mean(x^2) + eps) * gain, over the last axis."""

    def __init__(self, eps=1e-5):
        super().__init__()
        self.gain = Parameter(Tensor(np.ones(WIDTH, np.float32)), name="gain")
        self.eps = eps

    def construct(self, x):
        mean_square = ops.mean(ops.square(x), -1, True)
        return x * ops.rsqrt(mean_square + self.eps) * self.gain


class Attention(nn.Cell):
    """Causal self-attention with several heads: [batch, length, width] to the same."""

    def __init__(self, seed, is_scaled=True):
        super().__init__()
        self.query = Parameter(normal(WIDTH, WIDTH, seed=seed), name="query")
        self.key = Parameter(normal(WIDTH, WIDTH, seed=seed + 1), name="key")
        self.value = Parameter(normal(WIDTH, WIDTH, seed=seed + 2), name="value")
        self.out = Parameter(normal(WIDTH, WIDTH, seed=seed + 3), name="out")
        self.future = Tensor(np.triu(np.ones((LENGTH, LENGTH), bool), 1))
        self.is_scaled = is_scaled

    def construct(self, x):
        q, k, v = (self.heads(ops.matmul(x, w)) for w in (self.query, self.key, self.value))
        scores = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2)))
        if self.is_scaled:
            scores = ops.mul(scores, (WIDTH // HEADS) ** -0.5)
        weights = ops.softmax(ops.masked_fill(scores, self.future, -1e4), -1)
        mixed = ops.transpose(ops.matmul(weights, v), (0, 2, 1, 3))
        return ops.matmul(ops.reshape(mixed, x.shape), self.out)

    @staticmethod
    def heads(x):
        """[batch, length, width] to [batch, heads, length, width of a head]."""
        batch, length, _ = x.shape
        return ops.transpose(ops.reshape(x, (batch, length, HEADS, WIDTH // HEADS)), (0, 2, 1, 3))


class MLP(nn.Cell):
    """Four times as wide inside, gelu."""

    def __init__(self, seed):
        super().__init__()
        self.up = Parameter(normal(WIDTH, 4 * WIDTH, seed=seed), name="up")
        self.down = Parameter(normal(4 * WIDTH, WIDTH, seed=seed + 1), name="down")

    def construct(self, x):
        return ops.matmul(ops.gelu(ops.matmul(x, self.up)), self.down)


class Block(nn.Cell):
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, seed, fault=""):
        super().__init__()
        self.norm1, self.attention = RMSNorm(), Attention(seed, is_scaled=fault != "scale")
        self.norm2, self.mlp = RMSNorm(eps=1e-3 if fault == "eps" else 1e-5), MLP(seed + 10)

    def construct(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Embedding(nn.Cell):
    """A vector for each token, and one for each position."""

    def __init__(self):
        super().__init__()
        self.tokens = Parameter(normal(VOCABULARY, WIDTH, seed=1), name="tokens")
        self.positions = Parameter(normal(LENGTH, WIDTH, seed=2), name="positions")

    def construct(self, tokens):
        return ops.gather(self.tokens, tokens, 0) + self.positions


class Transformer(nn.Cell):
    """Tokens [batch, length] and the tokens to be predicted, to the mean loss."""

    def __init__(self, fault=""):
        super().__init__()
        self.embedding = Embedding()
        self.blocks = nn.CellList([Block(100), Block(200, fault)])
        self.norm = RMSNorm()
        self.head = Parameter(normal(WIDTH, VOCABULARY, seed=3), name="head")

    def construct(self, tokens, targets):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        logits = ops.matmul(self.norm(x), self.head)
        return ops.cross_entropy(ops.reshape(logits, (-1, VOCABULARY)), ops.reshape(targets, (-1,)))


def batch(step):
    """Sequences that count up by 1, 2 or 3, modulo the vocabulary; to be predicted is each token's successor."""
    rng = np.random.default_rng(1000 + step)
    start, stride = rng.integers(0, VOCABULARY, (8, 1)), rng.integers(1, 4, (8, 1))
    tokens = (start + stride * np.arange(LENGTH + 1)) % VOCABULARY
    return Tensor(tokens[:, :-1], ms.int32), Tensor(tokens[:, 1:], ms.int32)
