"""The engine that generates: prompts padded on the left, a cache of keys and values, one token at a time.

It shares the weights with the model of the training and no code: fused projections, another shape of batch, its own
norm and softmax. So the two agree to rounding and not to the bit, as engines do.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from language import END, PAD
from mindspore import Tensor, ops
from model import BLOCKS, EPS, HEADS, WIDTH, Weights

FORBIDDEN = -3e4
"""A score that no softmax sees; finite, so that rows which are padding only stay finite."""


@dataclass(frozen=True)
class Sampling:
    """How the next token is drawn; its log-prob is recorded after all of it, unless `raw`."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    repetition: float = 1.0
    longest: int = 24
    raw: bool = False


@dataclass(frozen=True)
class Faults:
    """What an engine may do wrong with the padding on the left."""

    attends_padding: bool = False
    counts_padding: bool = False


@dataclass(frozen=True)
class Rollout:
    """Prompts, the responses to them, and the log-prob of each of their tokens as the engine recorded it."""

    prompts: list[np.ndarray]
    responses: list[np.ndarray]
    log_probs: list[np.ndarray]

    def rows(self, chosen: Sequence[int]) -> "Rollout":
        """Some of the rows."""
        return Rollout(*([each[i] for i in chosen] for each in (self.prompts, self.responses, self.log_probs)))


PLAIN, FAULTLESS = Sampling(), Faults()


class Engine:
    """Weights, made ready for generation."""

    def __init__(self, weights: Weights, eps: float = EPS):
        self.eps = eps
        self.tokens, self.positions = (weights[f"{name}.embedding_table"] for name in ("tokens", "positions"))
        self.blocks = [self._block(weights, f"blocks.{number}.") for number in range(BLOCKS)]
        # the norm's scale is folded into the matrix after it, as inference engines do
        self.head = Tensor((weights["head.weight"] * weights["last.scale"]).T.copy())

    @staticmethod
    def _block(weights: Weights, at: str) -> dict[str, Tensor]:
        fused = np.concatenate([weights[f"{at}attention.{name}.weight"] for name in ("query", "key", "value")])
        return {
            "in": Tensor((fused * weights[at + "before_attention.scale"]).T.copy()),
            "out": Tensor(weights[at + "attention.out.weight"].T.copy()),
            "up": Tensor((weights[at + "up.weight"] * weights[at + "before_dense.scale"]).T.copy()),
            "up bias": Tensor(weights[at + "up.bias"]),
            "down": Tensor(weights[at + "down.weight"].T.copy()),
            "down bias": Tensor(weights[at + "down.bias"]),
        }

    def _normed(self, x: Tensor) -> Tensor:
        return x / ops.sqrt((x * x).sum(-1, keepdims=True) / WIDTH + self.eps)

    def logits(self, tokens: np.ndarray, positions: np.ndarray, cache: list, hidden: Tensor) -> Tensor:
        """Logits after the last of the new tokens (rows, new); the cache grows by what they add.

        `hidden` (rows, 1, new, all) is what is added to the scores.
        """
        rows, new = tokens.shape
        x = Tensor((self.tokens[tokens] + self.positions[positions]).reshape(rows * new, WIDTH))
        for number, block in enumerate(self.blocks):
            fused = ops.matmul(self._normed(x), block["in"]).reshape(rows, new, 3, HEADS, WIDTH // HEADS)
            query, key, value = fused.transpose(2, 0, 3, 1, 4)
            if cache[number] is not None:
                key, value = (ops.cat((old, now), 2) for old, now in zip(cache[number], (key, value), strict=True))
            cache[number] = key, value
            scores = ops.matmul(query, key.transpose(0, 1, 3, 2)) / (WIDTH // HEADS) ** 0.5 + hidden
            weight = ops.exp(scores - scores.max(-1, keepdims=True))
            mixed = ops.matmul(weight, value) / weight.sum(-1, keepdims=True)
            x = x + ops.matmul(mixed.transpose(0, 2, 1, 3).reshape(rows * new, WIDTH), block["out"])
            inner = ops.relu(ops.matmul(self._normed(x), block["up"]) + block["up bias"])
            x = x + ops.matmul(inner, block["down"]) + block["down bias"]
        last = x.reshape(rows, new, WIDTH)[:, -1]
        return ops.matmul(self._normed(last), self.head)


def _filtered(logits: np.ndarray, sampling: Sampling, seen: np.ndarray) -> np.ndarray:
    """The logits after repetition penalty, temperature, top-k and top-p; `seen` (rows, vocabulary) is what occurred."""
    if sampling.repetition != 1:
        punished = np.where(logits > 0, logits / sampling.repetition, logits * sampling.repetition)
        logits = np.where(seen, punished, logits)
    logits = logits / np.float32(sampling.temperature)
    if sampling.top_k:
        kth = np.sort(logits, -1)[:, -sampling.top_k, None]
        logits = np.where(logits < kth, np.float32(FORBIDDEN), logits)
    if sampling.top_p < 1:
        order = np.argsort(-logits, -1)
        ordered = np.exp(_log_softmax(np.take_along_axis(logits, order, -1)))
        out = np.cumsum(ordered, -1) - ordered >= sampling.top_p
        dropped = np.zeros_like(out)
        np.put_along_axis(dropped, order, out, -1)
        logits = np.where(dropped, np.float32(FORBIDDEN), logits)
    return logits


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def generate(
    weights: Weights,
    prompts: list[np.ndarray],
    rng: np.random.Generator,
    sampling: Sampling = PLAIN,
    faults: Faults = FAULTLESS,
    eps: float = EPS,
) -> Rollout:
    """Sample a response to each prompt: ragged, for END ends a response and is part of it."""
    engine, rows = Engine(weights, eps), len(prompts)
    width = max(map(len, prompts))
    tokens = np.full((rows, width), PAD, np.int32)
    for row, prompt in zip(tokens, prompts, strict=True):
        row[width - len(prompt) :] = prompt
    padding = width - np.array([len(prompt) for prompt in prompts])
    seen = np.zeros((rows, len(weights["head.weight"])), bool)
    np.put_along_axis(seen, tokens, True, -1)

    real = np.arange(width) >= padding[:, None]
    visible = np.ones_like(real) if faults.attends_padding else real
    skipped = np.zeros_like(padding) if faults.counts_padding else padding
    allowed = np.tril(np.ones((width, width), bool)) & visible[:, None, :]
    cache: list = [None] * BLOCKS
    new, positions = tokens, np.maximum(np.arange(width) - skipped[:, None], 0)
    drawn: list[np.ndarray] = []
    chances: list[np.ndarray] = []
    running = np.ones(rows, bool)
    while running.any() and len(drawn) < sampling.longest:
        hidden = Tensor(np.where(allowed, 0, FORBIDDEN).astype(np.float32)[:, None])
        logits = engine.logits(new, positions, cache, hidden).asnumpy()
        filtered = _filtered(logits, sampling, seen)
        chosen = np.argmax(filtered + rng.gumbel(size=filtered.shape), -1)
        log_probs = _log_softmax(logits if sampling.raw else filtered)
        chances.append(np.take_along_axis(log_probs, chosen[:, None], -1)[:, 0])
        drawn.append(np.where(running, chosen, PAD).astype(np.int32))
        np.put_along_axis(seen, drawn[-1][:, None], True, -1)
        running &= chosen != END
        visible = np.concatenate([visible, np.ones((rows, 1), bool)], 1)
        allowed, new = visible[:, None, :], drawn[-1][:, None]
        positions = (width + len(drawn) - 1 - skipped)[:, None]
    grid, chance = np.stack(drawn, 1), np.stack(chances, 1).astype(np.float32)
    ends = grid == END
    lengths = np.where(ends.any(1), ends.argmax(1) + 1, grid.shape[1])
    return Rollout(
        list(prompts),
        [row[:length] for row, length in zip(grid, lengths, strict=True)],
        [row[:length] for row, length in zip(chance, lengths, strict=True)],
    )
