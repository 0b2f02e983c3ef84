"""The language model as the training sees it: whole sequences at once, cells and gradients.

As a program it learns the language, which takes a minute; weights.npz is what came of it.
"""

import sys
from collections.abc import Callable, Mapping

import mindspore as ms
import numpy as np
from language import LONGEST, PAD, VOCABULARY, texts
from mindspore import Parameter, Tensor, nn, ops

WIDTH, HEADS, BLOCKS, INNER = 24, 2, 2, 48
EPS = 1e-5

Weights = Mapping[str, np.ndarray]
Rounding = Callable[[Tensor], Tensor]


def exact(x: Tensor) -> Tensor:
    """No rounding: float32 throughout."""
    return x


def rounded_to(dtype: ms.Type) -> Rounding:
    """Each value as a device of that type would keep it (CPU has no half-precision matmul, so float32 computes)."""
    return lambda x: ops.cast(ops.cast(x, dtype), ms.float32)


class Norm(nn.Cell):
    """Root-mean-square norm."""

    def __init__(self, eps: float):
        super().__init__()
        self.scale = Parameter(Tensor(np.ones(WIDTH, np.float32)), name="scale")
        self.eps = eps

    def construct(self, x):
        return x * ops.rsqrt(ops.mean(ops.square(x), -1, True) + self.eps) * self.scale


class Attention(nn.Cell):
    """Attention over what `bias` allows."""

    def __init__(self, keep: Rounding):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Dense(WIDTH, WIDTH, has_bias=False) for _ in range(4))
        self.keep = keep

    def construct(self, x, bias):
        rows, length, _ = x.shape

        def heads(y):
            return self.keep(y).reshape(rows, length, HEADS, WIDTH // HEADS).transpose(0, 2, 1, 3)

        query, key, value = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        scores = self.keep(ops.matmul(query, key.transpose(0, 1, 3, 2)) * (WIDTH // HEADS) ** -0.5) + bias
        mixed = self.keep(ops.matmul(self.keep(ops.softmax(scores, -1)), value))
        return self.out(mixed.transpose(0, 2, 1, 3).reshape(rows, length, WIDTH))


class Block(nn.Cell):
    """Norm, attention, norm, two dense layers; each half is added to what came in."""

    def __init__(self, eps: float, keep: Rounding):
        super().__init__()
        self.before_attention, self.attention = Norm(eps), Attention(keep)
        self.before_dense = Norm(eps)
        self.up, self.down = nn.Dense(WIDTH, INNER), nn.Dense(INNER, WIDTH)
        self.keep = keep

    def construct(self, x, bias):
        keep = self.keep
        x = keep(x + keep(self.attention(keep(self.before_attention(x)), bias)))
        return keep(x + keep(self.down(keep(ops.relu(self.up(keep(self.before_dense(x))))))))


class LanguageModel(nn.Cell):
    """Tokens, their positions and what each may attend to, to logits of the next token.

    `tokens` and `positions` int32 (rows, length), `allowed` bool (rows, length, length): query, key.
    """

    def __init__(self, eps: float = EPS, keep: Rounding = exact):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LONGEST + 16, WIDTH)
        self.blocks = nn.CellList([Block(eps, keep) for _ in range(BLOCKS)])
        self.last, self.head = Norm(eps), nn.Dense(WIDTH, VOCABULARY, has_bias=False)
        self.keep = keep

    def construct(self, tokens, positions, allowed):
        x = self.keep(self.tokens(tokens) + self.positions(positions))
        bias = ops.cast(ops.logical_not(allowed), ms.float32).expand_dims(1) * -1e9
        for block in self.blocks:
            x = block(x, bias)
        return self.keep(self.head(self.keep(self.last(x))))


def loaded(weights: Weights, eps: float = EPS, dtype: ms.Type | None = None, *, activations: bool = True):
    """A model with these weights; `dtype` rounds them, and `activations` too."""
    keep = exact if dtype is None else rounded_to(dtype)
    model = LanguageModel(eps, keep if activations else exact)
    for name, parameter in model.parameters_and_names():
        parameter.set_data(keep(Tensor(weights[name])))
    return model


def weights_of(model: nn.Cell) -> dict[str, np.ndarray]:
    """A copy of all weights, by name."""
    return {name: parameter.asnumpy().copy() for name, parameter in model.parameters_and_names()}


def drawn(seed: int) -> dict[str, np.ndarray]:
    """Weights before any training."""
    rng, weights = np.random.default_rng(seed), {}
    for name, parameter in LanguageModel().parameters_and_names():
        shape = parameter.shape
        scale = 0.1 if "embedding" in name else shape[-1] ** -0.5
        one = np.ones(shape) if name.endswith("scale") else rng.normal(0, scale, shape)
        weights[name] = (0 * one if name.endswith("bias") else one).astype(np.float32)
    return weights


def causal(tokens: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
    """What the model is called with for rows that are padded on the right."""
    rows, length = tokens.shape
    positions = np.broadcast_to(np.arange(length, dtype=np.int32), (rows, length)).copy()
    allowed = np.tril(np.ones((length, length), bool))[None] & (tokens != PAD)[:, None, :]
    return Tensor(tokens), Tensor(positions), Tensor(allowed | np.eye(length, dtype=bool))


def token_log_probs(model: nn.Cell, tokens, positions, allowed, labels: np.ndarray) -> Tensor:
    """log p(label) at each place, of the shape of `labels`."""
    logits = ops.log_softmax(model(tokens, positions, allowed), -1)
    return ops.gather_elements(logits, 2, Tensor(labels.astype(np.int32)).expand_dims(2)).squeeze(2)


def updates(weights: Weights, batches, rate: float, keep_after: set[int]) -> dict[int, dict[str, np.ndarray]]:
    """Train; the weights after those numbers of updates.

    A batch is tokens (rows, length) and what each place counts in the loss, float32 (rows, length - 1): ones for
    learning a text, advantages for a policy gradient.
    """
    model = loaded(weights)
    optimizer = nn.Adam(model.trainable_params(), rate, beta2=0.99)

    def loss(tokens, positions, allowed, labels, count):
        chosen = token_log_probs(model, tokens, positions, allowed, labels)
        return -(chosen * count).sum() / ops.abs(count).sum()

    step = ms.value_and_grad(loss, None, optimizer.parameters)
    kept = {0: weights_of(model)} if 0 in keep_after else {}
    for number, (tokens, count) in enumerate(batches, 1):
        _, gradients = step(*causal(tokens[:, :-1]), tokens[:, 1:], Tensor(count))
        optimizer(gradients)
        if number in keep_after:
            kept[number] = weights_of(model)
    return kept


def pretrained(seed: int, steps: int = 700) -> dict[str, np.ndarray]:
    """A model that has learned the language for some seconds."""
    rng = np.random.default_rng(seed)
    stock = texts(rng, 4096)

    def batches():
        for _ in range(steps):
            tokens = stock[rng.integers(len(stock), size=48)]
            yield tokens, (tokens[:, 1:] != PAD).astype(np.float32)

    return updates(drawn(seed), batches(), 5e-3, {steps})[steps]


if __name__ == "__main__":  # python model.py weights.npz 21 makes the weights of this folder again
    ms.set_context(pynative_synchronize=True)  # with tensors as small as these far quicker, and as exact
    np.savez_compressed(sys.argv[1], **pretrained(seed=int(sys.argv[2])))
