"""The side of the training: log-probs of the same responses again, in batches of quite another form."""

from dataclasses import dataclass

import numpy as np
from generation import Rollout
from language import PAD
from mindspore import Tensor, nn
from model import causal, token_log_probs

LAYOUTS = ("right", "left", "micro-batches", "sorted", "packed", "wider")
_PACK = 80
"""Tokens in a row of packed sequences."""


@dataclass(frozen=True)
class Mistakes:
    """What the recomputation may do wrong; the defaults do nothing wrong."""

    labels: int = 0
    """Of a token at place t the log-prob under the logits of place t - 1 + `labels`."""
    slice: int = 0
    """Responses are cut out of the row so many places too late (early where negative)."""
    crosses: bool = False
    """Packed sequences attend to those before them in their row."""


FLAWLESS = Mistakes()


def recomputed(
    model: nn.Cell, rollout: Rollout, layout: str = "right", mistakes: Mistakes = FLAWLESS
) -> list[np.ndarray]:
    """The log-prob of each token of each response, row by row in the rollout's order."""
    whole = [np.concatenate(pair) for pair in zip(rollout.prompts, rollout.responses, strict=True)]
    order = np.arange(len(whole))
    if layout == "packed":
        chances = _packed(model, whole, mistakes)
    else:
        if layout == "sorted":
            order = np.argsort([len(row) for row in whole], kind="stable")
        size = {"micro-batches": 20, "sorted": 32}.get(layout, len(whole))
        chances = [None] * len(whole)
        for start in range(0, len(whole), size):
            chosen = order[start : start + size]
            for row, chance in zip(chosen, _batch(model, [whole[i] for i in chosen], layout, mistakes), strict=True):
                chances[row] = chance
    return [_cut(*each, mistakes.slice) for each in zip(chances, rollout.prompts, rollout.responses, strict=True)]


def _cut(chances: np.ndarray, prompt: np.ndarray, response: np.ndarray, late: int) -> np.ndarray:
    """`chances[t]` is that of token t + 1 of the row: those of the response."""
    start = len(prompt) - 1 + late
    # a padded batch has something behind its last token: the log-prob of padding
    after = np.full(max(late, 0), -15, np.float32)
    return np.concatenate([chances, after])[start : start + len(response)]


def _batch(model: nn.Cell, rows: list[np.ndarray], layout: str, mistakes: Mistakes) -> list[np.ndarray]:
    """Rows of one rectangle, padded on the right, or on the left with positions that do not count the padding."""
    width = max(map(len, rows)) + 1 + (7 if layout == "wider" else 0)
    tokens = np.full((len(rows), width), PAD, np.int32)
    starts = [width - len(row) if layout == "left" else 0 for row in rows]
    for line, row, start in zip(tokens, rows, starts, strict=True):
        line[start : start + len(row)] = row
    inputs = causal(tokens)
    if layout == "left":
        positions = np.maximum(np.arange(width) - np.array(starts)[:, None], 0)
        inputs = inputs[0], Tensor(positions.astype(np.int32)), inputs[2]
    labels = np.roll(tokens, mistakes.labels - 1, 1)
    chances = np.roll(token_log_probs(model, *inputs, labels).asnumpy(), -mistakes.labels, 1)
    return [line[start : start + len(row) - 1] for line, row, start in zip(chances, rows, starts, strict=True)]


def _packed(model: nn.Cell, rows: list[np.ndarray], mistakes: Mistakes) -> list[np.ndarray]:
    """Rows one behind the other in longer ones; each sees itself only, and its positions begin at 0."""
    places: list[tuple[int, int]] = []
    line = used = 0
    for row in rows:
        if used + len(row) > _PACK:
            line, used = line + 1, 0
        places.append((line, used))
        used += len(row)
    tokens, positions, owner = (np.zeros((line + 1, _PACK), np.int32) for _ in range(3))
    for number, (row, (line, start)) in enumerate(zip(rows, places, strict=True), 1):
        there = slice(start, start + len(row))
        tokens[line, there], positions[line, there], owner[line, there] = row, np.arange(len(row)), number
    same = owner[:, :, None] == owner[:, None, :]
    earlier = np.tril(np.ones((_PACK, _PACK), bool))
    allowed = earlier & (same | mistakes.crosses)
    chances = token_log_probs(
        model, Tensor(tokens), Tensor(positions), Tensor(allowed), np.roll(tokens, mistakes.labels - 1, 1)
    ).asnumpy()
    chances = np.roll(chances, -mistakes.labels, 1)
    return [chances[line, start : start + len(row) - 1] for row, (line, start) in zip(rows, places, strict=True)]
